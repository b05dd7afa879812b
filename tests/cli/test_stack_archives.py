"""`stack snapshot`, `stack adopt` and `stack abandon`, with plug-ins and with our own resources."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import pace
from support.loopback import wait_until
from support.machine import Done, Machine

PLUGIN = """
import pathlib

from heat.engine import attributes, properties, resource

HERE = pathlib.Path(__file__).parent.parent


class Disk(resource.Resource):
    properties_schema = {
        'size': properties.Schema(properties.Schema.INTEGER, required=True, update_allowed=True),
        'source': properties.Schema(properties.Schema.STRING, update_allowed=True),
    }
    attributes_schema = {'source': attributes.Schema(), 'size': attributes.Schema()}

    def log(self, *words):
        with open(HERE / 'log', 'a') as log:
            print(*words, file=log)

    def may_go_on(self):
        return not (HERE / 'hold').exists()

    def handle_create(self):
        self.log('create')
        self.resource_id_set('disk-1')

    def handle_update(self, json_snippet, tmpl_diff, prop_diff):
        self.log('update', *sorted(prop_diff))

    def handle_delete(self):
        self.log('delete', self.resource_id)

    def handle_snapshot(self):
        self.log('snapshot')
        if (HERE / 'broken').exists():
            raise RuntimeError('no room for a backup')
        self.data_set('backup', 'backup-1')
        return 'token'

    def check_snapshot_complete(self, token):
        return token == 'token' and self.may_go_on()

    def handle_restore(self, defn, restore_data):
        values = {name: value for name, value in defn.properties(self.properties_schema).items() if value is not None}
        return defn.freeze(properties={**values, 'source': restore_data['resource_data']['backup']})

    def handle_delete_snapshot(self, snapshot):
        if (HERE / 'broken').exists():
            raise RuntimeError('the backup is gone')
        self.log('delete_snapshot', snapshot['resource_data'].get('backup'))

    def handle_adopt(self, resource_data=None):
        self.log('adopt', resource_data['resource_id'])
        return super().handle_adopt(resource_data)

    def check_adopt_complete(self, token):
        return self.may_go_on()

    def _resolve_attribute(self, name):
        return self.properties[name]


def resource_mapping():
    return {'My::Disk': Disk}
"""
SECRET = "sesame-opens-7"
"""A hidden value, which two of the commands print on request."""
CHILD = """\
heat_template_version: 2018-08-31
parameters: {word: {type: string}}
resources:
  r: {type: OS::Heat::RandomString, properties: {length: 8}}
  v: {type: OS::Heat::Value, properties: {value: {get_file: text}}}
outputs: {r: {value: {get_attr: [r, value]}}, text: {value: {get_attr: [v, value]}}}
"""
TEMPLATE = """\
heat_template_version: 2018-08-31
parameters: {size: {type: number}, pin: {type: string, hidden: true, default: PLANTED}}
resources:
  disk: {type: My::Disk, properties: {size: {get_param: size}}}
  child: {type: My::Child, properties: {word: x}}
  group:
    type: OS::Heat::ResourceGroup
    properties: {count: 2, resource_def: {type: OS::Heat::RandomString}}
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: pin}]
      outputs: [{name: o}]
      config: |
        #!/bin/sh
        echo run $deploy_action >> HERE/log
        printf out > $heat_outputs_path.o
  server: {type: OS::Heat::DeployedServer}
  d:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      actions: [CREATE, DELETE]
      input_values: {pin: {get_param: pin}}
outputs:
  size: {value: {get_attr: [disk, size]}}
  source: {value: {get_attr: [disk, source]}}
  r: {value: {get_attr: [child, r]}}
  text: {value: {get_attr: [child, text]}}
  refs: {value: {get_attr: [group, refs]}}
  o: {value: {get_attr: [d, o]}}
