"""The tests of modules under every supported version of Python: `nox`, or `nox -s tests-3.12`.

An interpreter that is not on the machine is skipped, and nox says so. `make test-all` is the whole suite, under one.
"""

import nox

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
CONSTRAINTS = "packaging/constraints.txt"

nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests of modules; what follows `--` goes to pytest."""
    session.install("--constraint", CONSTRAINTS, "--editable", ".[test]")
    session.run("pytest", "-q", *(session.posargs or ["tests/unit"]))


@nox.session
def lint(session: nox.Session) -> None:
    """Run the linters of the code and of the documentation."""
    session.install("--constraint", CONSTRAINTS, "--editable", ".[test]")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("python", "tests/docs/prose.py")
