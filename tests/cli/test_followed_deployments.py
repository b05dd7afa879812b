"""The deployments of followed documents, and those of stacks, under the names that people type, in every command."""

from __future__ import annotations

import json
import shutil
import signal

import pytest

from heat_config_agent.state import followed
from support.commands import SH
from support.daemon import LONG, Daemon
from support.loopback import wait_until
from support.machine import Done, Machine
from support.repositories import Repository, template

GIT = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is missing: apt-get install git"
)


def document(machine: Machine, *names: str, config: str = "", **more: str) -> None:
    """Write the followed document: each of its deployments adds its name to a log."""
    script = f'{SH}echo "$deploy_action NAME" >>{machine.folder}/log\necho it is NAME\n{config}\n'
    entries = [
        {
            "name": name,
            "group": "script",
            "config": script.replace("NAME", name),
            **more,
        }
        for name in names
    ]
    (machine.folder / "site.json").write_text(json.dumps(entries))


def configure(machine: Machine, **values: str) -> None:
    """Write the settings: the section [follow site] follows the document."""
    lines = [
        f"[agent]\nstate_dir = {machine.state}\n[follow site]\nurl = {machine.folder}/site.json"
    ]
    lines += [f"{name} = {value}" for name, value in values.items()]
    (machine.folder / "agent.conf").write_text("\n".join(lines) + "\n")


def agent(machine: Machine, *words: str) -> Done:
    """Run `heat-config-agent WORDS` with these settings."""
    config = ["--config", str(machine.folder / "agent.conf")]
    done = machine.command("heat-config-agent", [*words, *config], {})
    assert "Traceback" not in done.err
    return done


def ran(machine: Machine) -> list[str]:
    """Return the lines of the log."""
    path = machine.folder / "log"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def site(machine: Machine) -> Machine:
    """Return a machine that has carried out a followed document with two deployments, of which the second failed."""
    document(
        machine, "motd", "banner", config='[ "$deploy_resource" ] || [ NAME = motd ]'
    )
    configure(machine)
    done = agent(machine, "follow")
    assert done.code == 1, done.err
    return machine


def test_followed_deployments_are_listed_with_their_source(site: Machine) -> None:
    """The table, the JSON and the list of failures have them as NAME/DEPLOYMENT, the failed one with its reason."""
    shown = agent(site, "status").out
    rows = {line.split()[0]: line for line in shown.splitlines() if " script " in line}
    assert rows.keys() == {"site/motd", "site/banner"}
    assert "exit code 1" in rows["site/banner"]
    assert "no deployments yet" not in shown
    deployments = json.loads(agent(site, "status", "--json").out)["deployments"]
    assert [
        (each["title"], each["followed"], each["failed"]) for each in deployments
    ] == [
        ("site/motd", "site", False),
        ("site/banner", "site", True),
    ]
    failed = agent(site, "status", "--failed")
    assert (failed.code, failed.out.startswith("site/banner: exit code 1")) == (1, True)
    assert agent(site, "status", "--unfinished").out == ""


@pytest.mark.parametrize("wanted", ["site/motd", "motd", "id", "beginning"])
def test_followed_deployment_has_a_log_and_facts(site: Machine, wanted: str) -> None:
    """Its full name, its name, its id and the beginning of that are accepted."""
    identity = json.loads(agent(site, "status", "--json").out)["deployments"][0]["id"]
    word = {"id": identity, "beginning": identity[: len("motd-") + 4]}.get(
        wanted, wanted
    )
    assert agent(site, "log", word).out == "it is motd\n"
    assert "site/motd" in agent(site, "show", word).out


def test_wait_knows_followed_deployments(site: Machine) -> None:
    """It says how they have ended."""
    done = agent(site, "wait", "site/motd", "--timeout", "0")
    assert (done.code, done.out) == (0, "motd (CREATE): ok\n")
    assert agent(site, "wait", "site/banner", "--timeout", "0").code == 1


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("site/modt", "did you mean site/motd?"),
        ("sight/motd", "did you mean site/motd?"),
        ("zzz", "shows all of them"),
    ],
)
def test_misspelt_name_has_a_hint(site: Machine, wanted: str, hint: str) -> None:
    """The hint is a name that the command takes."""
    for command in ("log", "show", "retry", "forget"):
        done = agent(site, command, wanted)
        assert (done.code in (1, 2), done.out, hint in done.err) == (True, "", True), (
            done.err
        )


