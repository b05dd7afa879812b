"""`dataclass`, `field`, `fields` and `replace` with the meaning of `dataclasses`, for programs that start often.

At each start, the standard library generates Python code for every class and compiles it.
For all our classes, that would take longer than loading everything else.
Here, the same few functions serve all classes.
Type checkers see the standard library instead, and a test compares each of our classes with it.
`restore` is the one function that the standard library does not have.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter

__all__ = ["MISSING", "dataclass", "field", "fields", "replace", "restore"]

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import MISSING, dataclass, field, fields, replace
    from typing import Any, NoReturn, TypeVar

    _T = TypeVar("_T")

_MISSING: Any = object()


class _Field:
    def __init__(
        self,
        default: object = _MISSING,
        default_factory: Callable[[], object] = _MISSING,
        repr: bool = True,  # noqa: A002
        compare: bool = True,
        name: str = "",
    ) -> None:
        self.name = name
        self.default, self.default_factory, self.repr, self.compare = (
            default,
            default_factory,
            repr,
            compare,
        )


def _dataclass(
    cls: type | None = None, /, **how: bool
) -> type | Callable[[type], type]:
    return (lambda found: _made(found, **how)) if cls is None else _made(cls, **how)


def _made(
    cls: type, *, frozen: bool = False, kw_only: bool = False, eq: bool = True
) -> type:
    if cls.__base__ is not object and hasattr(cls, "__value_fields__"):
        raise TypeError(
            f"{cls.__qualname__} inherits from a class with fields, which is not supported"
        )
    own = vars(cls)
    defaults: dict[str, object] = dict.fromkeys(cls.__annotations__, _MISSING)
    declared: dict[str, _Field] = {}
    for name in [name for name in defaults if name in own]:
        value = own[name]
        if value.__class__ is _Field:
            declared[name] = value
            value.name, value = name, value.default
            if value is _MISSING:
                delattr(cls, name)
            else:  # only the default stays as an attribute of the class
                setattr(cls, name, value)
        defaults[name] = value
    positions = () if kw_only else tuple(defaults)
    namespace: dict[str, object] = {
        "__value_fields__": (defaults, declared),
        "__match_args__": positions,
    }
    namespace["__init__"] = _init(cls.__qualname__, defaults, declared, positions)
    namespace["__repr__"] = _repr
    if eq:
        namespace["__eq__"], by_value = _eq(
            [
                name
                for name in defaults
                if name not in declared or declared[name].compare
            ]
        )
        namespace["__hash__"] = by_value if frozen else None
    if frozen:
        namespace["__setattr__"] = namespace["__delattr__"] = _refuse
    for name, value in namespace.items():
        if name not in own:
            setattr(cls, name, value)
    return cls


def _init(
    cls: str,
    usual: dict[str, object],
    declared: dict[str, _Field],
    positions: tuple[str, ...],
) -> Callable[..., None]:
    factories = [(name, field_.default_factory) for name, field_ in declared.items()]
    factories = [
        (name, factory) for name, factory in factories if factory is not _MISSING
    ]
    needed = {name for name, value in usual.items() if value is _MISSING}.difference(
        name for name, _ in factories
    )

    def __init__(self: object, /, *values: object, **named: object) -> None:  # noqa: N807
        if values:
            if len(values) > len(positions) or named.keys() & positions[: len(values)]:
                raise TypeError(
                    f"{cls}: more values than fields, or two values for one field"
                )
            named.update(zip(positions, values, strict=False))
        # at once, and without the __setattr__ that refuses changes
        held = self.__dict__
        held.update(usual)
        held.update(named)
        if len(held) != len(usual) or not needed <= named.keys():
            wrong = (needed - named.keys()) | (named.keys() - usual.keys())
            raise TypeError(f"{cls}: missing or unknown: {', '.join(sorted(wrong))}")
        for name, factory in factories:
            if name not in named:
                held[name] = factory()

    return __init__


def _repr(self: Any) -> str:
    defaults, declared = self.__value_fields__
    shown = [name for name in defaults if name not in declared or declared[name].repr]
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _eq(
    compared: list[str],
) -> tuple[Callable[[object, object], bool], Callable[[object], int]]:
    # the result for a single name would not be a tuple
    held = attrgetter(*compared, compared[0])

    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        return (
            held(self) == held(other)
            if other.__class__ is self.__class__
            else NotImplemented
        )

    return __eq__, lambda self: hash(held(self))


def _refuse(_self: object, name: str, _value: object = None) -> NoReturn:
    raise AttributeError(f"cannot assign to field {name!r}")


def _replace(value: Any, /, **changes: object) -> object:
    """Return a copy with changes. All fields are copied at once, because entries of the journal have many."""
    names, now = value.__value_fields__[0], value.__dict__
    copy = object.__new__(type(value))
    held = copy.__dict__
    # The dictionary may also have cached properties, which must be computed again for the copy.
    held.update(
        now
        if len(now) == len(names)
        else {name: getattr(value, name) for name in names}
    )
    held.update(changes)
    if len(held) != len(names):
        unknown = changes.keys() - names.keys()
        raise TypeError(
            f"{type(value).__qualname__}: unknown: {', '.join(sorted(unknown))}"
        )
    return copy


def restore(kind: type[_T], values: Mapping[str, object]) -> _T:
    """Return a value with these fields and the defaults of the others: a faster constructor, to read many values.

    Every name must be that of a field. Raises TypeError if a field without a default is missing.
    """
    usual, number = _usual(kind)  # type: ignore[arg-type]  # each class can be hashed
    made = object.__new__(kind)
    held = made.__dict__
    held.update(usual)
    held.update(values)
    if len(held) != number:
        raise TypeError(f"{kind.__qualname__}: fields are missing or unknown")
    return made


@functools.cache
def _usual(kind: Any) -> tuple[dict[str, object], int]:
    """Return the defaults of the fields that have one, and the number of all fields."""
    defaults = kind.__value_fields__[0]
    return {
        name: value for name, value in defaults.items() if value is not _MISSING
    }, len(defaults)


def _fields(of: Any) -> tuple[_Field, ...]:
    """Return the fields of a class or value. Few programs ask for them, so they are made only then."""
    defaults, declared = of.__value_fields__
    return tuple(
        declared.get(name) or _Field(default, name=name)
        for name, default in defaults.items()
    )


if not TYPE_CHECKING:
    MISSING, dataclass, field, fields, replace = (
        _MISSING,
        _dataclass,
        _Field,
        _fields,
        _replace,
    )
