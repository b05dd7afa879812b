"""Servers of a template on other hosts: values pass between them, each script runs once, bad hosts are explained."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from support import pace
from support.loopback import wait_until
from support.machine import Machine, small_disk
from support.remote import Hosts

REFUSED = "ssh: connect to host db1 port 22: Connection refused\n"
OUT = 'printf "%s" "VALUE" >$heat_outputs_path.out'


def two_tiers(hosts: Hosts) -> Path:
    """Return a template whose web server needs the port and the address of its database."""
    web = hosts.deployment(
        "web",
        OUT.replace("VALUE", "$where:$port"),
        port={"get_attr": ["db_run", "out"]},
        where={"get_attr": ["db", "first_address"]},
    )
    server = {"type": "OS::Nova::Server", "properties": {"image": "x", "flavor": "y"}}
    return hosts.template(
        "db",
        then=OUT.replace("VALUE", "5432"),
        resources={"web": server, **web},
        outputs={"out": {"value": {"get_attr": ["web_run", "out"]}}},
    )


def kept(hosts: Hosts, name: str) -> list[Path]:
    """Return what a host keeps of stacks."""
    folder = hosts.state(name) / "hosted"
    return list(folder.iterdir()) if folder.is_dir() else []


def test_values_pass_between_hosts(machine: Machine) -> None:
    """Each script runs once on its host, an unchanged stack starts no session, and a deleted one leaves nothing."""
    hosts = Hosts(machine, "db1", "web1")
    template = two_tiers(hosts)
    done = hosts.apply(template, hosts.file(db="db1", web="web1"))
    assert (done.code, hosts.runs) == (0, ["db_run CREATE", "web_run CREATE"]), done
    assert "out = db1:5432" in done.out
    assert "db is db1, web is web1" in done.out
    rows = [line.split() for line in done.out.splitlines()]
    assert [row[-1] for row in rows if row[:2] == ["ok", "db_run"]] == ["(db1)"]
    assert [row[-1] for row in rows if row[:2] == ["ok", "web"]] == ["(web1)"]
    assert len(kept(hosts, "db1")) == len(kept(hosts, "web1")) == 1
    assert hosts.sessions == ["db1", "web1"]
    done = hosts.apply(template, None)
    assert (done.code, len(hosts.runs), len(hosts.sessions)) == (0, 2, 2), done
    assert "db is db1, web is web1" in done.out
    done = hosts.stack("delete", "t", "--yes")
    assert (done.code, done.err) == (0, "")
    assert hosts.runs[2:] == ["web_run DELETE", "db_run DELETE"]
    assert kept(hosts, "db1") == kept(hosts, "web1") == []


def test_server_without_a_host_is_this_machine(machine: Machine) -> None:
    """Servers that the file does not name, or calls local, stay here, with the others on their hosts."""
    hosts = Hosts(machine, "web1")
    template = two_tiers(hosts)
    path = machine.write({"db": "local", "web": hosts.values("web1")}, "hosts.yaml")
    done = hosts.apply(template, path)
    assert (done.code, hosts.sessions) == (0, ["web1"]), done
    assert "out = 127.0.0.1:5432" in done.out
    assert "web is web1" in done.out


def test_server_that_moves_is_deleted_where_it_was(machine: Machine) -> None:
    """Its DELETE runs on the old host before CREATE runs on the new one; the plan says so."""
    hosts = Hosts(machine, "one", "two")
    template = hosts.template(
        "db", then=f"echo $HEAT_STACK_FILES >>{hosts.folder}/places"
    )
    assert hosts.apply(template, hosts.file(db="one")).code == 0
    moved = hosts.file(db="two")
    assert "replace" in hosts.apply(template, moved, "--plan").out
    done = hosts.apply(template, moved)
    assert (done.code, hosts.runs) == (
        0,
        ["db_run CREATE", "db_run DELETE", "db_run CREATE"],
    ), done
    places = (hosts.folder / "places").read_text().splitlines()
    assert ["state-one" in each for each in places] == [True, True, False]
    assert "state-two" in places[2]
    assert (kept(hosts, "one"), len(kept(hosts, "two"))) == ([], 1)
    # to this machine
    done = hosts.apply(template, machine.write({"db": "local"}, "hosts.yaml"))
    assert (done.code, hosts.runs[3:]) == (0, ["db_run DELETE", "db_run CREATE"])
    assert hosts.apply(template, None).code == 0
    assert len(hosts.runs) == 5


def test_secret_reaches_a_host_only_by_the_pipe(machine: Machine) -> None:
    """A hidden parameter is in no argument and in no output; the script has it."""
    hosts = Hosts(machine, "db1")
    secret = "correct-horse-battery"
    deployment = hosts.deployment(
        "db", OUT.replace("VALUE", "${#key}"), key={"get_param": "key"}
    )
    server = {"type": "OS::Nova::Server", "properties": {"image": "x", "flavor": "y"}}
    template = hosts.template(
        resources={"db": server, **deployment},
        parameters={"key": {"type": "string", "hidden": True}},
        outputs={"out": {"value": {"get_attr": ["db_run", "out"]}}},
    )
    done = hosts.apply(template, hosts.file(db="db1"), "--parameter", f"key={secret}")
    assert (done.code, secret in done.out + done.err) == (0, False), done
    assert f"out = {len(secret)}" in done.out
    assert secret not in hosts.commands


def test_failure_on_a_host_has_its_reason(machine: Machine) -> None:
    """The script's last words are those of the command, and the next apply runs it again in place."""
    hosts = Hosts(machine, "db1")
    then = f"[ -e {hosts.go} ] || {{ echo no room >&2; exit 3; }}"
    template = hosts.template("db", then=then)
    done = hosts.apply(template, hosts.file(db="db1"))
    assert done.code == 1
    assert "db_run: exit code 3: no room" in done.err
    hosts.go.touch()
    done = hosts.apply(template, None)
    assert (done.code, hosts.runs) == (0, ["db_run CREATE"] * 2), done


def test_max_hosts_limits_concurrent_sessions(machine: Machine) -> None:
    """With --max-hosts, a session ends before the next begins, and all is done."""
    hosts = Hosts(machine, "a", "b", "c")
    template = hosts.template("one", "two", "three")
    done = hosts.apply(
        template, hosts.file(one="a", two="b", three="c"), "--max-hosts", "1"
    )
    assert (done.code, sorted(hosts.runs)) == (
        0,
        ["one_run CREATE", "three_run CREATE", "two_run CREATE"],
    ), done
    assert sorted(hosts.sessions) == ["a", "b", "c"]


GROUP: dict[str, Any] = {
    "type": "OS::Heat::ResourceGroup",
    "properties": {"count": 2, "resource_def": {"type": "member.yaml"}},
}


def test_members_of_a_group_have_hosts(machine: Machine) -> None:
    """A member is named by its path in the tree of stacks."""
    hosts = Hosts(machine, "a", "b")
    member = hosts.template("server").rename(machine.folder / "member.yaml")
    template = machine.write(
        {"heat_template_version": "2018-08-31", "resources": {"group": GROUP}}, "t.yaml"
    )
    assert member.exists()
    done = hosts.apply(template, hosts.file(group__0__server="a", group__1__server="b"))
    assert (done.code, sorted(hosts.sessions)) == (0, ["a", "b"]), done
    assert hosts.runs == ["server_run CREATE"] * 2


SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
node_types:
  App:
    derived_from: tosca.nodes.SoftwareComponent
    interfaces:
      Standard:
        type: tosca.interfaces.node.lifecycle.Standard
        inputs:
          address: {type: string, default: { get_attribute: [ db, private_address ] } }
topology_template:
  node_templates:
    db: {type: tosca.nodes.Compute}
    web: {type: tosca.nodes.Compute}
    app:
      type: App
      requirements: [ {host: web} ]
      interfaces: {Standard: {operations: {create: create.sh, configure: create.sh}}}
    base:
      type: App
      requirements: [ {host: db} ]
      interfaces: {Standard: {operations: {create: create.sh}}}
