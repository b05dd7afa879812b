"""Secrets where they could come to light: command lines, environments, cores, temporary files, errors, third parties.

What anybody sees of the agent is searched for secrets after every test of the suite, see `planted`; so many of these
only have to make happen what could show one.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import select
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import planted
from cloud import Cloud
from containers import IMAGE, own_podman, podman
from daemon import LONG, Daemon, until
from loopback import Answer, SignalServer, wait_until
from machine import BIN, Machine, deployment
from tools import need, need_salt

__all__ = ["own_podman", "podman"]

SH = "#!/bin/sh\n"
CREDENTIALS = planted.pattern(f"{planted.WORD}-pass", planted.SIGNATURE)
ALL = planted.pattern(planted.WORD, planted.SIGNATURE)


# The search itself.


def test_a_word_is_found_in_whatever_form() -> None:
    """Plain, in JSON, in a URL, and anywhere within what is in base64."""
    secret = planted.PASSWORD
    forms = [secret, json.dumps(secret), secret.replace("/", "%2F").replace('"', "%22")]
    for before in ("", "a", "ab", "user:"):
        forms.append(base64.b64encode(f"{before}{secret}!".encode()).decode())
        forms.append(base64.urlsafe_b64encode(f"{before}{secret}".encode()).decode())
    assert [each for each in forms if not planted.leaks([("it", each)])] == []
    assert planted.leaks([("it", "c2lnbmV"), ("that", planted.WORD[:-1])]) == []


@pytest.mark.shows_secrets("they are put where they must not be, to see that they are found there")
def test_what_is_where_it_must_not_be_is_found(machine: Machine, heat: SignalServer) -> None:
    """In what was printed, in logs, health, results that others read, names, and temporary files; and open files."""
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
    wanted = [
        *("a command", "daemon.log", "health.json", "d1.notify.json", "the name of a file"),
        *("others may read", "its mode is 640", "what a run was given is left", "a core", "a temporary file is left"),
    ]
    found = "\n".join(planted.shown(machine))
    assert [each for each in wanted if each not in found] == []


# What can be seen of processes.


@dataclass(frozen=True)
class Traced:
    """What a command and all that it started have done."""

    execs: list[tuple[str, str]]
    """Of each program: its arguments, and its environment."""
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
            *(*words, str(record), str(BIN / "heat-config-apply"), "--state-dir", str(machine.state)),
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
    execs, made = [], []
    for line in text.splitlines():
        call = line.partition(" ")[2].lstrip()
        if call.startswith("exec"):
            argv, _, environ = call.partition('"], [')
            execs.append((argv, environ))
        elif "O_CREAT" in call or not call.startswith(("open", "<")):
            made += [str(Path(folder) / name) for folder, name in _NAMES.findall(call)]
    return Traced(execs, made)


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
        "tasks": [{"copy": {"content": "{{ planted }}", "dest": "{{ heat_outputs_path }}.out"}, "no_log": True}],
    }
]

CHEF = f"""{SH}[ "$1" = -z ] && grep -q planted "$5" && exec /bin/true\n"""


@dataclass(frozen=True)
class Tool:
    """A tool, and a config that uses a secret."""

    name: str
    config: object
    ready: Callable[[Machine], dict[str, Any]] = lambda _: {}
    """Gets it ready, and returns variables that it needs."""


def salt_is_there(machine: Machine) -> dict[str, str]:
    """Have the real salt-call in the PATH, and no configuration of the machine's."""
    return {"PATH": f"{need_salt()}:{os.environ['PATH']}", "HEAT_SALT_MINION_CONFIG": f"{machine.folder}/etc/minion"}


def puppet_stands_in(machine: Machine) -> dict[str, str]:
    """A program in the place of puppet: what puppet itself starts takes too long to be traced."""
    program = machine.folder / "puppet"
    program.write_text(f'{SH}[ -n "$FACTER_planted" ] && grep -q planted {machine.state}/runs/d1/facts.json\n')
    program.chmod(0o755)
    return {"HEAT_PUPPET_CMD": str(program)}


