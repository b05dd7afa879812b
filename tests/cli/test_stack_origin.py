"""A stack is where it came from: another file of the same name does not replace it in silence."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from support.machine import Machine

HOT = """\
heat_template_version: 2018-08-31
description: {about}
resources:
  one: {{type: OS::Heat::Value, properties: {{value: {value}}}}}
  two: {{type: OS::Heat::Value, properties: {{value: two}}}}
outputs:
  value: {{value: {{get_attr: [one, value]}}}}
"""

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
{name}topology_template:
  inputs: {{}}
  outputs: {{said: {{value: {value}}}}}
"""


def template(
    machine: Machine,
    folder: str,
    value: str = "a",
    about: str = "x",
    name: str = "stack.yaml",
) -> Path:
    """Write a template into a folder of its own."""
    path = machine.folder / folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(HOT.format(value=value, about=about))
    return path


def archive(machine: Machine, name: str, value: str, own: str = "") -> Path:
    """Write an archive with one service, which may say its own name."""
    path = machine.folder / name
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        metadata = (
            f"metadata: {{template_name: {own}, template_author: me, template_version: '1.0'}}\n"
            if own
            else ""
        )
        file.writestr("service.yaml", SERVICE.format(name=metadata, value=value))
        if not own:
            lines = (
                "TOSCA-Meta-File-Version: 1.1",
                "CSAR-Version: 1.1",
                "Created-By: me",
                "Entry-Definitions: service.yaml",
            )
            file.writestr(
                "TOSCA-Metadata/TOSCA.meta", "".join(f"{line}\n" for line in lines)
            )
    return path


def output(machine: Machine, stack: str = "stack") -> str:
    """Return the value of the output `value` of a stack."""
    words = [
        "stack",
        "output",
        "show",
        "--state-dir",
        str(machine.state),
        stack,
        "value",
    ]
    return machine.command("heat-config-agent", words, {}).out.strip()


def test_other_file_does_not_replace_a_stack(machine: Machine) -> None:
    """The second project is refused with both paths and both ways on, in a plan too, and the stack stays."""
    first, second = (
        template(machine, "a", "first"),
        template(machine, "b", "second", "another project"),
    )
    assert machine.apply(first).code == 0

    for arguments in ((), ("--plan",)):
        ran = machine.apply(second, *arguments)
        assert ran.code == 2
        assert ran.err == (
            f"error: the stack stack was made from {first}, and {second} is another file "
            "(--name OTHER makes another stack, and --name stack replaces this one)\n"
        )
    assert "first" in output(machine)


@pytest.mark.parametrize(
    ("name", "stacks"), [("stack", ["stack"]), ("other", ["other", "stack"])]
)
def test_name_is_consent(machine: Machine, name: str, stacks: list[str]) -> None:
    """With --name, the file replaces the stack or gets one of its own; from then on the stack is from there."""
    machine.apply(template(machine, "a", "first"))
    second = template(machine, "b", "second", "another project")

    assert machine.apply(second, "--name", name).code == 0
    assert "second" in output(machine, name)
    listed = machine.command(
        "heat-config-agent",
        ["stack", "list", "--json", "--state-dir", str(machine.state)],
        {},
    )
    assert (
        sorted(each["stack_name"] for each in json.loads(listed.out)["data"]["stacks"])
        == stacks
    )
    assert (
        machine.apply(second, *(() if name == "stack" else ("--name", name))).code == 0
    )


def test_edited_file_updates_its_stack(machine: Machine) -> None:
    """The path is the file, whatever is in it, also through a link that leads to each release."""
    first = template(machine, "r1", "first")
    link = machine.folder / "current"
    link.symlink_to("r1")
    assert machine.apply(link / "stack.yaml").code == 0
    first.write_text(
        HOT.format(value="edited", about="all new").replace("two", "three")
    )
    assert machine.apply(first).code == 0
    assert machine.apply(link / "stack.yaml").code == 0
    template(machine, "r2", "second", "another release")
    link.unlink()
    link.symlink_to("r2")

    assert machine.apply(link / "stack.yaml").code == 0
    assert "second" in output(machine)