"""


def test_nodes_of_a_service_have_hosts(machine: Machine) -> None:
    """An operation runs on the host of its node with the host's address, and a large file gets there once."""
    hosts = Hosts(machine, "one", "two")
    script = (
        f'#!/bin/sh\necho "$address $HEAT_STACK_FILES" >>{hosts.log}\n# {"x" * 5000}\n'
    )
    (machine.folder / "create.sh").write_text(script)
    service = machine.write(SERVICE, "t.yaml")
    done = hosts.apply(service, hosts.file(db="one", web="two"))
    assert done.code == 0, done
    assert sorted(line.split()[0] for line in hosts.runs) == ["one"] * 3
    assert sum("state-two" in line for line in hosts.runs) == 2
    for name in hosts.names:
        (folder,) = kept(hosts, name)
        assert len(list((folder / "files").iterdir())) == 1
    assert hosts.stack("delete", "t", "--yes").code == 0


WORKFLOW = SERVICE.replace(
    "  node_templates:",
    """\
  workflows:
    again: {steps: {one: {target: base, activities: [ {call_operation: Standard.create} ]}}}
  node_templates:""",
)


def test_operation_that_a_workflow_calls_runs_on_the_host(machine: Machine) -> None:
    """A workflow takes --hosts, too; the agent there has moved since."""
    hosts = Hosts(machine, "one")
    script = f'#!/bin/sh\necho "$HEAT_STACK_FILES" >>{hosts.log}\n'
    (machine.folder / "create.sh").write_text(script)
    first = hosts.moving("one")
    done = hosts.apply(machine.write(WORKFLOW, "t.yaml"), hosts.file(db=first))
    assert (done.code, len(hosts.runs)) == (0, 3), done
    files = hosts.file(db=hosts.moving("one"))
    done = hosts.stack("workflow", "run", "t", "again", "--hosts", str(files))
    assert (done.code, len(hosts.runs)) == (0, 4), done
    assert "state-one" in hosts.runs[3]


def test_addresses_of_a_host_are_those_of_its_server(machine: Machine) -> None:
    """Each attribute that a template may ask has the address of the hosts file; TOSCA's attributes have it, too."""
    hosts = Hosts(machine, "db1")
    asked = {
        "first": {"get_attr": ["db", "first_address"]},
        "access": {"get_attr": ["db", "accessIPv4"]},
        "networks": {"get_attr": ["db", "networks"]},
    }
    outputs = {name: {"value": value} for name, value in asked.items()}
    done = hosts.apply(hosts.template("db", outputs=outputs), hosts.file(db="db1"))
    assert done.code == 0, done
    assert [hosts.output(name) for name in ("first", "access")] == ["db1", "db1"]
    assert "db1" in json.dumps(hosts.output("networks"))
    attributes = ("private_address", "public_address")
    wanted = "".join(
        f"\n    {each}: {{value: {{get_attribute: [db, {each}]}}}}"
        for each in attributes
    )
    service = machine.write(f"{SERVICE}  outputs:{wanted}\n", "other.yaml")
    (machine.folder / "create.sh").write_text("#!/bin/sh\n")
    done = hosts.apply(service, hosts.file(db="db1"))
    assert done.code == 0, done
    assert [f"{each} = db1" in done.out for each in attributes] == [True, True], done


def test_failed_update_is_rolled_back_on_its_host(machine: Machine) -> None:
    """The former script runs again there, and the output is that of before."""
    hosts = Hosts(machine, "db1")
    outputs = {"out": {"value": {"get_attr": ["db_run", "out"]}}}
    good = hosts.template("db", then=OUT.replace("VALUE", "good"), outputs=outputs)
    assert hosts.apply(good, hosts.file(db="db1")).code == 0
    bad = hosts.template("db", then="exit 3", outputs=outputs)
    done = hosts.apply(bad, None, "--rollback")
    assert done.code == 1, done
    assert "rolled back" in done.err
    assert hosts.runs == ["db_run CREATE", *["db_run UPDATE"] * 2]
    assert hosts.output() == "good"
    assert hosts.stack("delete", "t", "--yes").code == 0
    assert (hosts.runs[3:], kept(hosts, "db1")) == (["db_run DELETE"], [])


def test_snapshot_is_restored_on_its_hosts(machine: Machine) -> None:
    """The former script runs on the host again; a server that has moved since goes back."""
    hosts = Hosts(machine, "one", "two")
    outputs = {"out": {"value": {"get_attr": ["db_run", "out"]}}}
    first = hosts.template("db", then=OUT.replace("VALUE", "first"), outputs=outputs)
    assert hosts.apply(first, hosts.file(db="one")).code == 0
    snapshots = hosts.stack("snapshot", "create", "t", "--name", "before")
    assert snapshots.code == 0, snapshots
    later = hosts.template("db", then=OUT.replace("VALUE", "later"), outputs=outputs)
    assert hosts.apply(later, hosts.file(db="two")).code == 0
    assert (hosts.output(), kept(hosts, "one")) == ("later", [])
    done = hosts.stack("snapshot", "restore", "t", "before", "--yes")
    assert (done.code, hosts.output()) == (0, "first"), done
    assert (len(kept(hosts, "one")), kept(hosts, "two")) == (1, [])


def test_rolling_update_goes_on_across_hosts(machine: Machine) -> None:
    """At most one batch runs at a time on all hosts together, and the next begins after the pause."""
    names = ("a", "b", "c", "d")
    hosts = Hosts(machine, *names)
    times = hosts.folder / "times"
    noted = f'date +"at %s.%N $HEAT_STACK_FILES" >>{times}'
    then = f"{noted}\nsleep 0.2\n{noted.replace('at %', 'end %')}"
    own = hosts.deployment("server", then, version={"get_param": "version"})
    server = {"type": "OS::Nova::Server", "properties": {"image": "x", "flavor": "y"}}
    version = {"version": {"type": "string"}}
    member = hosts.template(resources={"server": server, **own}, parameters=version)
    member.rename(machine.folder / "member.yaml")
    definition = {"type": "member.yaml", "properties": {"version": {"get_param": "v"}}}
    group = {
        "type": GROUP["type"],
        "properties": {"count": 4, "resource_def": definition},
        "update_policy": {"rolling_update": {"max_batch_size": 2, "pause_time": 1}},
    }
    content = {
        "heat_template_version": "2018-08-31",
        "parameters": {"v": {"type": "string"}},
        "resources": {"group": group},
    }
    template = machine.write(content, "t.yaml")
    files = hosts.file(**{f"group__{n}__server": name for n, name in enumerate(names)})
    assert hosts.apply(template, files, "--parameter", "v=1").code == 0
    times.unlink()
    done = hosts.apply(template, None, "--parameter", "v=2")
    assert done.code == 0, done
    lines = [line.split() for line in times.read_text().splitlines()]
    batches = [lines[:4], lines[4:]]
    for batch in batches:
        assert sorted(line[0] for line in batch) == ["at", "at", "end", "end"], lines
    first, second = ([float(line[1]) for line in batch] for batch in batches)
    assert min(second) - max(first) >= 1
    assert len({line[2] for line in lines}) == 4


LIFE = (
    ("suspend", "t"),
    ("resume", "t"),
    ("check", "t"),
    ("snapshot", "create", "t"),
    ("delete", "t", "--yes"),
)


