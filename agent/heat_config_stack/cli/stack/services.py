"""The definition of a service from a command line, or from what is stored with its stack.

A service template describes this machine by its facts: CPUs, memory, disk and operating system.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.positions import Json
from heat_config_hooks import strict_yaml
from heat_config_hooks.files import take
from heat_config_stack.cli import template_options as named
from heat_config_stack.cli.stack import origin
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.tosca.compilation import loader, reader
from heat_config_stack.tosca.files.source import Source

_MIB = 1024**2


def machine_facts() -> Mapping[str, Mapping[str, object]]:
    """Return the properties of the capabilities `host` and `os` of this machine, as far as they are known."""
    host: dict[str, object] = {}
    with contextlib.suppress(AttributeError, OSError):
        host["num_cpus"] = len(os.sched_getaffinity(0))
    with contextlib.suppress(ValueError, OSError):
        host["mem_size"] = (
            f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // _MIB} MiB"
        )
    with contextlib.suppress(OSError):
        host["disk_size"] = f"{shutil.disk_usage('/').total // _MIB} MiB"
    frequency = _frequency()
    if frequency:
        host["cpu_frequency"] = f"{frequency} kHz"
    system: dict[str, object] = {
        "type": platform.system().lower(),
        "architecture": platform.machine(),
    }
    release: Mapping[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        release = platform.freedesktop_os_release()
    if release.get("ID"):
        system["distribution"] = release["ID"]
    version = release.get("VERSION_ID", "")
    if version:
        system["version"] = version if "." in version else f"{version}.0"
    return {
        "host": host,
        "os": {name: value for name, value in system.items() if value},
    }


def _frequency() -> int:
    """Return the highest frequency of the first CPU in kHz; 0 where the kernel does not say it."""
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0


def new(options: argparse.Namespace, identity: Identity) -> Definition:
    """Return the definition of a service that is named on the command line. Raises `Invalid`, UsageError."""
    return _define(options, wish(options), identity)


def _define(
    options: argparse.Namespace, wished: reader.Wish, identity: Identity
) -> Definition:
    opened = origin.opened(options, named.template(options))
    return reader.define(
        opened.path,
        replace(wished, signatures=opened.evidence, disk=opened.disk),
        identity,
    )


def outline(options: argparse.Namespace, identity: Identity) -> Definition:
    """Return the definition of a service to look at: its inputs may have no values. Raises `Invalid`, UsageError."""
    return reader.define(
        named.template(options), replace(wish(options), is_complete=False), identity
    )


def changed(
    options: argparse.Namespace, former: Json, identity: Identity
) -> Definition:
    """Return the definition of a service that keeps values that are not given again. Raises as `new`."""
    source = Source.from_json(former)
    wished = wish(options)
    clear = set(options.clear_parameter)
    inputs = {
        **{name: value for name, value in source.inputs.items() if name not in clear},
        **wished.inputs,
    }
    attributes = {**source.attributes, **wished.attributes}
    hosts = wished.hosts
    if options.template:
        return _define(
            options, replace(wished, inputs=inputs, attributes=attributes), identity
        )
    return loader.load(
        replace(source, inputs=inputs, attributes=attributes, hosts=hosts).to_json(),
        identity,
    )


def wish(options: argparse.Namespace) -> reader.Wish:
    """Return the values for a service on the command line. Raises UsageError."""
    if options.environment:
        raise UsageError(
            "--environment is for HOT templates",
            hint="give the inputs with --input or --inputs",
        )
    return reader.Wish(
        {**_input_files(options), **named.parameters(options)},
        named.attributes_by_resource(options),
        _substitutes(options),
        machine_facts(),
        server=getattr(options, "server", None) or "",
        hosts=named.hosts(options),
    )


def _input_files(options: argparse.Namespace) -> Mapping[str, Json]:
    """Return the inputs of the files of --inputs. Raises UsageError."""
    inputs: dict[str, Json] = {}
    for path in options.inputs:
        try:
            content: Any = strict_yaml.loads(take(path).decode())
        except (OSError, ValueError) as error:
            raise UsageError(
                f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
            ) from None
        if content is not None and not isinstance(content, dict):
            raise UsageError(f"cannot read {path}: it has to be a map of inputs")
        inputs.update(content or {})
    return json.loads(json.dumps(inputs))  # type: ignore[no-any-return]  # it is a map


def _substitutes(options: argparse.Namespace) -> dict[str, str]:
    files = {}
    for text in options.substitute:
        name, sign, path = text.partition("=")
        if not sign or not name or not path:
            raise UsageError(f"--substitute takes NODE=FILE, not {text!r}")
        files[name] = path
    return files
