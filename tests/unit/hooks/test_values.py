"""Each value class is compared with the standard library's dataclass from the same source."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from heat_config_agent.model.entry import Entry, Run
from heat_config_hooks import processes, values
from support import together

ROOT = Path(__file__).parents[3]


LATE = (
    "heat_config_stack",
    "heat_config_agent.diagnostics.text",
    "heat_config_agent.model.mistake",
    "heat_config_agent.model.positions",
)
"""The package and the modules that only templates and mistakes load, whose classes may be the standard library's."""


def modules() -> list[str]:
    """Return the names of all modules that have classes with fields, and that a usual start may load."""
    names = [
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        for source in (ROOT / "agent", ROOT / "hooks")
        for path in sorted(source.rglob("*.py"))
        if "\n@dataclass" in path.read_text()
    ]
    return [
        name
        for name in names
        if not f"{name}.".startswith(tuple(f"{each}." for each in LATE))
    ]


def pairs() -> list[Any]:
    """Return each class beside its twin: the same source, run with the standard library's `dataclasses`."""
    compared = []
    for name in modules():
        ours = importlib.import_module(name)
        source = Path(str(ours.__file__)).read_text()
        twins = ModuleType(name)
        twins.__file__ = ours.__file__
        twins.__package__ = ours.__package__
        changed = source.replace(
            "from heat_config_hooks.values import", "from dataclasses import"
        )
        assert changed != source, f"{name} has its dataclasses from elsewhere"
        exec(compile(changed, str(ours.__file__), "exec"), vars(twins))  # noqa: S102
        for each, kind in vars(ours).items():
            if (
                isinstance(kind, type)
                and kind.__module__ == name
                and hasattr(kind, "__value_fields__")
            ):
                compared.append(
                    pytest.param(kind, getattr(twins, each), id=f"{name}.{each}")
                )
    return compared


PAIRS = pairs()
both = together.cases(("ours", "theirs"), PAIRS)


def outcome(do: Callable[[], object]) -> object:
    """Return the result of a call, or the type of its error."""
    try:
        return do()
    except (AttributeError, TypeError) as error:
        return AttributeError if isinstance(error, AttributeError) else type(error)