def test_every_command_reaches_hosts_as_a_file_says(machine: Machine) -> None:
    """The agent on a host has another place each time; later commands keep what the last file has said."""
    hosts = Hosts(machine, "one")
    template = hosts.template("db")
    text = template.read_text()
    template.write_text(text.replace('"DELETE"', '"SUSPEND", "RESUME", "DELETE"'))
    assert hosts.apply(template, hosts.file(db=hosts.moving("one"))).code == 0
    for words in LIFE[:-1]:
        files = hosts.file(db=hosts.moving("one"))
        done = hosts.stack(*words, "--hosts", str(files))
        assert done.code == 0, (words, done)
    assert hosts.runs == [f"db_run {each}" for each in ("CREATE", "SUSPEND", "RESUME")]
    done = hosts.stack("suspend", "t")
    assert (done.code, hosts.runs[-1]) == (0, "db_run SUSPEND"), done
    files = hosts.file(db=hosts.moving("one"))
    done = hosts.stack("delete", "t", "--yes", "--hosts", str(files))
    assert (done.code, hosts.runs[-1]) == (0, "db_run DELETE"), done
    assert kept(hosts, "one") == []


def test_update_reaches_earlier_deployments_as_its_file_says(machine: Machine) -> None:
    """A deployment that leaves the template is deleted by the agent where it is now."""
    hosts = Hosts(machine, "one")
    template = hosts.template("db", "web")
    assert hosts.apply(template, hosts.file(db=hosts.moving("one"))).code == 0
    bare = hosts.template("db")
    content = json.loads(bare.read_text())
    del content["resources"]["db_run"]
    bare.write_text(json.dumps(content))
    done = hosts.apply(bare, hosts.file(db=hosts.moving("one")))
    assert (done.code, "db_run DELETE" in hosts.runs) == (0, True), done


@pytest.mark.parametrize("words", LIFE, ids=" ".join)
@pytest.mark.parametrize("more", [(), ("--plan",)], ids=["", "plan"])
def test_only_an_update_moves_a_server(
    machine: Machine, words: tuple[str, ...], more: tuple[str, ...]
) -> None:
    """Another command with another host for it is refused, and so is an unknown server; nothing is begun."""
    if more and words[0] == "snapshot":
        more = ()
    hosts = Hosts(machine, "one", "two")
    assert hosts.apply(hosts.template("db"), hosts.file(db="one")).code == 0
    done = hosts.stack(*words, *more, "--hosts", str(hosts.file(db="two")))
    assert done.code == 2
    assert "db is one, and not two: only an update moves a server" in done.err
    done = hosts.stack(*words, *more, "--hosts", str(hosts.file(dbb="one")))
    assert (done.code, "did you mean db?" in done.err) == (2, True), done
    assert (hosts.runs, len(hosts.sessions)) == (["db_run CREATE"], 1)


# Hosts files with mistakes.


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            "dbb: db1\n",
            "hosts.yaml:1:1: error: dbb: the template has no server 'dbb' (did you mean db?)",
        ),
        (
            "db_run: db1\n",
            "hosts.yaml:1:1: error: db_run: the template has no server 'db_run'",
        ),
        (
            "db: [db1]\n",
            "hosts.yaml:1:1: error: db: a host is a name that ssh knows, a URL",
        ),
        ("- db\n", "hosts.yaml:1:1: error: it has to be a map of servers to hosts"),
        ("", "hosts.yaml:1:1: error: it has to be a map of servers to hosts"),
        ("{}\n", "hosts.yaml:1:1: error: it names no server"),
        (
            "db: a\ndb: b\n",
            "hosts.yaml:2:1: error: db: the key 'db' is there twice: first in line 1",
        ),
        (
            "db: {adress: db1}\n",
            "db.adress: a host has no 'adress' (did you mean address?)",
        ),
        ("db: {user: me}\n", "hosts.yaml:1:1: error: db: the host has no address"),
        (
            "db: {address: db1, become: 1}\n",
            "db.become: become has to be true or false",
        ),
        ("db: {address: db1, command: '\"'}\n", "command cannot be split into words"),
        (
            "db: ssh://db1:99999\n",
            "'99999' is not a port: it is a number from 1 to 65535",
        ),
        ("db: ssh://me:secret@db1\n", "a password has no place here"),
        (
            "db: -oProxyCommand=reboot\n",
            "'-oProxyCommand=reboot' is not the name or address",
        ),
        ("db: ssh://db1/srv\n", "'ssh://db1/srv' is not the place of a host"),
        ("db: {a: b\n", "hosts.yaml:"),
        (
            "db: {address: db1, user: me}\nother: {address: db1, command: x}\n",
            "hosts.yaml:2:1: error: other: it is the same host as db, with another user and command",
        ),
    ],
)
def test_mistake_in_a_hosts_file_has_its_place(
    machine: Machine, content: str, sentence: str
) -> None:
    """Nothing is begun, and a close name is suggested."""
    hosts = Hosts(machine)
    done = hosts.apply(hosts.template("db"), machine.write(content, "hosts.yaml"))
    assert (done.code, hosts.runs, hosts.sessions) == (2, [], [])
    assert sentence in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("group/2/server", "group has no member '2' (it has 0 to 1)"),
        ("group/x/server", "group has no member 'x' (it has 0 to 1)"),
        (
            "group/1/serverr",
            "group/1 has no resource 'serverr' (did you mean server?)",
        ),
        ("group/1/server_run", "group/1/server_run is not a server"),
        ("group/1/server/x", "group/1/server has no resources inside"),
        ("group/1", "group/1 is not a server"),
        ("group", "group is not a server"),
        ("one/other", "one has no resource 'other'"),
    ],
)
def test_server_that_is_not_inside_is_refused(
    machine: Machine, name: str, sentence: str
) -> None:
    """A member that the group does not have, and what is not in a member or a nested stack, is a mistake."""
    hosts = Hosts(machine, "a")
    hosts.template("server").rename(machine.folder / "member.yaml")
    resources = {"group": GROUP, "one": {"type": "member.yaml"}}
    template = machine.write(
        {"heat_template_version": "2018-08-31", "resources": resources}, "t.yaml"
    )
    files = hosts.file(**{"one/server": "a", name: "a"})
    done = hosts.apply(template, files)
    assert (done.code, hosts.sessions) == (2, [])
    assert f"error: {name}: {sentence}" in done.err


def test_members_after_a_removal_have_hosts(machine: Machine) -> None:
    """A group that has removed its first member has others in its place, with higher numbers."""
    hosts = Hosts(machine, "a")
    hosts.template("server").rename(machine.folder / "member.yaml")

    def write(**more: Any) -> Path:
        properties = {**GROUP["properties"], **more}
        content = {"group": {"type": GROUP["type"], "properties": properties}}
        return machine.write(
            {"heat_template_version": "2018-08-31", "resources": content}, "t.yaml"
        )

    assert hosts.apply(write(), None).code == 0
    removed = [{"resource_list": ["0"]}]
    assert hosts.apply(write(removal_policies=removed), None).code == 0
    files = hosts.file(group__1__server="a", group__2__server="a")
    done = hosts.apply(write(), files)
    assert (done.code, hosts.sessions) == (0, ["a"]), done
    done = hosts.apply(write(), hosts.file(group__0__server="a"))
    assert "group has no member '0' (it has 1 to 2)" in done.err


def test_missing_hosts_file_is_refused(machine: Machine) -> None:
    """Nothing is begun."""
    hosts = Hosts(machine)
    done = hosts.apply(hosts.template("db"), machine.folder / "nothing")
    assert (done.code, hosts.runs) == (2, [])
    assert "cannot read the hosts file" in done.err
    assert "No such file or directory" in done.err


