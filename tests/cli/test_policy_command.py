"""The policy of the machine, and ways around it that lead nowhere."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from support.governed import POLICY, Governed
from support.loopback import SignalServer
from support.machine import Machine, deployment
from support.stories import Traps


@pytest.fixture
def proof(machine: Machine) -> Path:
    """A file that a script leaves if it runs."""
    return machine.folder / "proof"


def script(proof: Path) -> str:
    """Return a script that leaves the proof that it has run."""
    return f"#!/bin/sh\necho ran >>{shlex.quote(str(proof))}\n"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (
            "tools = ansible, puppet",
            "tools of {policy}: the tool 'script' is not in it",
        ),
        (
            "sources = cfn, file:/etc/other.json",
            "sources of {policy}: the source file:{document} is not in it",
        ),
        ("actions = DELETE", "actions of {policy}: the action 'CREATE' is not in it"),
        (
            "max_timeout = 60",
            "max_timeout of {policy}: the timeout of 61 s is longer than 60 s",
        ),
    ],
)
def test_a_rule_refuses_with_its_name_and_file(
    governed: Governed, proof: Path, heat: SignalServer, rule: str, why: str
) -> None:
    """The server hears of a failure, the plan and `show` say the same, and nothing runs."""
    governed.policy(rule)
    given = [
        deployment("d1", script(proof), signal=heat.url("d1"), options={"timeout": 61})
    ]
    sentence = f"refused by the rule {why.format(policy=POLICY, document=governed.machine.folder / 'document.json')}"
    assert sentence in governed.apply(given, "--plan").out
    assert heat.signals == []
    done = governed.apply(given)
    assert done.code == 1
    assert not proof.exists()
    (signal,) = heat.signals
    result = json.loads(signal.body)
    assert result["deploy_status_code"] == 126
    assert sentence in result["deploy_stderr"]
    assert sentence in governed.agent("show", "d1").out
    explained = governed.agent("policy", "explain")
    assert explained.code == 0
    assert f"d1    refused  CREATE  {sentence}" in explained.out
    assert "1 deployment would be refused today" in explained.out


def test_trusted_inputs_are_refused_unless_the_rule_lists_the_tool(
    governed: Governed,
) -> None:
    """A playbook that takes inputs for templates does not run; without the option, or with the tool listed, it may."""
    given = [
        deployment(
            "d1",
            "- hosts: localhost\n  tasks: []\n",
            group="ansible",
            options={"trusted_inputs": "true"},
        )
    ]
    sentence = f"trusted_inputs of {POLICY}: the tool 'ansible' is not in it, and its option is set"
    for rule in ("trusted_inputs = none", "trusted_inputs = salt"):
        governed.policy(rule)
        assert sentence in governed.apply(given, "--plan").out
    for value in (False, "false", 0, None):
        governed.policy("trusted_inputs = none")
        without = [{**given[0], "options": {"trusted_inputs": value}}]
        assert "refused" not in governed.apply(without, "--plan").out
    governed.policy("trusted_inputs = ansible")
    assert "refused" not in governed.apply(given, "--plan").out


def test_deployment_that_every_rule_allows_runs(
    governed: Governed, proof: Path
) -> None:
    """Nothing about it differs from a machine without a policy."""
    governed.policy(
        "tools = script",
        "sources = file",
        "actions = CREATE, UPDATE",
        "max_timeout = 60",
    )
    done = governed.apply([deployment("d1", script(proof), options={"timeout": 60})])
    assert done.code == 0, done.out
    assert proof.read_text() == "ran\n"
    assert (
        "no deployment would be refused today"
        in governed.agent("policy", "explain").out
    )


def test_a_deployment_without_a_timeout_gets_the_longest_one(
    governed: Governed,
) -> None:
    """A deployment without a timeout gets the maximum of the policy."""
    governed.policy("max_timeout = 1")
    done = governed.apply([deployment("d1", "#!/bin/sh\nsleep 30\n")])
    assert done.code == 1
    assert "timed out after 1 s" in done.out


def test_a_machine_without_a_policy_says_so(governed: Governed) -> None:
    """Everything is allowed."""
    explained = governed.agent("policy", "explain")
    assert (explained.code, explained.out) == (
        0,
        f"there is no policy: {POLICY} does not exist, and everything is allowed\n",
    )
    assert governed.agent("policy", "--json").data["present"] is False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ((), "expected a section [policy] with at least one rule"),
        (("tools =",), "tools: name at least one"),
        (("tools = scirpt",), "tools: 'scirpt' is not a built-in hook"),
        (("tool = script",), "there is no rule 'tool'"),
        (
            ("signers = ops",),
            "signers: expected the full path of an allowed signers file",
        ),
        (("network = *",), "network: expected HOST, *.DOMAIN"),
        (("users = nobody # not root",), "users: put the comment on a line of its own"),
        (
            ("actions = DELETE ; CREATE",),
            "actions: put the comment on a line of its own",
        ),
        (("users = root", "  max_timeout = 60"), "users: a rule begins its line"),
        (("signers = /etc/no",), "signers: there is no /etc/no"),
        (("sources = internet",), "sources: there is no source 'internet'"),
        (("repair = never",), "repair: expected a tool, a source, name:NAME, or none"),
        (
            ("trusted_inputs = everything",),
            "trusted_inputs: expected names of built-in hooks, or none, not 'everything'",
        ),
        (("max_timeout = 0",), "max_timeout: expected a number of seconds"),
        (("tools = script", "tools = ansible"), "line 3: a name is there twice"),
        (("tools script",), "line 2: expected a section"),
        (("tools = script", "[agent]", "parallel = 2"), "there is no section [agent]"),
    ],
)
def test_a_mistake_stops_new_work_until_it_is_corrected(
    governed: Governed,
    proof: Path,
    heat: SignalServer,
    rules: tuple[str, ...],
    why: str,
) -> None:
    """A mistake in the policy allows nothing: the deployment waits, and so does the server."""
    governed.policy(*rules)
    given = [deployment("d1", script(proof), signal=heat.url("d1"))]
    planned = governed.apply(given, "--plan")
    assert f"nothing new begins: cannot use the policy {POLICY}: {why}" in planned.out
    done = governed.apply(given)
    assert done.code == 1
    assert why in done.out
    assert not proof.exists()
    assert heat.signals == []
    explained = governed.agent("policy", "explain")
    assert explained.code == 1
    assert explained.err.startswith("error: nothing new begins: ")
    assert why in explained.err
    governed.policy("tools = script")
    assert governed.apply(given).code == 0
    assert proof.read_text() == "ran\n"
    assert len(heat.signals) == 1


def test_doctor_names_the_mistake(governed: Governed) -> None:
    """`doctor` names the mistake in a policy, and shows the rules of a good one and what conflicts with them."""
    governed.machine.have_quick_tools()
    governed.policy("tools = script", "users = nobody")
    found = governed.agent("doctor", "--json").data["checks"]
    conflict, shown = (each for each in found if each["name"] == "policy")
    assert (shown["state"], shown["message"]) == (
        "ok",
        f"{POLICY} has the rules tools, users",
    )
    assert (conflict["state"], conflict["hint"]) == (
        "warning",
        "set user in the settings to a user of the rule",
    )
    governed.policy("tools = ")
    done = governed.agent("doctor")
    assert done.code == 1
    assert "tools: name at least one" in done.out


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_policy_that_others_may_write_to_stops_new_work(
    governed: Governed, proof: Path, what: str
) -> None:
    """A policy in a folder that others may write to stops new work, because they could replace the file."""
    path = governed.policy("tools = script")
    (path if what == "file" else path.parent).chmod(0o666 if what == "file" else 0o777)
    done = governed.apply([deployment("d1", script(proof))])
    assert done.code == 1
    assert "other users than root may write to" in done.out
    assert not proof.exists()


def test_a_policy_of_another_user_stops_new_work(
    governed: Governed, proof: Path
) -> None:
    """A policy of another user stops new work, because the owner could change it."""
    os.chown(governed.policy("tools = script"), 4321, 0)
    assert (
        "belongs to the user 4321; it has to belong to root"
        in governed.apply([deployment("d1", script(proof))]).out
    )
    assert not proof.exists()


@pytest.mark.parametrize("leads", ["to a file", "nowhere"])
def test_a_link_is_not_followed(governed: Governed, proof: Path, leads: str) -> None:
    """The place that it leads to may belong to anybody."""
    path = governed.policy("tools = script")
    other = path.rename(governed.machine.folder / "elsewhere")
    path.symlink_to(other if leads == "to a file" else "/nowhere")
    assert (
        "may be symbolic links" in governed.apply([deployment("d1", script(proof))]).out
    )
    assert not proof.exists()


@pytest.mark.parametrize("leads", ["to a folder", "nowhere"])
def test_a_linked_folder_is_not_followed(
    machine: Machine, proof: Path, leads: str
) -> None:
    """The same for the folder of the policy: a disk that is not mounted hides no policy."""
    place, target = (
        "/etc/heat-config-agent",
        machine.folder / "own" if leads == "to a folder" else "/nowhere",
    )
    swap = ("mount -t tmpfs -o mode=755 tmpfs /etc", f"ln -s {target} {place}")
    governed = Governed(machine, *swap)
    governed.policy("tools = script")
    done = governed.apply([deployment("d1", script(proof))])
    assert "may be symbolic links" in done.out, done.err
    assert not proof.exists()


@pytest.mark.parametrize("kind", ["pipe", "folder", "large", "binary"])
def test_other_file_type_of_the_policy_stops_new_work(
    governed: Governed, proof: Path, kind: str
) -> None:
    """A folder or a pipe in the place of the policy stops new work at once."""
    path = governed.own / "policy"
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(
            b"[policy]\ntools = script\n"
            + (b"#" * 65536 if kind == "large" else b"# \xff\n")
        )
    done = governed.apply([deployment("d1", script(proof))])
    assert done.code == 1
    assert "cannot use the policy" in done.out
    assert not proof.exists()


def test_later_settings_file_cannot_loosen_the_policy(
    governed: Governed, proof: Path
) -> None:
    """A section of that name in settings is a mistake, and another file of settings leaves the policy in force."""
    governed.policy("tools = ansible")
    late = governed.own / "99-late.conf"
    late.write_text("[policy]\ntools = script\n")
    refused = governed.apply([deployment("d1", script(proof))])
    assert refused.code == 2
    assert "there is no section [policy]" in refused.err
    late.unlink()
    other = governed.machine.folder / "other.conf"
    other.write_text("[agent]\nparallel = 2\n")
    done = governed.apply([deployment("d1", script(proof))], "--config", str(other))
    assert "refused by the rule tools" in done.out
    assert not proof.exists()


def test_metadata_and_variables_cannot_loosen_the_policy(
    governed: Governed, proof: Path
) -> None:
    """The path is fixed, and nothing but the file says what is allowed."""
    governed.policy("tools = ansible")
    loose = {"policy": {"tools": "script"}, "tools": "script", "state_dir": "/tmp"}
    document = {
        "os-collect-config": loose,
        "policy": loose["policy"],
        "deployments": [deployment("d1", script(proof))],
    }
    names = ("HEAT_CONFIG_POLICY", "HEAT_CONFIG_AGENT_POLICY", "POLICY")
    done = governed.apply(document, **dict.fromkeys(names, "/dev/null"))
    assert "refused by the rule tools" in done.out
    assert not proof.exists()


@pytest.mark.parametrize(
    "way",
    ["option", "relative option", "variable", "setting", "/usr/libexec", "/var/lib"],
)
def test_an_executable_hook_does_not_pass_for_a_built_in_one(
    machine: Machine, proof: Path, way: str
) -> None:
    """A name in the rule allows the built-in hook; an executable is allowed by its full path only."""
    lower = machine.folder / "of-the-system"
    hooks = lower / "heat-config/hooks" if way.startswith("/") else machine.hooks
    hooks.mkdir(parents=True)
    (hooks / "script").write_text(f"#!/bin/sh\necho hook >>{proof}\necho '{{}}'\n")
    (hooks / "script").chmod(0o755)
    system = (
        (f"mount -t overlay overlay -o lowerdir={lower}:{way} {way}",)
        if way.startswith("/")
        else ()
    )
    governed = Governed(machine, *system)
    place = f"{way}/heat-config/hooks" if system else str(hooks)
    words = {
        "option": ("--hooks-dir", place),
        "relative option": ("--hooks-dir", hooks.name),
    }.get(way, ())
    variables = {"HEAT_CONFIG_HOOKS": place} if way == "variable" else {}
    if way == "setting":
        (governed.own / "agent.conf").write_text(f"[agent]\nhooks_dir = {place}\n")
    governed.policy("tools = script")
    done = governed.apply([deployment("d1")], *words, **variables)
    assert (
        f"refused by the rule tools of {POLICY}: the hook {place}/script is not in it"
        in done.out
    )
    assert not proof.exists()
    governed.policy(f"tools = {place}/script")
    governed.apply([deployment("d2")], *words, **variables)
    assert proof.read_text() == "hook\n"


def test_no_other_spelling_of_a_tool_runs(governed: Governed, proof: Path) -> None:
    """A forbidden tool does not run as an option, as a path, or under the name of a built-in hook."""
    governed.policy("tools = ansible")
    words = [
        "--help",
        "-script",
        "../script",
        "/script",
        "SCRIPT",
        "script ",
        "s.c.r.i.p.t",
        "script\0",
        "ſcript",
    ]
    words += ["builtin:script", "ansible/../script", "ansible,script", "component"]
    given = [
        deployment(f"a{number}", script(proof), group=word)
        for number, word in enumerate(words)
    ]
    for number, word in enumerate(words):
        config = {
            "configs": [{"actions": ["CREATE"], "config": script(proof), "tool": word}]
        }
        given.append(deployment(f"b{number}", config, group="component"))
    done = governed.apply(given)
    assert f"{len(given)} failed" in done.out
    assert not proof.exists()


def test_no_other_spelling_of_an_action_runs(governed: Governed, proof: Path) -> None:
    """Actions count as they are written."""
    governed.policy("actions = CREATE")
    actions = (
        "create",
        "CREATE ",
        " CREATE",
        "",
        "-CREATE",
        "CREATE,DELETE",
        "(left)",
        ["CREATE"],
        None,
        True,
    )
    given = [
        deployment(f"d{number}", script(proof), action=action)
        for number, action in enumerate(actions)
    ]
    done = governed.apply(given)
    assert f"{len(given)} failed" in done.out
    assert not proof.exists()


def test_a_component_runs_by_the_tool_of_its_action(
    governed: Governed, proof: Path
) -> None:
    """The allowed tool of another action does not open the way."""
    governed.policy("tools = ansible")
    configs = [
        {"actions": ["UPDATE"], "config": "- hosts: localhost\n", "tool": "ansible"},
        {"actions": ["CREATE"], "config": script(proof), "tool": "script"},
    ]
    done = governed.apply([deployment("d1", {"configs": configs}, group="component")])
    assert "the tool 'script' is not in it" in done.out
    assert not proof.exists()


def test_a_deployment_that_waits_in_the_queue_obeys_a_policy_that_is_new(
    governed: Governed, proof: Path
) -> None:
    """Between the plan and the start of the second one, the first one writes the policy."""
    first = f"#!/bin/sh\nprintf '[policy]\\ntools = ansible\\n' >{POLICY}\nchmod 600 {POLICY}\n"
    done = governed.apply([deployment("a", first), deployment("b", script(proof))])
    assert done.code == 1
    assert "refused by the rule tools" in done.out
    assert not proof.exists()


def test_a_deployment_that_was_accepted_before_obeys_the_policy(
    governed: Governed, proof: Path
) -> None:
    """A pause had held it back."""
    given = [deployment("d1", script(proof))]
    assert governed.agent("pause", "--reason", "maintenance").code == 0
    governed.apply(given)
    governed.policy("tools = ansible")
    assert (
        "d1    refused  CREATE  refused by the rule tools"
        in governed.agent("policy", "explain").out
    )
    governed.agent("resume")
    assert "refused by the rule tools" in governed.apply(given).out
    assert not proof.exists()


def test_retry_and_delete_obey_the_policy(governed: Governed, proof: Path) -> None:
    """An earlier permission does not last: retries and DELETEs obey the present policy."""
    create = deployment("d1", script(proof))
    assert governed.apply([create]).code == 0
    governed.policy("tools = ansible")
    governed.agent("retry", "d1")
    assert "refused by the rule tools" in governed.apply([create]).out
    assert (
        "refused by the rule tools"
        in governed.apply([deployment("d2", script(proof), action="DELETE")]).out
    )
    assert proof.read_text() == "ran\n"


def test_a_run_that_had_nothing_to_do_is_not_repeated_past_a_new_policy(
    governed: Governed, proof: Path
) -> None:
    """A new id is refused, and the old one stays done."""
    given = [deployment("d1", script(proof))]
    governed.apply(given)
    governed.apply(given)
    governed.policy("tools = ansible")
    assert governed.apply(given).code == 0
    assert governed.apply([deployment("d2", script(proof))]).code == 1
    assert proof.read_text() == "ran\n"


INNER = """\
heat_template_version: 2018-08-31
resources:
  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: {get_file: run.sh}}}
  server: {type: OS::Nova::Server, properties: {name: this, flavor: m1}}
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: {get_resource: server}}
"""

OUTER = """\
heat_template_version: 2018-08-31
resources:
  nested: {type: inner.yaml}