def chef_stands_in(machine: Machine) -> dict[str, str]:
    """A program in the place of chef-client, and a kitchen for it."""
    program = machine.folder / "chef-client"
    program.write_text(CHEF)
    program.chmod(0o755)
    (machine.state / "heat-config-chef" / "kitchen").mkdir(parents=True)
    return {"HEAT_CHEF_CMD": str(program)}


TOOLS = (
    Tool("script", f'{SH}[ -n "$planted" ] && /bin/true && head -c 1 $HEAT_INPUTS_FILE\n'),
    Tool("python", "import subprocess\nassert inputs['planted']\nsubprocess.run(['true'])\n"),
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
def test_no_secret_is_on_a_command_line(machine: Machine, heat: SignalServer, tool: Tool) -> None:
    """Command lines can be read by all users of a machine; and what Heat is spoken to with is for the agent alone."""
    machine.state.mkdir(mode=0o700)
    environment = tool.ready(machine)
    outputs = ["out"] if tool.name == "ansible" else []
    secrets = planted.plant([])
    given = deployment("d1", tool.config, group=tool.name, inputs=secrets, outputs=outputs, signal=heat.url())
    found = traced(machine, [given], **environment)
    assert heat.values()[0]["deploy_status_code"] == 0, heat.values()
    assert len(found.execs) >= 3
    assert planted.leaks((("an argument", argv) for argv, _ in found.execs), ALL) == []
    assert planted.leaks((("a variable", environ) for _, environ in found.execs), CREDENTIALS) == []
    assert planted.leaks((("the name of a file", name) for name in found.made), ALL) == []
    left = [Path(name) for name in set(found.made) if Path(name).is_file() and machine.state not in Path(name).parents]
    assert planted.leaks((str(path), path.read_bytes()) for path in left if path.name != "document.json") == []
    if tool.name in ("script", "python", "own"):
        places = (str(machine.state), "/dev/", "/proc/")
        made = [name for name in found.made if "/__pycache__/" not in name]
        assert [name for name in made if not name.startswith(places)] == []


def test_no_secret_of_a_container_is_on_a_command_line(machine: Machine, heat: SignalServer, podman: Any) -> None:
    """What a container has in its environment is given to it by way of a file, or of the engine's environment."""
    variables = {"PLAIN": f"{planted.WORD}-hidden", "LINES": f"{planted.HIDDEN}\nand more"}
    container = {"image": IMAGE, "command": ["true"], "detach": False, "environment": variables}
    given = deployment("d1", {"web": container}, group="docker-cmd", signal=heat.url())
    found = traced(machine, [given], PATH=podman.path)
    assert heat.values()[0]["deploy_status_code"] == 0, heat.values()
    assert any("--env-file" in argv for argv, _ in found.execs)
    assert planted.leaks((("an argument", argv) for argv, _ in found.execs), ALL) == []
    assert planted.leaks((("a variable", environ) for _, environ in found.execs), CREDENTIALS) == []


# Cores.


def need_cores() -> None:
    """Skip the test where the machine gives cores to a program."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if "/" in pattern or pattern.startswith("|"):
        pytest.skip(f"this machine puts cores elsewhere: have «core» in kernel.core_pattern (it is {pattern})")


UNLIMITED = 'ulimit -c unlimited && exec "$@"'


@pytest.mark.fault(
    4, "the agent is aborted while it holds secrets, where cores have no limit", "there is no core of it"
)
def test_there_is_no_core_of_the_agent(machine: Machine, heat: SignalServer) -> None:
    """All credentials would be in it. What its runs start leaves cores as the machine has it: that is their affair."""
    need_cores()
    mine, go = machine.folder / "mine", machine.folder / "go"
    script = f"{SH}ulimit -c >{mine}\nsh -c 'kill -ABRT $$'\n{until(go)}\n"
    words = [str(BIN / "heat-config-apply"), "--state-dir", str(machine.state)]
    agent = subprocess.Popen(
        ["sh", "-c", UNLIMITED, "sh", *words, str(machine.write([deployment("d1", script, signal=heat.url())]))],
        env=machine.environment,
        cwd=machine.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    theirs = machine.state / "heat-config-script"
    wait_until(lambda: bool(list(theirs.glob("core*"))), LONG)
    agent.send_signal(signal.SIGABRT)
    assert agent.wait(LONG) == -signal.SIGABRT
    assert list(machine.folder.glob("core*")) == []
    assert mine.read_text() == "unlimited\n"
    go.touch()
    for path in theirs.glob("core*"):
        path.unlink()
    assert machine.apply(machine.folder / "document.json").code == 0
    assert heat.values()[0]["deploy_status_code"] == 0


@pytest.mark.fault(
    4, "the daemon is aborted while it holds secrets, where cores have no limit", "there is no core of it"
)
def test_there_is_no_core_of_the_daemon(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """As little as of the command."""
    need_cores()
    daemon.put([deployment("d1", SH, signal=heat.url())])
    daemon.start("sh", "-c", UNLIMITED, "sh")
    daemon.wait_state("d1", "signalled")
    assert daemon.stop(signal.SIGABRT) == -signal.SIGABRT
    assert list(machine.folder.glob("core*")) == []


@pytest.mark.fault(4, "a hook by itself is aborted, and the process of one with steps", "there is no core of either")
def test_there_is_no_core_of_hooks(machine: Machine) -> None:
    """They hold the inputs of a deployment."""
    need_cores()
    pid = machine.folder / "pid"
    program = machine.folder / "chef-client"
    program.write_text(f"{SH}echo $PPID >{pid}.new && mv {pid}.new {pid}\nexec sleep 60\n")
    program.chmod(0o755)
    (machine.folder / "kitchen").mkdir()
    options = {"kitchen_path": str(machine.folder / "kitchen")}
    given = deployment("d1", ["recipe[x]"], group="chef", options=options)
    hook = subprocess.Popen(
        ["sh", "-c", UNLIMITED, "sh", str(BIN / "heat-config-hook"), "chef"],
        env={**machine.environment, "HEAT_CHEF_CMD": str(program), "HEAT_CHEF_WORKING": f"{machine.state}/chef"},
        cwd=machine.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert hook.stdin is not None
    hook.stdin.write(json.dumps(given).encode())
    hook.stdin.close()
    wait_until(pid.exists, LONG)
    hook.send_signal(signal.SIGABRT)
    assert hook.wait(LONG) == -signal.SIGABRT
    [folder] = machine.temporary.glob("heat-config-hook-*")
    os.kill(int(pid.read_text()), signal.SIGABRT)
    wait_until(lambda: not Path(f"/proc/{pid.read_text().strip()}/exe").exists(), LONG)
    assert [*machine.folder.glob("core*"), *folder.glob("core*"), *(machine.state / "chef").glob("core*")] == []
    remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder, once its processes have ended."""
    subprocess.run(["rm", "-r", str(folder)], check=True)


# What is left of what was killed.


@pytest.mark.fault(
    4,
    "a hook that heat-agents' programs call is killed with -9 in its run",
    "what it was given goes with the next one's, as soon as nothing works on it any more",
)
def test_what_a_killed_hook_leaves_is_removed(machine: Machine) -> None:
    """Its folder for temporary files has inputs in it. While the command goes on that it has started, it stays."""
    begun, go = machine.folder / "begun", machine.folder / "go"
    given = deployment("d1", f"{SH}touch {begun}\n{until(go)}\n")

    def hook(document: dict[str, Any]) -> subprocess.Popen[str]:
        process = machine.start("heat-config-hook", "script", stdin=subprocess.PIPE, **places)
        assert process.stdin is not None
        process.stdin.write(json.dumps(document))
        process.stdin.flush()
        return process

    places = {f"HEAT_SCRIPT_{each}": str(machine.state / each) for each in ("WORKING", "OUTPUTS")}
    killed = hook(given)
    assert killed.stdin is not None
    killed.stdin.close()
    wait_until(begun.exists, LONG)
    killed.kill()
    killed.wait(LONG)
    for stream in (killed.stdout, killed.stderr):
        assert stream is not None
        stream.close()
    [folder] = machine.temporary.iterdir()
    assert (folder / "inputs.json").exists()

    def next_one() -> None:
        os.utime(folder, (0, 0))
        after = hook(deployment("d2", SH))
        assert json.loads(after.communicate(timeout=LONG)[0])["deploy_status_code"] == 0

    next_one()
    assert folder.exists()
    go.touch()
    wait_until(lambda: not machine.processes(), LONG)
    next_one()
    assert not folder.exists()


# What is said.


class Echo(threading.Thread):
    """A server that calls its statuses by what it was asked, and sends headers that are none: both have been seen."""

    def __init__(self, status: int) -> None:
        super().__init__(daemon=True)
        self._status = status
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.asked: list[bytes] = []
        self.start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                asked = connection.recv(65536)
                self.asked.append(asked)
                line = asked.partition(b"\r\n")[0]
                head = b"HTTP/1.1 %d Bad request (%b)\r\n" % (self._status, line)
                connection.sendall(head + b"Content-Length: 2\r\nX: %b\r\nno header %b\r\n: y\r\n\r\n{}" % (line, line))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=[200, 301, 400, 403, 503])