def test_unreadable_hosts_file_is_refused(machine: Machine) -> None:
    """One in another encoding, one that is too large, and one that may not be read: each with its reason."""
    hosts = Hosts(machine)
    path = machine.folder / "hosts.yaml"
    path.write_bytes("db: dätabase\n".encode("latin-1"))
    done = hosts.apply(hosts.template("db"), path)
    assert (done.code, hosts.sessions) == (2, [])
    assert f"cannot read the hosts file {path}: it is not UTF-8" in done.err
    path.write_bytes(b"# " + b"x" * 1024**2)
    done = hosts.apply(hosts.template("db"), path)
    assert (done.code, hosts.sessions) == (2, [])
    assert f"cannot read the hosts file {path}: " in done.err
    path.unlink()
    path.symlink_to(path)
    done = hosts.apply(hosts.template("db"), path)
    assert done.code == 2
    assert "Too many levels of symbolic links" in done.err


def test_inventory_of_ansible_names_hosts(machine: Machine) -> None:
    """Variables of connections become the values of a host, and machines that are not servers do not matter."""
    hosts = Hosts(machine)
    command = str(hosts.values("10.0.0.7")["command"])
    variables = {
        "web": {
            "ansible_host": "10.0.0.7",
            "ansible_user": "me",
            "ansible_port": 2222,
            "ansible_become": True,
        }
    }
    listed = {
        "_meta": {"hostvars": variables},
        "all": {"children": ["x"]},
        "x": {"hosts": ["web", "mail"]},
    }
    program = hosts.folder / "bin" / "ansible-inventory"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(listed)}\nEND\n")
    program.chmod(0o755)
    inventory = machine.write("[x]\nweb\nmail\n", "inventory")
    hosts.says("10.0.0.7", "Permission denied (publickey).")
    done = hosts.apply(hosts.template("web"), inventory)
    assert (done.code, command in hosts.commands) == (1, False)
    assert hosts.commands == "sudo -n -- heat-config-agent hosts session\n"
    assert "web is me@10.0.0.7:2222" in done.out
    done = hosts.apply(hosts.template("db"), inventory)
    assert done.code == 2
    assert "the template has no server 'web'" in done.err


def test_inventory_needs_ansible(machine: Machine) -> None:
    """The sentence says how to do without."""
    hosts = Hosts(machine)
    machine.environment["PATH"] = str(hosts.folder / "bin")
    done = hosts.apply(
        hosts.template("web"), machine.write("[all]\nweb\n", "inventory")
    )
    assert done.code == 2
    assert "ansible-inventory is not installed" in done.err
    assert "write a hosts file" in done.err


# Hosts that cannot be used.


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        (
            "admin@db1: Permission denied (publickey).",
            255,
            "admin@db1: Permission denied (publickey)",
        ),
        (
            "@@ WARNING @@\nHost key verification failed.",
            255,
            "Host key verification failed.",
        ),
        ("jumphost loop via db1", 255, "jumphost loop via db1"),
        (
            "ssh: Could not resolve hostname db1: Name or service not known",
            255,
            "ssh: Could not resolve hostname db1",
        ),
        ("sudo: a password is required", 1, "sudo: a password is required"),
        (
            "This account is currently not available.",
            1,
            "This account is currently not available.",
        ),
        (
            "sh: heat-config-agent: not found",
            127,
            "there is no agent there: sh: heat-config-agent: not found",
        ),
    ],
)
def test_host_that_cannot_be_used_fails_its_deployments(
    machine: Machine, said: str, code: int, sentence: str
) -> None:
    """The reason is the client's, and another host goes on meanwhile."""
    hosts = Hosts(machine, "db1", "web1")
    hosts.says("db1", f"{said}\n", code)
    template = hosts.template("db", "web")
    done = hosts.apply(template, hosts.file(db="db1", web="web1"))
    assert (done.code, hosts.runs) == (1, ["web_run CREATE"]), done
    assert f"the host db1 cannot be used: {sentence}" in done.err
    hosts.is_back("db1")
    done = hosts.apply(template, None)
    assert (done.code, hosts.runs) == (0, ["web_run CREATE", "db_run CREATE"]), done


def test_banner_before_the_protocol_is_skipped(machine: Machine) -> None:
    """The profile of a shell may print whatever it likes."""
    hosts = Hosts(machine, "db1")
    hosts.banner("db1", 'Welcome!\n{"is": "result"}\n\nno newline at the end')
    done = hosts.apply(hosts.template("db"), hosts.file(db="db1"))
    assert (done.code, hosts.runs) == (0, ["db_run CREATE"]), done


def test_shell_that_is_not_posix_starts_the_agent(machine: Machine) -> None:
    """The command is plain words in single quotes, also for places with spaces."""
    hosts = Hosts(machine, "db1")
    hosts.shell("db1")
    place = machine.folder / "state of db1"
    files = hosts.file(db=hosts.values("db1", state_dir=str(place)))
    done = hosts.apply(hosts.template("db", then="echo printed"), files)
    assert (done.code, hosts.runs) == (0, ["db_run CREATE"]), done
    assert (place / "hosted").is_dir()
    assert machine.agent("log", "t/db_run").out == "printed\n"
    assert hosts.stack("delete", "t", "--yes").code == 0


@pytest.mark.parametrize(("seconds", "word"), [(86400, "ahead of"), (-86400, "behind")])
def test_clock_that_is_off_by_a_day_is_said_and_harms_nothing(
    machine: Machine, seconds: int, word: str
) -> None:
    """Runs and waits are measured without the clocks of the hosts."""
    hosts = Hosts(machine, "db1")
    files = hosts.file(db=hosts.clock("db1", seconds))
    done = machine.command("heat-config-agent", ["hosts", "check", str(files)], {})
    assert done.code == 0, done
    assert re.search(
        f"its clock is 86[34]\\d\\d s {word} that of this machine", done.out
    )
    template = hosts.template("db", then=OUT.replace("VALUE", "1"))
    done = hosts.apply(template, files)
    assert (done.code, hosts.runs) == (0, ["db_run CREATE"]), done
    assert done.err == ""
    done = hosts.apply(template, None)
    assert (done.code, len(hosts.runs), hosts.sessions) == (0, 1, ["db1", "db1"])
    assert hosts.stack("delete", "t", "--yes").code == 0


def test_little_space_of_a_host_is_said(machine: Machine) -> None:
    """The check of hosts warns of it before a stack needs it."""
    hosts = Hosts(machine, "db1")
    with small_disk(machine, "1m", hosts.state("db1")):
        words = ["hosts", "check", str(hosts.file(db="db1"))]
        done = machine.command("heat-config-agent", words, {})
    assert done.code == 0, done
    assert re.search("only [01] MiB are free for its state directory", done.out), done


@pytest.mark.parametrize(("version", "word"), [("99.1", "newer"), ("0.1", "older")])
def test_agent_of_another_major_version_is_refused(
    machine: Machine, version: str, word: str
) -> None:
    """Nothing is sent to it."""
    hosts = Hosts(machine, "db1")
    hello = {"is": "hello", "protocol": 1, "version": version, "time": 0}
    other = machine.hook(
        "agent",
        f"#!/bin/sh\nprintf '\\nheat-config-agent host session %s\\n' '{json.dumps(hello)}'\ncat\n",
    )
    values: dict[str, Any] = hosts.values("db1", command=str(other))
    done = hosts.apply(
        hosts.template("db"), machine.write({"db": values}, "hosts.yaml")
    )
    assert (done.code, hosts.runs) == (1, [])
    assert (
        f"the host db1 cannot be used: the agent there is {word}: version {version}"
        in done.err
    )


def test_paused_host_is_waited_for(machine: Machine) -> None:
    """Its pause holds there, and the reason is shown."""
    hosts = Hosts(machine, "db1")
    place = ["--state-dir", str(hosts.state("db1"))]
    assert (
        machine.command(
            "heat-config-agent", ["pause", *place, "--reason", "inventory"], {}
        ).code
        == 0
    )
    process = machine.start_apply(
        hosts.template("db"), "--hosts", str(hosts.file(db="db1"))
    )
    assert process.stderr is not None
    assert "db1 is waited for: the agent is paused" in process.stderr.readline()
    assert machine.command("heat-config-agent", ["resume", *place], {}).code == 0
    process.communicate(timeout=pace.seconds(60))
    assert (process.returncode, hosts.runs) == (0, ["db_run CREATE"])


