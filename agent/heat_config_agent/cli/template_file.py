"""The FILE of `heat-config-apply` that is a template for certain: then nothing of what applies documents is loaded."""

from __future__ import annotations

import gc
import os

from heat_config_agent.cli import command_line
from heat_config_agent.cli.apply_options import OPTIONS
from heat_config_agent.model.errors import UsageError
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import SimpleNamespace

VERSIONS = (b"heat_template_version", b"tosca_definitions_version")
"""The first keys of templates."""


_RUBBISH = 200_000
"""Number of new objects after which the garbage collector runs; a document of thousands of entries is not garbage."""


def main(arguments: Sequence[str]) -> int:
    """Run `heat-config-apply`, and return its exit code."""
    gc.set_threshold(_RUBBISH)
    options = command_line.read(arguments, OPTIONS, rest="file")
    if options is not None and len(options.file) == 1 and is_template(options.file[0]):
        return apply_template(settings_of(options), options, None)
    from heat_config_agent.cli import apply  # noqa: PLC0415  # templates need none of it

    return apply.main(arguments)


def settings_of(options: SimpleNamespace | argparse.Namespace) -> Settings:
    """Return the settings with those of the command line."""
    return effective.make(
        os.environ,
        config=options.config,
        state=options.state_dir,
        overrides=effective.Overrides(
            hooks=tuple(options.hooks_dir),
            limit=options.timeout,
            grace=options.grace,
            delivery=options.deliver_for,
            ca_file=options.ca_file,
        ),
    )


def is_template(name: str) -> bool:
    """Return whether a file is certainly a template, as its first key says, before all of it is read."""
    try:
        if name == "-" or not os.path.isfile(name):  # noqa: PTH113  # once for each document
            return False
        with open(name, "rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):
        return False
    if not any(version in head for version in VERSIONS):
        return False
    lines = (line.strip() for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    first = next((line for line in lines if line and not line.startswith((b"#", b"---", b"%"))), b"")
    return first.startswith(tuple(version + b":" for version in VERSIONS))


_HEAD = 4096
"""The bytes of a file among which the first key of a template usually is."""


def apply_template(settings: Settings, options: SimpleNamespace | argparse.Namespace, content: bytes | None) -> int:
    """Create or update the stack of a template."""
    if len(options.file) != 1 or options.file == ["-"]:
        raise UsageError(
            "a template cannot be applied together with other files, or from standard input", hint="name one file"
        )
    if options.only:
        raise UsageError(f"--only is for documents, and {options.file[0]} is a template")
    from heat_config_agent.cli import stack_package  # noqa: PLC0415  # documents need none of it

    return stack_package.apply(settings, options.file[0], options, content)
