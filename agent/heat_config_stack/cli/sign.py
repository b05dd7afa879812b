"""`heat-config-agent sign`: Sign documents, templates, archives, or the configs that Heat delivers.

A signed list has a line for each file or config.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.deployments import metadata, selection
from heat_config_agent.diagnostics.kinds import TOSCA, is_packed, language_of
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model import signed
from heat_config_agent.model.deployment import (
    COMPONENT,
    TOOLLESS,
    Config,
    Deployment,
    Document,
    Input,
)
from heat_config_agent.model.errors import AgentError, ExitCode, UsageError
from heat_config_agent.model.positions import Json
from heat_config_agent.signing import gate, ssh
from heat_config_agent.sources import document_text
from heat_config_hooks import strict_json
from heat_config_hooks.files import take, text_of
from heat_config_hooks.values import replace
from heat_config_stack.definition.files import File
from heat_config_stack.hot import reader
from heat_config_stack.hot.source import Source, heat_text

Read = Callable[[str], bytes]
"""Returns the content of a file. Raises OSError, and errors of its own."""

_FUNCTION = re.compile(
    "get_.*|resource_facade|str_.*|list_join|map_.*|repeat|digest|yaql|if|equals|not|and|or|contains|make_url|filter|Ref|Fn::.*"
)
"""Names of functions. A map with one such key is a function, and its value is not in the template."""

_CONFIGS = (
    "OS::Heat::SoftwareConfig",
    "OS::Heat::StructuredConfig",
    "OS::Heat::SoftwareComponent",
)


class RefusedError(AgentError):
    """A machine would refuse the file."""

    code = "refused"


def content_of(name: str, read: Read = take) -> bytes:
    """Return the content of a file that the command names. Raises UsageError."""
    try:
        return read(name)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error


def file_lines(
    name: str, environments: Sequence[str], read: Read = take
) -> Iterator[str]:
    """Yield the line of each file of a document, template, archive or folder, as `read` reads it. Raises UsageError."""
    folder = os.path.dirname(os.path.abspath(name))  # noqa: PTH100, PTH120  # as `signing.gate` has it
    for path in _paths(name, environments, read):
        inside = os.path.relpath(path, folder)
        if inside == f"{os.path.basename(name)}{signed.SUFFIX}":  # noqa: PTH119
            hint = "let --configs write another file with --output, and name that one"
            raise UsageError(
                f"{name} names {inside}, which its list of files would replace",
                hint=hint,
            )
        if not inside.isprintable():
            raise UsageError(
                f"cannot sign {inside!a}: a signed list cannot contain this name",
                hint="rename the file",
            )
        yield f"{signed.digest(content_of(path, read))}  {inside}\n"


def _paths(name: str, environments: Sequence[str], read: Read) -> list[str]:
    if os.path.isdir(name):  # noqa: PTH112
        return members(name)
    if not _is_hot(name, read):
        if environments:
            raise UsageError(
                f"--environment is for HOT templates, and {name} is not one"
            )
        if language_of(name) == TOSCA and not is_packed(name):
            hint = "sign its folder, or the archive that `heat-config-agent template pack` makes"
            raise UsageError(
                f"cannot sign {name}: it is only one file of a TOSCA service", hint=hint
            )
        return [name]
    source = _read(name, environments, read)
    return [
        source.template.name,
        *(environment.name for environment in source.environments),
        *source.files,
    ]


def members(name: str) -> list[str]:
    """Return the paths of the files in a folder, without hidden ones."""
    paths = []
    for place, folders, files in os.walk(name):
        folders[:] = [folder for folder in folders if not folder.startswith(".")]
        paths += [f"{place}/{file}" for file in files if not file.startswith(".")]
    return paths


def _read(name: str, environments: Sequence[str], read: Read) -> Source:
    source, missing = reader.read(name, environments, {}, take=read)
    if missing:
        raise UsageError(
            f"cannot sign {name}: {missing[0].problem}", hint=missing[0].hint
        )
    return source


def _is_hot(name: str, read: Read = take) -> bool:
    if is_packed(name) or b"heat_template_version" not in (
        content := content_of(name, read)
    ):
        return False
    value = document_text.load(text_of(content), name)
    return isinstance(value, Mapping) and "heat_template_version" in value


def config_lines(
    name: str, target: str, environments: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the line of each config of a document, or of a template and its nested ones. Raises UsageError."""
    if _is_hot(name):
        source = _read(
            name, environments, functools.partial(_take, os.path.realpath(target))
        )
        nested = (
            File(path, text)
            for path, text in source.files.items()
            if "heat_template_version" in text
        )
        for file in (source.template, *nested):
            prefix = (
                ""
                if file is source.template
                else f"{os.path.relpath(file.name, os.path.dirname(name) or '.')}: "  # noqa: PTH120
            )
            for place, config, inputs in _of_template(file, source):
                yield _config_line(f"{prefix}{place}", config, inputs)
        return
    content = document_text.load(text_of(content_of(name)), name)
    for place, config, inputs in _of_document(
        Document(source="file", content=content), name
    ):
        yield _config_line(place, config, inputs)


