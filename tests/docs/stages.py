"""The preparation for a section of a page: the machine that it is about, or a fault on it."""

from __future__ import annotations

import json
import os
import pwd
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from docs.places import Places
from heat_config_agent.model.entry import Removed
from heat_config_agent.state import journal
from support import endings
from support.loopback import Answer, SignalServer, wait_until
from support.tools import need

Stage = Callable[[Places], AbstractContextManager[None]]

STAGES: dict[tuple[str, str], Stage] = {}
"""By page and heading."""

LOCAL = "var/lib/os-collect-config/local-data"


def stage(
    page: str, title: str
) -> Callable[[Callable[[Places], Iterator[None]]], Stage]:
    """Have what is before the `yield` of a function done before a section, and what is after it after that."""

    def note(function: Callable[[Places], Iterator[None]]) -> Stage:
        assert (page, title) not in STAGES
        STAGES[page, title] = contextmanager(function)
        return STAGES[page, title]

    return note


def script(name: str, identity: str, text: str, **fields: Any) -> dict[str, Any]:
    """Return a deployment of a script as a page shows it."""
    inputs = {**fields.pop("inputs", {}), "deploy_action": "CREATE"}
    return {
        "id": identity,
        "name": name,
        "group": "script",
        "config": f"#!/bin/sh\n{text}\n",
        "inputs": [
            {"name": key, "type": "String", "value": value}
            for key, value in inputs.items()
        ],
        "outputs": [{"name": each} for each in fields.pop("outputs", ())],
        **fields,
    }


def deploy(places: Places, *deployments: dict[str, Any]) -> None:
    """Give the machine deployments, and have it ask for them."""
    folder = places.machine.disk / LOCAL
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".new").write_text(json.dumps({"deployments": deployments}))
    (folder / ".new").rename(folder / "site.json")
    agent(places, "poll")


def agent(places: Places, *words: str) -> str:
    """Run a command of the agent's, which ends well, and return what it prints."""
    done = places.machine.run("heat-config-agent", *words)
    assert done.code == 0, done.out + done.err
    return done.out


def states(places: Places) -> dict[str, str]:
    """Return how far each deployment has come, by name; read here, because it is asked again until it is so."""
    state = places.machine.disk / "var/lib/heat-config-agent"
    entries = journal.read(state).values() if (state / journal.FILE).exists() else ()
    return {
        entry.name: entry.state.value
        for entry in entries
        if entry.removed is not Removed.ALL
    }


@stage("docs/operate.md", "See what it does")
def _four(places: Places) -> Iterator[None]:
    database = "echo database $name is ready\necho 5432 >$heat_outputs_path.port"
    deploy(
        places,
        script(
            "database",
            "4be13a2c-7d15",
            database,
            inputs={"name": "shop", "db_password": "hunter2"},
            outputs=["port"],
        ),
        script("import", "c3f0e7aa-01bd", "echo part 1\necho part 2\nexec sleep 600"),
        script("index", "e5b0e7aa-90c4", "echo indexed"),
        script("web", "9d6c07f1-52aa", "echo configured"),
    )
    wait_until(lambda: states(places).get("import") == "running", 30)
    yield


@stage("docs/install.md", "From source")
def _source(places: Places) -> Iterator[None]:
    """Link the commands to the place in which pip would have installed them, because this machine has no pip."""
    places.machine.install()
    place = places.machine.disk / "opt/heat-config-agent/bin"
    place.mkdir(parents=True)
    for path in (places.machine.disk / "usr/local/bin").glob("heat-config-*"):
        path.rename(place / path.name)
    yield


def begin(places: Places, *deployments: dict[str, Any], settings: str = "") -> None:
    """Have the machine as new, with settings and deployments; return once nothing more is to be done."""
    disk, place = places.machine.disk, f"etc/heat-config-agent/{PLACE}"
    places.machine.run("systemctl", "stop", "heat-config-agent")
    places.machine.run("pkill", "-x", "sleep")  # what earlier sections have started
    clear = f"rm -rf /var/lib/heat-config-agent/* /var/lib/heat-config /{LOCAL} /etc/heat-config-agent/*"
    assert places.machine.run("sh", "-c", clear).code == 0
    if settings:
        (disk / place).write_text(settings)
        (disk / place).chmod(0o600)
    assert places.machine.run("systemctl", "start", "heat-config-agent").code == 0
    if deployments:
        deploy(places, *deployments)
        wait_until(lambda: len(states(places)) == len(deployments), 30)


PLACE = "site.conf"
PAGE = "docs/troubleshoot.md"
WEB = script("web", "9d6c07f1-52aa", "echo configured")