"""


def test_followed_stack_obeys_the_policy(governed: Governed, proof: Path) -> None:
    """Its deployments have the source `stack`, as if the template were applied."""
    folder = governed.machine.folder / "site"
    folder.mkdir()
    (folder / "stack.yaml").write_text(INNER)
    (folder / "run.sh").write_text(script(proof))
    path = governed.machine.folder / "agent.conf"
    path.write_text(
        f"[agent]\nstate_dir = {governed.machine.state}\n\n[follow web]\nurl = {folder}\npath = stack.yaml\n"
    )
    governed.policy("sources = file, local")
    done = governed.run("heat-config-agent", "source", "sync", "--config", str(path))
    assert done.code == 1
    assert (
        f"refused by the rule sources of {POLICY}: the source stack:"
        in governed.agent("show", "deployment").out
    )
    assert not proof.exists()


@pytest.mark.parametrize("template", ["inner.yaml", "outer.yaml"])
def test_stacks_obey_the_policy(governed: Governed, proof: Path, template: str) -> None:
    """Stacks obey the policy, also in nested templates and for scripts from get_file, and say why."""
    folder = governed.machine.folder
    (folder / "inner.yaml").write_text(INNER)
    (folder / "outer.yaml").write_text(OUTER)
    (folder / "run.sh").write_text(script(proof))
    state = ("--state-dir", str(governed.machine.state))
    governed.policy("tools = ansible")
    done = governed.run("heat-config-apply", *state, template)
    assert done.code == 1, done.err
    assert "refused by the rule tools" in done.out + done.err
    assert not proof.exists()
    governed.policy("tools =")
    done = governed.run("heat-config-apply", *state, template, "--name", "second")
    assert done.code != 0
    assert "tools: name at least one" in done.out + done.err
    assert not proof.exists()


@pytest.mark.fault(
    1,
    "kill -9 of the agent at transitions of a deployment that the policy refuses",
    "nothing of it is run, and the server hears of the refusal",
)
def test_a_refusal_outlives_the_agent(
    governed: Governed, proof: Path, heat: SignalServer, tried: Callable[[int], None]
) -> None:
    """The next agent tells the refusal, also if the policy allows the deployment by then: it was answered."""
    points = (
        "journal.accepted.after",
        "journal.finished.before",
        "journal.finished.after",
        "signals.after",
    )
    for number, point in enumerate(points):
        traps = Traps(governed.machine.folder, (point, 1))
        given = [deployment(f"d{number}", script(proof), signal=heat.url(f"d{number}"))]
        governed.policy("tools = ansible")
        governed.apply(given, **traps.environment)
        assert not traps.left, point
        if number > 1:
            governed.policy("tools = script")
        governed.apply(given)
        results = [
            json.loads(each.body) for each in heat.signals if f"/d{number}" in each.path
        ]
        assert results, point
        assert all(
            "refused by the rule tools" in each["deploy_stderr"] for each in results
        ), point
        assert not proof.exists(), point
    tried(len(points))


@pytest.mark.fault(
    1,
    "kill -9 of the agent before the start of a deployment that the policy refuses when the next agent starts",
    "it is refused: permission is given at the start, and not before",
)
def test_a_permission_does_not_outlive_the_agent(
    governed: Governed, proof: Path, heat: SignalServer, tried: Callable[[int], None]
) -> None:
    """Accepted deployments, and ones whose folder is there already, are asked again."""
    points = ("journal.accepted.after", "runner.folder", "runner.prepared")
    for number, point in enumerate(points):
        traps = Traps(governed.machine.folder, (point, 1))
        given = [deployment(f"d{number}", script(proof), signal=heat.url(f"d{number}"))]
        governed.policy("tools = script")
        governed.apply(given, **traps.environment)
        assert not traps.left, point
        governed.policy("tools = ansible")
        governed.apply(given)
        (signal,) = (each for each in heat.signals if f"/d{number}" in each.path)
        assert (
            "refused by the rule tools" in json.loads(signal.body)["deploy_stderr"]
        ), point
        assert not proof.exists(), point
    tried(len(points))
