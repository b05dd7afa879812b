"""Ways around the rules of the policy that lead nowhere: times, names, users, secrets, cleanups, reboots, stacks."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from support import pace
from support.governed import POLICY, Governed
from support.loopback import SignalServer
from support.machine import BIN, Done, Machine, deployment
from support.mounts import after_a_boot, mounted
from support.signers import Signer
from support.tools import need
from support.unprivileged import NOBODY, need_open_checkout

SH = "#!/bin/sh\n"


@pytest.fixture
def proof(machine: Machine) -> Path:
    """A file that a script leaves if it runs."""
    return machine.folder / "proof"


def script(proof: Path, more: str = "") -> str:
    """Return a script that leaves the proof that it has run."""
    return f"{SH}echo ran >>{shlex.quote(str(proof))}\n{more}"


# Tools.


@pytest.mark.parametrize("option", ["verify", "on_failure"])
def test_script_in_an_option_needs_the_tool_script(
    governed: Governed, machine: Machine, proof: Path, option: str
) -> None:
    """A script that runs after the tool of a deployment needs the tool `script`, whatever that tool is."""
    target = machine.folder / "x.json"
    given = {
        "id": "d1",
        "name": "d1",
        "group": "json-file",
        "config": {str(target): {"a": 1}},
        "options": {option: script(proof)},
    }
    governed.policy("tools = json-file")
    done = governed.apply([given])
    assert "refused by the rule tools" in done.out
    assert not proof.exists()
    assert not target.exists()

    governed.policy("tools = json-file, script")
    assert governed.apply([{**given, "id": "d2"}]).code == 0
    assert target.exists()
    assert proof.exists() is (option == "verify")


# Time.


@pytest.mark.parametrize("way", ["--timeout", "setting"])
def test_no_usual_timeout_outlasts_the_longest(governed: Governed, way: str) -> None:
    """Neither a longer default timeout nor «no timeout» can exceed the maximum of the policy."""
    governed.policy("max_timeout = 1")
    (governed.own / "agent.conf").write_text(
        f"[agent]\ntime_limit = {0 if way == 'setting' else 50}\n"
    )
    words = (way, "0") if way.startswith("-") else ()
    done = governed.apply([deployment("d1", f"{SH}sleep 30\n")], *words)
    assert done.code == 1
    assert "timed out after 1 s" in done.out


@pytest.mark.parametrize("timeout", [" +1e3 ", "61", 60.1, 366 * 24 * 3600])
def test_no_spelling_of_a_timeout_is_too_long_for_the_rule(
    governed: Governed, proof: Path, timeout: object
) -> None:
    """The rule applies to the timeout as the agent parses it, also from text."""
    governed.policy("max_timeout = 60")
    done = governed.apply(
        [deployment("d1", script(proof), options={"timeout": timeout})]
    )
    assert "refused by the rule max_timeout" in done.out
    assert not proof.exists()


def test_no_other_place_or_value_of_a_timeout_outlasts_the_longest(
    governed: Governed, proof: Path
) -> None:
    """The section of the tool counts, and a value that is not a time fails the deployment."""
    governed.policy("max_timeout = 60")
    config = {
        "configs": [{"actions": ["CREATE"], "config": script(proof), "tool": "script"}]
    }
    given = [
        deployment(
            "d",
            config,
            group="component",
            options={"script": {"timeout": 61}, "timeout": 5},
        )
    ]
    values = (
        "1e9",
        "inf",
        "nan",
        "1e400",
        "-1",
        0,
        "1 h",
        "PT1M",
        "٣",
        True,
        [5],
        {"a": 5},
        "",
        " ",
    )
    for number, value in enumerate(values):
        given.append(
            deployment(f"d{number}", script(proof), options={"timeout": value})
        )
    assert f"{len(given)} failed" in governed.apply(given).out
    assert "refused by the rule max_timeout" in governed.agent("show", "d").out
    assert not proof.exists()


def test_an_executable_hook_has_the_longest_timeout_too(
    governed: Governed, machine: Machine
) -> None:
    """The maximum timeout applies to executable hooks too, whatever they use the option for."""
    machine.hooks.mkdir()
    (machine.hooks / "own").write_text(f"{SH}sleep 30\n")
    (machine.hooks / "own").chmod(0o755)
    governed.policy("max_timeout = 1")
    given = [deployment("d1", group="own", options={"timeout": "as long as it takes"})]
    assert (
        "timed out after 1 s"
        in governed.apply(given, "--hooks-dir", str(machine.hooks)).out
    )


# Names.


def test_policy_sees_the_action_that_runs(
    governed: Governed, heat: SignalServer, proof: Path
) -> None:
    """A repeated input cannot show one action to the policy and another to the tool; a person's file is refused."""
    governed.policy("actions = CREATE")
    twice = [
        {"name": "deploy_action", "value": "CREATE"},
        {"name": "deploy_action", "value": "DELETE"},
    ]

    def applied(**fields: Any) -> Done:
        given = deployment("d1", script(proof), **fields)
        given["inputs"] = [
            *(each for each in given["inputs"] if each["name"] != "deploy_action"),
            *twice,
        ]
        return governed.apply([given])

    by_hand = applied()
    assert by_hand.code == 2
    assert "an input with the name 'deploy_action' is there already" in by_hand.err
    assert "refused by the rule actions" in applied(signal=heat.url()).out
    assert not proof.exists()