""".replace("PLANTED", SECRET)


class Archive:
    """The commands, with a plug-in, a template and a log."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.folder = machine, machine.folder
        for name in ("plugins", "inner"):
            (self.folder / name).mkdir()
        (self.folder / "plugins" / "disk.py").write_text(PLUGIN)
        (self.folder / "inner" / "child.yaml").write_text(CHILD)
        (self.folder / "inner" / "text").write_text("a text")
        (self.folder / "t.yaml").write_text(TEMPLATE.replace("HERE", str(self.folder)))
        (self.folder / "e.yaml").write_text(
            "resource_registry: {'My::Child': inner/child.yaml}\n"
        )
        (self.folder / "agent.conf").write_text(
            f"[agent]\nplugin_dirs = {self.folder}/plugins\n"
        )
        self.places = [
            "--state-dir",
            str(machine.state),
            "--config",
            str(self.folder / "agent.conf"),
        ]

    def __call__(self, *words: str, code: int = 0) -> Done:
        """Run `heat-config-agent stack WORDS`, which ends with that code."""
        done = self.machine.command(
            "heat-config-agent", ["stack", *words, *self.places], {}, 120
        )
        assert done.code == code, done.out + done.err
        return done

    def create(self) -> None:
        """Create the stack `s`."""
        self("create", "-t", "t.yaml", "-e", "e.yaml", "--parameter", "size=1", "s")

    def outputs(self, stack: str = "s") -> dict[str, Any]:
        """Return the outputs of a stack."""
        shown = json.loads(self("output", "show", stack, "--all", "--json").out)[
            "data"
        ]["outputs"]
        return {each["output_key"]: each["output_value"] for each in shown}

    def listed(self) -> list[dict[str, Any]]:
        """Return the snapshots of `s`."""
        found: list[dict[str, Any]] = json.loads(
            self("snapshot", "list", "s", "--json").out
        )["data"]["snapshots"]
        return found

    def states(self) -> dict[str, str]:
        """Return the stacks with their states."""
        return {
            each["stack_name"]: each["stack_status"]
            for each in json.loads(self("list", "--json").out)["data"]["stacks"]
        }

    def killed(self, *words: str, at: str) -> None:
        """Run a command that waits in a handler, and kill it with SIGKILL once the log has a line."""
        (self.folder / "hold").touch()
        process = self.machine.start("heat-config-agent", "stack", *words, *self.places)
        wait_until(lambda: at in self.log, 60)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=pace.seconds(60))
        (self.folder / "hold").unlink()

    @property
    def log(self) -> list[str]:
        """Return the lines that handlers and scripts have written."""
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def archive(machine: Machine) -> Archive:
    """The commands."""
    return Archive(machine)


def test_a_stack_is_restored_to_a_snapshot(archive: Archive) -> None:
    """The handlers of plug-ins take part: what they stored for the snapshot is given to them again."""
    archive.create()
    before = archive.outputs()
    assert "state        ok" in archive("snapshot", "create", "s", "--name", "one").out
    assert archive.states() == {"s": "SNAPSHOT_COMPLETE"}
    archive("update", "--existing", "--parameter", "size=5", "s")
    assert archive.outputs()["size"] == 5
    archive("snapshot", "restore", "s", "one", "--yes")
    assert archive.states() == {"s": "RESTORE_COMPLETE"}
    assert archive.outputs() == {**before, "source": "backup-1"}
    assert archive.log == [
        "create",
        "run CREATE",
        "snapshot",
        "update size",
        "update size source",
    ]
    archive("snapshot", "delete", "s", "one", "--yes")
    assert archive.log[-1] == "delete_snapshot backup-1"
    assert archive.listed() == []
    archive("update", "--existing", "s")


def test_a_snapshot_is_shown_without_secrets(archive: Archive) -> None:
    """With the keys of Heat's API; --reveal shows all of it."""
    archive.create()
    archive("snapshot", "create", "s", "--name", "one")
    (brief,) = archive.listed()
    assert (
        brief["name"],
        brief["action"],
        brief["status"],
        brief["status_reason"],
    ) == (
        "one",
        "CREATE",
        "COMPLETE",
        "",
    )
    printed = archive("snapshot", "show", "s", brief["id"]).out
    assert SECRET not in printed
    data = json.loads(archive("snapshot", "show", "s", "one", "--reveal").out)["data"]
    assert data["template"]["parameters"]["pin"]["default"] == SECRET
    assert data["environment"]["parameters"] == {"size": "1"}
    assert data["environment"]["resource_registry"] == {"My::Child": "inner/child.yaml"}
    assert data["files"].keys() == {"inner/child.yaml", "inner/text"}
    assert data["resources"]["disk"] == {
        "name": "disk",
        "resource_id": "disk-1",
        "type": "My::Disk",
        "action": "SNAPSHOT",
        "status": "COMPLETE",
        "metadata": {},
        "resource_data": {"backup": "backup-1"},
    }
    assert set(data["resources"]["child"]["resources"]) == {"r", "v"}
    assert data["status"] == "COMPLETE"


