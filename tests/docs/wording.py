"""The linter of names and docstrings: `STYLE.md` says what it refuses, and why.

`python tests/docs/wording.py` checks every Python file that git knows of, and `python tests/docs/wording.py FILE …`
checks these. A finding is printed with its place, its name, and what to do.

`tests/docs/wording-left.txt` lists what was written before there were rules, one `path:name` on a line. A name in it
is left alone, as often as it is listed and wherever it moves. The list only gets shorter: `--renew` removes from it
what has been rewritten.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

LEFT = Path(__file__).with_name("wording-left.txt")
"""The list of names that are still to be rewritten."""

SCOPE = 11
"""Lines over which a pronoun may be the name of a value."""

PRONOUNS = frozenset({"each", "found", "known", "of", "made", "wanted"})

_OPENING = re.compile(r"(What|Whether|Of)\b")
_TEST = re.compile(r"test_(what|that|those|one)_")
_COMPARISON = "longer|more|less|fewer|later|earlier|newer|older|worse|better|different"
_NEGATION = re.compile(
    rf"\b(?<!\bthere )(is|are|was|were) no (?!{_COMPARISON})\w+", re.IGNORECASE
)
_NEGATED_NAME = re.compile(r"(?<!there)_(is|are)_no_(?!longer|more|less)")

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


@dataclass(frozen=True)
class Finding:
    """A name or a text that breaks a rule."""

    path: str
    line: int
    name: str
    problem: str

    def __str__(self) -> str:
        """Return the line that is printed."""
        return f"{self.path}:{self.line}: {self.name}: {self.problem}"


def findings(path: str, text: str) -> Iterator[Finding]:
    """Yield all names and texts of a module that break a rule."""
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = list(_docstrings(nodes))
    for name, line, docstring in docstrings:
        if match := _OPENING.match(docstring):
            yield Finding(
                path,
                line,
                name,
                f'the docstring begins with "{match[0]}": begin with a noun or a verb',
            )
        if match := _NEGATION.search(docstring):
            yield Finding(path, line, name, _instead(match))
    mentions: dict[str, list[int]] = {}
    for node in nodes:
        name = (
            node.id
            if isinstance(node, ast.Name)
            else node.arg
            if isinstance(node, ast.arg)
            else ""
        )
        if name in PRONOUNS:
            mentions.setdefault(name, []).append(node.lineno)  # type: ignore[attr-defined]  # both have it
    for node in nodes:
        if isinstance(node, Function):
            yield from _of_function(path, node, mentions)
    if _NEGATION.search(text):
        yield from _of_comments(path, text)
        if not path.startswith("tests/"):  # tests quote what the product says
            yield from _of_messages(path, nodes, {line for _, line, _ in docstrings})


def _instead(match: re.Match[str]) -> str:
    return f'"{match[0]}": write "{match[1]} not a …"'


def _docstrings(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int, str]]:
    """Yield name, line and text of each docstring, those below assignments included."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            name = "module" if isinstance(node, ast.Module) else node.name
            before = ""
            for number, child in enumerate(node.body):
                text = (
                    child.value.value
                    if isinstance(child, ast.Expr)
                    and isinstance(child.value, ast.Constant)
                    else None
                )
                if isinstance(text, str) and (number == 0 or before):
                    yield before or name, child.lineno, text
                before = _assigned(child)


def _assigned(node: ast.stmt) -> str:
    """Return the name that a statement gives a value to; empty for other statements."""
    target: ast.AST = node
    if isinstance(node, ast.AnnAssign):
        target = node.target
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _of_function(
    path: str, function: Function, mentions: dict[str, list[int]]
) -> Iterator[Finding]:
    """Yield what is wrong with the name of a function and with those of its values; pronouns come with their lines."""
    if match := _TEST.match(function.name):
        yield Finding(
            path,
            function.lineno,
            function.name,
            f'begins with "{match[0]}": name subject and outcome',
        )
    elif _NEGATED_NAME.search(function.name):
        yield Finding(
            path,
            function.lineno,
            function.name,
            'write "is_not_a" or, better, the outcome',
        )
    first, last = function.lineno, function.end_lineno or 0
    for name, mentioned in sorted(mentions.items()):
        lines = [line for line in mentioned if first <= line <= last]
        if not lines or max(lines) - min(lines) < SCOPE:
            # no scope in it has more lines
            continue
        if (
            name in _bound(function)
            and (scope := max(_scopes(function, name), default=0)) > SCOPE
        ):
            yield Finding(
                path,
                function.lineno,
                f"{function.name}.{name}",
                f"a pronoun for {scope} lines: name the value",
            )


