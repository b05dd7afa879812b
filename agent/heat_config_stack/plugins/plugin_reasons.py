"""The reason why a plug-in cannot be loaded: one sentence, with what to do."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from heat_config_agent.model.errors import blame
from heat_config_stack.plugins.facade import PACKAGES, stands_for
from heat_config_stack.plugins.plugin_imports import RESOURCES

_CLIENTS = frozenset(
    f"{service}client"
    for service in (
        *(
            "aodh",
            "barbican",
            "blazar",
            "cinder",
            "cyborg",
            "designate",
            "glance",
            "gnocchi",
            "heat",
            "ironic",
        ),
        *(
            "keystone",
            "magnum",
            "manila",
            "masakari",
            "mistral",
            "monasca",
            "neutron",
            "nova",
            "octavia",
            "openstack",
        ),
        *("sahara", "senlin", "swift", "trove", "vitrage", "zaqar", "zun"),
    )
)
_DISTRIBUTIONS = {
    **{name: f"python-{name}" for name in _CLIENTS - {"aodhclient", "gnocchiclient"}},
    "MySQLdb": "mysqlclient",
    "OpenSSL": "pyOpenSSL",
    "dateutil": "python-dateutil",
    "f5": "f5-sdk",
    "yaml": "PyYAML",
}
"""The names of distributions that differ from the names of their packages."""


def reason(error: BaseException, path: Path, root: Path) -> str:
    """Return the reason why the module of a file in a folder cannot be loaded."""
    if not isinstance(error, ImportError):
        return f"{type(error).__name__}: {blame(error)}"
    name = error.name or ""
    if f"{name}.".startswith(f"{RESOURCES}."):
        place = root / name.removeprefix(RESOURCES).strip(".").replace(".", "/")
        return (
            f"it needs {name}, one of Heat's own resources: copy it from Heat to {place}, "
            f"or install openstack-heat for {sys.executable}"
        )
    if name.partition(".")[0] == "heat":
        return f"it needs {name}, a part of Heat's own engine, which plug-ins cannot use here"
    if (
        name.partition(".")[0] in PACKAGES
        and "." in name
        and not _is_installed(name.partition(".")[0])
    ):
        top = name.partition(".")[0]
        return f"it needs {name}, and {top} is not installed: install {top.replace('_', '.')} for {sys.executable}"
    if not isinstance(error, ModuleNotFoundError) or not name:
        return f"{type(error).__name__}: {blame(error)}"
    if importlib.util.find_spec(name.partition(".")[0]) is not None:
        return f"it needs {name}, which the installed {name.partition('.')[0]} does not have"
    names = sorted({name.partition(".")[0], *_missing(path, root, set())})
    wanted = [_DISTRIBUTIONS.get(each, each.replace("_", "-")) for each in names]
    verb = "which is" if len(names) == 1 else "which are"
    return f"it needs {_listed(names)}, {verb} not installed: install {_listed(wanted)} for {sys.executable}"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _missing(path: Path, root: Path, seen: set[Path]) -> Iterator[str]:
    """Yield the packages that a module, and the modules next to it that it imports, need and that are not installed."""
    if path in seen:
        return
    seen.add(path)
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for name, level in _imported(tree.body):
        top = name.partition(".")[0]
        if level == 0 and f"{name}.".startswith(f"{RESOURCES}."):
            inner = name.removeprefix(RESOURCES).strip(".").split(".")
            yield from _missing(root.joinpath(*inner).with_suffix(".py"), root, seen)
        elif level:
            folder = path.parents[level - 1]
            yield from _missing(
                folder.joinpath(*name.split(".")).with_suffix(".py"), root, seen
            )
        elif top in PACKAGES or stands_for(name):
            continue
        elif (sibling := path.parent / f"{top}.py").is_file():
            yield from _missing(sibling, root, seen)
        elif not (path.parent / top).is_dir() and not _is_installed(top):
            yield top


def _is_installed(top: str) -> bool:
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return top in sys.modules


def _imported(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Yield the modules that statements import, except those that may be missing."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((each.name, 0) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield from (
                (f"{base}.{each.name}".strip("."), node.level) for each in node.names
            )
            if base:
                yield base, node.level
        elif isinstance(node, ast.ClassDef | ast.With):
            yield from _imported(node.body)