def shown(value: object) -> str:
    """Return the text of a value, without its address in memory."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


def all_fields(kind: Any) -> dict[str, object]:
    """Return a value for each field, all of them different."""
    return {each.name: position for position, each in enumerate(values.fields(kind))}


def needed(kind: Any) -> list[str]:
    """Return the names of the fields that have no default."""
    missing = values.MISSING
    every = values.fields(kind)
    return [
        each.name
        for each in every
        if each.default is missing and each.default_factory is missing
    ]


def test_there_are_many() -> None:
    """The comparisons have many cases, and are not empty."""
    assert len(PAIRS) > 60


@both
def test_the_fields_are_the_same(ours: Any, theirs: Any) -> None:
    """With their defaults, in their order."""

    def seen(kind: Any, fields: Any, missing: object) -> list[object]:
        return [
            (
                each.name,
                "-" if each.default is missing else shown(each.default),
                # By its name, because a class of the module itself is there twice.
                "-"
                if each.default_factory is missing
                else each.default_factory.__qualname__,
                *(each.repr, each.compare),
                shown(vars(kind).get(each.name, "-")),
            )
            for each in fields
        ]

    standard = seen(theirs, dataclasses.fields(theirs), dataclasses.MISSING)
    assert seen(ours, values.fields(ours), values.MISSING) == standard
    assert ours.__match_args__ == theirs.__match_args__
    assert all(each.init and not each.metadata for each in dataclasses.fields(theirs))


@both
def test_values_are_made_the_same(ours: Any, theirs: Any) -> None:
    """With all fields and with the fewest; wrong calls fail: too few, too many, unknown or double values."""
    every = all_fields(ours)
    least: dict[str, object] = dict.fromkeys(needed(ours), 1)
    none: dict[str, object] = {}
    fewer = [
        {name: value for name, value in least.items() if name != left} for left in least
    ]
    given: list[tuple[list[object], dict[str, object]]] = [
        ([], each) for each in (every, least, none, *fewer)
    ]
    given += [([], {**each, "unknown": 1}) for each in (every, least, *fewer)]
    given += [([1], every), ([*every.values(), 1], {})]
    for number in range(len(every) + 1):
        words, rest = [*every.values()][:number], dict([*every.items()][number:])
        given += [(words, {}), (words, rest)]
    clock = (time.time, time.monotonic, processes.since_boot)
    clocks = {
        each.name for each in values.fields(ours) if each.default_factory in clock
    }
    for words, named in given:
        results = []
        for kind in (ours, theirs):
            found = outcome(lambda kind=kind: vars(kind(*words, **named)))  # type: ignore[misc]  # noqa: B023
            if isinstance(found, dict):
                found = [
                    (
                        name,
                        "now" if name in clocks - named.keys() else shown(found[name]),
                    )
                    for name in found
                ]
            results.append(found)
        assert results[0] == results[1], (words, named)


@both
def test_values_are_compared_the_same(ours: Any, theirs: Any) -> None:
    """The same fields count for equality and for hashes."""
    every = all_fields(ours)
    for name in (None, *every):
        other = {**every, **({name: -1} if name else {})}
        seen = []
        for kind in (ours, theirs):
            # both live on: hashes by identity must not be of one address
            one, another = (kind(**every), kind(**other))
            same_hash = outcome(
                lambda pair=(one, another): hash(pair[0]) == hash(pair[1])  # type: ignore[misc]
            )
            by_identity = (
                kind.__hash__ is None,
                kind.__hash__ is object.__hash__,
                kind.__eq__ is object.__eq__,
            )
            seen.append((one == another, one != another, same_hash, by_identity))
        assert seen[0] == seen[1], name
    assert ours(**every) != theirs(**every)


@both
def test_values_are_shown_like_dataclasses(ours: Any, theirs: Any) -> None:
    """Fields with `repr=False` are not shown."""
    assert repr(ours(**all_fields(ours))) == repr(theirs(**all_fields(ours)))


@both
def test_values_change_the_same(ours: Any, theirs: Any) -> None:
    """Both kinds of values change alike or refuse to, and `replace` returns equal copies."""
    every = all_fields(ours)
    for name in every:
        for do in (
            lambda found, name=name: setattr(found, name, 1),
            lambda found, name=name: delattr(found, name),
        ):
            seen = []
            for kind in (ours, theirs):
                found = kind(**every)
                seen.append(
                    (outcome(lambda do=do, found=found: do(found)), vars(found))  # type: ignore[misc]
                )
            assert seen[0] == seen[1]
        mine = values.replace(ours(**every), **{name: "new"})
        assert vars(mine) == vars(dataclasses.replace(theirs(**every), **{name: "new"}))
        assert type(mine) is ours
    with pytest.raises(TypeError):
        values.replace(ours(**every), unknown=1)


@pytest.mark.parametrize("kind", [Entry, Run])
def test_a_restored_value_is_the_same_as_a_constructed_one(kind: Any) -> None:
    """With all fields and with the fewest; missing or unknown fields are refused."""
    every, least = all_fields(kind), dict.fromkeys(needed(kind), 1)
    for given in (every, least):
        assert vars(values.restore(kind, given)) == vars(kind(**given))
    for given in ({**every, "unknown": 1}, dict(list(least.items())[1:])):
        with pytest.raises(TypeError):
            values.restore(kind, given)


def test_copy_computes_cached_properties_again() -> None:
    """A copy computes cached properties again."""
    from heat_config_agent.model.deployment import Deployment, Input  # noqa: PLC0415

    first = Deployment(
        **{  # type: ignore[arg-type]
            **all_fields(Deployment),
            "inputs": (Input(name="deploy_action", value="CREATE"),),
        }
    )
    assert first.action == "CREATE"
    assert (
        values.replace(
            first, inputs=(Input(name="deploy_action", value="DELETE"),)
        ).action
        == "DELETE"
    )


def test_methods_of_the_class_are_kept() -> None:
    """Methods of the class override generated ones, as in the standard library."""

    def made(decorator: Any) -> Any:
        class Own:
            number: int

            def __repr__(self) -> str:
                return "mine"

            def __eq__(self, other: object) -> bool:
                return True

            def __hash__(self) -> int:
                return 7

        Own.__annotations__ = {"number": "int"}
        return decorator(frozen=True)(Own)

    ours, theirs = made(values.dataclass), made(dataclasses.dataclass)
    assert (repr(ours(1)), ours(1) == ours(2), hash(ours(1))) == (
        repr(theirs(1)),
        theirs(1) == theirs(2),
        7,
    )


def test_unsupported_declaration_is_refused() -> None:
    """Instead of differing from the standard library."""

    @values.dataclass
    class Below:
        number: int

    class Above(Below):
        other: int

    with pytest.raises(TypeError, match="not supported"):
        values.dataclass(Above)
    with pytest.raises(TypeError):
        values.dataclass(order=True)(
            type("Ordered", (), {"__annotations__": {"number": "int"}})
        )
    with pytest.raises(TypeError):
        values.field(kw_only=True)


def test_classes_are_read_by_who_reads_classes() -> None:
    """A class has a signature, its documentation, and its module."""
    from heat_config_agent.model.deployment import Mistake  # noqa: PLC0415

    assert inspect.getdoc(Mistake) == "Something wrong in a document, with its place."
    assert str(Mistake(path="a", problem="b")) == "a: b"
    with pytest.raises(TypeError, match=r"Mistake: missing or unknown: problem"):
        Mistake(path="a")  # type: ignore[call-arg]


def test_values_load_few_modules() -> None:
    """Fast loading is its purpose."""
    script = "import sys, heat_config_hooks.values\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    assert not {"dataclasses", "inspect", "typing", "re"} & set(done.stdout.split())
