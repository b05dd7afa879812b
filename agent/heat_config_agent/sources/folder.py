"""Folders that a command names: the documents in them, a template or an archive."""

from __future__ import annotations

import os
from collections.abc import Sequence

from heat_config_agent.deployments import metadata
from heat_config_agent.diagnostics import kinds
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Place
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.sources.local import SUFFIXES
from heat_config_hooks import files, strict_yaml


def files_of(name: str) -> Sequence[str]:
    """Return the files to apply for a folder: its documents in the order of their names, or its only template.

    A folder that is a TOSCA service stands for itself. Raises UsageError if the folder has nothing to apply, or more
    than one thing; `Invalid` if one of its files of YAML or JSON is of another kind.
    """
    try:
        names = sorted(each for each in os.listdir(name) if not each.startswith("."))
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    if "TOSCA-Metadata" in names:
        return [name]
    paths = [os.path.join(name, each) for each in names]  # noqa: PTH118
    archives = [path for path in paths if path.endswith(kinds.ARCHIVES)]
    texts = [path for path in paths if path.endswith(SUFFIXES) and _is_file(path)]
    languages = {path: kinds.template_in(_content(path)) for path in texts}
    values = {path: _value(path) for path, language in languages.items() if language}
    templates = [path for path in values if _is_template(values[path], languages[path])]
    documents = [path for path in texts if path not in templates]
    if any(languages[path] == kinds.TOSCA for path in templates) and len(texts) == len(
        templates
    ):
        is_plain = len(templates) == 1 and not _is_entry(values[templates[0]])
        # its reader says which of several templates is its entry, and a service is signed as a whole
        return [name] if not is_plain or _has_to_be_signed() else templates
    if archives and not texts:
        return _only(name, archives, "archives")
    if len(templates) == 1 and not documents:
        return templates
    if templates:
        _refuse_mixture(name, templates, documents)
    wrong = [
        mistake for path in documents if (mistake := _of_other_kind(path)) is not None
    ]
    if wrong:
        raise Invalid(wrong)
    if archives:
        raise UsageError(
            f"{name} has documents and an archive: {archives[0]}",
            hint="name the files, one after another",
        )
    if not documents:
        hint = f"documents and templates are files named {', '.join(f'*{each}' for each in SUFFIXES)}"
        raise UsageError(f"there is nothing to apply in {name}", hint=hint)
    return documents


def _is_file(path: str) -> bool:
    """Return whether a name in a folder is that of a file, or of a link whose file is lost, which has to be said."""
    return os.path.isfile(path) or not os.path.exists(path)  # noqa: PTH110, PTH113


def _only(name: str, paths: Sequence[str], kind: str) -> Sequence[str]:
    if len(paths) > 1:
        raise UsageError(
            f"{name} has {len(paths)} {kind}", hint=f"name one: {paths[0]}"
        )
    return paths


def _refuse_mixture(
    name: str, templates: Sequence[str], documents: Sequence[str]
) -> None:
    """Refuse a folder with a template and other files, as it does not say what is to be applied."""
    others = [path for path in documents if _of_other_kind(path) is None]
    environments = [path for path in documents if path not in others]
    if len(templates) > 1:
        raise UsageError(
            f"{name} has {len(templates)} templates", hint=f"name one: {templates[0]}"
        )
    if others:
        problem = f"{name} has a template and documents of deployments: {templates[0]} and {others[0]}"
        raise UsageError(
            problem, hint="name the files: a template is applied by itself"
        )
    hint = f"name the files: {templates[0]} --environment {environments[0]}"
    raise UsageError(
        f"{name} has a template, and other files that may be for it", hint=hint
    )


def _content(path: str) -> bytes:
    try:
        return files.take(path)
    except OSError:
        return b""  # whoever reads it as a document says why


def _value(path: str) -> object:
    try:
        return strict_yaml.loads(files.text_of(_content(path)))
    except ValueError:
        return None


def _is_template(value: object, language: str) -> bool:
    """Return whether a file with a template's version is one; a document may have a template in a config."""
    return bool(language) and (value is None or metadata.is_template(value))


def _is_entry(value: object) -> bool:
    """Return whether a TOSCA template has a name of its own, which makes it the entry of an archive."""
    more = value.get("metadata") if isinstance(value, dict) else None
    return any(
        isinstance(each, dict) and "template_name" in each for each in (value, more)
    )


def _has_to_be_signed() -> bool:
    policy = policy_in_force()
    return policy is not None and policy.signers is not None


def _of_other_kind(path: str) -> Mistake | None:
    """Return the mistake that a file is not a document; None for a document or an unknown kind."""
    kind, hint = kinds.of_value(_value(path))
    if not kind:
        return None
    problem = f"this is {kind}, and not a document of deployments"
    return Mistake(problem, (), Place(path, 1, 1), hint)
