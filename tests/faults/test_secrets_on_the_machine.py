"""Secrets where they could come to light on the machine: command lines, environments, cores, temporary files.

What anybody sees of the agent is searched for secrets after every test of the suite, see `planted`; so many of these
only have to make happen what could show one.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import endings, pace, planted
from support.containers import IMAGE, own_podman, podman
from support.daemon import LONG, Daemon, until
from support.loopback import SignalServer, wait_until
from support.machine import BIN, Machine, deployment
from support.secret_traces import SH, chef_stands_in
from support.tools import need, need_salt

pytestmark = pytest.mark.takes(20)

__all__ = ["own_podman", "podman"]


CREDENTIALS = planted.pattern(f"{planted.WORD}-pass", planted.SIGNATURE)


ALL = planted.pattern(planted.WORD, planted.SIGNATURE)


def test_a_word_is_found_in_whatever_form() -> None:
    """Plain, in JSON, in a URL, and anywhere within what is in base64."""
    secret = planted.PASSWORD
    forms = [secret, json.dumps(secret), secret.replace("/", "%2F").replace('"', "%22")]
    for before in ("", "a", "ab", "user:"):
        forms.append(base64.b64encode(f"{before}{secret}!".encode()).decode())
        forms.append(base64.urlsafe_b64encode(f"{before}{secret}".encode()).decode())
    assert [each for each in forms if not planted.leaks([("it", each)])] == []
    assert planted.leaks([("it", "c2lnbmV"), ("that", planted.WORD[:-1])]) == []


@pytest.mark.shows_secrets(
    "they are put where they must not be, to see that they are found there"
)
def test_checker_finds_misplaced_secrets(machine: Machine, heat: SignalServer) -> None:
    """The checker searches output, logs, health, shared results, names, temporary files and open files."""
    given = [deployment("d1", f"{SH}echo $planted\n", signal=heat.url())]
    assert machine.apply(given).code == 0
    assert planted.shown(machine) == planted.told(heat) == []
    word = planted.WORD
    machine.said.append(("a command", f"it says {word}"))
    log = machine.folder / "daemon.log"
    log.write_text(word)
    machine.logs.append(log)
    (machine.state / "health.json").write_text(json.dumps({"trouble": heat.url()}))
    (machine.state / "health.json").chmod(0o644)
    (machine.state / "deployed" / "d1.notify.json").write_text(word)
    (machine.state / "runs" / "d1" / f"{word}.json").touch()
    (machine.temporary / "x").touch()
    (machine.folder / "core.123").touch()
    journal = machine.state / "journal"
    journal.chmod(0o640)
    places = [
        *(
            "a command",
            "daemon.log",
            "health.json",
            "d1.notify.json",
            "the name of a file",
        ),
        *(
            "others may read",
            "its mode is 640",
            "what a run was given is left",
            "a core",
            "a temporary file is left",
        ),
    ]
    found = "\n".join(planted.shown(machine))
    assert [each for each in places if each not in found] == []


@dataclass(frozen=True)
class Traced:
    """The traces of a command and all processes that it started."""

    execs: list[tuple[str, str]]
    """Arguments and environment of each program."""
    made: list[str]
    """Names of files that were made or written."""


_NAMES = re.compile(r'(?:<([^>]*)>, )?"([^"]*)"')
"""A name in a line of strace's, and the folder to which it is relative."""


