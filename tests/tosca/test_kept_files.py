"""Files that operations have are kept once, under their digests, and not in each deployment."""

from __future__ import annotations

import hashlib
import json

from support.machine import Done, Machine

LIBRARY = "# a library\n" * 1000
PICTURE = bytes(range(256)) * 32
SCRIPT = """\
#!/bin/bash
cd "$(dirname "$0")"
echo "$TOSCA_NODE.$TOSCA_OPERATION $(sha256sum <lib/all.sh | cut -c1-64) $(sha256sum <picture | cut -c1-64)" >>"$log"
"""
NODE = """
    {name}:
      type: Root
      interfaces:
        Standard:
          inputs: {{ log: {{ get_input: log }} }}
          create: {{ implementation: {{ primary: run.sh, dependencies: [ lib/all.sh, picture ] }} }}
          delete: {{ implementation: {{ primary: run.sh, dependencies: [ lib/all.sh, picture ] }} }}
"""


class Service:
    """A service whose operations share two files."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.folder = machine, machine.folder / "service"
        self.log = machine.folder / "log"
        (self.folder / "lib").mkdir(parents=True)
        (self.folder / "run.sh").write_text(SCRIPT)
        (self.folder / "picture").write_bytes(PICTURE)
        self.change(LIBRARY)

    def change(self, library: str, names: tuple[str, ...] = ("a", "b", "c")) -> None:
        """Write the library and the template."""
        (self.folder / "lib" / "all.sh").write_text(library)
        nodes = "".join(NODE.format(name=name) for name in names)
        (self.folder / "s.yaml").write_text(
            "tosca_definitions_version: tosca_simple_yaml_1_3\ntopology_template:\n"
            f"  inputs: {{ log: {{ type: string }} }}\n  node_templates:{nodes}"
        )

    def apply(self) -> Done:
        """Apply the service."""
        words = [
            str(self.folder / "s.yaml"),
            "--input",
            f"log={self.log}",
            "--state-dir",
            str(self.machine.state),
        ]
        return self.machine.command("heat-config-apply", words, {})

    def delete(self) -> Done:
        """Delete the stack."""
        words = [
            "stack",
            "delete",
            "s",
            "--yes",
            "--state-dir",
            str(self.machine.state),
        ]
        return self.machine.command("heat-config-agent", words, {})

    @property
    def kept(self) -> dict[str, bytes]:
        """The kept files by name."""
        folder = self.machine.state / "stacks" / "s" / "files"
        return (
            {path.name: path.read_bytes() for path in folder.iterdir()}
            if folder.is_dir()
            else {}
        )

    def lines(self) -> list[str]:
        """Return what the scripts have written."""
        return self.log.read_text().splitlines()


def digest(content: bytes) -> str:
    """Return the digest under which a file is kept."""
    return hashlib.sha256(content).hexdigest()


def test_a_file_is_kept_once(machine: Machine) -> None:
    """Scripts find it next to them; a changed one takes its place, and it goes with the stack."""
    service = Service(machine)
    both = f"{digest(LIBRARY.encode())} {digest(PICTURE)}"
    assert service.apply().code == 0
    assert service.lines() == [f"{name}.create {both}" for name in "abc"]
    assert service.kept == {
        digest(LIBRARY.encode()): LIBRARY.encode(),
        digest(PICTURE): PICTURE,
    }
    for path in (machine.state / "stacks" / "s").rglob("*"):
        if path.is_file() and path.parent.name != "files":
            assert path.read_text(errors="replace").count("# a library") <= 1000 * 7, (
                "it is in no deployment"
            )
    changed = f"{LIBRARY}# changed\n"
    service.change(changed)
    assert service.apply().code == 0
    again = f"{digest(changed.encode())} {digest(PICTURE)}"
    assert service.lines()[3:] == [f"{name}.create {again}" for name in "abc"]
    assert service.kept.keys() == {digest(changed.encode()), digest(PICTURE)}, (
        "no config names the former one"
    )
    assert service.delete().code == 0
    assert service.lines()[6:] == [f"{name}.delete {again}" for name in "cba"]
    assert not (machine.state / "stacks" / "s").exists()


def test_a_damaged_file_is_written_again(machine: Machine) -> None:
    """Nothing runs again for it: the source of the stack has its content."""
    service = Service(machine)
    assert service.apply().code == 0
    path = machine.state / "stacks" / "s" / "files" / digest(PICTURE)
    path.write_bytes(b"damaged")
    service.change(LIBRARY, ("a", "b", "c", "d"))
    assert service.apply().code == 0
    assert service.kept[digest(PICTURE)] == PICTURE
    assert service.lines()[3:] == [
        f"d.create {digest(LIBRARY.encode())} {digest(PICTURE)}"
    ]


def test_unwritable_folder_is_reported(machine: Machine) -> None:
    """Before anything runs; the same command goes on when it can be."""
    service = Service(machine)
    obstacle = machine.state / "stacks" / "s" / "files"
    for folder in (machine.state, obstacle.parent.parent, obstacle.parent):
        folder.mkdir(mode=0o700, exist_ok=True)
    obstacle.write_text("in the way")
    done = service.apply()
    assert done.code != 0
    assert f"cannot write {obstacle}" in done.err
    assert not service.log.exists()
    obstacle.unlink(missing_ok=True)
    done = service.apply()
    assert done.code == 0, json.dumps([done.out, done.err])
    assert len(service.lines()) == 3
