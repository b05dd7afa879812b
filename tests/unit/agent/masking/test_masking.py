"""Secrets in the forms in which real programs write them."""

from __future__ import annotations

import base64
import gc
import hashlib
import html
import json
import shlex
import string
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape, quoteattr

import pytest
import yaml

from heat_config_agent.masking import MASK
from heat_config_agent.masking.secrets import (
    CHUNK,
    MOST_BYTES,
    MOST_WORDS,
    WITHHELD,
    Secrets,
)
from support.loopback import SignalServer
from support.tools import need

QUOTED = "it's a s3cret, isn't it"
SPECIAL = 'p@ss&<w>"\u00f6rd\\d\\$x`+y/z%\u20ac\U0001f511'
KEY = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA+x/9w==\n-----END KEY-----\n"
SECRETS = {
    "quotes": QUOTED,
    "special characters": SPECIAL,
    "several lines": KEY,
    "plain": "Tr0ub4dor-3xyz",
}


def letters(count: int) -> str:
    """Return so many letters of base64 without any order, the same ones each time."""
    return base64.b64encode(hashlib.shake_128(b"seed").digest(count)).decode()[:count]


def said(*command: str, given: str = "") -> str:
    """Return what a program prints, to whichever stream."""
    done = subprocess.run(
        command, input=given.encode(), capture_output=True, check=True
    )
    return (done.stdout + done.stderr).decode()


def pieces(text: str, length: int = 7) -> set[str]:
    """Return all parts of a text of that length."""
    return {text[begin : begin + length] for begin in range(len(text) - length + 1)}