def echo(request: pytest.FixtureRequest) -> Iterator[Echo]:
    """A server that repeats what it is asked wherever it can."""
    server = Echo(request.param)
    yield server
    server.close()


STRICT: dict[str, Any] = {"PYTHONWARNINGS": "default", "PYTHONDEVMODE": "1"}
"""Has Python say whatever it knows."""


@pytest.mark.fault(
    4,
    "a server repeats the request in its status line and its headers, while Python shows every warning",
    "no secret is in a log, a result or a listing",
)
def test_a_server_that_repeats_what_it_is_asked(machine: Machine, heat: SignalServer, echo: Echo) -> None:
    """Results and metadata, by signed URLs: what is said of the answers has none of these in it."""
    url = heat.url().replace(heat.origin, echo.origin)
    given = [deployment("d1", SH, signal=url)]
    done = machine.apply(given, "--deliver-for", "0", **STRICT)
    assert done.code in (0, 5)
    assert "Warning" not in done.err
    settings = machine.folder / "agent.conf"
    settings.write_text(
        f"[agent]\nstate_dir = {machine.state}\ncollectors = request\nsplay = 0\n[request]\nmetadata_url = {url}\n"
    )
    machine.config = settings
    once = machine.start("heat-config-agent", "run", "--once", "--config", str(settings), **STRICT)
    assert "Warning" not in once.communicate(timeout=60)[1]
    assert len(echo.asked) == 2


