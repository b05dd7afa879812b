"""Settings of units that another drop-in overrides."""

from __future__ import annotations

import pytest

from heat_config_hooks.tools import unit_overrides

UNIT = """\
[Unit]
Description=web

[Service]
User=web
ExecStart=/bin/web \\
# a comment
  --port 80
Environment=A=1
Environment=B=2
"""

OTHERS = {
    "nothing of it": ("[Service]\nGroup=web\n", []),
    "a list emptied": ("[Service]\nExecStart=\nExecStart=/bin/true\n", ["ExecStart"]),
    "a list emptied, and the same again": (
        "[Service]\nEnvironment=\nEnvironment=B=2\nEnvironment=A=1\nEnvironment=C=3\n",
        [],
    ),
    "a list that has more": ("[Service]\nEnvironment=C=3\n", []),
    "another value": ("[Service]\nUser = root\n", ["User"]),
    "the same value": ("[Service]\nUser=web\n", []),
    "another section": ("[Socket]\nUser=root\n", []),
    "a comment": ("[Service]\n#User=root\n; User=root\n", []),
    "several": (
        "[Service]\nUser=\nExecStart=\n[Unit]\nDescription=x\n",
        ["Description", "User", "ExecStart"],
    ),
}


@pytest.mark.parametrize(("text", "names"), OTHERS.values(), ids=OTHERS)
def test_setting_is_overridden_by_another_value_or_an_emptied_list(
    text: str, names: list[str]
) -> None:
    """A value that is added to a list overrides nothing."""
    texts = {"/web.service": UNIT, "/web.service.d/override.conf": text}

    found = list(unit_overrides.overridden(texts, ["/web.service"]))

    assert found == [("/web.service.d/override.conf", name) for name in names]


def test_last_file_counts() -> None:
    """A drop-in of the deployment that comes later sets it again."""
    texts = {
        "/web.service": UNIT,
        "/web.service.d/10-other.conf": "[Service]\nUser=root\n",
        "/web.service.d/20-own.conf": "[Service]\nUser=web\n",
    }

    assert not list(
        unit_overrides.overridden(texts, ["/web.service", "/web.service.d/20-own.conf"])
    )


def test_lines_that_go_on_are_one_setting() -> None:
    """A comment may stand between them."""
    assert ("Service", "ExecStart", "/bin/web --port 80") in list(
        unit_overrides.settings(UNIT)
    )