def test_policy_of_the_host_holds(machine: Machine) -> None:
    """The settings of each host are its own: here, it has no such tool."""
    hosts = Hosts(machine, "db1")
    template = hosts.template("db")
    template.write_text(
        template.read_text().replace('"group": "script"', '"group": "nothing"')
    )
    done = hosts.apply(template, hosts.file(db="db1"))
    assert done.code == 1
    assert "db_run: exit code" in done.err
    assert "nothing" in done.err


# Breaks.


def test_host_that_does_not_answer_is_waited_for(machine: Machine) -> None:
    """Others go on, the reason is shown, and its script runs as soon as it answers."""
    hosts = Hosts(machine, "db1", "web1")
    hosts.says("db1", "ssh: connect to host db1 port 22: Connection refused\n")
    files = hosts.file(db="db1", web="web1")
    process = machine.start_apply(hosts.template("db", "web"), "--hosts", str(files))
    assert process.stderr is not None
    assert (
        "db1 is waited for: ssh: connect to host db1 port 22: Connection refused"
        in process.stderr.readline()
    )
    hosts.waits_for_run("web_run CREATE")
    hosts.is_back("db1")
    _, err = process.communicate(timeout=pace.seconds(60))
    assert (process.returncode, hosts.runs) == (
        0,
        ["web_run CREATE", "db_run CREATE"],
    ), err
    assert "db1 goes on" in err


def test_host_that_never_answers_fails_after_the_timeout(machine: Machine) -> None:
    """The time limit is that of deployments, and the sentence says since when."""
    hosts = Hosts(machine, "db1")
    hosts.says("db1", "ssh: connect to host db1 port 22: Connection refused\n")
    done = hosts.apply(hosts.template("db"), hosts.file(db="db1"), "--timeout", "1")
    assert (done.code, hosts.runs) == (1, [])
    assert "the host db1 has not answered since 2" in done.err
    assert "Connection refused; it is not known how the run there has ended" in done.err


def test_killed_session_is_begun_again(machine: Machine) -> None:
    """The run goes on without it, and its result is taken over once."""
    hosts = Hosts(machine, "db1")
    then = hosts.until_go + OUT.replace("VALUE", "over")
    outputs = {"out": {"value": {"get_attr": ["db_run", "out"]}}}
    template = hosts.template("db", then=then, outputs=outputs)
    process = machine.start_apply(template, "--hosts", str(hosts.file(db="db1")))
    hosts.waits_for_run("db_run CREATE")
    hosts.kill("db1")
    hosts.go.touch()
    out, err = process.communicate(timeout=pace.seconds(60))
    assert (process.returncode, hosts.runs) == (0, ["db_run CREATE"]), err
    assert "out = over" in out
    assert "db1 is waited for" in err
    assert len(hosts.sessions) >= 2


@pytest.mark.parametrize("is_over", [False, True])
def test_killed_coordinator_continues(machine: Machine, is_over: bool) -> None:
    """The same command takes over the result of the run, which has ended meanwhile or goes on."""
    hosts = Hosts(machine, "db1")
    then = hosts.until_go + OUT.replace("VALUE", "over")
    outputs = {"out": {"value": {"get_attr": ["db_run", "out"]}}}
    template = hosts.template("db", then=then, outputs=outputs)
    process = machine.start_apply(template, "--hosts", str(hosts.file(db="db1")))
    hosts.waits_for_run("db_run CREATE")
    process.kill()
    process.communicate(timeout=pace.seconds(60))
    if is_over:
        hosts.go.touch()
    again = machine.start_apply(template, "--hosts", str(hosts.file(db="db1")))
    hosts.go.touch()
    out, err = again.communicate(timeout=pace.seconds(60))
    assert (again.returncode, hosts.runs) == (0, ["db_run CREATE"]), err
    assert "out = over" in out


def test_cancelled_stack_ends_its_runs_on_hosts(machine: Machine) -> None:
    """The script is ended there, and the next apply runs it again."""
    hosts = Hosts(machine, "db1")
    template = hosts.template("db", then=hosts.until_go)
    process = machine.start_apply(template, "--hosts", str(hosts.file(db="db1")))
    hosts.waits_for_run("db_run CREATE")
    done = hosts.stack("cancel", "t")
    process.communicate(timeout=pace.seconds(60))
    assert done.code == 0, done
    assert "CREATE was cancelled" in done.out
    hosts.go.touch()
    done = hosts.apply(template, None)
    assert (done.code, hosts.runs) == (0, ["db_run CREATE"] * 2), done


def test_stack_is_deleted_without_a_host_that_is_gone(machine: Machine) -> None:
    """With --force, the time limit is waited for once, and what may be left there is named."""
    hosts = Hosts(machine, "db1")
    assert hosts.apply(hosts.template("db"), hosts.file(db="db1")).code == 0
    hosts.says("db1", "Host key verification failed.\n")
    done = hosts.stack("delete", "t", "--yes")
    assert done.code == 1
    done = hosts.stack("delete", "t", "--yes", "--force")
    assert done.code == 0, done
    assert "db_run may still exist, and is forgotten" in done.err
    assert "db1 still has" in done.err


# Hosts that were away when a stack has left them.


def left_behind(hosts: Hosts) -> Path:
    """Delete a stack while its host is away, and return what that has of it; the host is back then."""
    assert hosts.apply(hosts.template("db"), hosts.file(db="db1")).code == 0
    hosts.says("db1", "Host key verification failed.\n")
    assert hosts.stack("delete", "t", "--yes", "--force").code == 0
    (folder,) = kept(hosts, "db1")
    hosts.is_back("db1")
    return folder


def registered(hosts: Hosts) -> list[Path]:
    """Return the files here that say which hosts keep something of stacks."""
    folder = hosts.machine.state / "hosts"
    return list(folder.iterdir()) if folder.is_dir() else []


def test_stack_that_is_gone_is_forgotten_when_its_host_is_reached(
    machine: Machine,
) -> None:
    """The next command of another stack there has it removed, and leaves its own."""
    hosts = Hosts(machine, "db1", "web1")
    folder = left_behind(hosts)
    assert len(registered(hosts)) == 1
    other = hosts.template("db").rename(machine.folder / "other.yaml")
    done = hosts.apply(other, hosts.file(db="web1"))
    assert (done.code, folder.exists()) == (0, True), done
    done = hosts.apply(other, hosts.file(db="db1"))
    assert done.code == 0, done
    assert "db1 has removed what it kept of the stack t" in done.err
    assert (folder.exists(), len(kept(hosts, "db1"))) == (False, 1)
    assert len(registered(hosts)) == 1
    assert hosts.stack("delete", "other", "--yes").code == 0
    assert (kept(hosts, "db1"), registered(hosts)) == ([], [])


def test_host_that_no_record_names_is_remembered(machine: Machine) -> None:
    """A stack of a version without such records is deleted while its host is away."""
    hosts = Hosts(machine, "db1")
    assert hosts.apply(hosts.template("db"), hosts.file(db="db1")).code == 0
    (record,) = registered(hosts)
    record.unlink()
    hosts.says("db1", "Host key verification failed.\n")
    assert hosts.stack("delete", "t", "--yes", "--force").code == 0
    assert registered(hosts) == [record]