@pytest.mark.fault(
    4,
    "no place that has credentials can be reached, and everything there is to show is shown",
    "no secret is in a log, health, metrics or a listing",
)
def test_settings_with_secrets_of_places_that_cannot_be_reached(daemon: Daemon, machine: Machine) -> None:
    """Each transport with credentials of its own."""
    word, nowhere = planted.PASSWORD.replace('"', ""), "http://127.0.0.1:9"
    user = {"auth_url": f"{nowhere}/v3", "user_id": "u", "password": word, "project_id": "p"}
    daemon.settings |= {
        "heat": {**user, "stack_id": "s/1", "resource_name": "r"},
        "zaqar": {**user, "queue_id": "q"},
        "cfn": {
            "metadata_url": f"http://user:{planted.WORD}@127.0.0.1:9/v1/",
            "access_key_id": "k",
            "secret_access_key": word,
            "stack_name": "s",
            "path": "r.Metadata",
        },
        "request": {"metadata_url": f"{nowhere}/v1/x?temp_url_sig={planted.WORD}"},
    }
    metrics = machine.folder / "metrics"
    machine.logs.append(metrics)
    daemon.configure(collectors="heat, cfn, request, zaqar", metrics_file=str(metrics), environment=f"DB_PASS={word}")
    daemon.path.chmod(0o600)
    daemon.start(**STRICT)
    wait_until(lambda: [each["working"] for each in daemon.health()["sources"]] == [False] * 4, LONG)
    for words in (
        ["status"],
        ["status", "--json"],
        ["status", "--check"],
        ["config"],
        ["doctor"],
    ):
        daemon.command(*words)
    assert daemon.stop() == 0
    assert metrics.exists()
    assert "Warning" not in daemon.log


