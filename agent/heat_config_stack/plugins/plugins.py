"""Plug-ins: Python modules with resource types, in the folders of `plugin_dirs`, written to Heat's plug-in guide.

The function `resource_mapping()` of a module returns its types, or `available_resource_mapping()` those that it can
provide here; `constraint_mapping()` returns its custom constraints. Folders named `tests` are not searched. A module
that cannot be loaded is skipped, with the reason in one sentence; all others are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from heat_config_agent.model.errors import blame
from heat_config_stack.definition import custom_constraints
from heat_config_stack.plugins import plugin_imports
from heat_config_stack.resource.constraints import BaseCustomConstraint
from heat_config_stack.resource.resource import PLUGINS, Resource

TESTS = "tests"

OTHERS = tuple(
    f"{kind}_mapping"
    for kind in (
        *("client", "condition_function", "event_sink", "function", "service"),
        *("stack_event_sink", "stack_lifecycle", "template"),
    )
)
"""Functions of a module that are not called: neither does Heat call them in the modules of `plugin_dirs`."""


OF_ENGINE = ("create_with_template", "_get_signal")
"""Methods of classes whose work Heat's engine does: classes with a child stack, and classes that take signals."""


PARTNERS = frozenset(
    {
        *("AWS::CloudFormation::WaitCondition", "OS::Heat::WaitCondition"),
        *("OS::Heat::AccessPolicy", "OS::Heat::DeployedServer"),
    }
)
"""Types whose resources work together with those of such classes, and need no engine themselves."""


@dataclass
class Plugins:
    """The result of loading plug-ins."""

    types: dict[str, type[Resource]] = field(default_factory=dict)
    """The class of each type; if several modules have the type, the class of the last one."""
    disabled: list[str] = field(default_factory=list)
    """A sentence for each module or folder that is skipped."""
    remarks: list[str] = field(default_factory=list)
    """A sentence for each part of a module that is not used."""


def load(directories: Iterable[Path]) -> Plugins:
    """Load all plug-ins. They must be writable only for root and this user, because writers decide what runs here."""
    plugins = Plugins()
    for directory in directories:
        if not directory.is_dir():
            plugins.disabled.append(
                f"{directory} of plugin_dirs is not a folder: no plug-in is loaded from it"
            )
            continue
        package = plugin_imports.package(directory)
        for path in _modules(directory):
            try:
                module = plugin_imports.loaded(package, directory, path)
                types, constraints = _types(module), _constraints(module)
            except plugin_imports.UnsafeError as error:
                plugins.disabled.append(str(error))
            except BaseException as error:  # noqa: BLE001  # a plug-in may raise anything
                from heat_config_stack.plugins.plugin_reasons import reason  # noqa: PLC0415  # most plug-ins work

                plugins.disabled.append(
                    f"{path} is not used: {reason(error, path, directory)}"
                )
            else:
                plugins.types.update(types)
                custom_constraints.OF_PLUGINS.update(constraints)
                plugins.remarks += _unordered(path, types)
                if _lacks_types(module):
                    plugins.remarks.append(
                        f"{path} provides none of its types here; a library that it needs may be missing"
                    )
                plugins.remarks += [
                    f"{path}: {name}() is not called: a plug-in provides resource types and constraints"
                    for name in OTHERS
                    if callable(getattr(module, name, None))
                ]
    return plugins


def _modules(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*.py")):
        parts = path.relative_to(directory).parts
        if TESTS not in parts and not any(part.startswith(".") for part in parts):
            yield path


def _lacks_types(module: ModuleType) -> bool:
    """Return whether a module has types, and provides none of them here."""
    available, mapping = (
        getattr(module, name, None)
        for name in ("available_resource_mapping", "resource_mapping")
    )
    return (
        available is not None
        and mapping is not None
        and not available()
        and bool(mapping())
    )


def _unordered(path: Path, types: dict[str, type[Resource]]) -> Iterator[str]:
    """Yield a sentence for each type whose class adds dependencies that are not in the template."""
    for name, class_ in types.items():
        own = [
            each
            for each in class_.__mro__
            if each.__module__.startswith(PLUGINS) and not _is_heats(each)
        ]
        if any("add_dependencies" in vars(each) for each in own):
            yield f"{path}: add_dependencies() of {name} is not called: write depends_on in templates"


def _is_heats(class_: type) -> bool:
    """Return whether a class is one of Heat's own, in a copy of Heat's resources."""
    return any(f".{part}." in class_.__module__ for part in ("openstack", "aws"))


def _types(module: ModuleType) -> dict[str, type[Resource]]:
    mapping = getattr(module, "resource_mapping", None)
    # the types that the module can provide here
    available = getattr(module, "available_resource_mapping", mapping)
    types = available() if available is not None else None
    for name, class_ in (types or {}).items():
        if not (isinstance(class_, type) and issubclass(class_, Resource)):
            raise TypeError(
                f"{name} is not a class derived from heat.engine.resource.Resource"
            )
    return {
        name: class_
        for name, class_ in (types or {}).items()
        if not _is_done_here(name, class_)
    }


def _is_done_here(name: str, class_: type[Resource]) -> bool:
    """Return whether a class of a copy of Heat's own resources needs Heat's engine for a type that is carried out here.

    Then our own class is used, and for the types that work together with it. A plug-in that derives from Heat's class,
    for a type of its own, uses that.
    """
    from heat_config_stack.resource_types import TYPES  # noqa: PLC0415  # only for plug-ins

    needy = (each.__module__ in plugin_imports.OF_ENGINE for each in class_.__mro__)
    if name in PARTNERS and _is_heats(class_):
        return True
    return (
        name in TYPES
        and _is_heats(class_)
        and (any(hasattr(class_, each) for each in OF_ENGINE) or any(needy))
    )


def _constraints(module: ModuleType) -> dict[str, Callable[[Any], str]]:
    """Return a check for each custom constraint of a module."""
    mapping = getattr(module, "constraint_mapping", None)
    classes = mapping() if mapping is not None else {}
    for name, class_ in classes.items():
        if not (isinstance(class_, type) and issubclass(class_, BaseCustomConstraint)):
            raise TypeError(
                f"{name} is not a class derived from heat.engine.constraints.BaseCustomConstraint"
            )
    return {name: _checker(class_) for name, class_ in classes.items()}


def _checker(class_: type[BaseCustomConstraint]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        constraint = class_()
        try:
            return "" if constraint.validate(value, None) else constraint.error(value)
        except BaseException as error:  # noqa: BLE001  # a plug-in may raise anything
            return f"Error validating value {value!r}: {type(error).__name__}: {blame(error)}"

    return check