def test_check_of_hosts_has_a_stack_that_is_gone_forgotten(machine: Machine) -> None:
    """It says so once, and a stack that is still there keeps its folder."""
    hosts = Hosts(machine, "db1")
    folder = left_behind(hosts)
    other = hosts.template("db").rename(machine.folder / "other.yaml")
    files = hosts.file(db=hosts.values("db1", address="db1"))
    place = ["--state-dir", str(machine.state)]
    words = ["hosts", "check", *place, str(files)]
    done = machine.command("heat-config-agent", words, {})
    assert (done.code, folder.exists(), registered(hosts)) == (0, False, []), done
    assert "it has removed what it kept of the stack t" in done.out
    assert hosts.apply(other, files).code == 0
    done = machine.command("heat-config-agent", words, {})
    assert (done.code, len(kept(hosts, "db1"))) == (0, 1), done
    assert "removed" not in done.out
    hosts.says("db1", REFUSED)
    assert machine.command("heat-config-agent", words, {}).code == 1
    assert len(registered(hosts)) == 1


def test_host_that_a_stack_has_left_is_told_later(machine: Machine) -> None:
    """A command that was killed after the move has not told it; a check does, if nothing of the stack is there."""
    hosts = Hosts(machine, "one", "two")
    template = hosts.template("db")
    assert hosts.apply(template, hosts.file(db="one")).code == 0
    (former,) = registered(hosts)
    text = former.read_text()
    (folder,) = kept(hosts, "one")
    journal = (folder / "journal").read_bytes()
    assert hosts.apply(template, hosts.file(db="two")).code == 0
    assert kept(hosts, "one") == []
    # as before the host was told
    (now,) = registered(hosts)
    both = json.loads(now.read_text())["hosts"] + json.loads(text)["hosts"]
    now.write_text(json.dumps({**json.loads(text), "hosts": both}))
    folder.mkdir()
    (folder / "journal").write_bytes(journal)
    files = hosts.file(x="one", y="two")
    place = ["--state-dir", str(machine.state)]
    done = machine.command(
        "heat-config-agent", ["hosts", "check", *place, str(files)], {}
    )
    assert done.code == 0, done
    assert (kept(hosts, "one"), len(kept(hosts, "two"))) == ([], 1)
    (now,) = registered(hosts)
    assert len(json.loads(now.read_text())["hosts"]) == 1


def test_run_of_a_stack_that_is_gone_is_ended(machine: Machine) -> None:
    """A script that still runs on a host that was given up ends before the host removes what it has."""
    hosts = Hosts(machine, "db1")
    template = hosts.template("db", then=hosts.until_go)
    process = machine.start_apply(template, "--hosts", str(hosts.file(db="db1")))
    try:
        hosts.waits_for_run("db_run CREATE")
    finally:
        process.kill()
        process.communicate(timeout=pace.seconds(60))
    hosts.says("db1", "Host key verification failed.\n")
    assert hosts.stack("delete", "t", "--yes", "--force").code == 0
    (folder,) = kept(hosts, "db1")
    assert machine.processes_with(folder)
    hosts.is_back("db1")
    words = ["--state-dir", str(machine.state), str(hosts.file(db="db1"))]
    done = machine.command("heat-config-agent", ["hosts", "check", *words], {})
    assert "it has removed what it kept of the stack t" in done.out, done
    assert kept(hosts, "db1") == []
    wait_until(lambda: not machine.processes_with(folder))


# Reboots that a deployment asks for.

REBOOTS = '[ -n "$HEAT_REBOOTS" ] || exit 194\n' + OUT.replace("VALUE", "over")


def test_deployment_has_its_host_rebooted(machine: Machine) -> None:
    """The run continues after the reboot, which the coordinator waits for and names; another host goes on."""
    hosts = Hosts(machine, "db1", "web1")
    template = hosts.template(
        "db",
        then=REBOOTS,
        resources={
            "web": {
                "type": "OS::Nova::Server",
                "properties": {"image": "x", "flavor": "y"},
            },
            **hosts.deployment("web"),
        },
        outputs={"out": {"value": {"get_attr": ["db_run", "out"]}}},
    )
    files = hosts.file(db=hosts.booted("db1"), web="web1")
    done = hosts.apply(template, files)
    assert (done.code, hosts.reboots) == (0, ["db1"]), done
    assert sorted(hosts.runs) == ["db_run CREATE"] * 2 + ["web_run CREATE"]
    assert "out = over" in done.out
    assert "db1 is waited for: it is rebooted: db_run asked for it\n" in done.err
    assert "db1 goes on" in done.err
    assert "cannot be used" not in done.err


def test_reboot_outlasts_the_timeout(machine: Machine) -> None:
    """A host that is not back within the timeout of its deployments is waited for, whatever the client says."""
    hosts = Hosts(machine, "db1")
    files = hosts.file(db=hosts.booted("db1"))
    hosts.stays_away(
        "db1", "ssh: Could not resolve hostname db1: Name or service not known\n"
    )
    process = machine.start_apply(
        hosts.template("db", then=REBOOTS), "--hosts", str(files), "--timeout", "1"
    )
    assert process.stderr is not None
    wait_until(lambda: len(hosts.sessions) > 3)
    hosts.is_back("db1")
    _, err = process.communicate(timeout=pace.seconds(60))
    assert (process.returncode, hosts.reboots) == (0, ["db1"]), err
    assert "Could not resolve" not in err


def test_reboot_is_left_to_people_where_the_settings_say_so(machine: Machine) -> None:
    """The others go on, the command ends with the code of a reboot, and the same command continues after it."""
    hosts = Hosts(machine, "db1", "web1")
    template = hosts.template("db", "web", then=REBOOTS)
    files = hosts.file(
        db=hosts.booted("db1", may_reboot="no"), web=hosts.booted("web1")
    )
    for _ in range(2):
        done = hosts.apply(template, files)
        assert (done.code, hosts.reboots) == (6, ["web1"]), done
        assert (
            "db1: db_run asked for a reboot of the host, which its settings leave to people (may_reboot)"
            in done.err
        )
        assert "reboot db1, and run the command again to continue" in done.err
        assert hosts.runs.count("web_run CREATE") == 2
    hosts.reboot("db1")
    done = hosts.apply(template, None)
    assert (done.code, sorted(hosts.runs)) == (
        0,
        ["db_run CREATE"] * 2 + ["web_run CREATE"] * 2,
    ), done


def test_failed_reboot_of_a_host_fails_its_deployment(machine: Machine) -> None:
    """The reason is that of the command there."""
    hosts = Hosts(machine, "db1")
    files = hosts.file(db=hosts.booted("db1", reboot_command="/bin/false"))
    done = hosts.apply(hosts.template("db", then=REBOOTS), files)
    assert (done.code, hosts.runs) == (1, ["db_run CREATE"]), done
    assert "it asked for a reboot, and «/bin/false» ended with exit code 1" in done.err


def test_session_while_a_host_goes_down_waits_for_the_reboot(machine: Machine) -> None:
    """The reboot command, which fails while the machine goes down, is not started a second time."""
    hosts = Hosts(machine, "db1")
    command = hosts.folder / "goes-down"
    asked = hosts.folder / "asked"
    command.write_text(
        f"#!/bin/sh\n[ -e {asked} ] && exit 1\n"
        f"cp {hosts.folder}/db1.pid {asked}.new && mv {asked}.new {asked}\n"
        f'kill -KILL "$(cat {asked})"\n'
    )
    command.chmod(0o755)
    files = hosts.file(db=hosts.booted("db1", reboot_command=str(command)))
    process = machine.start_apply(
        hosts.template("db", then=REBOOTS), "--hosts", str(files)
    )
    try:
        wait_until(asked.exists)
        former = int(asked.read_text())
        for end in (hosts.kill, hosts.reboot):
            wait_until(lambda pid=former: hosts.pid("db1") not in (0, pid))  # type: ignore[misc]
            former = hosts.pid("db1")
            end("db1")
    finally:
        _, err = process.communicate(timeout=pace.seconds(60))
    assert (process.returncode, hosts.runs) == (0, ["db_run CREATE"] * 2), err