DEFECT = """\
import {module}

def broken(self, *args, **options):
    secret = bytes.fromhex("{word}").decode()
    raise ValueError("the secret is " + secret) from KeyError(secret)

{module}.{name} = broken
"""


@pytest.mark.fault(
    4, "a defect of the agent's own, with a secret in its error", "it is shown where it happened, and no value with it"
)
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("heat_config_agent.apply", "Applier.turn"),
        ("heat_config_agent.sources.local", "Local.collect"),
        ("heat_config_agent.collection", "_Thread.run"),
        ("heat_config_agent.web", "Connection.send"),
    ],
)
def test_a_defect_shows_no_values(daemon: Daemon, machine: Machine, heat: SignalServer, module: str, name: str) -> None:
    """In whichever thread it is: file, line and function are enough to find it."""
    folder = machine.folder / "defect"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(DEFECT.format(module=module, name=name, word=planted.WORD.encode().hex()))
    daemon.put([deployment("d1", SH, signal=heat.url())])
    daemon.start(wait=False, PYTHONPATH=str(folder), **STRICT)
    wait_until(lambda: "ValueError" in daemon.log, LONG)
    if "Traceback" in daemon.log:
        assert "broken" in daemon.log
        assert "KeyError" in daemon.log
        assert "values are left out" in daemon.log


@pytest.mark.fault(
    4,
    "a hook finds something wrong with a hidden input, and repeats it",
    "it is masked in the reason that people are shown",
)
def test_a_mistake_in_a_hidden_input_is_not_repeated(machine: Machine, heat: SignalServer) -> None:
    """Neither in the log, nor in what is said of the deployment, nor in its result."""
    machine.state.mkdir(mode=0o700)
    chef: dict[str, Any] = chef_stands_in(machine)
    hidden = {"name": "environment", "type": "String", "value": f"{planted.WORD}/x", "hidden": True}
    given = deployment("d1", ["recipe[x]"], group="chef", inputs=[hidden], signal=heat.url())
    done = machine.apply([given], **chef)
    assert done.code == 1
    assert "not '***'" in done.out
    assert "not '***'" in heat.values()[0]["deploy_stderr"]


# What a tool prints, while it prints it.


SHORT = planted.WORD[-6:]
"""A line that is too short to be hidden by itself."""

PARTS = {
    "of a line": (planted.WORD[:8], planted.WORD[8:]),
    "a short line first": (f"{SHORT}\n", f"{planted.WORD}\nxyz"),
    "a long line first": (f"{planted.WORD}\n", f"{SHORT}\nxyz"),
}
"""Secrets of which first one part is printed, then the other."""


