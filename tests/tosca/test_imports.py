"""Imports: prefixes, repositories on disk, circles, and files that several share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from heat_config_stack.tosca.checks.checker import Checked, Checker

HEAD = "tosca_definitions_version: tosca_simple_yaml_1_2\n"


def app(property_: str = "a") -> str:
    """Return a document with a node type App that has a property."""
    return f"{HEAD}node_types: {{ App: {{ derived_from: Root, properties: {{ {property_}: {{ type: string }} }} }} }}\n"


def template(type_: str, property_: str = "a") -> str:
    """Return a topology with one node of a type."""
    return (
        "topology_template: { node_templates: "
        f"{{ n: {{ type: '{type_}', properties: {{ {property_}: x }} }} }} }}\n"
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Checked]:
    """Return what writes files into a folder and checks the first."""

    def check(**files: str) -> Checked:
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return Checker().check(str(tmp_path / f"{next(iter(files))}.yaml"))

    return check


def codes(found: Checked) -> list[tuple[str, str]]:
    """Return the codes of mistakes with the names of their files."""
    return [
        (mistake.code, Path(mistake.place.file).stem if mistake.place else "")
        for mistake in found.mistakes
    ]


@pytest.mark.parametrize(
    "item",
    [
        "b.yaml",
        "{ file: b.yaml }",
        "{ b: b.yaml }",
        "{ b: { file: b.yaml } }",
        "{ file: b.yaml, namespace_uri: x }",
    ],
)
def test_each_form_of_an_import_is_read(
    write: Callable[..., Checked], item: str
) -> None:
    """A name, a map, and either under a name of its own."""
    assert (
        codes(write(a=f"{HEAD}imports: [ {item} ]\n{template('App')}", b=app())) == []
    )


def test_a_prefix_stands_before_all_that_is_imported(
    write: Callable[..., Checked],
) -> None:
    """Within the file its names stay as they are; the prefixes of imports of imports add up."""
    a = HEAD + "imports: [ { file: b.yaml, namespace_prefix: b } ]\n"
    b = (
        HEAD
        + "imports: [ { file: c.yaml, namespace_prefix: c }, d.yaml ]\nnode_types: { Sub: { derived_from: 'c:App' } }\n"
    )
    d = app().replace("App", "Other")
    for name in ("b:c:App", "b:Sub", "b:Other"):
        assert codes(write(a=a + template(name), b=b, c=app(), d=d)) == []
    for name in ("App", "b:App", "c:App", "Sub", "d:Other"):
        found = write(a=a + template(name), b=b, c=app(), d=d)
        assert codes(found) == [("type-unknown", "a")], name


def test_a_file_that_comes_in_two_ways_is_one(write: Callable[..., Checked]) -> None:
    """A file that is imported twice has one set of types."""
    a = f"{HEAD}imports: [ b.yaml, c.yaml ]\n{template('App')}"
    assert (
        codes(
            write(
                a=a,
                b=f"{HEAD}imports: [ d.yaml ]\n",
                c=f"{HEAD}imports: [ d.yaml ]\n",
                d=app(),
            )
        )
        == []
    )


def test_two_types_of_one_name_are_a_mistake(write: Callable[..., Checked]) -> None:
    """A type of that name in the document itself is used, without a mistake."""
    a = f"{HEAD}imports: [ b.yaml, c.yaml ]\n"
    assert codes(write(a=a + template("App"), b=app("a"), c=app("b"))) == [
        ("type-twice", "a")
    ]
    own = app("own").removeprefix(HEAD)
    assert (
        codes(write(a=a + own + template("App", "own"), b=app("a"), c=app("b"))) == []
    )
    assert codes(write(a=a + template("App"), b=app("a"), c=app("a"))) == []


def test_files_that_import_one_another_share_their_types(
    write: Callable[..., Checked],
) -> None:
    """Each file of a circle is read once, and knows the types of all others without a warning."""
    a = f"{HEAD}imports: [ b.yaml ]\n{template('Sub', 'b')}"
    b = f"{HEAD}imports: [ c.yaml ]\nnode_types: {{ Sub: {{ derived_from: App }} }}\n"
    own = "App: { derived_from: Root, properties: { b: { type: string } } }"
    c = f"{HEAD}imports: [ b.yaml ]\nnode_types: {{ {own}, Other: {{ derived_from: Sub }} }}\n"
    found = write(a=a, b=b, c=c)
    assert (codes(found), found.warnings) == ([], [])
    assert codes(write(a=f"{HEAD}imports: [ a.yaml ]\n")) == []


def test_circle_of_imports_keeps_the_prefixes_of_names(
    write: Callable[..., Checked],
) -> None:
    """A name has the prefix of the import that leads back."""
    b = f"{HEAD}imports: [ c.yaml ]\nnode_types: {{ Sub: {{ derived_from: App }} }}\n"
    types = "node_types: { App: {}, Other: { derived_from: 'p:Sub' } }\n"
    c = f"imports: [ {{ file: b.yaml, namespace_prefix: p }} ]\n{types}"
    assert codes(write(a=f"{HEAD}imports: [ b.yaml ]\n", b=b, c=HEAD + c)) == []
    wrong = write(
        a=f"{HEAD}imports: [ b.yaml ]\n", b=b, c=HEAD + c.replace("p:Sub", "q:Sub")
    )
    assert codes(wrong) == [("parent-unknown", "c")]


def test_a_repository_on_disk_is_read(
    write: Callable[..., Checked], tmp_path: Path
) -> None:
    """A path or a `file://` URL; one that is not there, and any other URL, is a mistake."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.yaml").write_text(app())
    for url in (
        "more",
        f"file://{tmp_path}/more",
        f"{{ url: {tmp_path}/more/, credential: {{ token: x }} }}",
    ):
        a = f"{HEAD}repositories: {{ r: {url} }}\nimports: [ {{ file: b.yaml, repository: r }} ]\n{template('App')}"
        assert codes(write(a=a)) == []
    imports = "[ { file: b.yaml, repository: r }, { file: b, repository: s } ]"
    a = f"{HEAD}repositories: {{ r: 'http://x/' }}\nimports: {imports}\n"
    assert codes(write(a=a)) == [("import-unread", "a"), ("repository-unknown", "a")]