@pytest.mark.parametrize(
    "key", ["source", "hook", "user", "tool", "policy", "left_at", "again"]
)
def test_deployment_cannot_set_values_of_the_agent(
    governed: Governed, heat: SignalServer, proof: Path, key: str
) -> None:
    """The author of a deployment cannot set its source or the way in which it runs."""
    value = {
        "source": "heat",
        "hook": "builtin:ansible",
        "user": "nobody",
        "tool": "ansible",
    }.get(key, "CREATE")
    governed.policy("sources = heat", "tools = ansible", "users = nobody")
    by_hand = governed.apply([{**deployment("d0", script(proof)), key: value}])
    assert by_hand.code == 2
    assert f"there is no key '{key}'" in by_hand.err
    assert (
        governed.apply(
            [{**deployment("d1", script(proof), signal=heat.url()), key: value}]
        ).code
        == 1
    )
    assert "refused by the rule" in governed.agent("show", "d1").out
    assert not proof.exists()


def test_a_document_is_allowed_by_the_path_that_names_it(
    governed: Governed, machine: Machine, proof: Path
) -> None:
    """A link to a listed file is another path, and so is a path with `..`; a relative path is the full one."""
    path = machine.write([deployment("d1", script(proof))], "site.json")
    (machine.folder / "link.json").symlink_to(path)
    (machine.folder / "sub").mkdir()
    governed.policy(f"sources = file:{path}")
    for number, name in enumerate(("link.json", "sub/../site.json")):
        done = governed.run(
            "heat-config-apply",
            "--state-dir",
            str(machine.folder / f"state{number}"),
            name,
        )
        assert "refused by the rule sources" in done.out
    assert not proof.exists()
    assert (
        governed.run(
            "heat-config-apply", "--state-dir", str(machine.state), "site.json"
        ).code
        == 0
    )
    assert proof.read_text() == "ran\n"


def test_a_link_of_a_hook_is_not_the_hook_that_it_leads_to(
    governed: Governed, machine: Machine, proof: Path
) -> None:
    """A path in the rule allows that path, in that directory."""
    machine.hooks.mkdir()
    (machine.hooks / "allowed").write_text(
        f"{SH}echo ran >>{proof}\necho '{{\"deploy_status_code\": 0}}'\n"
    )
    (machine.hooks / "allowed").chmod(0o755)
    (machine.hooks / "linked").symlink_to("allowed")
    other = machine.folder / "other"
    other.symlink_to(machine.hooks)
    governed.policy(f"tools = {machine.hooks}/allowed")
    done = governed.apply(
        [deployment("d1", group="linked")], "--hooks-dir", str(machine.hooks)
    )
    assert f"the hook {machine.hooks}/linked is not in it" in done.out
    done = governed.apply(
        [deployment("d2", group="allowed")], "--hooks-dir", str(other)
    )
    assert f"the hook {other}/allowed is not in it" in done.out
    assert not proof.exists()
    assert (
        governed.apply(
            [deployment("d3", group="allowed")], "--hooks-dir", str(machine.hooks)
        ).code
        == 0
    )
    assert proof.read_text() == "ran\n"