def _config_line(place: str, config: Config, inputs: Sequence[str]) -> str:
    digest = signed.config_digest(config.tool, config.config, config.options)
    return signed.config_line(digest, place, inputs)


def _of_template(
    file: File, source: Source
) -> Iterator[tuple[str, Config, Sequence[str]]]:
    name = file.name
    try:
        sections = heat_text(name, file.text, "template_format").value
    except Invalid as error:
        if file is not source.template:
            return  # a file for get_file that only looks like a template
        raise UsageError(f"cannot sign {name}: {error.mistakes[0].problem}") from None
    resources = sections.get("resources") if isinstance(sections, dict) else None
    for resource, definition in (
        resources.items() if isinstance(resources, dict) else ()
    ):
        if not isinstance(definition, dict) or definition.get("type") not in _CONFIGS:
            continue
        named = definition.get("properties") or {}
        keys = ("group", "config", "configs", "options")
        try:
            values = _static({key: named.get(key) for key in keys}, file.name, source)
        except ValueError as error:
            problem = f"the config {resource} is known only when it is deployed: it uses {error}"
            raise UsageError(
                f"cannot sign {name}: {problem}", hint="let inputs give it its values"
            ) from None
        inputs = [{"name": each} for each in _declared(named.get("inputs"))]
        entry = {
            "id": resource,
            "name": resource,
            "inputs": inputs,
            "outputs": [],
            "options": values.get("options") or {},
        }
        if definition["type"] == _CONFIGS[2]:
            entry |= {
                "group": COMPONENT,
                "config": {"configs": _with_actions(values["configs"])},
            }
        else:
            entry |= {
                "group": values.get("group") or "Heat::Ungrouped",
                "config": values.get("config", ""),
            }
        yield from _of_document(Document(source="file", content=[entry]), name)


def _declared(inputs: Json) -> Iterator[str]:
    """Yield the names of the inputs that a config of a template declares."""
    for item in inputs if isinstance(inputs, list) else ():
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield item["name"]


def _take(target: str, path: str) -> bytes:
    """Return the content of a file; nothing for the signed list itself, which is written after the template is read."""
    return b"" if os.path.realpath(path) == target else take(path)


def _with_actions(configs: Json) -> Json:
    """Return the configs of a component with Heat's default of the actions."""
    if not isinstance(configs, list):
        return configs
    return [
        {"actions": ["CREATE", "UPDATE"], **each} if isinstance(each, dict) else each
        for each in configs
    ]


def _static(value: Json, base: str, source: Source) -> Json:
    """Return a value with the texts of files in the place of get_file. Raises ValueError if it has other functions.

    `base` is the template that has the value.
    """
    if isinstance(value, list):
        return [_static(item, base, source) for item in value]
    if not isinstance(value, dict):
        return value
    function = next(iter(value)) if len(value) == 1 else ""
    if function == "get_file" and isinstance(value[function], str):
        path = source.find(value[function], base)
        return source.files[path] if path else ""
    if _FUNCTION.fullmatch(function):
        raise ValueError(function)
    return {key: _static(item, base, source) for key, item in value.items()}