def test_retried_deployments_run_when_the_revision_is_carried_out_again(
    site: Machine,
) -> None:
    """Several names at once; what carries them out is named, and others are left alone."""
    before = ran(site)
    done = agent(site, "retry", "site/motd", "banner")
    assert done.code == 0, done.err
    assert sorted(done.out.splitlines()[:2]) == [
        "site/banner will run again",
        "site/motd will run again",
    ]
    assert "`heat-config-agent follow site" in done.out
    assert ran(site) == before
    assert agent(site, "follow").code == 1
    assert sorted(ran(site)[len(before) :]) == ["CREATE banner", "CREATE motd"]
    agent(site, "follow")
    assert len(ran(site)) == len(before) + 2


def test_forgotten_deployment_of_a_document_is_new(site: Machine) -> None:
    """It leaves the list, and runs again with the revision that still has it."""
    assert agent(site, "forget", "site/motd").code == 0
    assert agent(site, "log", "site/motd").code == 1
    before = ran(site)
    agent(site, "follow")
    assert ran(site)[len(before) :] == ["CREATE motd"]


def test_wrong_name_among_several_changes_nothing(site: Machine) -> None:
    """All names are looked up before anything is requested."""
    for command in ("retry", "forget"):
        assert agent(site, command, "site/motd", "site/nothing").code == 1
    states = json.loads(agent(site, "status", "--json").out)["deployments"]
    assert [each["again"] for each in states] == [False, False]


def test_name_of_several_sources_is_refused(site: Machine) -> None:
    """The full names are listed."""
    (site.folder / "agent.conf").write_text(
        (site.folder / "agent.conf").read_text()
        + f"[follow other]\nurl = {site.folder}/site.json\n"
    )
    agent(site, "follow", "other")
    done = agent(site, "log", "motd")
    assert (done.code, "other/motd, site/motd" in done.err) == (1, True), done.err
    assert agent(site, "log", "other/motd").out == "it is motd\n"


@pytest.mark.new_process("daemons")
def test_daemon_carries_out_a_retried_deployment_at_once(daemon: Daemon) -> None:
    """With a daemon, the request does not wait for the interval."""
    machine = daemon.machine
    document(machine, "motd")
    daemon.settings["follow site"] = {
        "url": f"{machine.folder}/site.json",
        "interval": 1000,
    }
    daemon.configure()
    daemon.start()
    config = ["--config", str(daemon.path)]
    wait_until(
        lambda: bool(
            (record := followed.read(machine.state, "site")) and record.revision
        ),
        LONG,
    )
    done = machine.command("heat-config-agent", ["retry", "site/motd", *config], {})
    assert f"the agent (process {daemon.pid}) carries out site again now" in done.out, (
        done.out + done.err
    )
    wait_until(lambda: ran(machine) == ["CREATE motd"] * 2, LONG)
    daemon.stop(signal.SIGTERM)


def state_of(machine: Machine) -> tuple[str, str]:
    """Return the state of the source, and what is wrong with it."""
    record = json.loads(agent(machine, "follow", "--status", "--json").out)[0]
    return record["state"], record["reason"] or ""


def test_revision_with_an_unchanged_failed_deployment_has_failed(site: Machine) -> None:
    """It is not run again, and no success of others, no forgotten deployment and no new revision hides it."""
    assert state_of(site) == ("failed", "banner: exit code 1")
    agent(site, "forget", "site/motd")
    assert agent(site, "follow").code == 1
    assert state_of(site) == ("failed", "banner: exit code 1")
    content = json.loads((site.folder / "site.json").read_text())
    content[0]["config"] += "echo more\n"
    (site.folder / "site.json").write_text(json.dumps(content))
    assert agent(site, "follow").code == 1
    assert state_of(site) == ("failed", "banner: exit code 1")
    assert agent(site, "status", "--failed").out == "site/banner: exit code 1\n"
    assert ran(site).count("CREATE banner") == 1


def test_failed_deployment_runs_when_its_revision_is_carried_out_again(
    machine: Machine,
) -> None:
    """With --again it runs once more, and only its success puts the revision in force."""
    document(
        machine,
        "motd",
        "banner",
        config=f"[ NAME = motd ] || [ -e {machine.folder}/allowed ]",
    )
    configure(machine)
    # also before the source was ever asked
    assert agent(machine, "follow", "site", "--again").code == 1
    assert agent(machine, "follow", "site", "--again").code == 1
    assert state_of(machine)[0] == "failed"
    (machine.folder / "allowed").touch()
    assert agent(machine, "follow", "site", "--again").code == 0
    assert state_of(machine) == ("in force", "")
    assert [ran(machine).count(f"CREATE {name}") for name in ("motd", "banner")] == [
        1,
        3,
    ]