def test_a_file_without_a_version_is_read_by_that_of_its_importer(
    write: Callable[..., Checked],
) -> None:
    """With a warning; one that names a wrong version is a mistake of its own."""
    found = write(
        a=f"{HEAD}imports: [ b.yaml ]\n{template('App')}", b=app().removeprefix(HEAD)
    )
    assert codes(found) == []
    assert [warning.code for warning in found.warnings] == ["import-version"]
    found = write(a=f"{HEAD}imports: [ b.yaml ]\n", b="tosca_definitions_version: x\n")
    assert codes(found) == [("version-unknown", "b")]


def test_mistakes_of_an_import_are_shown_in_its_file(
    write: Callable[..., Checked],
) -> None:
    """The types of an import are checked in its file; its topology is not part of the service."""
    b = (
        app()
        + "topology_template: { inputs: { a: { type: string } } }\ncapability_types: { A: { derived_from: B } }\n"
    )
    found = write(a=f"{HEAD}imports: [ b.yaml ]\n", b=b)
    assert codes(found) == [("parent-unknown", "b")]
    assert found.open == []


def test_a_type_that_is_there_twice_is_shown_at_its_import(
    write: Callable[..., Checked],
) -> None:
    """Faulty imports before it do not shift its place."""
    found = write(
        main=f"{HEAD}imports:\n  - one.yaml\n  - 5\n  - two.yaml\n",
        one=app("a"),
        two=app("b"),
    )
    lines = [
        (mistake.code, mistake.place.line)
        for mistake in found.mistakes
        if mistake.place
    ]
    assert lines == [("kind", 4), ("type-twice", 5)]


def test_imports_that_multiply_names_with_prefixes_are_refused(
    write: Callable[..., Checked],
) -> None:
    """Each file imports the next one twice: the names would be doubled thirty times."""
    files = {
        f"f{number}": f"{HEAD}imports:\n"
        f"  - {{ file: f{number + 1}.yaml, namespace_prefix: a }}\n"
        f"  - {{ file: f{number + 1}.yaml, namespace_prefix: b }}\n"
        for number in range(30)
    }
    found = write(**files, f30=app())
    assert {mistake.code for mistake in found.mistakes} == {"depth"}


