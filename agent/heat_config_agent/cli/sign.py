"""`heat-config-agent sign`: Sign documents, templates, archives, or the configs that Heat delivers."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.help_format import HelpFormatter
from heat_config_agent.cli.languages import TOSCA, is_packed, language_of
from heat_config_agent.deployments import metadata, selection
from heat_config_agent.hot import reader
from heat_config_agent.hot.source import Source
from heat_config_agent.hot.text import heat_text
from heat_config_agent.language.mistakes import Invalid
from heat_config_agent.language.positions import Json
from heat_config_agent.model import signed
from heat_config_agent.model.deployment import COMPONENT, TOOLLESS, Config, Deployment, Document, Input
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.signing import ssh
from heat_config_agent.sources import document_text
from heat_config_hooks import strict_json
from heat_config_hooks.files import take, text_of
from heat_config_hooks.values import replace

_SIGN = """\
: Sign what machines with the policy rule `signers` verify. FILE is a document, a HOT template, an archive, or a folder
with a service. A template is signed together with all files that it names. The signed list is written to FILE.signed,
and belongs next to FILE.

With --configs, FILE is a HOT template or a document, and its configs are listed instead of its files. The template that
goes to Heat carries that list in the metadata of the server, under the name heat-config-signatures.
"""

_EXIT_CODES = """\
exit codes:
  0  the list is written
  1  ssh-keygen did not sign
  2  bad usage, or a file that cannot be used
"""

_FUNCTION = re.compile(
    "get_.*|resource_facade|str_.*|list_join|map_.*|repeat|digest|yaql|if|equals|not|and|or|contains|make_url|filter|Ref|Fn::.*"
)
"""Names of functions. A map with one such key is a function, and its value is not in the template."""

_CONFIGS = ("OS::Heat::SoftwareConfig", "OS::Heat::StructuredConfig", "OS::Heat::SoftwareComponent")


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "sign",
        help="sign documents, templates and configs",
        description=_SIGN.partition(": ")[2],
        epilog=_EXIT_CODES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="the document, template, archive or folder")
    parser.add_argument(
        "--key", metavar="KEY", required=True, help="the private key, or the public one of a key in ssh-agent"
    )
    parser.add_argument(
        "-e",
        "--environment",
        metavar="FILE",
        action="append",
        default=[],
        help="an environment that the template is used with; may be repeated",
    )
    parser.add_argument("--configs", action="store_true", help="sign the configs, not the files")
    parser.add_argument("-o", "--output", metavar="LIST", help="the signed list (default: FILE.signed)")
    parser.set_defaults(run=run, state_dir=None)


def run(options: argparse.Namespace) -> int:
    """Sign."""
    name = os.path.normpath(options.file)
    target = options.output or f"{name}{signed.SUFFIX}"
    if options.configs:
        lines = config_lines(name, target)
        namespace, unit = signed.CONFIGS, "config"
    else:
        if options.output:
            raise UsageError("--output is for --configs: the list of files is written next to FILE")
        lines, namespace, unit = file_lines(name, options.environment), signed.FILES, "file"
    listed = sorted(set(lines))
    if not listed:
        raise UsageError(f"{name} has no {unit} to sign")
    text = ssh.sign(Path(options.key), namespace, "".join(listed))
    try:
        signed.digests(text)
        Path(target).write_text(text, encoding="utf-8")
    except ValueError as error:
        raise UsageError(f"cannot sign {name}: {error}") from error
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    terminal.say(f"{terminal.line(target)} has {terminal.count(len(listed), unit)}")
    return ExitCode.OK


def _content(name: str) -> bytes:
    try:
        return take(name)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error


def file_lines(name: str, environments: list[str]) -> Iterator[str]:
    """Yield the line of each file of a document, template, archive or folder. Raises UsageError."""
    folder = os.path.dirname(os.path.abspath(name))  # noqa: PTH100, PTH120  # as `signing.gate` has it
    for path in _paths(name, environments):
        inside = os.path.relpath(path, folder)
        yield f"{signed.digest(_content(path))}  {inside}\n"


def _paths(name: str, environments: list[str]) -> list[str]:
    if os.path.isdir(name):  # noqa: PTH112
        paths = []
        for place, folders, files in os.walk(name):
            folders[:] = [folder for folder in folders if not folder.startswith(".")]
            paths += [f"{place}/{file}" for file in files if not file.startswith(".")]
        return paths
    if not _is_hot(name):
        if language_of(name) == TOSCA and not is_packed(name):
            raise UsageError(f"{name} names other files", hint="`heat-config-agent template pack` makes an archive")
        return [name]
    source, missing = reader.read(name, environments, {})
    if missing:
        raise UsageError(f"cannot sign {name}: {missing[0].problem}")
    return [source.template.name, *(environment.name for environment in source.environments), *source.files]


def _is_hot(name: str) -> bool:
    if is_packed(name) or b"heat_template_version" not in _content(name):
        return False
    content = document_text.load(text_of(_content(name)), name)
    return isinstance(content, Mapping) and "heat_template_version" in content


def config_lines(name: str, target: str) -> Iterator[str]:
    """Yield the line of each config of a template or document. Raises UsageError."""
    if _is_hot(name):
        configs = _of_template(name, target)
    else:
        content = document_text.load(text_of(_content(name)), name)
        configs = _of_document(Document(source="file", content=content), name)
    for place, config in configs:
        yield f"{signed.config_digest(config.tool, config.config, config.options)}  {place}\n"


def _of_template(name: str, target: str) -> Iterator[tuple[str, Config]]:
    if not os.path.exists(target):  # noqa: PTH110  # the template may name it: it is written in the end
        Path(target).write_text("", encoding="utf-8")
    source, missing = reader.read(name, (), {})
    if missing:
        raise UsageError(f"cannot sign {name}: {missing[0].problem}")
    try:
        sections = heat_text(source.template.name, source.template.text, "template_format").value
    except Invalid as error:
        raise UsageError(f"cannot sign {name}: {error.mistakes[0].problem}") from None
    resources = sections.get("resources") if isinstance(sections, dict) else None
    for resource, definition in resources.items() if isinstance(resources, dict) else ():
        if not isinstance(definition, dict) or definition.get("type") not in _CONFIGS:
            continue
        named = definition.get("properties") or {}
        try:
            values = _static({key: named.get(key) for key in ("group", "config", "configs", "options")}, source)
        except ValueError as error:
            problem = f"the config {resource} is known only when it is deployed: it uses {error}"
            raise UsageError(f"cannot sign {name}: {problem}", hint="let inputs give it its values") from None
        entry = {"id": resource, "name": resource, "inputs": [], "outputs": [], "options": values.get("options") or {}}
        if definition["type"] == _CONFIGS[2]:
            entry |= {"group": COMPONENT, "config": {"configs": _with_actions(values["configs"])}}
        else:
            entry |= {"group": values.get("group") or "Heat::Ungrouped", "config": values.get("config", "")}
        yield from _of_document(Document(source="file", content=[entry]), name)


def _with_actions(configs: Json) -> Json:
    """Return the configs of a component with Heat's default of the actions."""
    if not isinstance(configs, list):
        return configs
    return [{"actions": ["CREATE", "UPDATE"], **each} if isinstance(each, dict) else each for each in configs]