def _of_document(
    document: Document, name: str
) -> Iterator[tuple[str, Config, Sequence[str]]]:
    """Yield the name, config and inputs of each deployment, and of each action of a component. Raises UsageError."""
    parsed = metadata.parse(document)
    if parsed.mistakes:
        raise UsageError(f"cannot sign {name}: {parsed.mistakes[0]}")
    for deployment in parsed.deployments:
        for action in _actions(deployment):
            chosen = deployment
            if action:
                chosen = replace(
                    deployment, inputs=(Input(name="deploy_action", value=action),)
                )
            config = selection.select(chosen)
            if isinstance(config, tuple):
                raise UsageError(f"cannot sign {name}: {config[0]}")
            if isinstance(config, Config) and deployment.group not in TOOLLESS:
                declared = [
                    each.name
                    for each in deployment.inputs
                    if not each.name.startswith("deploy_")
                ]
                yield f"{deployment.name} {action}".rstrip(), config, declared


def _actions(deployment: Deployment) -> Iterator[str]:
    """Yield the actions of a component; for any other deployment, one empty text."""
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


_SIGN = """\
: Sign what machines with the policy rule `signers` verify. FILE is a document, a HOT template, an archive, or a folder
with a service. A template is signed together with all files that it names. The signed list is written to FILE.signed,
and belongs next to FILE. A file with the name check is written ./check.

With --configs, FILE is a HOT template or a document, and its configs are listed instead of its files. The template that
goes to Heat carries that list in the metadata of the server, under the name heat-config-signatures.
"""

_CHECK = """\
: Say if a machine with these allowed signers would accept FILE, with its signed list. Nothing is signed.
"""

_SIGN_CODES = """\
exit codes:
  0  the signed list is written
  1  ssh-keygen did not sign
  2  bad usage, or a file that cannot be used
"""

_CHECK_CODES = """\
exit codes:
  0  the machine would accept FILE
  1  the machine would refuse FILE
  2  bad usage, or a file that cannot be used
"""


def add(commands: state_options.Commands) -> None:
    """Declare the commands."""
    parser = state_options.stateless(
        commands,
        "sign",
        "sign documents, templates and configs",
        _SIGN.partition(": ")[2],
        epilog=_SIGN_CODES,
    )
    parser.is_command = True
    _add_file(parser, "sign the configs, not the files")
    parser.add_argument(
        "--key",
        metavar="FILE",
        required=True,
        help="the private key, or the public one of a key in ssh-agent",
    )
    parser.set_defaults(run=run, kind="signature", state_dir=None)
    inner = parser.add_subparsers(prog=parser.prog, metavar="COMMAND", title="commands")
    check = state_options.stateless(
        inner,
        "check",
        "say if a machine would accept a signed file",
        _CHECK.partition(": ")[2],
        epilog=_CHECK_CODES,
    )
    _add_file(check, "check the list of the configs, not that of the files")
    check.add_argument(
        "--signers",
        metavar="FILE",
        required=True,
        help="the allowed signers of the machine",
    )
    check.set_defaults(run=run_check, kind="signature", state_dir=None)