def test_reboot_waits_for_runs_of_other_stacks(machine: Machine) -> None:
    """A run of another stack on the host is not cut short."""
    hosts = Hosts(machine, "db1")
    files = hosts.file(db=hosts.booted("db1"))
    other = hosts.template("db", then=hosts.until_go).rename(
        machine.folder / "other.yaml"
    )
    first = machine.start_apply(other, "--hosts", str(files))
    hosts.waits_for_run("db_run CREATE")
    template = hosts.template("db", then=REBOOTS)
    second = machine.start_apply(template, "--hosts", str(files))
    assert second.stderr is not None
    assert (
        "db1 is waited for: db_run asked for a reboot of the host, which waits for the end of other runs there"
        in second.stderr.readline()
    )
    assert hosts.reboots == []
    hosts.go.touch()
    for process in (first, second):
        _, err = process.communicate(timeout=pace.seconds(60))
        assert process.returncode == 0, err
    assert (hosts.reboots, len(hosts.runs)) == (["db1"], 3)


# The check.


def test_check_says_what_each_host_has(machine: Machine) -> None:
    """Hosts are asked all at once; one that cannot be used has its reason, and the command fails."""
    hosts = Hosts(machine, "db1", "web1")
    files = hosts.file(db="db1", web="web1")
    done = machine.command("heat-config-agent", ["hosts", "check", str(files)], {})
    assert done.code == 0, done
    assert [line.split()[:3] for line in done.out.splitlines()[1:]] == [
        ["db", "db1", "ok"],
        ["web", "web1", "ok"],
    ]
    hosts.says("web1", "Permission denied (publickey).\n")
    done = machine.command(
        "heat-config-agent", ["hosts", "check", str(files), "--json"], {}
    )
    db, web = done.data["hosts"]
    assert (done.code, db["usable"], web["usable"]) == (1, True, False)
    assert ("script" in db["tools"], db["clock_seconds"] < 60) == (True, True)
    assert web["problem"] == "Permission denied (publickey)."
    assert done.json["error"]["message"] == "web1: Permission denied (publickey)."
    mistake = machine.command(
        "heat-config-agent", ["hosts", "check", str(machine.write("[", "h"))], {}
    )
    assert mistake.code == 2


def test_session_by_hand_is_refused(machine: Machine) -> None:
    """Without a coordinator it ends at once, and nothing is made."""
    place = ["--state-dir", str(machine.state)]
    done = machine.command("heat-config-agent", ["hosts", "session", *place], {})
    assert (done.code, machine.state.exists()) == (0, False)


# What a host knows of its deployments.


def test_output_of_a_run_is_asked_of_its_host(machine: Machine) -> None:
    """`log` prints what the host has, and names the host where it cannot be asked; `show` names it, too."""
    hosts = Hosts(machine, "db1")
    assert (
        hosts.apply(
            hosts.template("db", then="echo printed"), hosts.file(db="db1")
        ).code
        == 0
    )
    done = machine.agent("log", "t/db_run")
    assert (done.code, done.out) == (0, "printed\n"), done
    (run,) = machine.agent("log", "t/db_run", "--json").data["runs"]
    assert run["stdout"] == "printed\n"
    assert "host         db1" in machine.agent("show", "t/db_run").out
    assert machine.agent("log", "t").out == "t/db_run  | printed\n"
    (run,) = machine.agent("log", "t", "--json").data["runs"]
    assert (run["name"], run["stdout"]) == ("t/db_run", "printed\n")
    hosts.says("db1", "ssh: connect to host db1 port 22: Connection refused\n")
    done = machine.agent("log", "t/db_run")
    assert done.code == 1
    assert "the host db1, which has it, is not reached" in done.err
    done = machine.agent("log", "t")
    assert (done.code, done.out) == (1, "")
    assert (
        "the output of t/db_run is not shown: the host db1 is not reached" in done.err
    )


def test_output_of_hosts_is_followed(machine: Machine) -> None:
    """`log --follow STACK` prints lines while scripts run on hosts, also of those that begin later, and then ends."""
    hosts = Hosts(machine, "db1", "web1")
    then = f"echo early\necho oops >&2\n{hosts.until_go}echo late\n"
    later = hosts.deployment("web", "echo after", port={"get_attr": ["db_run", "out"]})
    server = {"type": "OS::Nova::Server", "properties": {"image": "x", "flavor": "y"}}
    template = hosts.template(
        "db",
        then=f"{then}{OUT.replace('VALUE', '1')}",
        resources={"web": server, **later},
    )
    files = hosts.file(db="db1", web="web1")
    process = machine.start_apply(template, "--hosts", str(files))
    follows = None
    try:
        hosts.waits_for_run("db_run CREATE")
        follows = machine.start(
            "heat-config-agent",
            *("log", "--state-dir", str(machine.state), "--follow", "t"),
            stdin=None,
        )
        assert follows.stdout is not None
        assert follows.stdout.readline() == "t/db_run  | early\n"
        hosts.go.touch()
        out, err = follows.communicate(timeout=pace.seconds(60))
    finally:
        hosts.go.touch()
        process.communicate(timeout=pace.seconds(60))
        if follows is not None and follows.poll() is None:
            follows.kill()
            follows.communicate()
    assert follows.returncode == 0, err
    assert out.splitlines() == ["t/db_run  | late", "t/web_run  | after"]
    assert err == "t/db_run  | oops\n"


def test_output_of_a_host_is_followed_after_a_break(machine: Machine) -> None:
    """The connection of `log --follow` breaks: it is made again, and each line is printed once."""
    hosts = Hosts(machine, "db1")
    then = f"echo early\n{hosts.until_go}echo late\n"
    template = hosts.template("db", then=then)
    process = machine.start_apply(template, "--hosts", str(hosts.file(db="db1")))
    follows = None
    try:
        hosts.waits_for_run("db_run CREATE")
        session = hosts.pid("db1")
        follows = machine.start(
            "heat-config-agent",
            *("log", "--state-dir", str(machine.state), "--follow", "t"),
            stdin=None,
        )
        assert follows.stdout is not None
        assert follows.stdout.readline() == "t/db_run  | early\n"
        assert hosts.pid("db1") != session
        hosts.says("db1", REFUSED)
        hosts.kill("db1")
        begun = len(hosts.sessions)
        wait_until(lambda: len(hosts.sessions) > begun)
        hosts.is_back("db1")
        begun = len(hosts.sessions)
        wait_until(lambda: len(hosts.sessions) > begun)
        hosts.go.touch()
        out, err = follows.communicate(timeout=pace.seconds(60))
    finally:
        hosts.go.touch()
        process.communicate(timeout=pace.seconds(60))
        if follows is not None and follows.poll() is None:
            follows.kill()
            follows.communicate()
    assert (follows.returncode, out) == (0, "t/db_run  | late\n"), err


def test_runs_of_a_host_are_listed(machine: Machine) -> None:
    """`show` lists the runs that the host keeps, and says why it does not; so does its answer as JSON."""
    hosts = Hosts(machine, "db1")
    template = hosts.template("db", then=f"[ -e {hosts.go} ] || exit 3")
    assert hosts.apply(template, hosts.file(db="db1")).code == 1
    hosts.go.touch()
    assert hosts.apply(template, None).code == 0
    done = machine.agent("show", "t/db_run")
    lines = done.out.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("runs ("))
    rows = [line.split()[:3] for line in lines[first + 2 :]]
    assert rows == [["1", "failed", "CREATE"], ["2", "ok", "CREATE"]], done
    runs = machine.agent("show", "t/db_run", "--json").data["runs"]
    assert [each["state"] for each in runs] == ["failed", "ok"]
    assert machine.agent("show", "t/db", "--json").data["runs"] is None
    hosts.says("db1", REFUSED)
    done = machine.agent("show", "t/db_run")
    assert (done.code, "runs (" in done.out) == (0, False)
    assert "the runs of db_run are not shown: the host db1 is not reached" in done.err