def traced(machine: Machine, document: object, **environment: str) -> Traced:
    """Apply a document under strace."""
    strace = need("strace", "strace")
    record = machine.folder / "strace"
    calls = "execve,execveat,openat,open,creat,mkdir,mkdirat,rename,renameat,renameat2,symlink,symlinkat,link,linkat"
    words = [
        strace,
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-y",
        "-v",
        "-s",
        "1000000",
        "-e",
        f"trace={calls}",
        "-e",
        "signal=none",
        "-o",
    ]
    process = subprocess.run(
        [
            *(
                *words,
                str(record),
                str(BIN / "heat-config-apply"),
                "--state-dir",
                str(machine.state),
            ),
            *("--hooks-dir", str(machine.hooks), str(machine.write(document))),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**machine.environment, **environment},
        cwd=machine.folder,
    )
    machine.said.append(("apply", process.stdout + process.stderr))
    assert process.returncode == 0, process.stdout + process.stderr
    text = record.read_text(errors="replace")
    record.unlink()
    execs, created = [], []
    for line in text.splitlines():
        call = line.partition(" ")[2].lstrip()
        if call.startswith("exec"):
            argv, _, environ = call.partition('"], [')
            execs.append((argv, environ))
        elif "O_CREAT" in call or not call.startswith(("open", "<")):
            created += [
                str(Path(folder) / name) for folder, name in _NAMES.findall(call)
            ]
    return Traced(execs, created)


def own_hook(machine: Machine) -> dict[str, str]:
    """Install somebody else's hook, which starts a program."""
    reply = """{"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}"""
    machine.hook("own", f"{SH}cat >/dev/null\n/bin/echo '{reply}'\n")
    return {}


SALT = "x:\n  test.configurable_test_state:\n    - changes: false\n    - result: {{ pillar['planted'] | length > 1 }}\n"


PLAYBOOK = [
    {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": "/usr/bin/python3"},
        "tasks": [
            {
                "copy": {
                    "content": "{{ planted }}",
                    "dest": "{{ heat_outputs_path }}.out",
                },
                "no_log": True,
            }
        ],
    }
]


@dataclass(frozen=True)
class Tool:
    """A tool, and a config that uses a secret."""

    name: str
    config: object
    ready: Callable[[Machine], dict[str, Any]] = lambda _: {}
    """Gets it ready, and returns variables that it needs."""


def salt_is_there(machine: Machine) -> dict[str, str]:
    """Have the real salt-call in the PATH, and no configuration of the machine's."""
    return {
        "PATH": f"{need_salt()}:{os.environ['PATH']}",
        "HEAT_SALT_MINION_CONFIG": f"{machine.folder}/etc/minion",
    }


def puppet_stands_in(machine: Machine) -> dict[str, str]:
    """A program in the place of puppet: what puppet itself starts takes too long to be traced."""
    program = machine.folder / "puppet"
    program.write_text(
        f'{SH}[ -n "$FACTER_planted" ] && grep -q planted {machine.state}/runs/d1/facts.json\n'
    )
    program.chmod(0o755)
    return {"HEAT_PUPPET_CMD": str(program)}


TOOLS = (
    Tool(
        "script", f'{SH}[ -n "$planted" ] && /bin/true && head -c 1 $HEAT_INPUTS_FILE\n'
    ),
    Tool(
        "python",
        "import subprocess\nassert inputs['planted']\nsubprocess.run(['true'])\n",
    ),
    Tool("own", "", ready=own_hook),
    Tool("ansible", json.dumps(PLAYBOOK)),
    Tool("puppet", "notify { 'x': }", ready=puppet_stands_in),
    Tool("salt", SALT, ready=salt_is_there),
    Tool("chef", ["recipe[x]"], ready=chef_stands_in),
)