@pytest.mark.slow
def test_failed_snapshot_is_kept_with_its_reason(archive: Archive) -> None:
    """A failed snapshot is kept with the reason, cannot be restored, and can be deleted."""
    archive.create()
    (archive.folder / "broken").touch()
    assert (
        "no room for a backup"
        in archive("snapshot", "create", "s", "--name", "one", code=1).err
    )
    (archive.folder / "broken").unlink()
    assert archive.listed()[0]["status"] == "FAILED"
    assert (
        "is not complete: CREATE_FAILED"
        in archive("snapshot", "restore", "s", "one", "--yes", code=2).err
    )
    assert (
        "s has no snapshot 'two' (it has one)"
        in archive("snapshot", "restore", "s", "two", code=8).err
    )
    archive("resume", "s", code=1)
    archive("delete", "s", "--yes")
    assert archive.states() == {}


def test_a_stack_is_deleted_with_its_snapshots(archive: Archive) -> None:
    """A snapshot that cannot be deleted keeps the stack, unless --force forgets it."""
    archive.create()
    archive("snapshot", "create", "s", "--name", "one")
    archive("snapshot", "create", "s", "--name", "two")
    (archive.folder / "broken").touch()
    assert (
        "the snapshot one is not deleted: disk: RuntimeError: the backup is gone"
        in (archive("delete", "s", "--yes", code=1).err)
    )
    assert [(each["action"], each["status"]) for each in archive.listed()] == [
        ("DELETE", "FAILED"),
        ("CREATE", "COMPLETE"),
    ]
    (archive.folder / "broken").unlink()
    archive("snapshot", "delete", "s", "one", "--yes")
    (archive.folder / "broken").touch()
    assert "it is forgotten" in archive("delete", "s", "--yes", "--force").err
    assert archive.states() == {}


@pytest.mark.slow
def test_a_killed_snapshot_is_completed(archive: Archive) -> None:
    """The same command completes it, and there is one snapshot; any other command completes it before its own work."""
    archive.create()
    for name, words in (
        ("one", ("snapshot", "create", "s", "--name", "one")),
        ("two", ("check", "s")),
    ):
        archive.killed("snapshot", "create", "s", "--name", name, at="snapshot")
        assert archive.listed()[-1]["status"] == "IN_PROGRESS"
        archive(*words)
        (archive.folder / "log").unlink()
    # The handler of the plug-in was cut short, so each resource of it has failed or was done again.
    assert [each["name"] for each in archive.listed()] == ["one", "two"]
    assert {each["status"] for each in archive.listed()} <= {"COMPLETE", "FAILED"}


def test_an_abandoned_stack_is_adopted(archive: Archive) -> None:
    """Nothing is created, run or deleted, and all values are what they were, even without the files of the template."""
    archive.create()
    before, log = archive.outputs(), archive.log
    archive("abandon", "s", "--yes", "--output-file", "out.json")
    assert stat.S_IMODE((archive.folder / "out.json").stat().st_mode) == 0o600
    assert archive.states() == {}
    for each in archive.folder.glob("inner/*"):
        each.unlink()
    archive("adopt", "new", "--adopt-file", "out.json")
    assert archive.states() == {"new": "ADOPT_COMPLETE"}
    assert archive.outputs("new") == before
    archive("update", "--existing", "new")
    assert archive.log == [*log, "adopt disk-1"]
    archive("delete", "new", "--yes")
    assert archive.log[-2:] in (
        ["delete disk-1", "run DELETE"],
        ["run DELETE", "delete disk-1"],
    )


def test_a_killed_adoption_continues(archive: Archive) -> None:
    """The same command goes on, and adopts what was being adopted; nothing is replaced or deleted."""
    archive.create()
    archive("abandon", "s", "--yes", "--output-file", "out.json")
    archive.killed("adopt", "s", "--adopt-file", "out.json", at="adopt disk-1")
    assert archive.states() == {"s": "ADOPT_IN_PROGRESS"}
    archive("adopt", "s", "--adopt-file", "out.json")
    assert archive.states() == {"s": "ADOPT_COMPLETE"}
    assert archive.outputs()["size"] == 1
    assert "delete disk-1" not in archive.log