def _scopes(function: Function, name: str) -> Iterator[int]:
    """Yield the number of lines of each scope in which a name stands for a value: a loop, or the rest of the function.

    Comprehensions, lambdas and functions within the function have scopes of their own.
    """

    def visit(node: ast.AST, lines: list[int]) -> Iterator[int]:
        if isinstance(node, _SCOPES) and node is not function and name in _bound(node):
            return
        if isinstance(node, ast.For | ast.AsyncFor) and name in _bound(node.target):
            yield from visit(node.iter, lines)
            own = [node.lineno]
            for statement in [*node.body, *node.orelse]:
                yield from visit(statement, own)
            yield own[-1] - own[0] + 1
            return
        if (isinstance(node, ast.Name) and node.id == name) or (
            isinstance(node, ast.arg) and node.arg == name
        ):
            lines.append(node.lineno)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, lines)

    rest: list[int] = []
    yield from visit(function, rest)
    if rest:
        yield max(rest) - min(rest) + 1


def _bound(scope: ast.AST) -> set[str]:
    """Return the names that get a value in a scope: by assignment, as a parameter, or in a loop."""
    nodes = list(ast.walk(scope))
    names = {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return names | {node.arg for node in nodes if isinstance(node, ast.arg)}


def _of_comments(path: str, text: str) -> Iterator[Finding]:
    """Yield the comments that negate a noun."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (match := _NEGATION.search(token.string)):
            yield Finding(path, token.start[0], "comment", _instead(match))


def _of_messages(
    path: str, nodes: Iterable[ast.AST], docstrings: AbstractSet[int]
) -> Iterator[Finding]:
    """Yield the texts that negate a noun, except docstrings, whose lines are given."""
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.lineno not in docstrings
        ):
            match = _NEGATION.search(node.value)
            if match:
                yield Finding(path, node.lineno, "message", _instead(match))


def modules() -> list[Path]:
    """Return every Python file that git knows of, or will know of."""
    listed = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "*.py",
    ]
    names = subprocess.run(
        listed, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).exists()]


def unlisted(found: Iterable[Finding], left: Iterable[str]) -> list[Finding]:
    """Return the findings that are not in the list of what is still to be rewritten."""
    allowed = Counter(entry.rpartition(":")[2] for entry in left)
    new = []
    for finding in found:
        if allowed[finding.name]:
            allowed[finding.name] -= 1
        else:
            new.append(finding)
    return new


def all_findings(paths: Iterable[Path]) -> list[Finding]:
    """Return the findings of modules, by path and line."""
    place = {
        path: path.relative_to(ROOT).as_posix()
        if path.is_relative_to(ROOT)
        else str(path)
        for path in paths
    }
    found = [
        finding
        for path in place
        for finding in findings(place[path], path.read_text(encoding="utf-8"))
    ]
    return sorted(found, key=lambda finding: (finding.path, finding.line))


def left() -> list[str]:
    """Return the list of what is still to be rewritten."""
    return LEFT.read_text(encoding="utf-8").splitlines()


def renew() -> None:
    """Remove from the list what has been rewritten."""
    found = all_findings(modules())
    new = set(unlisted(found, left()))
    kept = sorted(
        f"{finding.path}:{finding.name}\n" for finding in found if finding not in new
    )
    LEFT.write_text("".join(kept), encoding="utf-8")


def main() -> int:
    """Print the findings that are not in the list; the exit code is 1 where there is one."""
    if sys.argv[1:] == ["--renew"]:
        renew()
        return 0
    new = unlisted(
        all_findings([Path(name).resolve() for name in sys.argv[1:]] or modules()),
        left(),
    )
    for finding in new:
        print(finding)
    if new:
        print("STYLE.md has pairs of before and after.")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