def test_removed_failed_deployment_counts_no_longer(site: Machine) -> None:
    """A document that no longer has it is in force, and the lists of failures agree."""
    document(site, "motd")
    assert agent(site, "follow").code == 0
    assert state_of(site) == ("in force", "")
    assert (
        agent(site, "status", "--failed").code,
        agent(site, "status", "--failed").out,
    ) == (0, "")
    assert "its document no longer has it" in agent(site, "status").out


def test_file_removed_from_a_followed_folder_takes_its_failure_along(
    machine: Machine,
) -> None:
    """With `path = .`, the documents of a folder are followed, and a removed one is not wanted any more."""
    document(machine, "motd")
    (machine.folder / "site").mkdir()
    (machine.folder / "site.json").rename(machine.folder / "site" / "a.json")
    bad = [{"name": "bad", "group": "script", "config": "#!/bin/sh\nexit 3\n"}]
    (machine.folder / "site" / "b.json").write_text(json.dumps(bad))
    settings = f"[agent]\nstate_dir = {machine.state}\n[follow site]\nurl = {machine.folder}/site\npath = .\n"
    (machine.folder / "agent.conf").write_text(settings)
    assert agent(machine, "follow").code == 1
    assert state_of(machine) == ("failed", "bad: exit code 3")
    (machine.folder / "site" / "b.json").unlink()
    assert agent(machine, "follow").code == 0
    assert (state_of(machine), agent(machine, "status", "--failed").code) == (
        ("in force", ""),
        0,
    )


def test_other_path_of_a_source_takes_the_deployments_of_the_former_along(
    machine: Machine,
) -> None:
    """A failed deployment of the file that was followed before is not wanted any more."""
    (machine.folder / "site").mkdir()
    bad = [{"name": "bad", "group": "script", "config": "#!/bin/sh\nexit 3\n"}]
    (machine.folder / "site" / "a.json").write_text(json.dumps(bad))
    document(machine, "motd")
    (machine.folder / "site.json").rename(machine.folder / "site" / "b.json")
    settings = f"[agent]\nstate_dir = {machine.state}\n[follow site]\nurl = {machine.folder}/site\npath = a.json\n"
    (machine.folder / "agent.conf").write_text(settings)
    assert agent(machine, "follow").code == 1
    (machine.folder / "agent.conf").write_text(settings.replace("a.json", "b.json"))
    assert agent(machine, "follow").code == 0
    assert (state_of(machine), agent(machine, "status", "--failed").code) == (
        ("in force", ""),
        0,
    )


def test_reason_of_a_failed_stack_is_that_of_its_tool(machine: Machine) -> None:
    """The source quotes the resource and the last line of its script, as the status of the stack does."""
    properties = {
        "group": "script",
        "config": "#!/bin/sh\necho no licence >&2; exit 3\n",
    }
    uses = {"config": {"get_resource": "config"}, "server": "here"}
    resources = {
        "config": {"type": "OS::Heat::SoftwareConfig", "properties": properties},
        "deployment": {"type": "OS::Heat::SoftwareDeployment", "properties": uses},
    }
    content = {"heat_template_version": "2018-08-31", "resources": resources}
    (machine.folder / "site.json").write_text(json.dumps(content))
    configure(machine)
    done = agent(machine, "follow")
    assert done.code == 1
    assert state_of(machine) == (
        "failed",
        "CREATE_FAILED: deployment: exit code 3: no licence",
    )


def test_emptied_document_is_refused_in_words_of_documents(site: Machine) -> None:
    """An empty file is neither called a template nor a stack, and the revision before it stays."""
    document(site, "motd")
    agent(site, "follow")
    (site.folder / "site.json").write_text("")
    assert agent(site, "follow").code == 1
    state, reason = state_of(site)
    assert (state, "stack" in reason, "--name" in reason) == (
        "refused",
        False,
        False,
    ), reason


