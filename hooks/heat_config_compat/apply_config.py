"""The `apply-config` hook: runs os-apply-config, which renders the templates of the machine.

As in heat-agents' hook of the same name, the config is ignored, and may be empty.
os-apply-config has its own metadata and templates, `$OS_CONFIG_FILES` and `$OS_CONFIG_APPLIER_TEMPLATES`.

A verification has it render the templates into the folder of the run, and compares the files with those of the machine.
Templates that are programs are run for that, as in a run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from heat_config_hooks import files, programs, protocol, strict_yaml
from heat_config_hooks.needs import APPLY_CONFIG, NEEDS
from heat_config_hooks.reply import Reply

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Change, Verdict  # few runs verify

ABOUT = protocol.About(
    config="none: it is ignored",
    needs=NEEDS["apply-config"],
    variables=(
        "HEAT_APPLY_CONFIG_CMD",
        "HEAT_APPLY_CONFIG_OUTPUTS",
        "OS_CONFIG_FILES",
        "OS_CONFIG_FILES_PATH",
        "OS_CONFIG_APPLIER_TEMPLATES",
    ),
    tested="real os-apply-config",
)


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Return the command that runs os-apply-config."""
    argv = programs.find(APPLY_CONFIG, place.environment)
    outputs = protocol.clear_outputs(request, place)
    return protocol.Command(
        argv=argv, cwd=place.run, environment={"heat_outputs_path": str(outputs)}
    )


finish = protocol.collect


_RENDERED = "rendered"
"""The folder in that of a verification into which the templates are rendered."""

_TEMPLATES = "/usr/libexec/os-apply-config/templates"
"""The folder of the templates, unless an option or a variable names another."""

_EMPTY = re.compile(r"not creating empty (.+)$", re.MULTILINE)
"""The message of os-apply-config about a file that is to be absent, because there is nothing in it."""


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Return the command that renders the templates into the folder of the run."""
    argv = programs.find(APPLY_CONFIG, place.environment)
    rendered, outputs = place.run / _RENDERED, place.run / "outputs"
    for folder in (rendered, outputs):
        files.make_directory(folder)
    return protocol.Command(
        argv=(*argv, "--output", str(rendered)),
        cwd=place.run,
        environment={"heat_outputs_path": str(outputs / request.key)},
    )


def verdict(
    _request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Verdict:
    """Return whether the files of the machine are as os-apply-config would write them."""
    from heat_config_hooks.verdict import drifted, in_effect, unknown  # noqa: PLC0415  # few runs verify

    messages = files.read(ended.stderr).decode("utf-8", "replace")
    if ended.code:
        last = messages.strip().rpartition("\n")[2]
        return unknown(last or f"os-apply-config ended with exit code {ended.code}")
    argv = programs.find(APPLY_CONFIG, place.environment)
    root = Path(_option(argv, ("-o", "--output")) or "/")
    changes = [*_changed(argv, place, root), *_left(messages, place, root)]
    return drifted(changes) if changes else in_effect()


def _changed(
    argv: Sequence[str], place: protocol.Workplace, root: Path
) -> Iterator[Change]:
    """Yield the differences between the rendered files and those below `root`."""
    from heat_config_hooks.verdict import Change  # noqa: PLC0415  # few runs verify
    from heat_config_hooks.written import difference  # noqa: PLC0415

    templates = Path(
        _option(argv, ("-t", "--templates"))
        or place.environment.get("OS_CONFIG_APPLIER_TEMPLATES")
        or _TEMPLATES
    )
    rendered = place.run / _RENDERED
    for folder, _, names in os.walk(rendered):
        for name in sorted(names):
            path = Path(folder, name)
            relative = path.relative_to(rendered)
            status, control = path.stat(), _control(templates / relative)
            # what its control file does not set, a file keeps
            mode = status.st_mode & 0o7777 if control.get("mode") is not None else None
            change = difference(root / relative, path.read_bytes(), mode)
            if change is None and (how := _owned(root / relative, status, control)):
                change = Change(what=str(root / relative), how=how)
            if change is not None:
                yield change


def _owned(path: Path, status: os.stat_result, control: Mapping[str, object]) -> str:
    """Return how the owner of a file differs from that in its control file; empty if it does not."""
    present = path.lstat()
    for key, here, wanted in (
        ("owner", present.st_uid, status.st_uid),
        ("group", present.st_gid, status.st_gid),
    ):
        if control.get(key) is not None and here != wanted:
            return f"its {key} is {here} instead of {wanted}"
    return ""


def _left(messages: str, place: protocol.Workplace, root: Path) -> Iterator[Change]:
    """Yield a difference for each file below `root` that os-apply-config would remove."""
    from heat_config_hooks.verdict import Change  # noqa: PLC0415  # few runs verify

    rendered = place.run / _RENDERED
    for name in _EMPTY.findall(messages):
        if Path(name).is_relative_to(rendered):
            path = root / Path(name).relative_to(rendered)
            if os.path.lexists(path):
                yield Change(what=str(path), how="it exists, and should not")


def _control(template: Path) -> Mapping[str, object]:
    """Return the control file of a template; empty if it has none."""
    try:
        text = Path(f"{template}.oac").read_text("utf-8")
        return protocol.as_map(strict_yaml.loads(text))
    except (OSError, ValueError):
        return {}


def _option(argv: Sequence[str], names: tuple[str, str]) -> str:
    """Return the value of an option in a command line; empty if it is not there."""
    value = ""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word in names:
            value = following
        elif word.startswith(f"{names[1]}="):
            value = word.partition("=")[2]
    return value