def _without_template(data: dict[str, Any]) -> Any:
    return {key: value for key, value in data.items() if key != "template"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_without_template, "has no template: expected the output of `stack abandon`"),
        (lambda data: [data], "is not a map: expected the output of `stack abandon`"),
        (
            lambda data: {**data, "resources": []},
            "the resources in bad.json are not a map",
        ),
        (
            lambda data: {**data, "environment": "x"},
            "the environment in bad.json is not a map",
        ),
        (
            lambda data: {**data, "files": {"a": 1}},
            "files in bad.json is not a map of texts",
        ),
        (
            lambda data: {
                **data,
                "template": {"heat_template_version": "2018-08-31", "resorces": {}},
            },
            "resorces",
        ),
    ],
)
def test_invalid_data_for_adopt_is_refused(
    archive: Archive, change: Callable[[Any], Any], problem: str
) -> None:
    """Data that cannot be adopted is refused with a sentence, and no stack is created."""
    data = {"template": {"heat_template_version": "2018-08-31"}, "resources": {}}
    (archive.folder / "bad.json").write_text(json.dumps(change(data)))
    done = archive("adopt", "s", "--adopt-file", "bad.json", code=2)
    assert problem in done.err
    assert "Traceback" not in done.err
    assert archive.states() == {}


def test_a_resource_without_an_id_is_not_adopted(archive: Archive) -> None:
    """A resource without an id is not adopted; the data may be YAML and come from Heat."""
    (archive.folder / "heat.yaml").write_text(
        "template: {heat_template_version: '2018-08-31', resources: {a: {type: 'OS::Heat::RandomString'}}}\n"
        "environment: {parameters: {}}\n"
        "resources: {a: {name: a, resource_id: null, metadata: {}, resource_data: {}}}\n"
    )
    assert "Error: resources.a: Resource ID was not provided." in (
        archive("adopt", "s", "--adopt-file", "heat.yaml", code=1).out
    )
    archive("delete", "s", "--yes")
    text = (archive.folder / "heat.yaml").read_text()
    (archive.folder / "heat.yaml").write_text(
        text.replace("resource_id: null", "resource_id: there")
    )
    archive("adopt", "s", "--adopt-file", "heat.yaml")
    assert archive.states() == {"s": "ADOPT_COMPLETE"}
    assert (
        "there is a stack s already"
        in archive("adopt", "s", "--adopt-file", "heat.yaml", code=2).err
    )


def test_nothing_is_abandoned_if_the_state_is_lost(archive: Archive) -> None:
    """A file that cannot be written, or a reader that has gone, leaves the stack as it is."""
    archive.create()
    done = archive("abandon", "s", "--yes", "--output-file", "nowhere/out.json", code=1)
    assert (
        "cannot write nowhere/out.json: No such file or directory (nothing was abandoned)"
        in done.err
    )
    process = archive.machine.start(
        "heat-config-agent", "stack", "abandon", "s", "--yes", *archive.places
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert "nothing was abandoned" in process.stderr.read()
    process.stderr.close()
    assert process.wait(pace.seconds(60)) == 1
    assert archive.states() == {"s": "CREATE_COMPLETE"}
    assert (
        json.loads(archive("abandon", "s", "--yes").out)["resources"]["disk"][
            "resource_id"
        ]
        == "disk-1"
    )
    assert archive.states() == {}


def test_a_damaged_snapshot_is_noticed(archive: Archive) -> None:
    """The stack reports a damaged snapshot, and can be deleted."""
    archive.create()
    archive("snapshot", "create", "s", "--name", "one")
    path = Path(archive.machine.state) / "stacks" / "s" / "stack"
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(
        index
        for index, line in enumerate(lines)
        if b'"snapshot"' in line or b"backup-1" in line
    )
    lines[last] = lines[last].replace(b"COMPLETE", b"C0MPLETE", 1)
    path.write_bytes(b"".join(lines))
    assert "damaged line" in archive("snapshot", "create", "s", code=10).err
    archive("delete", "s", "--yes")
    assert archive.states() == {}


@pytest.mark.parametrize("name", ["pipe", "link"])
def test_pipe_is_not_replaced_by_the_state(archive: Archive, name: str) -> None:
    """A command of root puts no file in the place of /dev/null, also not behind a link such as /dev/stdout."""
    archive.create()
    os.mkfifo(archive.folder / "pipe")
    (archive.folder / "link").symlink_to("pipe")
    done = archive("abandon", "s", "--yes", "--output-file", name, code=1)
    assert f"cannot write {name}: it is not a regular file (nothing was abandoned)" in (
        done.err
    )
    assert (archive.folder / "link").is_fifo()
    assert (archive.folder / "link").is_symlink()
    assert archive.states() == {"s": "CREATE_COMPLETE"}
