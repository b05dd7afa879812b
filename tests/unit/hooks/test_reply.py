from __future__ import annotations

import errno
import json
import os
import re
import time
from pathlib import Path

import pytest

from heat_config_hooks import reply
from heat_config_hooks.reply import BODY_LIMIT, Capture, Text, cut, failure, fit
from support import pace

MARKER = re.compile(r"\n\[\.\.\. ([\d,]+) bytes left out \.\.\.\]\n")


def size(value: object) -> int:
    """Return how many bytes a value is as JSON."""
    return len(json.dumps(value).encode())


def left_out(text: object) -> tuple[str, int, str]:
    """Return the head, the number of bytes that are said to be left out, and the tail."""
    assert isinstance(text, str)
    head, count, tail = MARKER.split(text)
    return head, int(count.replace(",", "")), tail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file that a test may write."""
    return tmp_path / "stdout"


def test_fitting_outputs_are_unchanged(path: Path) -> None:
    """Values of any type stay as they are, and a file becomes its text."""
    path.write_bytes("tée\r\n\0\x1b[1m".encode())
    given = {
        "a": "é\n",
        "b": 7,
        "c": [None, True, 1.5],
        "d": {"k": {}},
        "e": None,
        "f": "",
        "g": Capture(path),
    }
    assert fit(given) == {**given, "g": "tée\r\n\0\x1b[1m"}


def test_limit_of_zero_empties_the_values() -> None:
    """With a limit of 0, the values are empty."""
    assert fit({}) == {}


def test_undecodable_bytes_are_replaced(path: Path) -> None:
    """The result is sent nevertheless."""
    path.write_bytes(b"a\xff\xfe\x80b\xc3")
    assert fit({"x": Capture(path)}) == {"x": "a\ufffd\ufffd\ufffdb\ufffd"}


@pytest.mark.parametrize(
    ("code", "outputs"),
    [
        (
            0,
            {
                "a": "x",
                "deploy_stdout": "out",
                "deploy_stderr": "b cannot be read: Input/output error\n",
                "code": 125,
            },
        ),
        (3, {"a": "x", "deploy_stdout": "out", "deploy_stderr": "", "code": 3}),
    ],
)
def test_unreadable_output_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    code: int,
    outputs: dict[str, object],
) -> None:
    """An output that exists and cannot be read from the disk is a failure."""
    for name, text in {"a": "x", "b": "y", "stdout": "out", "stderr": ""}.items():
        (tmp_path / name).write_text(text)
    usual = os.open

    def torn(path: str | Path, *options: int) -> int:
        if Path(path) == tmp_path / "b":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return usual(path, *options)

    monkeypatch.setattr(os, "open", torn)
    values = {
        "deploy_stdout": Capture(tmp_path / "stdout"),
        "deploy_stderr": Capture(tmp_path / "stderr"),
    }
    given = {
        **values,
        "a": Capture(tmp_path / "a"),
        "b": Capture(tmp_path / "b"),
        "deploy_status_code": code,
    }
    assert fit(given) == {
        **{k: v for k, v in outputs.items() if k != "code"},
        "deploy_status_code": outputs["code"],
    }


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """An unreadable file or a pipe, which could block, is skipped, and the other values are sent."""
    os.mkfifo(tmp_path / "pipe")
    given = {name: Capture(tmp_path / name) for name in ("missing", "pipe", "")}
    assert fit({**given, "device": Capture(Path("/dev/zero")), "a": "b"}) == {"a": "b"}


@pytest.mark.parametrize(
    "unit",
    ["x", "é", "€", "😀", "\0", "\x1b", "\n", '"', "\\", "\x7f", "aé€😀\n\0"],
    ids=ascii,
)
@pytest.mark.parametrize("limit", [100, 1000, BODY_LIMIT])
def test_long_reply_is_cut_to_fit(unit: str, limit: int) -> None:
    """The limit counts the bytes of JSON, where a character may take six and more, and is nearly used up."""
    text = unit * (limit // len(unit.encode()) * 2)
    fitted = fit({"deploy_stdout": text}, limit)
    assert limit - 100 < size(fitted) <= limit
    head, count, tail = left_out(fitted["deploy_stdout"])
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len((head + tail).encode()) + count == len(text.encode())
    assert abs(len(head) - len(tail)) <= 1


@pytest.mark.parametrize("unit", ["x", "é", "€", "😀"])
@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize(
    "length", [BODY_LIMIT + 1, 2 * BODY_LIMIT, 2 * BODY_LIMIT + 7, 5_000_000]
)
def test_a_file_is_cut_like_text(
    path: Path, unit: str, shift: int, length: int
) -> None:
    """No character is broken at a cut, and the number of bytes that are left out is exact."""
    text = "." * shift + unit * (length // len(unit.encode())) + "end"
    path.write_text(text)
    fitted = fit({"deploy_stdout": Capture(path)})
    assert BODY_LIMIT - 100 < size(fitted) <= BODY_LIMIT
    head, count, tail = left_out(fitted["deploy_stdout"])
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) > 10_000
    assert len(tail) > 10_000
    assert len((head + tail).encode()) + count == path.stat().st_size


def test_several_files_share_what_there_is(path: Path) -> None:
    """Long files share the space equally, and short ones are complete."""
    for name, length in (("longest", 30_000_000), ("long", 2_000_000), ("short", 5000)):
        path.with_name(name).write_bytes(b"0123456\n" * (length // 8))
    fitted = fit(
        {name: Capture(path.with_name(name)) for name in ("longest", "long", "short")}
    )
    assert BODY_LIMIT - 200 < size(fitted) <= BODY_LIMIT
    assert fitted["short"] == "0123456\n" * 625
    assert abs(size(fitted["longest"]) - size(fitted["long"])) < 10


def test_of_binary_the_count_is_that_of_its_bytes(path: Path) -> None:
    """The count is not that of the characters that replace bytes."""
    path.write_bytes(b"\xff" * 3_000_000)
    head, count, tail = left_out(fit({"x": Capture(path)})["x"])
    assert len(head) + len(tail) + count == 3_000_000


@pytest.mark.parametrize("byte", [b"\x80", b"\xbf", b"\xff", b"\0"])
def test_binary_of_any_kind_is_cut_at_once(path: Path, byte: bytes) -> None:
    """The beginning and the end of a binary file are shown as well, and quickly."""
    path.write_bytes(byte * 2_500_000)
    begun = time.monotonic()
    fitted = fit({"x": Capture(path)})
    assert time.monotonic() - begun < pace.seconds(10)
    head, _, tail = left_out(fitted["x"])
    assert len(head) > 10_000
    assert len(tail) > 10_000


def test_a_huge_file_costs_no_more_than_a_long_one(path: Path) -> None:
    """Only its ends are read."""
    with path.open("wb") as file:
        file.write(b"begin")
        file.truncate(10**12)
        file.seek(0, os.SEEK_END)
        file.write(b"end")
    begun = time.monotonic()
    fitted = fit({"deploy_stdout": Capture(path), "deploy_stderr": "kept whole"})
    assert time.monotonic() - begun < pace.seconds(30)
    assert size(fitted) <= BODY_LIMIT
    head, count, tail = left_out(fitted["deploy_stdout"])
    assert head.startswith("begin\0")
    assert tail.endswith("\0end")
    assert len(head) + len(tail) + count == 10**12 + 3
    assert fitted["deploy_stderr"] == "kept whole"


def test_the_longest_is_cut_first() -> None:
    """No value is cut while a longer one is complete."""
    given = {"short": "s" * 100, "long": "l" * 2000, "longer": "m" * 5000, "code": 0}
    fitted = fit(given, 4000)
    assert size(fitted) <= 4000
    assert {name: fitted[name] for name in ("short", "code")} == {
        "short": "s" * 100,
        "code": 0,
    }
    assert abs(size(fitted["long"]) - size(fitted["longer"])) <= 2
    fitted = fit(given, 6000)
    assert fitted["long"] == given["long"]
    assert size(fitted["longer"]) > 3000


def test_a_structure_that_is_too_long_is_cut_as_its_json() -> None:
    """A part of its JSON is better than nothing."""
    given = {"x": {"k": ["value"] * 1000}, "y": [1]}
    fitted = fit(given, 1000)
    assert size(fitted) <= 1000
    head, count, tail = left_out(fitted["x"])
    assert len(head) + len(tail) + count == len(json.dumps(given["x"]))
    assert fitted["y"] == [1]


@pytest.mark.parametrize("limit", [400, 600, 1000])
def test_how_it_ended_is_never_cut(limit: int) -> None:
    """The status code is complete, with any number of other values."""
    given: dict[str, object] = {f"o{index}": "x" * 50 for index in range(10)}
    assert fit({**given, "deploy_status_code": 255}, limit)["deploy_status_code"] == 255
    assert (
        fit({**given, "deploy_status_code": "255"}, limit)["deploy_status_code"]
        == "255"
    )


@pytest.mark.parametrize("names", [1, 1000])
def test_names_that_are_too_long_fit_too(names: int) -> None:
    """A hook may reply with any names; a reply that cannot be delivered is a failure."""
    given: dict[str, object] = {
        f"{index}" + "n" * (3_000_000 // names): "" for index in range(names)
    }
    fitted = fit({**given, "deploy_status_code": 1})
    assert size(fitted) <= BODY_LIMIT
    assert fitted["deploy_status_code"] not in (0, "0", "", None)


def test_a_change_is_made_before_a_cut() -> None:
    """The function gets each complete text with its name, and its result is cut."""
    seen = []

    def change(name: str, text: str) -> str:
        seen.append((name, text))
        return text.replace("secret", "***")

    fitted = fit({"a": "secret" * 1000, "b": {"k": "secret"}, "c": "none"}, 500, change)
    assert ("a", "secret" * 1000) in seen
    assert "s" not in MARKER.sub("", str(fitted["a"]))
    assert (fitted["b"], fitted["c"]) == ({"k": "***"}, "none")


def test_a_change_leaves_no_half_of_what_it_hides_in_a_file(path: Path) -> None:
    """Even if the text would fit after so much is hidden."""
    path.write_text("." + "0123456789abcdef" * 200_000)
    fitted = fit(
        {"x": Capture(path)},
        change=lambda _, text: text.replace("0123456789abcdef", "*"),
    )
    assert set(MARKER.sub("", str(fitted["x"]))) <= {".", "*"}


def test_text_that_fits_is_not_cut() -> None:
    """The limit is exact to the byte."""
    text = 'é\n"'
    assert cut(Text(text), size(text) - 2) == text
    assert cut(Text(text), size(text) - 3) != text


@pytest.mark.parametrize("cap", range(60))
def test_a_cut_is_never_longer_than_it_may_be(cap: int) -> None:
    """Down to a limit of 0."""
    for text in (Text("é" * 1000), Text("x" * 10, "y" * 10, 10**9), Text("", "", 5)):
        assert size(cut(text, cap)) - 2 <= cap


def test_failure_says_why_before_the_words_of_the_tool(path: Path) -> None:
    """The sentence is in front of any output of the tool."""
    path.write_text("its log\n")
    assert fit(failure(5, "It broke.", "out", Capture(path))) == {
        "deploy_stdout": "out",
        "deploy_stderr": "It broke.\nits log\n",
        "deploy_status_code": 5,
    }
    assert fit(failure(5, "It broke."))["deploy_stderr"] == "It broke.\n"
    assert (
        fit(failure(5, "It broke.", "", Capture(path.with_name("missing"))))[
            "deploy_stderr"
        ]
        == "It broke.\n"
    )
    with path.open("wb") as file:
        file.truncate(10**10)
    assert str(
        fit(failure(5, "It broke.", "", Capture(path)))["deploy_stderr"]
    ).startswith("It broke.\n\0")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *(
            (0, 0),
            (3, 3),
            (-1, -1),
            ("0", 0),
            ("3", 3),
            (None, None),
            (True, None),
            (False, None),
            ("", None),
        ),
        *(("x", None), ("1.5", None), ([], None), ({}, None), ("9" * 5000, None)),
    ],
    ids=lambda value: str(value)[:8],
)
def test_a_status_code_is_a_number_or_text_that_holds_one(
    value: object, code: int | None
) -> None:
    """Other values have no status code."""
    assert reply.status_code({"deploy_status_code": value}) == code


def test_a_reply_may_have_no_status_code() -> None:
    """The caller decides on the meaning."""
    assert reply.status_code({}) is None
