"""Plug-ins: Python modules with resource types, in the folders of `plugin_dirs`, written to Heat's plug-in guide.

The function `resource_mapping()` of a module returns its types, and `constraint_mapping()` its custom constraints.
Folders named `tests` are not searched. A module that cannot be loaded is skipped, with a sentence that says why; all
others are used. The modules of a folder form a package, so they can import one another, with a dot or by name.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from heat_config_agent.model.errors import blame
from heat_config_agent.stack.constraints import BaseCustomConstraint
from heat_config_agent.stack.definition import custom_constraints
from heat_config_agent.stack.facade import PACKAGES, heat
from heat_config_agent.stack.resource import PLUGINS, Resource

TESTS = "tests"
RESOURCES = "heat.engine.resources"
"""The package of Heat's own resources. A plug-in that imports one of them gets the module of its own folder."""


@dataclass
class Plugins:
    """The result of loading plug-ins."""

    types: dict[str, type[Resource]] = field(default_factory=dict)
    """The class of each type; if several modules have the type, the class of the last one."""
    disabled: list[str] = field(default_factory=list)
    """A sentence for each module or folder that is skipped."""


def load(directories: Iterable[Path]) -> Plugins:
    """Load all plug-ins. Only root and we may be able to write to them: anyone who can, decides what we run."""
    plugins = Plugins()
    for directory in directories:
        if not directory.is_dir():
            plugins.disabled.append(f"{directory} of plugin_dirs is not a folder: no plug-in is loaded from it")
            continue
        package = _package(directory)
        for path in _modules(directory):
            try:
                module = _loaded(package, directory, path)
                types, constraints = _types(module), _constraints(module)
            except _UnsafeError as error:
                plugins.disabled.append(str(error))
            except ImportError as error:
                plugins.disabled.append(f"{path} is not used: {_reason(error)}")
            except BaseException as error:  # noqa: BLE001  # a plug-in may raise anything
                plugins.disabled.append(f"{path} is not used: {type(error).__name__}: {blame(error)}")
            else:
                plugins.types.update(types)
                custom_constraints.OF_PLUGINS.update(constraints)
    return plugins


def _reason(error: ImportError) -> str:
    name = error.name or ""
    if name.partition(".")[0] == "heat":
        return f"it needs {name}, a part of Heat's own engine that a machine without Heat does not have"
    return f"it needs {name or error}, which is not installed"


def _modules(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*.py")):
        parts = path.relative_to(directory).parts
        if TESTS not in parts and not any(part.startswith(".") for part in parts):
            yield path


def _is_ours(path: Path) -> bool:
    status = path.stat()
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class _UnsafeError(ImportError):
    """Other users can write to a module."""


# The import of a plug-in, and the imports in it.


def _package(directory: Path) -> str:
    """Return the name of the package of a folder, after making it."""
    name = PLUGINS + hashlib.sha256(str(directory.absolute()).encode()).hexdigest()[:12]
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for loaded in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[loaded]
    package = ModuleType(name)
    package.__path__ = [str(directory)]
    sys.modules[name] = package
    return name


def _loaded(package: str, directory: Path, path: Path) -> ModuleType:
    parts = path.relative_to(directory).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
    return importlib.import_module(".".join((package, *parts)))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of plug-ins, and only those that other users cannot write to."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(PLUGINS):
            return None
        name = fullname.rpartition(".")[2]
        for folder in map(Path, path or ()):
            if (file := folder / f"{name}.py").is_file():
                return self._spec(fullname, file, None)
            if (inner := folder / name).is_dir():
                if (file := inner / "__init__.py").is_file():
                    return self._spec(fullname, file, inner)
                spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
                spec.submodule_search_locations = [str(inner)]
                return spec
        return None

    @staticmethod
    def _spec(fullname: str, file: Path, package: Path | None) -> importlib.machinery.ModuleSpec | None:
        if not (_is_ours(file) and _is_ours(file.parent) and _is_ours(file.parent.parent)):
            raise _UnsafeError(f"{file} is not used: other users can write to it or to its folder", name=fullname)
        places = None if package is None else [str(package)]
        return importlib.util.spec_from_file_location(
            fullname, file, loader=_Loader(fullname, str(file)), submodule_search_locations=places
        )


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module whose import statements, also those in its functions, see Heat's names."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Import a module for a plug-in: one of ours under Heat's name, an installed one, or one next to the plug-in."""
    top = name.partition(".")[0]
    if level == 0 and fromlist and f"{name}.".startswith(f"{RESOURCES}."):
        return _of_resources(name, (globals or {}).get("__package__") or "", fromlist)
    with heat() if level == 0 and top in PACKAGES else contextlib.nullcontext():
        try:
            imported = builtins.__import__(name, globals, locals, fromlist or (), level)
        except ModuleNotFoundError as error:
            package = (globals or {}).get("__package__")
            if level or not package or error.name != top:
                raise
            beside = f"{package}.{name}"
            try:
                module = importlib.import_module(beside)
            except ModuleNotFoundError as missing:
                if missing.name and beside.startswith(missing.name):
                    raise error from None
                raise
            return module if fromlist else sys.modules[f"{package}.{top}"]
    if level == 0 and top in PACKAGES:
        _check(name, imported, fromlist or ())
    return imported


def _of_resources(name: str, package: str, fromlist: Sequence[str]) -> ModuleType:
    """Return a module that has Heat's own resources, from the folder of the plug-in; it may be a copy of Heat's."""
    root = package.partition(".")[0]
    beside = f"{root}{name.removeprefix(RESOURCES)}"
    try:
        module = builtins.__import__(beside, None, None, tuple(fromlist), 0)
    except ModuleNotFoundError as error:
        if not error.name or not f"{beside}.".startswith(f"{error.name}."):
            raise
        raise ModuleNotFoundError(f"No module named {name!r}", name=name) from None
    _check(name, module, fromlist)
    return module


def _check(name: str, module: ModuleType, fromlist: Sequence[str]) -> None:
    """Raise ModuleNotFoundError, with the full name, if a module lacks a name that is imported from it."""
    for each in fromlist:
        if each != "*" and not hasattr(module, each):
            raise ModuleNotFoundError(f"No module named '{name}.{each}'", name=f"{name}.{each}")


# The content of a plug-in.


def _types(module: ModuleType) -> dict[str, type[Resource]]:
    mapping = getattr(module, "resource_mapping", None)
    available = getattr(module, "available_resource_mapping", mapping)  # the types that the module can provide here
    types = available() if available is not None else {}
    for name, class_ in types.items():
        if not (isinstance(class_, type) and issubclass(class_, Resource)):
            raise TypeError(f"{name} is not a class derived from heat.engine.resource.Resource")
    return dict(types)


def _constraints(module: ModuleType) -> dict[str, Callable[[Any], str]]:
    """Return a check for each custom constraint of a module."""
    mapping = getattr(module, "constraint_mapping", None)
    classes = mapping() if mapping is not None else {}
    for name, class_ in classes.items():
        if not (isinstance(class_, type) and issubclass(class_, BaseCustomConstraint)):
            raise TypeError(f"{name} is not a class derived from heat.engine.constraints.BaseCustomConstraint")
    return {name: _checker(class_) for name, class_ in classes.items()}


def _checker(class_: type[BaseCustomConstraint]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        constraint = class_()
        try:
            return "" if constraint.validate(value, None) else constraint.error(value)
        except BaseException as error:  # noqa: BLE001  # a plug-in may raise anything
            return f"Error validating value {value!r}: {type(error).__name__}: {blame(error)}"

    return check
