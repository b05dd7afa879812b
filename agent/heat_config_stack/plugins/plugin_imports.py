"""The import of plug-ins, and the imports in them.

Heat's names lead to our modules, or to modules next to the plug-in. The modules of a folder form a package.
Heat's own resources, which a plug-in may derive from, are looked for among our modules, then in the folder of the
plug-in, which may have a copy of them, and then in an installed Heat.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from heat_config_stack.plugins.facade import PACKAGES, absent, heat, module, stands_for
from heat_config_stack.resource.resource import PLUGINS

RESOURCES = "heat.engine.resources"
"""The package of Heat's own resources."""

OF_ENGINE: set[str] = set()
"""The names of the modules of plug-ins that import a part of Heat that cannot be used here."""


def _is_ours(path: Path) -> bool:
    status = path.stat()
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (
        stat.S_IWGRP | stat.S_IWOTH
    )


class UnsafeError(ImportError):
    """Other users can write to a module."""


def package(directory: Path) -> str:
    """Return the name of the package of a folder, after making it."""
    name = PLUGINS + hashlib.sha256(str(directory.absolute()).encode()).hexdigest()[:12]
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for former in [
        each for each in sys.modules if each == name or each.startswith(f"{name}.")
    ]:
        del sys.modules[former]
    made = ModuleType(name)
    made.__path__ = [str(directory)]
    sys.modules[name] = made
    return name


def loaded(package: str, directory: Path, path: Path) -> ModuleType:
    """Return the module of a file, and load it if necessary. Raises any error of the module."""
    parts = path.relative_to(directory).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
    return importlib.import_module(".".join((package, *parts)))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of plug-ins, except those that other users can write to."""

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
    def _spec(
        fullname: str, file: Path, package: Path | None
    ) -> importlib.machinery.ModuleSpec | None:
        if not (
            _is_ours(file) and _is_ours(file.parent) and _is_ours(file.parent.parent)
        ):
            raise UnsafeError(
                f"{file} is not used: other users can write to it or to its folder",
                name=fullname,
            )
        places = None if package is None else [str(package)]
        return importlib.util.spec_from_file_location(
            fullname,
            file,
            loader=_Loader(fullname, str(file)),
            submodule_search_locations=places,
        )


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module whose import statements, also those in its functions, see Heat's names."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        # An installed oslo.config imports the module with Heat's settings by its name.
        with (
            contextlib.nullcontext()
            if stands_for("oslo_config.cfg")
            else heat("heat.common.config")
        ):
            super().exec_module(module)


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Import a module for a plug-in: one of ours under Heat's name, an installed one, or one next to the plug-in."""
    given, top = globals or {}, name.partition(".")[0]
    names = tuple(fromlist or ())
    if level == 0 and names and f"{name}.".startswith(f"{RESOURCES}."):
        return _of_resources(name, given.get("__package__") or "", names)
    if (
        level == 0
        and top == "heat"
        and any(map(_is_of_engine, (name, *(f"{name}.{each}" for each in names))))
    ):
        OF_ENGINE.add(given.get("__name__", ""))
    with (
        heat(name, names)
        if level == 0 and top in PACKAGES
        else contextlib.nullcontext()
    ):
        try:
            imported = builtins.__import__(name, globals, locals, names, level)
        except ModuleNotFoundError as error:
            own = given.get("__package__")
            if level or not own or error.name != top:
                raise
            return _beside(f"{own}.{name}", f"{own}.{top}", error, names)
    if level == 0 and top in PACKAGES:
        _check(name, imported, names)
    return imported


def _is_of_engine(name: str) -> bool:
    """Return whether a module of Heat cannot be used here, or not all of it."""
    return absent.is_absent(name) and (
        not stands_for(name) or name.startswith("heat.engine.clients.os.")
    )


def _beside(
    name: str, top: str, missing: ModuleNotFoundError, fromlist: tuple[str, ...]
) -> ModuleType:
    """Return a module next to a plug-in. Raises `missing` if there is none."""
    try:
        found = builtins.__import__(name, None, None, fromlist, 0)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise missing from None
        raise
    return found if fromlist else sys.modules[top]


def _of_resources(name: str, package: str, fromlist: tuple[str, ...]) -> ModuleType:
    """Return a module that has some of Heat's own resources."""
    if stands_for(name):
        module_ = module(name)
        _check(name, module_, fromlist)
        return module_
    ours = {
        each: module(f"{name}.{each}")
        for each in fromlist
        if stands_for(f"{name}.{each}")
    }
    rest = tuple(each for each in fromlist if each not in ours)
    if not rest:
        return _with(name, ours)
    module_ = _copied(name, package.partition(".")[0], rest)
    return (
        _with(name, {**{each: getattr(module_, each) for each in rest}, **ours})
        if ours
        else module_
    )


def _with(name: str, members: Mapping[str, Any]) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(members)
    return made


def _copied(name: str, root: str, fromlist: tuple[str, ...]) -> ModuleType:
    """Return a module of Heat's own resources from the folder of the plug-in, or else from an installed Heat.

    Older releases of Heat had no folder `openstack`.
    """
    inner = name.removeprefix(RESOURCES)
    missing = name
    for package_, path in itertools.product(
        (root, installed_heat()), (inner, f".openstack{inner}")
    ):
        candidate = f"{package_}{path}"
        try:
            module_ = (
                builtins.__import__(candidate, None, None, fromlist, 0)
                if package_
                else None
            )
        except ModuleNotFoundError as error:
            if not error.name or not f"{candidate}.".startswith(f"{error.name}."):
                raise
            continue
        lacking = [each for each in fromlist if not hasattr(module_, each)]
        if module_ is not None and not lacking:
            return module_
        missing = f"{name}.{lacking[0]}" if module_ is not None else missing
    raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)


@functools.cache
def installed_heat() -> str:
    """Return the name of the package of an installed Heat's resources; empty if there is none."""
    spec = importlib.machinery.PathFinder.find_spec("heat")
    places = spec.submodule_search_locations if spec is not None else None
    folders = [Path(each) / "engine" / "resources" for each in places or ()]
    return next((package(each) for each in folders if each.is_dir()), "")


def _check(name: str, module: ModuleType, fromlist: Sequence[str]) -> None:
    """Raise ModuleNotFoundError, with the full name, if a module lacks a name that is imported from it."""
    for each in fromlist:
        if each != "*" and not hasattr(module, each):
            raise ModuleNotFoundError(
                f"No module named '{name}.{each}'", name=f"{name}.{each}"
            )
