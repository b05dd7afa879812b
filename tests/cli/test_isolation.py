"""Runs that are kept away from parts of the machine: what they cannot reach, what comes back, and who is refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support import leftovers, pace
from support.governed import POLICY, Governed
from support.http import Answer, Stub
from support.loopback import SignalServer
from support.machine import BIN, Machine, deployment
from support.mounts import may_mount
from support.stories import Traps
from support.tools import need_outside_tmp, need_salt

SH = "#!/bin/sh\n"
ALL = {"network": True, "home": True, "tmp": True, "system": "strict"}
USER = "nobody"


@pytest.fixture(autouse=True)
def _mounts() -> None:
    if not may_mount():
        pytest.skip(
            "runs can only be isolated where mounts are allowed: run the tests as root"
        )


@pytest.fixture
def seen() -> Iterator[Path]:
    """A file of the machine in /tmp."""
    with tempfile.TemporaryDirectory(
        prefix="heat-seen-", dir="/tmp"
    ) as folder:  # it is what is meant
        (Path(folder) / "file").write_text("of the machine")
        yield Path(folder) / "file"


def isolated(identity: str, script: str, levels: object, **more: Any) -> dict[str, Any]:
    """Return a deployment whose run is isolated."""
    return deployment(
        identity,
        script,
        **{**more, "options": {"isolate": levels, **more.pop("options", {})}},
    )


def result(heat: SignalServer) -> dict[str, Any]:
    """Return the one result that the server was sent."""
    (signal,) = heat.signals
    found = json.loads(signal.body)
    assert isinstance(found, dict)
    return found


def test_isolated_run_sees_nothing_of_the_machine(
    machine: Machine, heat: SignalServer, seen: Path
) -> None:
    """Network, homes, temporary files and system; its own folders, outputs and exit code are as for other runs."""
    mine = seen.parent.with_name(f"{seen.parent.name}-of-the-run")
    script = (
        f"{SH}cat {seen}\necho mine >{mine}; cat {mine}; echo mine >/var/tmp/{mine.name} && cat /var/tmp/{mine.name}\n"
        "ls -A /root /home /run/user; echo own >$HOME/own && cat $HOME/own; stat -c %a $HOME\n"
        "for place in /usr /etc /var /root /boot; do touch $place/made && echo $place; done\n"
        "grep -c : /proc/net/dev; echo given $given >working && cat working; echo out >$heat_outputs_path.one; exit 3\n"
    )
    given = isolated(
        "d1",
        script,
        ALL,
        inputs={"given": "input"},
        outputs=["one"],
        signal=heat.url("d1"),
    )
    assert machine.apply([given]).code == 1
    outputs = result(heat)
    homes = "".join(
        f"{home}:\n\n"
        for home in ("/home", "/root", "/run/user")
        if Path(home).is_dir()
    ).rstrip("\n")
    expected = f"mine\nmine\n{homes}\nown\n700\n1\ngiven input\n"
    assert (
        outputs["deploy_stdout"],
        outputs["deploy_status_code"],
        outputs["one"],
    ) == (expected, 3, "out\n")
    assert outputs["deploy_stderr"].count("Read-only file system") == 5
    assert f"{seen}: No such file" in outputs["deploy_stderr"]
    assert not mine.exists()
    assert not Path("/var/tmp", mine.name).exists()
    assert not (machine.state / "runs/d1/home").exists()
    assert (
        "isolated    network, home, tmp, system=strict"
        in machine.agent("show", "d1").out
    )


def test_isolated_run_can_connect_only_to_itself(
    machine: Machine, heat: SignalServer
) -> None:
    """An isolated run can connect only to itself: not to servers of the machine or other interfaces."""
    parts = urlsplit(heat.url())
    address = (parts.hostname, parts.port)
    script = (
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "outputs['own'] = socket.create_connection(server.getsockname()).getpeername()[0]\n"
        "outputs['names'] = ' '.join(name for _, name in socket.if_nameindex())\n"
        f"try:\n    socket.create_connection({address!r})\n"
        "except OSError as error:\n    outputs['why'] = str(error)\n"
    )
    outputs = ["own", "names", "why"]
    given = isolated(
        "d1",
        script,
        {"network": True},
        group="python",
        outputs=outputs,
        signal=heat.url("d1"),
    )
    machine.apply([given])
    assert result(heat) == {
        "own": "127.0.0.1",
        "names": "lo",
        "why": "[Errno 111] Connection refused",
        "deploy_stdout": "",
        "deploy_stderr": "",
        "deploy_status_code": 0,
    }


@pytest.mark.fault(
    4,
    "an isolated run of root unmounts, remounts, and enters the namespaces and the root folder of other processes",
    "the kernel refuses each",
)
def test_root_cannot_undo_its_isolation(
    machine: Machine, heat: SignalServer, seen: Path
) -> None:
    """A run as root cannot undo its isolation with the tools of the machine."""
    ways = (
        "umount /tmp",
        "mount -o remount,rw /usr",
        "mount -t tmpfs tmpfs /mnt",
        "nsenter --target 1 --mount true",
        "nsenter --target 1 --net true",
        "unshare --mount true",
        "unshare --user --map-root-user --mount umount /tmp",
        f"cat /proc/1/root{seen}",
        f"cat /proc/{os.getpid()}/root{seen}",
        f"cat /proc/$PPID/root{seen}",
    )
    script = SH + "".join(
        f"{way} 2>/dev/null && echo '{way}' || echo refused\n" for way in ways
    )
    machine.apply([isolated("d1", script, ALL, signal=heat.url("d1"))])
    found = result(heat)
    assert found["deploy_stdout"].splitlines() == ["refused"] * len(ways)


@pytest.mark.parametrize(
    ("levels", "writable"),
    [
        ({}, "/usr /etc /root /var /tmp"),
        ({"home": "read-only"}, "/usr /etc /var /tmp"),
        ({"system": True}, "/etc /root /var /tmp"),
        ({"system": "full", "home": "true"}, "/var /tmp"),
        ({"system": "strict", "tmp": False}, ""),
        ({"system": "strict", "tmp": "true"}, "/tmp"),
    ],
)
def test_each_isolation_level_restricts_only_its_parts(
    machine: Machine,
    heat: SignalServer,
    seen: Path,
    levels: dict[str, object],
    writable: str,
) -> None:
    """A part that an isolation level does not name is as in other runs."""
    script = f"{SH}for place in /usr /etc /root /var /tmp; do [ -w $place ] && echo $place; done\ncat {seen}\nexit 0\n"
    machine.apply([isolated("d1", script, levels, signal=heat.url("d1"))])
    content = "" if levels.get("tmp") else "of the machine"
    assert (
        result(heat)["deploy_stdout"]
        == "".join(f"{place}\n" for place in writable.split()) + content
    )


@pytest.mark.slow
def test_files_in_the_home_of_a_run_are_removed(machine: Machine) -> None:
    """Files that a run leaves in its home are removed at any depth."""
    script = f"{SH}cd; for n in $(seq 2000); do mkdir d; cd d; done\n"
    assert machine.apply([isolated("d1", script, {"home": True})]).code == 0
    assert {
        each.name.partition(".")[0] for each in (machine.state / "runs/d1").iterdir()
    } == {*("stdout", "stderr", "supervisor", "status")}


def test_artifacts_are_fetched_before(machine: Machine, heat: SignalServer) -> None:
    """The agent fetches artifacts with the network before the run is isolated."""
    server = Stub(lambda _request: Answer(body=b"an artifact\n"))
    server.start()
    digest = hashlib.sha256(b"an artifact\n").hexdigest()
    artifact = {"url": f"http://127.0.0.1:{server.port}/file", "sha256": digest}
    script = f'{SH}cat "$HEAT_ARTIFACTS/file"\n'
    machine.apply(
        [
            isolated(
                "d1",
                script,
                ALL,
                options={"artifacts": [artifact]},
                signal=heat.url("d1"),
            )
        ]
    )
    server.stop()
    assert result(heat)["deploy_stdout"] == "an artifact\n"


def test_a_run_of_another_user_is_isolated(
    machine: Machine, heat: SignalServer, seen: Path
) -> None:
    """A run of another user is isolated too: it cannot regain privileges, and its folder stays private."""
    outer = Path(tempfile.mkdtemp(prefix="heat-users-", dir="/var/lib"))
    leftovers.belongs(outer)
    outer.chmod(0o755)
    config = machine.folder / "agent.conf"
    config.write_text(f"[agent]\nuser_dir = {outer}/users\n")
    script = (
        f"{SH}id -un; cat {seen}; touch /etc/made /var/lib/made; echo own >$HOME/own && cat $HOME/own\n"
        "grep -h NoNewPrivs /proc/self/status; ls /proc/1/root; unshare --user --mount umount /tmp\n"
        "echo $HOME | grep -c ^/var/lib/heat-users; echo out >$heat_outputs_path.one\n"
    )
    given = isolated(
        "d1",
        script,
        ALL,
        options={"user": USER},
        outputs=["one"],
        signal=heat.url("d1"),
    )
    machine.apply([given], "--config", str(config))
    found = result(heat)
    left = list((outer / "users").iterdir())
    shutil.rmtree(outer)
    assert (found["deploy_stdout"], found["one"]) == (
        f"{USER}\nown\nNoNewPrivs:\t1\n1\n",
        "out\n",
    )
    assert left == []


@pytest.mark.fault(
    3,
    "an isolated script ignores TERM, leaves its session and starts others, and times out",
    "none of its processes is left",
)
def test_timeout_ends_all_processes_of_an_isolated_run(machine: Machine) -> None:
    """A timeout ends all processes of an isolated run."""
    script = f"{SH}trap '' TERM\nsetsid sh -c 'trap \"\" TERM; sleep 600 & sleep 600' &\nsleep 600\n"
    assert (
        machine.apply(
            [isolated("d1", script, ALL, options={"timeout": 1})], "--grace", "0.5"
        ).code
        == 1
    )
    assert "it timed out after 1 s" in machine.agent("show", "d1").out
    assert machine.processes() == []


@pytest.mark.fault(
    1, "kill -9 of the agent at transitions of an isolated run", "the report is true"
)
def test_isolated_run_outlives_the_agent(
    machine: Machine, heat: SignalServer, tried: Callable[[int], None]
) -> None:
    """The next agent tells its result."""
    for number, point in enumerate(
        ("runner.prepared", "runner.word", "runner.closed", "journal.finished.after")
    ):
        traps = Traps(machine.folder, (point, 1))
        script = f"{SH}echo ran; echo out >$heat_outputs_path.one\n"
        given = [
            isolated(
                f"d{number}",
                script,
                ALL,
                outputs=["one"],
                signal=heat.url(f"d{number}"),
            )
        ]
        machine.apply(given, **traps.environment)
        assert not traps.left, point
        machine.apply(given)
        results = [
            json.loads(each.body) for each in heat.signals if f"/d{number}" in each.path
        ]
        wanted = {
            "deploy_stdout": "ran\n",
            "deploy_stderr": "",
            "deploy_status_code": 0,
            "one": "out\n",
        }
        assert results, point
        assert all(each == wanted for each in results), (point, results)
    tried(4)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"levels": ["network"]},
            "options.isolate: expected an object with network, home, tmp, system",
        ),
        (
            {"levels": {"netwrok": True}},
            "options.isolate.netwrok: a run can be isolated from network, home, tmp",
        ),
        (
            {"levels": {"system": "yes"}},
            "options.isolate.system: expected one of true, full, strict, false",
        ),
        (
            {"levels": {"tmp": "strict"}},
            "options.isolate.tmp: expected one of true, false",
        ),
        (
            {"levels": {"home": ["true"]}},
            "options.isolate.home: expected one of read-only, true, false",
        ),
        (
            {"group": "json-file", "config": {}},
            "json-file has no such option: its work is not done in the run alone",
        ),
        (
            {"group": "docker-cmd", "config": {}},
            "docker-cmd has no such option: its work is not done in the run alone",
        ),
    ],
)
def test_a_mistake_is_a_failure(
    machine: Machine, fields: dict[str, Any], why: str
) -> None:
    """The reason is in the result, and nothing runs without isolation instead."""
    proof = machine.folder / "proof"
    fields = {"config": f"{SH}echo ran >{proof}\n", **fields}
    given = isolated("d1", fields.pop("config"), fields.pop("levels", ALL), **fields)
    assert machine.apply([given]).code == 1
    assert why in machine.agent("show", "d1").out
    assert not proof.exists()


def test_hook_by_hand_refuses_isolation(machine: Machine) -> None:
    """A hook that is run by hand refuses isolation, because only the agent can isolate a run."""
    given = json.dumps({"id": "d1", "config": SH, "options": {"isolate": ALL}})
    done = subprocess.run(
        [str(BIN / "heat-config-hook"), "script"],
        input=given,
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(30),
    )
    assert "only the agent can isolate a run" in done.stdout + done.stderr


def test_an_executable_hook_can_be_isolated(machine: Machine) -> None:
    """With an option of exactly this form; any other is its own affair."""
    machine.hooks.mkdir()
    (machine.hooks / "own").write_text(
        f'{SH}echo "{{\\"deploy_status_code\\": 0, \\"deploy_stdout\\": \\"$(grep -c : /proc/net/dev)\\"}}"\n'
    )
    (machine.hooks / "own").chmod(0o755)
    hooks = ("--hooks-dir", str(machine.hooks))
    count = str(Path("/proc/net/dev").read_text().count(":"))
    for identity, levels, lines in (
        ("d1", {"network": True}, "1"),
        ("d2", {"net": 1}, count),
        ("d3", "no", count),
    ):
        assert (
            machine.apply([isolated(identity, "", levels, group="own")], *hooks).code
            == 0
        )
        assert f"deploy_stdout: {lines}\n" in machine.agent("show", identity).out


def test_a_setting_and_a_policy_say_how_runs_are_isolated(machine: Machine) -> None:
    """The setting counts for tools that can be isolated; with the rule, metadata cannot choose less."""
    governed = Governed(machine)
    (governed.own / "agent.conf").write_text(
        "[agent]\nisolate = network, system=full\n"
    )
    script = f"{SH}grep -c : /proc/net/dev; [ -w /etc ] || echo read-only\n"
    given = [
        deployment("d1", script),
        isolated("d2", script, {"system": "strict", "tmp": True}),
        isolated("d3", script, {"network": False}),
        isolated("d4", script, {"system": True}),
        deployment("d5", {}, group="json-file"),
    ]
    governed.policy("isolate = network, system=full")
    plan = governed.apply(given, "--plan").out
    assert "new; isolated: network, system=full" in plan
    assert "new; isolated: network, tmp, system=strict" in plan
    refused = f"refused by the rule isolate of {POLICY}: the run is not isolated by"
    assert plan.count(refused) == 3, plan
    assert governed.apply(given).code == 1
    shown = [governed.agent("show", f"d{number}").out for number in range(1, 6)]
    assert all("deploy_stdout: 1\n    read-only\n" in each for each in shown[:2])
    assert "isolated    network, system=full" in shown[0]
    assert f"{refused} network\n" in shown[2]
    assert f"{refused} system=full\n" in shown[3]
    assert (
        f"{refused} network, system=full; the tool 'json-file' cannot be isolated\n"
        in shown[4]
    )
    governed.machine.have_quick_tools()
    doctor = governed.agent("doctor", "--all").out
    assert "runs are isolated by network, system=full" in doctor
    (governed.own / "agent.conf").write_text("[agent]\nisolate = netwrok\n")
    assert (
        "isolate: expected one or more words of: network, home=read-only"
        in governed.apply(given).err
    )
    governed.policy("isolate = all")
    (governed.own / "agent.conf").unlink()
    assert (
        "isolate: expected words of network, home=read-only"
        in governed.apply([deployment("d9", script)]).out
    )


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["ansible", "salt"])
def test_the_tools_work_isolated(machine: Machine, tool: str) -> None:
    """Each tool can write to the folders and caches that it needs."""
    need_outside_tmp()
    path = f"{need_salt() if tool == 'salt' else BIN}:/usr/bin:/bin"
    config = {
        "ansible": "- hosts: localhost\n  connection: local\n  gather_facts: false\n"
        "  tasks: [{copy: {content: it, dest: /tmp/of-a-tool}}, {command: grep -q it /tmp/of-a-tool}]\n",
        "salt": "/tmp/of-a-tool:\n  file.managed:\n    - contents: it\ngrep -q it /tmp/of-a-tool:\n  cmd.run\n",
    }[tool]
    levels = {**ALL, "home": "read-only"}  # the Python of the tests may be there
    done = machine.apply([isolated("d1", config, levels, group=tool)], PATH=path)
    assert done.code == 0, done.out + machine.agent("log", "d1").err
    assert not Path("/tmp/of-a-tool").exists()


@pytest.fixture
def in_tmp() -> Iterator[Path]:
    """An agent that is installed below /tmp; the Python to run it with."""
    with tempfile.TemporaryDirectory(prefix="heat-agent-", dir="/tmp") as folder:
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", folder], check=True
        )
        [packages] = Path(folder).glob("lib/python3*/site-packages")
        places = [
            place
            for place in sys.path
            if Path(place).name in ("agent", "hooks", "site-packages")
        ]
        (packages / "places.pth").write_text("\n".join(places))
        yield Path(folder) / "bin/python"


def test_isolation_that_hides_the_agent_is_an_error_of_one_sentence(
    machine: Machine, in_tmp: Path
) -> None:
    """An agent below /tmp does not run a tool that needs more of its modules, but runs scripts."""
    levels = {"tmp": True}
    given = [
        isolated("tool", "print(1)\n", levels, group="python"),
        isolated("script", f"{SH}echo ran\n", levels),
    ]
    program = (
        "import sys; from heat_config_agent.cli.main import apply; sys.exit(apply())"
    )
    words: list[str | Path] = [
        in_tmp,
        "-c",
        program,
        "--state-dir",
        machine.state,
        machine.write(given),
    ]
    done = subprocess.run(
        words, env=machine.environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    assert machine.agent("log", "script").out == "ran\n"
    assert machine.agent("log", "tool").out == ""
    why = "cannot start tool: its isolation hides the agent's Python in "
    shown = machine.agent("show", "tool").out
    assert why in shown
    assert "install the agent in another folder" in shown
    assert "126" in shown
