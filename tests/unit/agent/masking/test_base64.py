"""Secrets in base64: secret × program × width of the lines × place in the output."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
import yaml

from heat_config_agent.masking import MASK, forms
from heat_config_agent.masking.encoded import Beginnings
from heat_config_agent.masking.secrets import Secrets
from support.tools import need


def letters(count: int) -> str:
    """Return so many letters and digits without any order, the same ones each time."""
    text = base64.b64encode(hashlib.shake_128(b"secret").digest(2 * count)).decode()
    return re.sub("[+/=]", "", text)[:count]


def key(line: int, count: int) -> str:
    """Return a private key of so many lines."""
    lines = [
        letters(line * count)[begin : begin + line]
        for begin in range(0, line * count, line)
    ]
    return "\n".join(["-----BEGIN KEY-----", *lines, "-----END KEY-----"])


SECRETS = {
    **{f"{size} letters": letters(size) for size in (4, 5, 6, 8, 17, 40, 64, 1000)},
    "signs": "p@ss&<w>\"'\\$x`+y/z%",
    "other alphabets": "pässwörd€\U0001f511",
    "bytes that become + and /": "~~~???>>>",
    "words": "correct horse battery staple",
    "a key": "-----BEGIN KEY-----\nMIIabcdefghijklmnop\nqrstuvwxyz0123456\n-----END KEY-----",
    "a long key": key(64, 24),
    "a signature": hashlib.sha256(b"seed").hexdigest(),
}

ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "base64": base64.b64encode,
    "base64 for URLs": base64.urlsafe_b64encode,
    "base64 without padding": lambda data: base64.b64encode(data).rstrip(b"="),
    "the program base64": lambda data: _said(data, "base64", "-w0"),
    "openssl": lambda data: _said(data, need("openssl", "openssl"), "base64", "-A"),
    "base64 of a line": lambda data: base64.b64encode(data + b"\n"),
    "base64 of user and secret": lambda data: base64.b64encode(b"user:" + data),
    "base64 of a second byte": lambda data: base64.b64encode(b"=" + data + b"&next"),
    "base64 of a third byte": lambda data: base64.b64encode(b"a=" + data + b"\0"),
    "base64 of JSON": lambda data: base64.b64encode(b'{"a": 1, "b": "' + data + b'"}'),
}

WIDTHS = [1, 2, 3, 4, 7, 8, 15, 16, 20, 21, 40, 60, 64, 76, 100_000]

PLACES: dict[str, Callable[[list[str]], str]] = {
    "alone": "\n".join,
    "before other text": lambda lines: "\n".join(lines) + "\nnext line of output\n",
    "right before other text": lambda lines: "\n".join(lines) + "next",
    "after other text": lambda lines: "the key:\n" + "\n".join(lines),
    "right after other text": lambda lines: "key=" + "\n".join(lines) + "\n",
    "with the ends of lines of Windows": "\r\n".join,
    "indented": lambda lines: "key: |\n" + "".join(f"    {line}\n" for line in lines),
    "indented by tabs": lambda lines: "".join(f"\t\t{line}\n" for line in lines),
    "with empty lines": "\n\n".join,
    "in quotes": lambda lines: "\n".join(f'  "{line}"' for line in lines),
    "in a list of JSON": json.dumps,
    "in a text of JSON": lambda lines: json.dumps({"key": "\n".join(lines)}),
    "in JSON within JSON": lambda lines: json.dumps(
        json.dumps({"key": "\r\n".join(lines)})
    ),
    "in YAML": lambda lines: yaml.safe_dump(
        {"key": "\n".join(lines)}, default_style='"', width=1000
    ),
    "in Python": lambda lines: repr("\n".join(lines)),
    "in a URL": lambda lines: (
        "https://example.test/?key=" + quote("\n".join(lines), safe="")
    ),
    "in a URL in a URL": lambda lines: quote(
        "?key=" + quote("\r\n".join(lines), safe=""), safe=""
    ),
    "in XML": lambda lines: f"<key>{html.escape('&#10;'.join(lines))}</key>".replace(
        "&amp;#10;", "&#10;"
    ),
    "in a comment": lambda lines: "".join(f"# {line}\n" for line in lines),
    "continued by backslashes": " \\\n".join,
    "in columns": lambda lines: "".join(f"| {line} |\n" for line in lines),
}


def _said(given: bytes, *command: str) -> bytes:
    return subprocess.run(
        command, input=given, capture_output=True, check=True
    ).stdout.strip()


def _cut(text: str, width: int) -> list[str]:
    return [text[begin : begin + width] for begin in range(0, len(text), width)]


def _shown_again(found: str) -> bytes:
    """Return what can still be decoded from a masked text, at any place."""
    left = html.unescape(found).replace("%25", "%")
    left = re.sub(r"%0[AD]|\\+[nr]", "", left).replace("%2B", "+").replace("%2F", "/")
    left = (
        re.sub(r"[^A-Za-z0-9+/_*-]", "", left)
        .translate(str.maketrans("-_", "+/"))
        .replace("*", "=")
    )
    parts = [part[shift:] for part in re.split("=+", left) for shift in range(4)]
    return b"\n".join(base64.b64decode(part[: len(part) // 4 * 4]) for part in parts)


def cases() -> Iterator[tuple[str, str, int, str]]:
    """Yield the whole grid."""
    return itertools.product(SECRETS, ENCODERS, WIDTHS, PLACES)


def refuted(
    secret: str,
    encoder: str,
    width: int,
    place: str,
    encoded: dict[tuple[str, str], bytes],
) -> bool:
    """Return True if a secret can be read in one place of the grid."""
    text = SECRETS[secret]
    if (secret, encoder) not in encoded:
        encoded[secret, encoder] = ENCODERS[encoder](text.encode())
    written = PLACES[place](_cut(encoded[secret, encoder].decode(), width))
    found = _SEARCHES.setdefault(
        secret, Secrets([text, *(line for line in text.split("\n") if len(line) > 7)])
    ).hide(f"before\n{written}")
    return MASK not in found or text.encode() in _shown_again(found)


_SEARCHES: dict[str, Secrets] = {}


@pytest.mark.fault(
    4,
    "a program writes a secret in base64: in lines of any width, at any place of its output",
    "it is masked, for each size of the secret, program, width and place",
)
@pytest.mark.torture
@pytest.mark.timeout(0)
@pytest.mark.parametrize("secret", SECRETS)
def test_secret_in_base64_is_hidden_at_any_width_and_place(
    secret: str, seconds: float
) -> None:
    """The short form tries a sample of the grid, `make torture` all of it."""
    encoded: dict[tuple[str, str], bytes] = {}
    everything = [case for case in cases() if case[0] == secret]
    chosen = everything if seconds else random.Random(secret).sample(everything, 100)  # noqa: S311  # the same each time
    assert [case for case in chosen if refuted(*case, encoded)] == []


PYTHON_PRINTS = [sys.executable, "-c"]

PROGRAMS: dict[str, Callable[[int], list[str]]] = {
    "base64": lambda width: ["base64", f"-w{width}"],
    "fold": lambda width: ["sh", "-c", f"base64 -w0 | fold -w {width}"],
    "indented": lambda width: ["sh", "-c", f"base64 -w {width} | sed 's/^/    /'"],
    "as a comment": lambda width: ["sh", "-c", f"base64 -w {width} | sed 's/^/# /'"],
    "openssl": lambda _: [need("openssl", "openssl"), "base64"],
    "jq": lambda _: [need("jq", "jq"), "-Rs", "{key: @base64}"],
    "Python": lambda _: [
        *PYTHON_PRINTS,
        "import base64, sys; print(base64.encodebytes(sys.stdin.buffer.read()))",
    ],
    "YAML": lambda _: [
        *PYTHON_PRINTS,
        "import sys, yaml; print(yaml.dump({'key': sys.stdin.buffer.read()}))",
    ],
    "mail": lambda _: [
        *PYTHON_PRINTS,
        "import sys; from email.mime.application import MIMEApplication as M; print(M(sys.stdin.buffer.read()))",
    ],
}
"""Programs that write base64 in lines, by the width that they are asked for."""

ENDS = ["", "\n", "\r\n", "\nnext line of output\n", "\0", " # done", '"}\n']


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("size", [8, 17, 40, 72, 1700])
def test_base64_of_real_programs_is_hidden_however_the_text_ends(
    program: str, size: int
) -> None:
    """Nothing that can be decoded is left, at any width and before any end."""
    secret = key(24, size // 24) if size > 40 else letters(size)
    search = Secrets([secret, *(line for line in secret.split("\n") if len(line) > 7)])
    parts = [secret, *secret.split("\n")[1:-1]]
    for command in {
        tuple(PROGRAMS[program](width)) for width in (1, 8, 20, 21, 64, 76)
    }:
        written = _said(secret.encode(), *command).decode()
        for end in ENDS:
            hidden = search.hide(f"before\n{written}{end}")
            assert MASK in hidden, (command, end)
            shown = _shown_again(hidden)
            assert not [part for part in parts if part.encode() in shown], (
                command,
                end,
            )


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("size", range(1, 30))
def test_beginning_of_a_secret_tells_if_a_text_has_it_in_base64(
    size: int, before: int
) -> None:
    """Whatever precedes and follows the secret."""
    chance = random.Random(size)  # noqa: S311  # the same each time
    secret = chance.randbytes(size)
    beginnings = Beginnings([secret])
    for after in range(4):
        written = base64.b64encode(
            chance.randbytes(before) + secret + chance.randbytes(after)
        )
        assert beginnings.occur(
            b" ".join(written[at : at + 3] for at in range(0, len(written), 3))
        )
    if size > 8:
        assert not beginnings.occur(base64.b64encode(chance.randbytes(1000)))


@pytest.mark.parametrize("count", [1, 20, 5000])
def test_text_without_a_secret_in_base64_is_not_decoded(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few secrets, other base64 of any length is not decoded; with very many, every text is."""
    decoded: list[int] = []

    def decode(view: forms.View, shift: int) -> forms.View:
        decoded.append(shift)
        return forms.View(b"", view, None, shift)

    monkeypatch.setattr(forms.View, "decoded", decode)
    secrets = Secrets(_cut(letters(24 * count), 24))
    other = base64.b64encode(hashlib.shake_128(b"other").digest(100_000)).decode()
    assert secrets.hide(other) == other
    assert bool(decoded) == (count == 5000)