@pytest.mark.fault(
    4,
    "a tool prints a secret in several parts, and of several lines, while its output is followed",
    "`log -f` and the line about what is running show none of the parts",
)
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_a_secret_in_several_parts_is_not_shown(machine: Machine, parts: tuple[str, str]) -> None:
    """Before the next part is there, nobody can know; so what may be the beginning of a secret waits for it."""
    first, second = parts
    go = machine.folder / "go"
    words = [f"printf 'begun\\n%s' {shlex.quote(first)}", until(go), f"printf '%s\\nended\\n' {shlex.quote(second)}"]
    hidden = {"name": "x", "type": "String", "value": first + second, "hidden": True}
    given = [deployment("d1", SH + "\n".join(words), inputs=[hidden])]
    leader, follower = pty.openpty()
    agent = subprocess.Popen(
        [str(BIN / "heat-config-apply"), "--state-dir", str(machine.state), str(machine.write(given))],
        env={**machine.environment, "TERM": "xterm", "COLUMNS": "200"},
        cwd=machine.folder,
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    wait_until((machine.state / "runs" / "d1" / "stdout").exists, LONG)
    following = machine.start("heat-config-agent", "log", "-f", "d1", "--state-dir", str(machine.state))
    seen = read_until(leader, "begun")
    assert following.stdout is not None
    assert following.stdout.readline() == "begun\n"
    seen += read_until(leader, "running")  # once more, after the half has been there
    go.touch()
    seen += read_until(leader, "")
    assert agent.wait(LONG) == 0
    out, _ = following.communicate(timeout=LONG)
    assert out == "***\nended\n"
    assert [each for each in (*first.split(), *second.split()) if each in seen] == []
    os.close(leader)


def read_until(descriptor: int, word: str) -> str:
    """Read from a terminal until a word has come, or, where that is empty, to the end."""
    seen = ""
    deadline = time.monotonic() + LONG
    while not word or word not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([descriptor], [], [], 0.1)[0]:
            try:
                part = os.read(descriptor, 65536)
            except OSError:  # a terminal of which the other end is closed
                return seen
            seen += part.decode("utf-8", "replace")
    return seen


# Who else is told.


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """A Keystone and a Heat."""
    cloud = Cloud()
    cloud.start()
    yield cloud
    cloud.stop()


def as_user(cloud: Cloud, identity: str = "d1") -> dict[str, Any]:
    """Return a deployment whose result goes to Heat's API."""
    user = {
        "deploy_auth_url": f"{cloud.keystone.origin}/v3",
        "deploy_user_id": "u1",
        "deploy_project_id": "p1",
        "deploy_stack_id": "s/1",
        "deploy_resource_name": "r",
        "deploy_region_name": "RegionOne",
    }
    return deployment(identity, SH, inputs=user)


@pytest.mark.fault(
    4,
    "Heat, Keystone, or who takes results at a signed URL sends us to another host",
    "nothing is sent there: no result, no password, no token",
)
@pytest.mark.parametrize("who", ["the service", "Keystone", "the signed URL"])
def test_nobody_else_is_told(machine: Machine, heat: SignalServer, other: SignalServer, cloud: Cloud, who: str) -> None:
    """Whoever may answer in a server's place could else have what it is told."""
    away = Answer(307, {"Location": f"{other.origin}/v3/auth/tokens"})
    if who == "the service":
        cloud.service.always = away
    elif who == "Keystone":
        cloud.keystone.always = away
    else:
        heat.always = away
    given = deployment("d1", SH, signal=heat.url()) if who == "the signed URL" else as_user(cloud)
    done = machine.apply([given], "--deliver-for", "0", **STRICT)
    assert done.code == 5
    assert other.signals == []
    sent = {"the service": cloud.asked, "Keystone": cloud.logins, "the signed URL": heat.signals}[who]
    assert sent
    for each in [*cloud.asked, *cloud.logins, *heat.signals]:
        assert each.headers["User-Agent"].startswith("heat-config-agent/")
        assert "Referer" not in each.headers
    assert planted.told(cloud.service) == []


@pytest.mark.fault(
    4, "a proxy is between us and a server that speaks TLS", "it is told the server's name, and nothing else"
)
def test_a_proxy_is_told_the_name_of_the_server_alone(machine: Machine) -> None:
    """The rest is between the server and us."""
    proxy = Echo(403)
    url = f"https://heat.invalid:8443/v1/signal?Signature={planted.SIGNATURE}"
    given = [deployment("d1", SH, signal=url)]
    done = machine.apply(given, "--deliver-for", "0", https_proxy=proxy.origin, **STRICT)
    proxy.close()
    assert done.code == 5
    [asked] = proxy.asked
    assert asked.startswith(b"CONNECT heat.invalid:8443 HTTP/1.")
    assert planted.leaks([("what the proxy was told", asked)]) == []