BORROWING = f"{HEAD}node_types: {{ App: {{ derived_from: Base, properties: {{ a: {{ type: string }} }} }} }}\n"
BASE = f"{HEAD}node_types: {{ Base: {{ derived_from: Root }} }}\n"


@pytest.mark.parametrize(
    ("imports", "type_"),
    [
        ("[ b.yaml, c.yaml ]", "App"),
        ("[ c.yaml, b.yaml ]", "App"),
        ("[ { file: b.yaml, namespace_prefix: b }, c.yaml ]", "b:App"),
        (
            "[ { file: b.yaml, namespace_prefix: p }, { file: c.yaml, namespace_prefix: p } ]",
            "p:App",
        ),
        ("[ d.yaml, c.yaml ]", "App"),
        (
            "[ { file: d.yaml, namespace_prefix: p }, { file: c.yaml, namespace_prefix: p } ]",
            "p:App",
        ),
    ],
)
def test_a_file_may_name_types_that_only_its_importers_have(
    write: Callable[..., Checked], imports: str, type_: str
) -> None:
    """They are types of a sibling, in its own namespace or in that of the importer, at any distance."""
    a = f"{HEAD}imports: {imports}\n{template(type_)}"
    found = write(a=a, b=BORROWING, c=BASE, d=f"{HEAD}imports: [ b.yaml ]\n")
    assert codes(found) == []
    assert [(warning.code, str(warning.place)) for warning in found.warnings] == [
        ("import-borrows", f"{found.file.removesuffix('a.yaml')}b.yaml:2:22")
    ]
    assert found.warnings[0].problem == "only the files that import this file have Base"


def test_the_types_of_the_importing_file_itself_are_known_as_well(
    write: Callable[..., Checked],
) -> None:
    """A type of the service may be the parent of an imported one; a prefix of a sibling has to be written."""
    own = BASE.removeprefix(HEAD)
    assert (
        codes(
            write(a=f"{HEAD}imports: [ b.yaml ]\n{own}{template('App')}", b=BORROWING)
        )
        == []
    )
    imports = "[ b.yaml, { file: c.yaml, namespace_prefix: c } ]"
    a = f"{HEAD}imports: {imports}\n{template('App')}"
    assert codes(write(a=a, b=BORROWING, c=BASE)) == [("parent-unknown", "b")]
    assert codes(write(a=a, b=BORROWING.replace("Base", "'c:Base'"), c=BASE)) == []


def test_the_own_imports_of_a_file_are_before_those_of_its_importer(
    write: Callable[..., Checked],
) -> None:
    """A type of the same name in the importing file changes nothing in the imported one."""
    other = "node_types: { Base: { derived_from: Root, properties: { b: { type: string } } } }\n"
    b = BORROWING.replace(HEAD, f"{HEAD}imports: [ c.yaml ]\n")
    found = write(a=f"{HEAD}imports: [ b.yaml ]\n{other}{template('App')}", b=b, c=BASE)
    assert codes(found) == []
    assert found.warnings == []


def test_each_service_of_several_gives_its_own_types_to_a_shared_import(
    tmp_path: Path,
) -> None:
    """The types that one service has are not there for the next one that imports the same file."""
    (tmp_path / "b.yaml").write_text(BORROWING)
    has, has_not, has_again = (
        tmp_path / name for name in ("a.yaml", "c.yaml", "d.yaml")
    )
    needing = f"{HEAD}imports: [ b.yaml ]\n{template('App')}"
    has.write_text(needing + BASE.removeprefix(HEAD))
    has_not.write_text(needing)
    has_again.write_text(needing + BASE.removeprefix(HEAD))
    checker = Checker()
    verdicts = [
        [mistake.code for mistake in checker.check(str(path)).mistakes]
        for path in (has, has_not, has_again)
    ]
    assert verdicts == [[], ["parent-unknown"], []]