@stage(PAGE, "A deployment has failed")
def _failed(places: Places) -> Iterator[None]:
    text = "set -e\necho configuring nginx\ncp /srv/shop/nginx.conf /etc/nginx/"
    begin(places, script("web", "9d6c07f1-52aa", text))
    yield


@stage(PAGE, "Exit codes 124 to 127")
def _own_codes(places: Places) -> Iterator[None]:
    begin(
        places,
        script("import", "import-1", "sleep 100", options={"timeout": 1}),
        script("nohook", "nohook-1", "", group="terraform"),
        {**script("perl", "perl-1", ""), "config": "#!/usr/bin/perl6\n"},
        script("rules", "rules-1", "", group="puppet"),
        script("typo", "typo-1", "", options={"timeot": 1}),
    )
    yield


@stage(PAGE, "A deployment waits")
def _waits(places: Places) -> Iterator[None]:
    begin(places, script("import", "import-1", "exec sleep 600"), WEB)
    yield


@stage(PAGE, "A deployment is skipped")
def _passed_over(places: Places) -> Iterator[None]:
    begin(places, WEB)
    wait_until(lambda: states(places) == {"web": "unasked"}, 30)
    (places.machine.disk / "var/lib/heat-config/deployed/index-1.json").touch()
    deploy(places, WEB, script("index", "index-1", "echo indexed"))
    yield


@stage(PAGE, "A deployment waits for a reboot")
def _reboot(places: Places) -> Iterator[None]:
    begin(
        places,
        script("kernel", "kernel-1", "exit 194"),
        settings="[agent]\nreboot_command = /bin/false\n",
    )
    yield


@stage(PAGE, "A deployment does not end")
def _runs(places: Places) -> Iterator[None]:
    begin(
        places,
        script(
            "import",
            "import-1",
            "echo part 1\necho waiting for db.example:5432\nexec sleep 600",
        ),
    )
    yield


@stage(PAGE, "The result is not delivered")
def _undelivered(places: Places) -> Iterator[None]:
    begin(places, signalled("web", "http://127.0.0.1:9/v1/signal"))
    yield


@stage(PAGE, "The result is refused")
def _refused(places: Places) -> Iterator[None]:
    server = SignalServer()
    server.start()
    server.named = {"late": Answer(status=403), "web": Answer(status=404)}
    signed = "Timestamp=2026-11-22T08:00:00Z"
    try:
        begin(
            places,
            signalled("late", f"{server.origin}/v1/late?{signed}"),
            signalled("web", f"{server.origin}/v1/web"),
        )
        yield
    finally:
        server.stop()


def signalled(name: str, url: str) -> dict[str, Any]:
    """Return a deployment whose result goes to a URL."""
    return script(
        name,
        f"{name}-1",
        "",
        inputs={"deploy_signal_id": url, "deploy_signal_verb": "POST"},
    )


@stage(PAGE, "The result goes nowhere, or is not sent")
def _nowhere(places: Places) -> Iterator[None]:
    begin(places, WEB)
    yield


@stage(PAGE, "The agent does not start")
def _not_starting(places: Places) -> Iterator[None]:
    begin(places)
    (places.machine.disk / "etc/heat-config-agent" / PLACE).write_text(
        "[agent]\nparalel = 8\ntime_limit = soon\n"
    )
    yield


@stage(PAGE, "No agent is running")
def _not_started(places: Places) -> Iterator[None]:
    begin(places)
    places.machine.run("systemctl", "disable", "--now", "heat-config-agent")
    yield


@stage(PAGE, "No way to reach Heat")
def _no_way(places: Places) -> Iterator[None]:
    begin(places)
    yield


@stage(PAGE, "Nothing new arrives")
def _moved(places: Places) -> Iterator[None]:
    server = SignalServer()
    server.start()
    server.always = Answer(body=b'{"deployments": []}')
    try:
        begin(
            places,
            settings=f"[request]\nmetadata_url = {server.origin}/metadata?temp_url_sig=signed\n",
        )
        yield
    finally:
        server.stop()


@stage(PAGE, "Heat does not answer")
def _silent(places: Places) -> Iterator[None]:
    names = ("user_id", "password", "project_id", "stack_id", "resource_name")
    values = "".join(f"{name} = x\n" for name in names)
    begin(places, settings=f"[heat]\nauth_url = http://127.0.0.1:9/v3\n{values}")
    yield


@stage(PAGE, "Two agents")
def _two(places: Places) -> Iterator[None]:
    begin(places)
    yield


