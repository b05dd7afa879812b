"""Random passwords, under the names that plug-ins import from `heat.common.password_gen`."""

from __future__ import annotations

import random
import secrets
import string
from collections.abc import Sequence
from typing import NamedTuple

CHARACTER_CLASSES = (
    LETTERS_DIGITS,
    LETTERS,
    LOWERCASE,
    UPPERCASE,
    DIGITS,
    HEXDIGITS,
    OCTDIGITS,
) = (
    *("lettersdigits", "letters", "lowercase", "uppercase"),
    *("digits", "hexdigits", "octdigits"),
)
CHARACTERS = {
    LETTERS_DIGITS: string.ascii_letters + string.digits,
    LETTERS: string.ascii_letters,
    LOWERCASE: string.ascii_lowercase,
    UPPERCASE: string.ascii_uppercase,
    DIGITS: string.digits,
    HEXDIGITS: string.digits + "ABCDEF",
    OCTDIGITS: string.octdigits,
}


class CharClass(NamedTuple):
    """Characters, and the minimum of them in a password."""

    allowed_chars: str
    min_count: int


def named_char_class(char_class: str, min_count: int = 0) -> CharClass:
    """Return the class of a name in `CHARACTER_CLASSES`."""
    return CharClass(CHARACTERS[char_class], min_count)


def special_char_class(allowed_chars: str, min_count: int = 0) -> CharClass:
    """Return a class of these characters."""
    return CharClass(allowed_chars, min_count)


def generate_password(length: int, char_classes: Sequence[CharClass]) -> str:
    """Return a password of a length, with the minimum of characters of each class. Raises ValueError."""
    characters = [
        secrets.choice(char_class.allowed_chars)
        for char_class in char_classes
        for _ in range(char_class.min_count)
    ]
    if len(characters) > length:
        raise ValueError(
            "Length property cannot be smaller than combined character class and sequence minimums"
        )
    alphabet = "".join(
        dict.fromkeys("".join(char_class.allowed_chars for char_class in char_classes))
    )
    characters += [secrets.choice(alphabet) for _ in range(length - len(characters))]
    random.SystemRandom().shuffle(characters)
    return "".join(characters)


def generate_openstack_password() -> str:
    """Return a password for a user of Keystone."""
    classes = [named_char_class(name, 1) for name in (LOWERCASE, UPPERCASE, DIGITS)]
    return generate_password(32, [*classes, special_char_class("!@#%^&*", 1)])