def _static(value: Json, source: Source) -> Json:
    """Return a value with the texts of files in the place of get_file. Raises ValueError if it has other functions."""
    if isinstance(value, list):
        return [_static(item, source) for item in value]
    if not isinstance(value, dict):
        return value
    function = next(iter(value)) if len(value) == 1 else ""
    if function == "get_file" and isinstance(value[function], str):
        path = source.find(value[function], source.template.name)
        return source.files[path] if path else ""
    if _FUNCTION.fullmatch(function):
        raise ValueError(function)
    return {key: _static(item, source) for key, item in value.items()}


def _of_document(document: Document, name: str) -> Iterator[tuple[str, Config]]:
    """Yield the configs of a document with their names; of a component, that of each action. Raises UsageError."""
    parsed = metadata.parse(document)
    if parsed.mistakes:
        raise UsageError(f"cannot sign {name}: {parsed.mistakes[0]}")
    for deployment in parsed.deployments:
        for action in _actions(deployment):
            given = deployment
            if action:
                given = replace(deployment, inputs=(Input(name="deploy_action", value=action),))
            config = selection.select(given)
            if isinstance(config, tuple):
                raise UsageError(f"cannot sign {name}: {config[0]}")
            if isinstance(config, Config) and deployment.group not in TOOLLESS:
                yield f"{deployment.name} {action}".rstrip(), config


def _actions(deployment: Deployment) -> Iterator[str]:
    """Yield the actions of a component; empty text for the one config of any other deployment."""
    config: Any = deployment.config
    if deployment.group != COMPONENT:
        yield ""
        return
    if isinstance(config, str):
        with contextlib.suppress(ValueError):  # `select` reports it
            config = strict_json.loads(config)
    configs = config.get("configs") if isinstance(config, Mapping) else None
    for each in configs if isinstance(configs, list) else ():
        yield from (each.get("actions") or ()) if isinstance(each, Mapping) else ()