def go(secret: str) -> str:
    """Return a text as Go's encoding/json writes it: docker and kubectl do."""
    text = json.dumps(secret, ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def small(text: str) -> str:
    """Return a text in percent signs with small digits."""
    return "".join(
        f"%{each:02x}"
        if chr(each) not in string.ascii_letters + string.digits
        else chr(each)
        for each in text.encode()
    )


PYTHON: dict[str, Callable[[str], str]] = {
    "JSON": json.dumps,
    "JSON in UTF-8": lambda secret: json.dumps(secret, ensure_ascii=False),
    "JSON of Go": go,
    "JSON in JSON": lambda secret: json.dumps(json.dumps({"a": secret})),
    "Python": repr,
    "Python in ASCII": ascii,
    "Python's bytes": lambda secret: repr(secret.encode()),
    "HTML": html.escape,
    "XML": escape,
    "an attribute in XML": quoteattr,
    "numbers in XML": lambda secret: "".join(
        f"&#{ord(each)};" if not each.isalnum() else each for each in secret
    ),
    "hexadecimal numbers in XML": lambda secret: "".join(
        f"&#x{ord(each):X};" if not each.isalnum() else each for each in secret
    ),
    "a URL": lambda secret: quote(secret, safe=""),
    "a URL's path": quote,
    "a URL with small digits": small,
    "a form": quote_plus,
    "a form in JSON": lambda secret: json.dumps({"form": quote_plus(secret)}),
    "quoted for a shell by Python": shlex.quote,
    "YAML": lambda secret: yaml.safe_dump({"a": secret}),
    "YAML in UTF-8": lambda secret: yaml.safe_dump({"a": secret}, allow_unicode=True),
    "YAML in single quotes": lambda secret: yaml.safe_dump(
        {"a": secret}, default_style="'"
    ),
    "YAML in double quotes": lambda secret: yaml.safe_dump(
        {"a": secret}, default_style='"', width=20
    ),
    "YAML as a block": lambda secret: yaml.safe_dump({"a": secret}, default_style="|"),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(
        secret.encode()
    ).decode(),
    "base64 in a URL": lambda secret: quote(base64.b64encode(secret.encode()), safe=""),
    "base64 in lines": lambda secret: base64.encodebytes(
        b"some other text, and then: " * 5 + secret.encode()
    ).decode()[180:],
}
TOOLS: dict[str, Callable[[str], str]] = {
    "bash -x": lambda secret: said("bash", "-xc", ': "$1"', "x", secret),
    "bash -x in the locale C": lambda secret: said(
        "env", "LC_ALL=C", "bash", "-xc", ': "$1"', "x", secret
    ),
    "sh -x": lambda secret: said("sh", "-xc", ': "$1"', "x", secret),
    "printf %q": lambda secret: said("bash", "-c", 'printf %q "$1"', "x", secret),
    "printf %q in the locale C": lambda secret: said(
        "env", "LC_ALL=C", "bash", "-c", 'printf %q "$1"', "x", secret
    ),
    "declare -p": lambda secret: said(
        "env", f"it={secret}", "bash", "-c", "declare -p it"
    ),
    "base64": lambda secret: said("base64", given=secret),
    "base64 of more": lambda secret: said("base64", "-w64", given=secret * 9),
    "jq": lambda secret: said(need("jq", "jq"), "-R", "-s", ".", given=secret),
    "jq in ASCII": lambda secret: said(
        need("jq", "jq"), "-R", "-s", "-a", ".", given=secret
    ),
    "jq's @sh": lambda secret: said(
        need("jq", "jq"), "-R", "-s", "-r", "@sh", given=secret
    ),
    "jq's @uri": lambda secret: said(
        need("jq", "jq"), "-R", "-s", "-r", "@uri", given=secret
    ),
    "jq's @html": lambda secret: said(
        need("jq", "jq"), "-R", "-s", "-r", "@html", given=secret
    ),
}


@pytest.mark.fault(
    4,
    "a program writes a secret quoted for a shell, escaped for JSON, XML, YAML or a URL, or in base64",
    "it is masked whole, in each of these forms",
)
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize(
    "write",
    [*PYTHON.values(), *TOOLS.values()],
    ids=[*PYTHON, *(f"{each} itself" for each in TOOLS)],
)
def test_a_secret_is_hidden_in_whatever_form_a_program_writes_it(
    write: Callable[[str], str], secret: str
) -> None:
    """Nothing is left of it."""
    whole = write(secret)
    if secret is KEY:  # of what stands around its lines nothing is secret
        hidden = Secrets([secret, *secret.split("\n")]).hide(whole)
        assert MASK in hidden
        assert [
            each
            for line in KEY.split("\n")
            for each in pieces(line, 10)
            if each in hidden
        ] == []
    else:
        hidden = Secrets([secret]).hide(whole)
        assert MASK in hidden
        assert [each for each in pieces(secret) if each in hidden] == []


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("user", ["", "u", "us", "use", "user", "user-name"])
def test_base64_of_user_and_secret_is_hidden(user: str, secret: str) -> None:
    """At whichever of the three places of base64 it begins, and in both of its alphabets."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        written = encode(f"{user}:{secret}".encode()).decode()
        found = Secrets([secret]).hide(f"Authorization: Basic {written}\n")
        begin = (len(user) + 1) * 8 // 6
        assert (
            found
            == f"Authorization: Basic {written[:begin]}{MASK}{'=' * written.count('=')}\n"
        )


def test_password_in_the_output_of_curl_is_hidden() -> None:
    """With -v it prints the header that it sends."""
    server = SignalServer()
    server.start()
    try:
        for user in ("a", "ab", "abc"):
            command = [
                need("curl", "curl"),
                "-sv",
                "--noproxy",
                "*",
                "--user",
                f"{user}:{QUOTED}",
                server.url(),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if "Basic" not in done.stderr:
                pytest.skip("this curl does not show the header")
            written = base64.b64encode(f"{user}:{QUOTED}".encode()).decode()
            assert written in done.stderr
            found = Secrets([QUOTED]).hide(done.stderr)
            assert [
                each for each in pieces(written.rstrip("=")[4:]) if each in found
            ] == []
    finally:
        server.stop()


@pytest.mark.parametrize("width", [60, 64, 76])
@pytest.mark.parametrize("wrap", ["\n", "\r\n", "\n    ", "\\n"])
def test_base64_in_lines_is_hidden(width: int, wrap: str) -> None:
    """Base64 over several lines is masked, for any length and separator, also if a secret crosses lines."""
    secret = letters(40)
    text = f"{'some other text ' * 3}{secret}{' and more text' * 5}"
    whole = base64.b64encode(text.encode()).decode()
    written = wrap.join(
        whole[begin : begin + width] for begin in range(0, len(whole), width)
    )
    found = Secrets([secret]).hide(written)
    assert MASK in found
    alone = whole[66 : 66 + 48]
    assert [each for each in pieces(alone, 8) if each in found.replace(wrap, "")] == []


@pytest.mark.parametrize("write", PYTHON.values(), ids=PYTHON)
def test_half_of_a_secret_waits_for_the_rest_in_every_form(
    write: Callable[[str], str],
) -> None:
    """Wherever a growing text ends, it shows at most a few characters of a secret."""
    secrets, whole = Secrets([SPECIAL]), write(SPECIAL)
    for end in range(len(whole)):
        text = f"before: {whole[:end]}"
        shown = secrets.hide(text[: len(text) - secrets.begun(text)])
        left = shown.removeprefix("before: ")
        assert [
            each
            for each in pieces(whole.strip("\"'\n"), 7) & pieces(left, 7)
            if any(x in each for x in pieces(SPECIAL, 3))
        ] == []


@pytest.mark.parametrize(
    "text",
    [
        "begun\n",
        "begun\n\n  ",
        "100%",
        "a\\",
        "it's said'",
        "a & ",
        'x"',
        "line\r\n",
        "&amp;",
    ],
)
def test_line_without_the_beginning_of_a_secret_is_shown_at_once(text: str) -> None:
    """A line that has ended is shown, though it might go on in one that is folded, or with an escape."""
    assert (
        Secrets(
            [SPECIAL, "several words, it's 'quoted' \"twice\" & more", KEY[5:]]
        ).begun(text)
        == 0
    )


def test_adjacent_secrets_are_masked_as_one() -> None:
    """Adjacent and overlapping secrets are masked as one."""
    assert (
        Secrets(["abcdef", "defghi"]).hide("abcdefghi abcdefabcdef") == f"{MASK} {MASK}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "100 %",
        "a\\",
        "&",
        "&unknown;",
        "%zz",
        "\\u12",
        "'",
        "''",
        "\udc80\udcff",
        "",
        "====",
        "\\ud800",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    """Other text is unchanged, also half of an escape and invalid UTF-8."""
    assert Secrets([SPECIAL, QUOTED, KEY]).hide(text) == text


def test_a_long_secret_is_hidden_whole_and_in_part() -> None:
    """A line of 700,000 characters, or the beginning of it."""
    secret = letters(700_000)
    secrets = Secrets([secret])
    assert secrets.hide(f"<{secret}>") == f"<{MASK}>"
    assert len(secrets.hide(secret[:500_000])) < 2 * CHUNK
    assert secrets.hide(json.dumps({"a": f"&{secret}"})) == f'{{"a": "&{MASK}"}}'


def test_where_more_is_secret_than_can_be_looked_for_nothing_is_shown() -> None:
    """With more secrets than can be searched for, nothing is shown at all."""
    for many in (
        (f"secret {number}" for number in range(MOST_WORDS + 1)),
        [letters(MOST_BYTES + 1)],
    ):
        secrets = Secrets(many)
        assert secrets.hide("some text") == WITHHELD
        assert secrets.spans(b"some text") == [(0, 9)]
        assert secrets.begun("some text") == 9


def lines(count: int) -> list[str]:
    """Return lines as those of a key."""
    text = letters(24 * count)
    return [text[begin : begin + 24] for begin in range(0, len(text), 24)]


TEXTS: dict[str, Callable[[list[str], int], str]] = {
    "no secrets": lambda _, size: "yes\n" * (size // 4),
    "only secrets": lambda words, size: "\n".join(
        words * (size // 24 // len(words) + 1)
    )[:size],
    "escapes": lambda _, size: "\\n%41&amp;''\n  + x" * (size // 20),
    "nearly secrets": lambda words, size: (words[0][:-1] + "?") * (size // 24),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("alike", ["", "the same beginning of all: "])
def test_the_time_grows_with_text_and_secrets_and_not_with_their_product(
    text: Callable[[list[str], int], str], alike: str
) -> None:
    """Eight times as many secrets in a text that is eight times as long take about eight times as long."""

    def seconds(count: int, size: int) -> float:
        words = [alike + each for each in lines(count)]
        shown = text(words, size)
        taken = []
        for _ in range(3):
            gc.collect()
            begun = time.process_time()
            Secrets(words).hide(shown)
            taken.append(time.process_time() - begun)
        return min(taken)

    seconds(100, 1000)
    assert seconds(3200, 128_000) < 30 * max(seconds(400, 16_000), 0.002)


@pytest.mark.slow
def test_the_memory_grows_with_the_secrets() -> None:
    """A hidden file of 30,000 lines takes some megabytes."""
    words = lines(30_000)
    tracemalloc.start()
    try:
        secrets = Secrets(["\n".join(words), *words])
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
        assert secrets
    finally:
        tracemalloc.stop()
