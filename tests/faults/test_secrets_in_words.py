"""Secrets where they could come to light in words: errors, reasons, what tools print, and third parties.

What anybody sees of the agent is searched for secrets after every test of the suite, see `planted`; so many of these
only have to make happen what could show one.
"""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support import endings, pace, planted
from support.cloud import Cloud
from support.daemon import LONG, Daemon, until
from support.loopback import Answer, SignalServer, wait_until
from support.machine import BIN, Machine, deployment
from support.secret_traces import SH, chef_stands_in

pytestmark = pytest.mark.takes(20)


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
                connection.sendall(
                    head
                    + b"Content-Length: 2\r\nX: %b\r\nno header %b\r\n: y\r\n\r\n{}"
                    % (line, line)
                )

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
def test_secrets_that_a_server_repeats_are_masked(
    machine: Machine, heat: SignalServer, echo: Echo
) -> None:
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
    once = machine.start(
        "heat-config-agent", "run", "--once", "--config", str(settings), **STRICT
    )
    assert "Warning" not in once.communicate(timeout=pace.seconds(60))[1]
    assert len(echo.asked) == 2


@pytest.mark.fault(
    4,
    "no place that has credentials can be reached, and everything there is to show is shown",
    "no secret is in a log, health, metrics or a listing",
)
def test_unreachable_transports_show_no_credentials(
    daemon: Daemon, machine: Machine
) -> None:
    """The credentials of each transport stay secret."""
    word, nowhere = planted.PASSWORD.replace('"', ""), "http://127.0.0.1:9"
    user = {
        "auth_url": f"{nowhere}/v3",
        "user_id": "u",
        "password": word,
        "project_id": "p",
    }
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
    daemon.configure(
        collectors="heat, cfn, request, zaqar",
        metrics_file=str(metrics),
        environment=f"DB_PASS={word}",
    )
    daemon.path.chmod(0o600)
    daemon.start(**STRICT)
    wait_until(
        lambda: [each["working"] for each in daemon.health()["sources"]] == [False] * 4,
        LONG,
    )
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
    4,
    "a defect of the agent's own, with a secret in its error",
    "it is shown where it happened, and no value with it",
)
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("heat_config_agent.engine.applier", "Applier.turn"),
        ("heat_config_agent.sources.local", "Local.collect"),
        ("heat_config_agent.sources.poller", "_Thread.run"),
        ("heat_config_agent.web", "Connection.send"),
    ],
)
def test_a_defect_shows_no_values(
    daemon: Daemon, machine: Machine, heat: SignalServer, module: str, name: str
) -> None:
    """A defect in any thread is reported with file, line and function only."""
    folder = machine.folder / "defect"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        DEFECT.format(module=module, name=name, word=planted.WORD.encode().hex())
    )
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
def test_a_mistake_in_a_hidden_input_is_not_repeated(
    machine: Machine, heat: SignalServer
) -> None:
    """The value of a wrong hidden input is in neither the log, the status nor the result."""
    machine.state.mkdir(mode=0o700)
    chef: dict[str, Any] = chef_stands_in(machine)
    hidden = {
        "name": "environment",
        "type": "String",
        "value": f"{planted.WORD}/x",
        "hidden": True,
    }
    given = deployment(
        "d1", ["recipe[x]"], group="chef", inputs=[hidden], signal=heat.url()
    )
    done = machine.apply([given], **chef)
    assert done.code == 1
    assert "not '***'" in done.out
    assert "not '***'" in heat.values()[0]["deploy_stderr"]