@pytest.mark.parametrize("edited", [False, True])
def test_moved_file_is_recognised(machine: Machine, edited: bool) -> None:
    """A file that has moved is the same file, also if some of its lines have changed since."""
    first = template(machine, "a", "first")
    machine.apply(first)
    second = machine.folder / "b" / "stack.yaml"
    second.parent.mkdir()
    first.rename(second)
    if edited:
        second.write_text(second.read_text().replace("first", "second"))

    assert machine.apply(second).code == 0
    assert ("second" if edited else "first") in output(machine)
    assert machine.apply(second).code == 0


def test_copy_changes_nothing(machine: Machine) -> None:
    """A file with the same content is the same stack."""
    machine.apply(template(machine, "a"))

    ran = machine.apply(template(machine, "b"))

    assert ran.code == 0, ran.err
    assert "unchanged" in ran.out


def test_different_file_at_the_path_of_a_removed_template_is_refused(
    machine: Machine,
) -> None:
    """A file with other lines is another one, although the first is gone."""
    first = template(machine, "a")
    machine.apply(first)
    first.unlink()
    path = template(machine, "b")
    path.write_text("heat_template_version: 2018-08-31\nresources: {}\n")

    assert machine.apply(path).code == 2


def test_deleted_stack_frees_its_name(machine: Machine) -> None:
    """After a deletion, the name is that of the next file."""
    machine.apply(template(machine, "a"))
    machine.command(
        "heat-config-agent",
        ["stack", "delete", "--yes", "--state-dir", str(machine.state), "stack"],
        {},
    )

    assert machine.apply(template(machine, "b", "second", "another project")).code == 0


def test_archives_of_a_service_are_recognised_by_its_name(machine: Machine) -> None:
    """Another version of a service with a name of its own is an update; other archives are known by their paths."""
    assert machine.apply(archive(machine, "shop-1.csar", "one", "shop")).code == 0
    assert machine.apply(archive(machine, "new/shop-2.csar", "two", "shop")).code == 0
    assert machine.apply(archive(machine, "plain.csar", "one")).code == 0
    assert machine.apply(archive(machine, "plain.csar", "rebuilt")).code == 0

    assert machine.apply(archive(machine, "new/plain.csar", "other")).code == 2


def test_stack_of_a_command_is_recognised(machine: Machine) -> None:
    """`stack create` and `stack update` keep the place of their template too."""
    first = template(machine, "a")
    state = ["--state-dir", str(machine.state)]
    machine.command(
        "heat-config-agent", ["stack", "create", *state, "-t", str(first), "stack"], {}
    )

    assert machine.apply(template(machine, "b", "second", "another project")).code == 2
    assert machine.apply(first).code == 0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"path": 1}',
        '{"path": "/x", "real": "/x", "digest": "", "lines": {}}',
    ],
)
def test_damaged_record_of_the_file_is_passed_over(
    machine: Machine, content: str
) -> None:
    """A stack without a usable record of its file is updated, as one of an older version, and has one then."""
    machine.apply(template(machine, "a"))
    (machine.state / "stacks/stack/origin.json").write_text(content)

    assert machine.apply(template(machine, "b", "second", "another project")).code == 0
    assert machine.apply(template(machine, "a")).code == 2


def test_record_of_the_file_is_private(machine: Machine) -> None:
    """The record is for its owner."""
    machine.apply(template(machine, "a"))

    assert (machine.state / "stacks/stack/origin.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("has_origin", [True, False])
def test_refused_file_is_not_that_of_the_stack(
    machine: Machine, has_origin: bool
) -> None:
    """An update that is refused before it begins leaves the stack where it came from."""
    first, other = template(machine, "a"), template(machine, "b", "b")
    assert machine.apply(None, str(first)).code == 0
    kept = machine.state / "stacks" / "stack" / "origin.json"
    if not has_origin:
        kept.unlink()
    words = ["--state-dir", str(machine.state)]
    suspended = machine.command(
        "heat-config-agent", ["stack", "suspend", "stack", *words], {}
    )
    assert suspended.code == 0

    done = machine.apply(None, str(other), "--name", "stack")

    assert (done.code, "suspended" in done.err) == (2, True)
    assert kept.exists() == has_origin
    if has_origin:
        assert json.loads(kept.read_text())["path"] == str(first)