@stage(PAGE, "The disk is full")
def _full(places: Places) -> Iterator[None]:
    begin(places)
    with mounted(places, "/var/lib/heat-config-agent", "size=300k,mode=0700"):
        fill = "head -c 1M /dev/zero >/var/lib/heat-config-agent/fill"
        places.machine.run("sh", "-c", fill)
        yield


@stage(PAGE, "Scripts cannot be run")
def _noexec(places: Places) -> Iterator[None]:
    begin(places)
    (places.machine.disk / "var/lib/heat-config").mkdir(exist_ok=True)
    with mounted(places, "/var/lib/heat-config", "noexec"):
        yield


@contextmanager
def mounted(places: Places, place: str, options: str) -> Iterator[None]:
    """Have a file system of its own at a place."""
    assert (
        places.machine.run("mount", "-t", "tmpfs", "-o", options, "tmpfs", place).code
        == 0
    )
    yield
    assert places.machine.run("umount", "--lazy", place).code == 0


@stage(PAGE, "The journal is damaged")
def _damaged(places: Places) -> Iterator[None]:
    begin(places, WEB)
    wait_until(lambda: states(places) == {"web": "unasked"}, 30)
    places.machine.run("systemctl", "stop", "heat-config-agent")
    path = places.machine.disk / "var/lib/heat-config-agent/journal"
    path.write_bytes(path.read_bytes().replace(b'"', b"?", 20))
    places.machine.run("systemctl", "start", "heat-config-agent")
    yield


@stage(PAGE, "Secrets")
def _secrets(places: Places) -> Iterator[None]:
    begin(places, script("index", "index-1", "echo indexed"))
    yield


@stage(PAGE, "The agent waits for cloud-init")
def _cloud_init(places: Places) -> Iterator[None]:
    begin(places)
    disk, run = places.machine.disk, places.machine.run
    unit = disk / "etc/systemd/system/cloud-init.service"
    unit.write_text("[Service]\nType=oneshot\nExecStart=/usr/bin/sleep 1000\n")
    for words in (("daemon-reload",), ("stop", "heat-config-agent")):
        assert run("systemctl", *words).code == 0
    assert (
        run("systemctl", "start", "--no-block", "cloud-init", "heat-config-agent").code
        == 0
    )
    yield
    unit.unlink()
    for words in (("stop", "cloud-init"), ("daemon-reload",)):
        assert run("systemctl", *words).code == 0


@stage(PAGE, "The disk is a copy of another instance's")
def _copy(places: Places) -> Iterator[None]:
    begin(places)
    for name in ("i-00000001", "i-00000002"):
        write = f"mkdir -p /run/cloud-init && echo {name} >/run/cloud-init/.instance-id"
        assert places.machine.run("sh", "-c", write).code == 0
        assert places.machine.run("systemctl", "restart", "heat-config-agent").code == 0
    yield


@stage("docs/recipes.md", "A web server")
def _web_server(places: Places) -> Iterator[None]:
    try:
        yield
    finally:
        number = places.checkout / "nginx.pid"
        with suppress(FileNotFoundError, ProcessLookupError):
            # the page ends the server, unless it has failed
            os.kill(int(number.read_text()), signal.SIGTERM)
        # it ends when it is told to, but not at once
        wait_until(lambda: not number.exists(), 10)


@stage("docs/recipes.md", "A page with the failures of all machines")
def _events(places: Places) -> Iterator[None]:
    """Have the client of the page; its server ends with it, also if the page has failed."""
    need("curl", "curl")
    place = str(places.checkout)
    places.finally_do(lambda: endings.kill(*_of(place)))
    yield


@stage("docs/hosts-tutorial.md", "Two hosts on this machine")
def _two_hosts(places: Places) -> Iterator[None]:
    """Have what every machine has that a reader logs in to; whatever the page starts is ended with it."""
    need("ssh", "openssh-client")
    if not Path("/usr/sbin/sshd").exists():
        pytest.skip("sshd is not installed: «apt install openssh-server»")
    user = next((each for each in pwd.getpwall() if each.pw_uid == os.geteuid()), None)
    if user is None or user.pw_shell.endswith(("nologin", "false")):
        pytest.skip(
            "who runs the tests may not log in: run them as a user with a shell"
        )
    if os.geteuid() == 0:  # of sshd itself, whose package makes it at the boot
        Path("/run/sshd").mkdir(exist_ok=True)
    place = str(places.checkout)
    places.finally_do(lambda: endings.kill(*_of(place)))
    yield


def _of(place: str) -> list[psutil.Process]:
    """Return the processes whose command line or environment names a place."""
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error):
            words = [*each.cmdline(), *each.environ().values()]
            if each.pid != os.getpid() and any(place in word for word in words):
                found.append(each)
    return found