@pytest.mark.fault(
    4,
    "an error output repeats an input whose name says that it is a secret",
    "it is masked in the reason that people are shown, on a terminal, in JSON, in the log and by `status`",
)
@pytest.mark.parametrize(
    "before", ["", "printf '%190s' x; "], ids=["short", "cut off within the secret"]
)
def test_the_reason_of_an_error_output_shows_no_secret(
    daemon: Daemon, machine: Machine, before: str
) -> None:
    """The output itself has it: that is for whoever wrote the template."""
    secret = "Tr0ub4dor-3xyz"
    script = f'{SH}{{ {before}echo "login failed: $db_password"; }} >$heat_outputs_path.err\n'
    outputs = [{"name": "err", "error_output": True}]
    given = [deployment("d1", script, inputs={"db_password": secret}, outputs=outputs)]
    said = []
    for words in ((), ("--json",)):
        done = machine.apply(given, *words)
        said.append(done.out + done.err)
        shutil.rmtree(machine.state)
    daemon.put(given)
    daemon.start()
    wait_until(lambda: "FAILED" in daemon.log, LONG)
    said.append(daemon.log)
    for command in (
        ("status",),
        ("status", "--json"),
        ("show", "d1"),
        ("show", "--json", "d1"),
    ):
        done = daemon.command(*command)
        said.append(done.out + done.err)
    assert daemon.stop() == 0
    assert [
        each for each in said if "error output 'err' was produced" not in each
    ] == []
    assert [
        each
        for each in said
        if any(secret[:length] in each for length in range(6, len(secret)))
    ] == []


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
def test_a_secret_in_several_parts_is_not_shown(
    machine: Machine, parts: tuple[str, str]
) -> None:
    """Text that may be the beginning of a secret is held back until the next part comes."""
    first, second = parts
    go = machine.folder / "go"
    words = [
        f"printf 'begun\\n%s' {shlex.quote(first)}",
        until(go),
        f"printf '%s\\nended\\n' {shlex.quote(second)}",
    ]
    hidden = {"name": "x", "type": "String", "value": first + second, "hidden": True}
    given = [deployment("d1", SH + "\n".join(words), inputs=[hidden])]
    leader, follower = pty.openpty()
    agent = subprocess.Popen(
        [
            str(BIN / "heat-config-apply"),
            "--state-dir",
            str(machine.state),
            str(machine.write(given)),
        ],
        env={**machine.environment, "TERM": "xterm", "COLUMNS": "200"},
        cwd=machine.folder,
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    with os.fdopen(leader, "rb"), endings.ended(agent):
        # then the journal has the run: `log -f` of one that has none ends at once
        seen = read_until(leader, "begun")
        following = machine.start(
            "heat-config-agent", "log", "-f", "d1", "--state-dir", str(machine.state)
        )
        assert following.stdout is not None
        assert following.stdout.readline() == "begun\n"
        # once more, after the half has been there
        seen += read_until(leader, "running")
        go.touch()
        seen += read_until(leader, "")
        assert agent.wait(pace.seconds(LONG)) == 0
        out, _ = following.communicate(timeout=pace.seconds(LONG))
    assert out == "***\nended\n"
    assert [each for each in (*first.split(), *second.split()) if each in seen] == []


def read_until(descriptor: int, word: str) -> str:
    """Read from a terminal until a word has come, or, where that is empty, to the end."""
    seen = ""
    deadline = time.monotonic() + pace.seconds(LONG)
    while not word or word not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([descriptor], [], [], 0.1)[0]:
            try:
                part = os.read(descriptor, 65536)
            except OSError:  # a terminal of which the other end is closed
                return seen
            seen += part.decode("utf-8", "replace")
    return seen


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
    "Heat, Keystone, or the server of a signed URL redirects to another host",
    "nothing is sent there: no result, no password, no token",
)
@pytest.mark.parametrize("who", ["the service", "Keystone", "the signed URL"])
def test_redirect_to_another_server_is_not_followed(
    machine: Machine, heat: SignalServer, other: SignalServer, cloud: Cloud, who: str
) -> None:
    """A redirect to another server is not followed, so that no secret reaches that server."""
    away = Answer(307, {"Location": f"{other.origin}/v3/auth/tokens"})
    if who == "the service":
        cloud.service.always = away
    elif who == "Keystone":
        cloud.keystone.always = away
    else:
        heat.always = away
    given = (
        deployment("d1", SH, signal=heat.url())
        if who == "the signed URL"
        else as_user(cloud)
    )
    done = machine.apply([given], "--deliver-for", "0", **STRICT)
    assert done.code == 5
    assert other.signals == []
    sent = {
        "the service": cloud.asked,
        "Keystone": cloud.logins,
        "the signed URL": heat.signals,
    }[who]
    assert sent
    for each in [*cloud.asked, *cloud.logins, *heat.signals]:
        assert each.headers["User-Agent"].startswith("heat-config-agent/")
        assert "Referer" not in each.headers
    assert planted.told(cloud.service) == []


@pytest.mark.fault(
    4,
    "a proxy is between us and a server that speaks TLS",
    "it is told the server's name, and nothing else",
)
def test_a_proxy_is_told_the_name_of_the_server_alone(machine: Machine) -> None:
    """The rest is between the server and us."""
    proxy = Echo(403)
    url = f"https://heat.invalid:8443/v1/signal?Signature={planted.SIGNATURE}"
    given = [deployment("d1", SH, signal=url)]
    done = machine.apply(
        given, "--deliver-for", "0", https_proxy=proxy.origin, **STRICT
    )
    proxy.close()
    assert done.code == 5
    [asked] = proxy.asked
    assert asked.startswith(b"CONNECT heat.invalid:8443 HTTP/1.")
    assert planted.leaks([("what the proxy was told", asked)]) == []


MANY = 30_000


@pytest.mark.fault(
    3,
    "a deployment has a hidden input of 30,000 lines, and prints nearly a megabyte into two streams and two outputs",
    "the watchdog is fed meanwhile; its result is sent without the secrets, and the next deployment is carried out",
)
def test_many_secrets_do_not_keep_the_daemon_from_living(
    daemon: Daemon, machine: Machine, heat: SignalServer, tmp_path: Path
) -> None:
    """The time for masking grows linearly with the text and the secrets, and the daemon stays alive meanwhile."""
    lines = [f"{number:08}{planted.WORD}" for number in range(MANY)]
    hidden = {
        "name": "key",
        "type": "String",
        "value": "\n".join(lines),
        "hidden": True,
    }
    words = [
        "yes secretly | head -c 900000 >&2",
        f"yes '{lines[0]} {lines[-1]} and more' | head -n 12000",
        'yes "a\\\\n%41" | head -c 900000 >$heat_outputs_path.one',
        f"cat {machine.folder}/key >$heat_outputs_path.two",
    ]
    # no environment has room for it
    (machine.folder / "key").write_text("\n".join(lines))
    given = [
        deployment(
            "d1",
            SH + "\n".join(words),
            inputs=[],
            outputs=["one", "two"],
            signal=heat.url("d1"),
        ),
        deployment("d2", SH, signal=heat.url("d2")),
    ]
    given[0]["inputs"].append(hidden)
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(LONG)
    daemon.start(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="20000000")
    fed = [time.monotonic()]
    daemon.put(given)
    while len(heat.signals) < 2:
        said = manager.recv(4096)
        if said.startswith(b"WATCHDOG=1"):
            fed.append(time.monotonic())
    fed.append(time.monotonic())
    assert max(after - before for before, after in pairwise(fed)) < 20
    assert heat.values("d1")[0]["deploy_status_code"] == 0
    assert heat.values("d1")[0]["two"] == "***"
    assert daemon.stop() == 0
    manager.close()