def _add_file(parser: argparse.ArgumentParser, of_configs: str) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="the document, template, archive or folder"
    )
    parser.add_argument(
        "-e",
        "--environment",
        metavar="FILE",
        action="append",
        default=[],
        help="an environment that the template is used with; may be repeated",
    )
    parser.add_argument("--configs", action="store_true", help=of_configs)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="with --configs: the signed list (default: FILE.signed)",
    )
    state_options.add_common(parser)
    state_options.add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Sign FILE."""
    name, target = _places(options)
    names = _sign(name, target, options)
    _report(options, target, names, text=f"has {_counted(names, options)}")
    return ExitCode.OK


def run_check(options: argparse.Namespace) -> int:
    """Check the signed list of FILE."""
    name, target = _places(options)
    names, signer, ignored = _verify(name, target, options)
    text = f"counts: its signer is {signer}, and {_counted(names, options)} {'is' if len(names) == 1 else 'are'}"
    text += " in it" if options.configs else " unchanged"
    for each in ignored:
        terminal.warn(f"{each} is not in the list: the machine does not see it")
    _report(options, target, names, text=text, signer=signer, ignored=ignored)
    return ExitCode.OK


def _places(options: argparse.Namespace) -> tuple[str, str]:
    """Return FILE and its signed list."""
    name = gate.named(options.file)
    if options.output and not options.configs:
        raise UsageError("--output is for --configs: the list of files is next to FILE")
    return name, options.output or f"{name}{signed.SUFFIX}"


def _report(
    options: argparse.Namespace,
    target: str,
    names: list[str],
    *,
    text: str,
    signer: str | None = None,
    ignored: Sequence[str] = (),
) -> None:
    if not options.json:
        terminal.say(terminal.line(f"{target} {text}"))
        return
    envelope.result(
        {
            "file": options.file,
            "list": target,
            "signer": signer,
            "names": names,
            "ignored": list(ignored),
        }
    )


def _counted(names: list[str], options: argparse.Namespace) -> str:
    return terminal.count(len(names), "config" if options.configs else "file")


def _sign(name: str, target: str, options: argparse.Namespace) -> list[str]:
    """Write the signed list, and return the names in it."""
    if options.configs:
        lines, namespace, unit = (
            config_lines(name, target, options.environment),
            signed.CONFIGS,
            "config",
        )
    else:
        lines, namespace, unit = (
            file_lines(name, options.environment),
            signed.FILES,
            "file",
        )
    listed = sorted(set(lines))
    if not listed:
        raise UsageError(f"{name} has no {unit} to sign")
    key = Path(options.key)
    if ssh.is_on_device(key):
        terminal.say(f"touch the device of {terminal.line(str(key))}", error=True)
    text = ssh.sign(key, namespace, "".join(listed))
    try:
        (signed.configs if options.configs else signed.files)(text)
        Path(target).write_text(text, encoding="utf-8")
    except ValueError as error:
        raise UsageError(f"cannot sign {name}: {error}") from error
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    return [_name(line) for line in listed]


def _name(line: str) -> str:
    return signed.name_of(line)


def _verify(
    name: str, target: str, options: argparse.Namespace
) -> tuple[list[str], str, list[str]]:
    """Return the names in the signed list, the signer, and the files that a machine would ignore.

    Raises UsageError if a file cannot be read, and RefusedError if a machine would refuse one.
    """
    if not os.path.exists(target):  # noqa: PTH110
        raise RefusedError(
            f"{name} is not signed: there is no {target}",
            hint="`heat-config-agent sign FILE --key KEY` signs it",
        )
    allowed = text_of(content_of(options.signers))
    text = content_of(target).decode("utf-8", "surrogateescape")
    evidence = signed.evidence(
        signed.CONFIGS if options.configs else signed.FILES, text
    )
    try:
        gate.require(evidence, allowed, target)
        names, ignored = (
            _configs(name, target, text, options)
            if options.configs
            else _files(name, target, evidence, options)
        )
    except UsageError as error:
        raise RefusedError(error.brief, hint=error.hint) from error
    return sorted(names), ssh.verdict(evidence, allowed)[1], ignored


def _configs(
    name: str, target: str, text: str, options: argparse.Namespace
) -> tuple[list[str], list[str]]:
    try:
        listed = signed.configs(text)
    except ValueError as error:
        raise UsageError(f"cannot use {target}: {error}") from None
    lines = set(config_lines(name, target, options.environment))
    for line in lines:
        if line.partition(" ")[0] not in listed:
            raise UsageError(
                f"the config {_name(line)} is not in the signed list {target}",
                hint="sign it again",
            )
    return [_name(line) for line in lines], []


def _files(
    name: str, target: str, evidence: str, options: argparse.Namespace
) -> tuple[list[str], list[str]]:
    signed_list = gate.Gate(os.path.dirname(target), evidence, target)  # noqa: PTH120
    if not os.path.isdir(name):  # noqa: PTH112
        return [
            _name(line)
            for line in file_lines(name, options.environment, signed_list.read)
        ], []
    folder = os.path.dirname(name)  # noqa: PTH120
    for each in signed_list.names:
        content_of(os.path.join(folder, each), signed_list.read)  # noqa: PTH118
    there = (os.path.relpath(path, folder or ".") for path in members(name))
    return list(signed_list.names), sorted(set(there).difference(signed_list.names))