# Users.


@pytest.mark.parametrize(
    "user",
    ["root", "toor", "0", "+0", "ROOT", "root ", "", None, "nobody\n", "--", "a,b"],
)
def test_no_spelling_of_root_is_another_user(
    governed: Governed, machine: Machine, proof: Path, user: object
) -> None:
    """No alias of root in the list of users counts as another user."""
    (machine.folder / "passwd").write_text(
        f"{Path('/etc/passwd').read_text()}toor:x:0:0::/root:/bin/sh\n"
    )
    governed.before = (
        *governed.before,
        *mounted(f"mount --bind {machine.folder}/passwd /etc/passwd"),
    )
    governed.policy("users = nobody")
    assert (
        governed.apply([deployment("d1", script(proof), options={"user": user})]).code
        == 1
    )
    assert not proof.exists()


def test_a_hook_of_ones_own_runs_as_root_whatever_its_options_say(
    governed: Governed, machine: Machine
) -> None:
    """For such a hook the option is text like any other."""
    machine.hooks.mkdir()
    (machine.hooks / "own").write_text(f"{SH}echo ran >{machine.folder}/proof\n")
    (machine.hooks / "own").chmod(0o755)
    governed.policy("users = nobody")
    given = [deployment("d1", group="own", options={"user": "nobody"})]
    done = governed.apply(given, "--hooks-dir", str(machine.hooks))
    assert (
        f"the user 'root' is not in it; the hook {machine.hooks}/own can run as no other"
        in done.out
    )
    assert not (machine.folder / "proof").exists()


# Secrets.


@pytest.mark.slow
@pytest.mark.parametrize(
    "reference",
    [
        "file:db",
        "file:web/../db",
        "file:web//../db",
        "file:web/./../db",
        "file:web",
        "file: web/a",
        "env:X",
    ],
)
def test_a_reference_beside_the_rule_is_refused(
    governed: Governed, proof: Path, reference: str
) -> None:
    """A reference outside the folder of the rule is refused, also one with `..`."""
    folder = governed.own / "secrets"
    (folder / "web").mkdir(parents=True, mode=0o700)
    for name in ("db", "web/a"):
        (folder / name).write_text("a secret of the machine")
        (folder / name).chmod(0o600)
    governed.policy("secrets = file:web/*")
    given = deployment("d1", script(proof), inputs={"given": {"secret": reference}})
    assert governed.apply([given], SECRET_X="another").code == 1
    assert "refused by the rule secrets" in governed.agent("show", "d1").out
    assert not proof.exists()
    allowed = deployment(
        "d2", script(proof), inputs={"given": {"secret": "file:web/a"}}
    )
    assert governed.apply([allowed]).code == 0


def test_a_secret_may_not_hide_in_text_or_in_a_default(
    governed: Governed, proof: Path
) -> None:
    """All forms in which a reference counts are forms that the rule sees."""
    governed.policy("secrets = none")
    forms: list[dict[str, Any]] = [
        {"value": '{"secret": "env:X"}'},
        {"type": "Json", "default": {"secret": "env:X"}},
        {"type": "Json", "value": {"a": {"secret": "env:X"}}},
    ]
    given = [
        deployment(f"d{number}", script(proof), inputs=[{"name": "given", **form}])
        for number, form in enumerate(forms)
    ]
    assert governed.apply(given, SECRET_X="another").code == 1
    for number, _ in enumerate(forms):
        assert (
            "the reference env:X is not in it"
            in governed.agent("show", f"d{number}").out
        )
    assert not proof.exists()