def test_earlier_runs_are_asked_of_their_host(machine: Machine) -> None:
    """`log --run N` counts all runs of the deployment there, and `--failed` finds the last failure."""
    hosts = Hosts(machine, "db1")
    then = f'echo "of $deploy_action"; [ -e {hosts.go} ] || exit 3'
    template = hosts.template("db", then=then)
    assert hosts.apply(template, hosts.file(db="db1")).code == 1
    hosts.go.touch()
    assert hosts.apply(template, None).code == 0
    template = hosts.template("db", then=f"{then}\n# other")
    assert hosts.apply(template, None).code == 0
    assert machine.agent("log", "t/db_run").out == "of UPDATE\n"
    assert machine.agent("log", "t/db_run", "--run", "-1").out == "of CREATE\n"
    assert machine.agent("log", "t/db_run", "--run", "1").out == "of CREATE\n"
    (run,) = machine.agent("log", "t/db_run", "--run", "0", "--json").data["runs"]
    assert (run["action"], run["stdout"]) == ("UPDATE", "of UPDATE\n")
    for name in ("t", "t/db_run"):
        (run,) = machine.agent("log", name, "--failed", "--json").data["runs"]
        assert (run["state"], run["stdout"]) == ("failed", "of CREATE\n")
    assert machine.agent("log", "t/db_run", "--run", "9").code == 8


@pytest.mark.parametrize("name", ["t", "t/db_run"])
def test_run_on_a_host_is_stopped(machine: Machine, name: str) -> None:
    """Its host ends it, the coordinator takes the failure over, and others go on."""
    hosts = Hosts(machine, "db1")
    template = hosts.template("db", then=hosts.until_go)
    process = machine.start_apply(template, "--hosts", str(hosts.file(db="db1")))
    hosts.waits_for_run("db_run CREATE")
    plan = machine.agent("stop", name, "--plan")
    assert (plan.code, "on db1" in plan.out) == (0, True), plan
    done = machine.agent("stop", name, "--yes", "--wait")
    assert done.code == 0, done
    # a run that has ended by then has its outcome in the place of the request
    said = (
        r"^t/db_run: on db1: (stop of |t/db_run: failed: ended because it was stopped )"
    )
    assert re.search(said, done.out), done
    _, err = process.communicate(timeout=pace.seconds(60))
    assert process.returncode == 1
    assert "stopped by" in err
    done = machine.agent("stop", "t/db_run", "--yes")
    assert (done.code, "does not run" in done.err) == (1, True), done
    hosts.says("db1", "ssh: connect to host db1 port 22: Connection refused\n")
    done = machine.agent("stop", "t/db_run", "--yes", "--json")
    assert "the host db1 is not reached" in done.json["error"]["message"]


def test_deployment_on_a_host_is_run_again(machine: Machine) -> None:
    """`retry` and `forget` have the next action of the stack run it on its host again."""
    hosts = Hosts(machine, "db1")
    template = hosts.template("db")
    assert hosts.apply(template, hosts.file(db="db1")).code == 0
    assert "t/db_run" in machine.agent("retry", "t/db_run", "--plan").out
    done = machine.agent("retry", "t/db_run")
    assert (done.code, hosts.runs) == (0, ["db_run CREATE"]), done
    assert "t/db_run will run again" in done.out
    assert hosts.apply(template, None).code == 0
    assert hosts.runs[1:] == ["db_run CREATE"]
    assert machine.agent("forget", "t/db_run", "--yes").code == 0
    assert hosts.apply(template, None).code == 0
    assert hosts.runs[2:] == ["db_run CREATE"]


def test_verification_is_asked_of_hosts(machine: Machine) -> None:
    """Drift there is drift; a host that cannot be asked makes its deployments unknown, which is not in effect."""
    hosts = Hosts(machine, "db1")
    path = machine.folder / "kept"
    verify = f"#!/bin/sh\ntest -e {path}\n"
    template = hosts.template("db", then=f"touch {path}")
    content = json.loads(template.read_text())
    content["resources"]["db_run_config"]["properties"]["options"] = {"verify": verify}
    template.write_text(json.dumps(content))
    assert hosts.apply(template, hosts.file(db="db1")).code == 0
    done = machine.agent("verify")
    assert (done.code, done.out.splitlines()[1].split()[:2]) == (
        0,
        ["t/db_run", "ok"],
    ), done
    done = hosts.stack("check", "t")
    assert (done.code, "1 deployment: 1 ok" in done.out) == (0, True), done
    path.unlink()
    for words in ([], ["t"], ["t/db_run"]):
        done = machine.agent("verify", *words, "--json")
        (row,) = done.data["deployments"]
        assert (done.code, row["name"], row["state"]) == (9, "t/db_run", "drifted"), (
            done
        )
    plan = machine.agent("verify", "--repair", "--plan")
    assert plan.out.splitlines()[1].split()[:2] == ["repair", "t/db_run"]
    done = machine.agent("verify", "--repair", "--json")
    (row,) = done.data["deployments"]
    assert (done.code, row["state"], row["repair"]) == (0, "ok", "done"), done
    assert (path.exists(), hosts.runs[1:]) == (True, ["db_run UPDATE"])
    path.unlink()
    done = hosts.stack("check", "t")
    assert (done.code, "db_run: drifted: on db1" in done.out) == (9, True), done
    assert hosts.apply(template, None).code == 0
    assert path.exists()


def test_check_fails_where_a_host_is_away(machine: Machine) -> None:
    """Nothing was looked at, so it is neither in effect nor drifted: the next update runs nothing, and reaches none."""
    hosts = Hosts(machine, "db1", "web1")
    template = hosts.template("db", "web")
    assert hosts.apply(template, hosts.file(db="db1", web="web1")).code == 0
    hosts.says("db1", REFUSED)
    done = hosts.stack("check", "t")
    assert done.code == 1, done
    unread = "db_run: unknown: not verified: on db1: the host db1 is not reached: ssh:"
    assert unread in done.out
    assert "web_run: unknown: not verified: on web1: the tool script cannot" in done.out
    assert "CHECK failed" in done.err
    assert "not verified: on db1: the host db1 is not reached" in done.err
    assert "CHECK_COMPLETE" not in done.out
    stack = hosts.stack("show", "t", "--json").data
    assert stack["stack_status"] == "CHECK_FAILED"
    for more in ((), ("--allow-unknown",)):
        done = machine.agent("verify", *more)
        assert done.code == 1
        assert f"on db1: the host db1 is not reached: {REFUSED}" in done.out
    done = hosts.apply(template, None)
    assert (done.code, len(hosts.runs)) == (0, 2), done
    hosts.is_back("db1")
    done = hosts.stack("check", "t")
    assert (done.code, "2 deployments: 2 unknown" in done.out) == (0, True), done
    assert machine.agent("verify", "--allow-unknown").code == 0


def test_check_fails_where_a_host_has_lost_its_deployment(machine: Machine) -> None:
    """A host that was installed again has nothing to verify, which is not a success."""
    hosts = Hosts(machine, "db1")
    assert hosts.apply(hosts.template("db"), hosts.file(db="db1")).code == 0
    shutil.rmtree(hosts.state("db1"))
    done = hosts.stack("check", "t")
    assert done.code == 1, done
    assert (
        "db_run: unknown: not verified: on db1: the host db1 cannot be asked: nothing is kept of the stack\n"
        in done.out
    )


def test_host_carries_out_reading_commands_only(machine: Machine) -> None:
    """Another command, or another stack, is refused."""
    place = ["--state-dir", str(machine.state)]
    ask = ["hosts", "ask", *place, "x"]
    done = machine.command("heat-config-agent", [*ask, "prune"], {})
    assert done.code == 2
    assert "a host does not carry out 'prune' for another machine" in done.err
    assert machine.command("heat-config-agent", [*ask, "log", "y"], {}).code == 8