@pytest.mark.fault(
    4,
    "every program that a run starts is traced, with its arguments and its environment",
    "no secret is on a command line; no credential is in the environment of any of them",
)
@pytest.mark.parametrize("tool", TOOLS, ids=lambda each: each.name)
def test_no_secret_is_on_a_command_line(
    machine: Machine, heat: SignalServer, tool: Tool
) -> None:
    """Command lines can be read by all users of a machine; and what Heat is spoken to with is for the agent alone."""
    machine.state.mkdir(mode=0o700)
    environment = tool.ready(machine)
    outputs = ["out"] if tool.name == "ansible" else []
    secrets = planted.plant([])
    given = deployment(
        "d1",
        tool.config,
        group=tool.name,
        inputs=secrets,
        outputs=outputs,
        signal=heat.url(),
    )
    trace = traced(machine, [given], **environment)
    assert heat.values()[0]["deploy_status_code"] == 0, heat.values()
    assert len(trace.execs) >= 3
    assert planted.leaks((("an argument", argv) for argv, _ in trace.execs), ALL) == []
    assert (
        planted.leaks(
            (("a variable", environ) for _, environ in trace.execs), CREDENTIALS
        )
        == []
    )
    assert (
        planted.leaks((("the name of a file", name) for name in trace.made), ALL) == []
    )
    left = [
        Path(name)
        for name in set(trace.made)
        if Path(name).is_file() and machine.state not in Path(name).parents
    ]
    assert (
        planted.leaks(
            (str(path), path.read_bytes())
            for path in left
            if path.name != "document.json"
        )
        == []
    )
    if tool.name in ("script", "python", "own"):
        places = (str(machine.state), "/dev/", "/proc/")
        made = [name for name in trace.made if "/__pycache__/" not in name]
        assert [name for name in made if not name.startswith(places)] == []


def test_no_secret_of_a_container_is_on_a_command_line(
    machine: Machine, heat: SignalServer, podman: Any
) -> None:
    """A container gets its environment through a file or the environment of its engine."""
    variables = {
        "PLAIN": f"{planted.WORD}-hidden",
        "LINES": f"{planted.HIDDEN}\nand more",
    }
    container = {
        "image": IMAGE,
        "command": ["true"],
        "detach": False,
        "environment": variables,
    }
    given = deployment("d1", {"web": container}, group="docker-cmd", signal=heat.url())
    found = traced(machine, [given], PATH=podman.path)
    assert heat.values()[0]["deploy_status_code"] == 0, heat.values()
    assert any("--env-file" in argv for argv, _ in found.execs)
    assert planted.leaks((("an argument", argv) for argv, _ in found.execs), ALL) == []
    assert (
        planted.leaks(
            (("a variable", environ) for _, environ in found.execs), CREDENTIALS
        )
        == []
    )


def need_cores() -> None:
    """Skip the test where the machine gives cores to a program."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if "/" in pattern or pattern.startswith("|"):
        pytest.skip(
            f"this machine puts cores elsewhere: have «core» in kernel.core_pattern (it is {pattern})"
        )


UNLIMITED = 'ulimit -c unlimited && exec "$@"'


@pytest.mark.fault(
    4,
    "the agent is aborted while it holds secrets, where cores have no limit",
    "it leaves no core dump",
)
def test_there_is_no_core_of_the_agent(machine: Machine, heat: SignalServer) -> None:
    """All credentials would be in it. What its runs start leaves cores as the machine has it: that is their affair."""
    need_cores()
    mine, go = machine.folder / "mine", machine.folder / "go"
    script = f"{SH}ulimit -c >{mine}\nsh -c 'kill -ABRT $$'\n{until(go)}\n"
    words = [str(BIN / "heat-config-apply"), "--state-dir", str(machine.state)]
    agent = subprocess.Popen(
        [
            "sh",
            "-c",
            UNLIMITED,
            "sh",
            *words,
            str(machine.write([deployment("d1", script, signal=heat.url())])),
        ],
        env=machine.environment,
        cwd=machine.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    theirs = machine.state / "heat-config-script"
    with endings.ended(agent):
        wait_until(lambda: bool(list(theirs.glob("core*"))), LONG)
        agent.send_signal(signal.SIGABRT)
        assert agent.wait(pace.seconds(LONG)) == -signal.SIGABRT
    assert list(machine.folder.glob("core*")) == []
    assert mine.read_text() == "unlimited\n"
    go.touch()
    for path in theirs.glob("core*"):
        path.unlink()
    assert machine.apply(machine.folder / "document.json").code == 0
    assert heat.values()[0]["deploy_status_code"] == 0


@pytest.mark.fault(
    4,
    "the daemon is aborted while it holds secrets, where cores have no limit",
    "it leaves no core dump",
)
def test_there_is_no_core_of_the_daemon(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The daemon leaves no core dump either."""
    need_cores()
    daemon.put([deployment("d1", SH, signal=heat.url())])
    daemon.start("sh", "-c", UNLIMITED, "sh")
    daemon.wait_state("d1", "signalled")
    assert daemon.stop(signal.SIGABRT) == -signal.SIGABRT
    assert list(machine.folder.glob("core*")) == []


