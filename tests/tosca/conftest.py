"""The fixtures of the tests of TOSCA."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import together

FOLDER = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    parser.addoption(
        "--tosca-documents",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder of TOSCA documents with verdicts.jsonl, beside those that are here; may be repeated",
    )
    parser.addoption(
        "--tosca-cases",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder of services with case.yaml, beside those that are here; may be repeated",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of some documents with verdicts, one of each valid document, and one of each service."""
    if "service_case" in metafunc.fixturenames:
        from tosca.services import found as cases  # noqa: PLC0415  # it is beside this file

        more = [
            Path(folder)
            for folder in metafunc.config.getoption("tosca_cases", default=[])
        ]
        metafunc.parametrize(
            "service_case", cases(FOLDER / "cases", *more), ids=lambda path: path.name
        )
    for name in {"documents", "valid_document"} & set(metafunc.fixturenames):
        from tosca.verdicts import verdicts  # noqa: PLC0415  # it is beside this file

        more = [
            Path(folder)
            for folder in metafunc.config.getoption("tosca_documents", default=[])
        ]
        folders = (FOLDER / "documents", FOLDER / "seed-templates", *more)
        found = [pair for folder in folders for pair in verdicts(folder)]
        named = {f"{pair[0].name}/{pair[1]['file']}": pair for pair in found}
        assert len(named) == len(found)
        if name == "documents":
            metafunc.parametrize(name, together.parts(named))
            continue
        valid = {name: pair for name, pair in named.items() if pair[1]["valid"]}
        metafunc.parametrize(name, valid.values(), ids=valid)