@pytest.mark.parametrize("command", ["retry", "forget"])
def test_retried_deployment_of_a_stack_runs_once_more(
    machine: Machine, command: str
) -> None:
    """`retry` takes STACK/RESOURCE or RESOURCE; no other deployment of the stack runs."""
    log = machine.folder / "log"
    (machine.folder / "web.yaml").write_text(template(log, "one"))
    assert machine.apply(machine.folder / "web.yaml").code == 0
    done = machine.agent(command, "web/deployment")
    assert done.code == 0, done.err
    assert "`heat-config-agent stack update --existing web" in done.out
    assert machine.apply(machine.folder / "web.yaml", "--plan").out.count("again ") == 1
    assert (machine.agent("log", "web/deployment").code == 0) == (command == "retry")
    assert machine.apply(machine.folder / "web.yaml").code == 0
    assert machine.apply(machine.folder / "web.yaml").code == 0
    assert log.read_text() == "one red\n" * 2
    assert machine.agent(command, "deployment").code == 0
    wrong = machine.agent(command, "web/deploymnt")
    assert (wrong.code, "did you mean deployment?" in wrong.err) == (2, True), wrong.err


NESTED = """\
heat_template_version: 2018-08-31
resources:
  server: {type: OS::Nova::Server, properties: {image: x, flavor: y}}
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: "#!/bin/sh\\necho $deploy_action $deploy_resource_name >> LOG"}
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: 2
      resource_def:
        type: OS::Heat::SoftwareDeployment
        properties: {config: {get_resource: config}, server: {get_resource: server}}
  all:
    type: OS::Heat::SoftwareDeploymentGroup
    properties: {config: {get_resource: config}, servers: {here: {get_resource: server}}}
"""


def test_member_of_a_group_runs_again_alone(machine: Machine) -> None:
    """The path of a member of a group is its name."""
    (machine.folder / "nest.yaml").write_text(
        NESTED.replace("LOG", str(machine.folder / "log"))
    )
    assert machine.apply(machine.folder / "nest.yaml").code == 0
    before = ran(machine)
    assert machine.agent("retry", "nest/group/1", "nest/all/here").code == 0
    assert machine.apply(machine.folder / "nest.yaml").code == 0
    assert sorted(ran(machine)[len(before) :]) == ["CREATE 1", "CREATE here"]


SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
metadata: {template_name: shop, template_version: 1.0.0, template_author: us}
topology_template:
  node_templates:
    host: {type: tosca.nodes.Compute}
    app:
      type: tosca.nodes.SoftwareComponent
      requirements: [{host: host}]
      interfaces: {Standard: {create: {implementation: run.sh}}}
"""


def test_operation_of_a_service_runs_again(machine: Machine) -> None:
    """An operation that is repeated runs for UPDATE, one that is forgotten for CREATE."""
    folder = machine.folder / "shop"
    folder.mkdir()
    (folder / "service.yaml").write_text(SERVICE)
    (folder / "run.sh").write_text(
        f"#!/bin/sh\necho $deploy_action >> {machine.folder}/log\n"
    )
    assert machine.apply(folder).code == 0
    for command in ("retry", "forget"):
        assert machine.agent(command, "shop/app.create").code == 0
        assert machine.apply(folder).code == 0
        assert machine.apply(folder).code == 0
    assert ran(machine) == ["CREATE", "UPDATE", "CREATE"]


def test_deployment_of_a_suspended_stack_is_refused(machine: Machine) -> None:
    """The sentence names the command that is needed first."""
    (machine.folder / "web.yaml").write_text(template(machine.folder / "log", "one"))
    machine.apply(machine.folder / "web.yaml")
    machine.command(
        "heat-config-agent",
        ["stack", "suspend", "web", "--state-dir", str(machine.state)],
        {},
    )
    done = machine.agent("retry", "web/deployment")
    assert (
        done.code,
        "the stack web is suspended" in done.err,
        "stack resume web" in done.err,
    ) == (2, True, True)


@GIT
def test_deployment_of_a_followed_stack_runs_with_its_revision(
    machine: Machine,
) -> None:
    """The follower carries the revision out again."""
    repository = Repository(machine.folder / "repository")
    repository.commit({"stack.yaml": template(machine.folder / "log", "one")})
    configure(machine)
    path = machine.folder / "agent.conf"
    path.write_text(
        path.read_text().replace(
            f"{machine.folder}/site.json", f"{repository.url}\npath = stack.yaml"
        )
    )
    assert agent(machine, "follow").code == 0
    done = agent(machine, "retry", "site/deployment")
    assert "`heat-config-agent follow site" in done.out
    assert agent(machine, "follow").code == 0
    assert agent(machine, "follow").code == 0
    assert ran(machine) == ["one red", "one red"]