@pytest.mark.fault(
    4,
    "a hook by itself is aborted, and the process of one with steps",
    "neither leaves a core dump",
)
def test_there_is_no_core_of_hooks(machine: Machine) -> None:
    """Hooks leave no core dumps, which would contain the inputs of a deployment."""
    need_cores()
    pid = machine.folder / "pid"
    program = machine.folder / "chef-client"
    program.write_text(
        f"{SH}echo $PPID >{pid}.new && mv {pid}.new {pid}\nexec sleep 60\n"
    )
    program.chmod(0o755)
    (machine.folder / "kitchen").mkdir()
    options = {"kitchen_path": str(machine.folder / "kitchen")}
    given = deployment("d1", ["recipe[x]"], group="chef", options=options)
    hook = subprocess.Popen(
        ["sh", "-c", UNLIMITED, "sh", str(BIN / "heat-config-hook"), "chef"],
        env={
            **machine.environment,
            "HEAT_CHEF_CMD": str(program),
            "HEAT_CHEF_WORKING": f"{machine.state}/chef",
        },
        cwd=machine.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with endings.ended(hook):
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(given).encode())
        hook.stdin.close()
        wait_until(pid.exists, LONG)
        hook.send_signal(signal.SIGABRT)
        assert hook.wait(pace.seconds(LONG)) == -signal.SIGABRT
    [folder] = machine.temporary.glob("heat-config-hook-*")
    os.kill(int(pid.read_text()), signal.SIGABRT)
    wait_until(lambda: not Path(f"/proc/{pid.read_text().strip()}/exe").exists(), LONG)
    assert [
        *machine.folder.glob("core*"),
        *folder.glob("core*"),
        *(machine.state / "chef").glob("core*"),
    ] == []
    remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder, once its processes have ended."""
    subprocess.run(["rm", "-r", str(folder)], check=True)


@pytest.mark.fault(
    4,
    "a hook that heat-agents' programs call is killed with -9 in its run",
    "what it was given goes with the next one's, as soon as nothing works on it any more",
)
def test_temporary_folder_of_a_killed_hook_is_removed(machine: Machine) -> None:
    """The temporary folder of a killed hook, which has inputs, is removed once its command has ended."""
    begun, go = machine.folder / "begun", machine.folder / "go"
    given = deployment("d1", f"{SH}touch {begun}\n{until(go)}\n")

    def hook(document: dict[str, Any]) -> subprocess.Popen[str]:
        process = machine.start(
            "heat-config-hook", "script", stdin=subprocess.PIPE, **places
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(document))
        process.stdin.flush()
        return process

    places = {
        f"HEAT_SCRIPT_{each}": str(machine.state / each)
        for each in ("WORKING", "OUTPUTS")
    }
    killed = hook(given)
    assert killed.stdin is not None
    killed.stdin.close()
    wait_until(begun.exists, LONG)
    killed.kill()
    killed.wait(pace.seconds(LONG))
    for stream in (killed.stdout, killed.stderr):
        assert stream is not None
        stream.close()
    [folder] = machine.temporary.iterdir()
    assert (folder / "inputs.json").exists()

    def next_one() -> None:
        os.utime(folder, (0, 0))
        after = hook(deployment("d2", SH))
        assert (
            json.loads(after.communicate(timeout=pace.seconds(LONG))[0])[
                "deploy_status_code"
            ]
            == 0
        )

    next_one()
    assert folder.exists()
    go.touch()
    wait_until(lambda: not machine.processes(), LONG)
    next_one()
    assert not folder.exists()