# Isolation.


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"isolate": {}},
        {"isolate": {"network": False, "system": "strict"}},
        {"isolate": {"network": "true", "system": True}},
        {"script": {"isolate": {}}, "isolate": {"network": True, "system": "strict"}},
    ],
)
def test_less_isolation_than_the_rule_has_is_refused(
    governed: Governed, proof: Path, options: dict[str, Any]
) -> None:
    """The section of the tool counts, as it does for the run."""
    governed.policy("isolate = network, system=full")
    configs = [{"actions": ["CREATE"], "config": script(proof), "tool": "script"}]
    done = governed.apply(
        [deployment("d1", {"configs": configs}, group="component", options=options)]
    )
    assert "refused by the rule isolate" in done.out
    assert not proof.exists()


# What comes later.


@pytest.mark.skipif(
    shutil.which("ssh-keygen") is None,
    reason="needs ssh-keygen: install openssh-client",
)
def test_no_deployment_passes_for_a_cleanup(
    governed: Governed, heat: SignalServer, proof: Path, tmp_path: Path
) -> None:
    """A cleanup needs no signature, so only the agent makes one."""
    (governed.own / "allowed_signers").write_text(Signer(tmp_path, "alice").line())
    governed.policy("signers = /etc/heat-config-agent/allowed_signers")
    given = [
        deployment("d1", script(proof), action="(left)"),
        deployment("d2", script(proof), signal=heat.url(), heat_config_left="d1"),
    ]
    assert governed.apply(given).code == 1
    assert not proof.exists()
    assert all(
        "only the agent makes cleanups" in governed.agent("show", each).out
        for each in ("d1", "d2")
    )
    assert "nothing to do (2 failed before: d1, d2)" in governed.apply(given).out


COMPOSE = "services: {web: {image: none}}\n"


def test_a_cleanup_obeys_the_policy(governed: Governed, machine: Machine) -> None:
    """A cleanup counts as a DELETE of its tool, as root, and `policy explain` shows what would be refused."""
    calls = machine.folder / "calls"
    engine = machine.folder / "engine"
    engine.write_text(f'{SH}echo "$*" >>{calls}\n')
    engine.chmod(0o755)
    variables = {"HEAT_DOCKER_COMPOSE_CMD": str(engine)}
    given = deployment("d1", COMPOSE, group="docker-compose", name="web")
    assert governed.apply([given, deployment("other")], **variables).code == 0
    before = calls.read_text()
    for rule, why in (
        ("tools = script", "the tool 'docker-compose' is not in it"),
        ("actions = CREATE", "the action 'DELETE' is not in it"),
        ("users = nobody", "the user 'root' is not in it"),
        ("isolate = network", "the run is not isolated by network"),
    ):
        governed.policy(rule)
        explained = " ".join(governed.agent("policy", "explain").out.split())
        assert (
            f"web refused (left) refused by the rule {rule.split()[0]} of {POLICY}: {why}"
            in explained
        )
        governed.apply([deployment("other")], **variables)
        assert why in governed.agent("show", "d1-left").out
        assert calls.read_text() == before
        governed.agent("retry", "d1-left")
    governed.policy("tools = script, docker-compose")
    governed.agent("retry", "d1-left")
    governed.apply([deployment("other")], **variables)
    assert "down" in calls.read_text().removeprefix(before)


def test_a_run_that_continues_after_a_reboot_obeys_it(
    governed: Governed, machine: Machine, proof: Path
) -> None:
    """A run that was allowed before the reboot is refused after it, if the policy has changed."""
    given = [deployment("d1", script(proof, "exit 194\n"))]
    assert governed.apply(given).code == 6
    governed.policy("tools = ansible")
    governed.before = (*governed.before, *after_a_boot(machine.folder))
    assert "refused by the rule tools" in governed.apply(given).out
    assert proof.read_text() == "ran\n"


def test_repeated_run_obeys_a_changed_policy(
    governed: Governed, machine: Machine, proof: Path
) -> None:
    """An interrupted run is not repeated if the policy has changed meanwhile."""
    more = f"printf '[policy]\\ntools = ansible\\n' >{POLICY}\nkill -9 $PPID $$\n"
    done = governed.apply(
        [deployment("d1", script(proof, more), options={"idempotent": True})]
    )
    assert "refused by the rule tools" in done.out
    assert proof.read_text() == "ran\n"
    assert machine.processes() == []


TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties: {{group: script, config: "{script}"}}
  server: {{type: OS::Nova::Server, properties: {{name: this, flavor: m1}}}}
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties: {{config: {{get_resource: config}}, server: {{get_resource: server}}, actions: [CREATE, DELETE]}}
"""

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  node_templates:
    app:
      type: tosca.nodes.Root
      interfaces: {Standard: {operations: {create: run.sh}}}
"""


def test_deletion_of_a_stack_obeys_the_policy(
    governed: Governed, machine: Machine, proof: Path
) -> None:
    """A forbidden deletion is refused, and the stack says so."""
    (machine.folder / "run.sh").write_text(script(proof))
    text = TEMPLATE.format(script=f"#!/bin/sh\\necho ran >>{proof}\\n")
    path = machine.write(text, "site.yaml")
    state = ("--state-dir", str(machine.state))
    assert governed.run("heat-config-apply", *state, str(path)).code == 0
    governed.policy("actions = CREATE")
    done = governed.agent("stack", "delete", "--yes", "site")
    assert done.code == 1
    assert "refused by the rule actions" in done.out + done.err
    assert proof.read_text() == "ran\n"


def test_service_obeys_the_policy(
    governed: Governed, machine: Machine, proof: Path
) -> None:
    """The scripts of TOSCA are run by the tool `tosca`, and by nothing else."""
    (machine.folder / "run.sh").write_text(script(proof))
    path = machine.write(SERVICE, "service.yaml")
    governed.policy("tools = script, ansible")
    done = governed.run(
        "heat-config-apply", "--state-dir", str(machine.state), str(path)
    )
    assert done.code == 1
    assert "the tool 'tosca' is not in it" in done.out + done.err
    assert not proof.exists()


# The file.


@pytest.mark.parametrize("closed", ["file", "folder"])
def test_a_policy_that_the_agent_cannot_read_stops_new_work(
    governed: Governed, closed: str
) -> None:
    """An agent that is not root does not take it for an absent one."""
    need_open_checkout()
    setpriv = need("setpriv", "util-linux")
    governed.policy("tools = script").chmod(0o600 if closed == "file" else 0o644)
    governed.own.chmod(0o755 if closed == "file" else 0o700)
    command = [
        str(BIN / "heat-config-agent"),
        "policy",
        "explain",
        "--state-dir",
        "/nonexistent",
    ]
    user = [setpriv, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    shown = (
        "sh",
        "-c",
        'mount -t overlay overlay -o lowerdir="$1:$2" "$2"; chmod 755 /; shift 2; exec "$@"',
        "sh",
    )
    # our Python may be where only root may look
    home = str(Path(os.path.realpath(BIN / "python")).parents[4])
    open_home = governed.machine.folder / "open"
    open_home.mkdir(mode=0o755)
    done = subprocess.run(
        [*governed.before, *shown, str(open_home), home, *user, *command],
        env=governed.machine.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(60),
    )
    assert done.returncode == 1, done.stderr
    assert (
        f"nothing new begins: cannot use the policy {POLICY}: Permission denied"
        in done.stderr
    )


def test_policy_swapped_during_the_check_is_not_read(
    governed: Governed, proof: Path
) -> None:
    """A loose policy of another user takes the place of the strict one and back, all the time."""
    strict = governed.policy("tools = ansible")
    text = strict.read_text()
    loose = governed.own / "loose"
    loose.write_text("[policy]\ntools = script\n")
    os.chown(loose, 4321, 4321)
    swapped, done = [0], threading.Event()

    def swap() -> None:
        while not done.is_set():
            for kind in ("link", "file", "strict"):
                new = governed.own / "new"
                if kind == "link":
                    new.symlink_to("loose")
                else:
                    new.write_text(text if kind == "strict" else loose.read_text())
                    new.chmod(0o644)
                if kind == "file":
                    os.chown(new, 4321, 4321)
                new.replace(strict)
                swapped[0] += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        given = [deployment(f"d{number}", script(proof)) for number in range(30)]
        for _ in range(3):
            governed.apply(given)
    finally:
        done.set()
        swapper.join()
    assert swapped[0] > 100
    assert not proof.exists()
