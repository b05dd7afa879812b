"""A cloud: a real Keystone, Heat, Swift and Zaqar on loopback, for tests of what only they can show.

They are the released programs, each a process (`openstack_services.py`), from an environment of their own that
`tests/install-tools` makes; in the place of Nova, which Heat asks only whether a server exists, is a stand-in. A server
is an `OS::Heat::DeployedServer`: a place for deployments, without a machine.

What can be prepared is prepared once for an environment, the databases above all. Ports are free ones; all state is in
one temporary folder; with the tests everything is gone, however they end (`openstack_hold.py`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support import pace
from support.tools import need
from system import openstack_releases as releases
from system.openstack_place import free_ports

_HERE = Path(__file__).parent
_ENVIRONMENT = releases.USUAL
_ENGINE = releases.environment()
_PYTHON = _ENVIRONMENT / "bin/python"
_SERVICES = _HERE / "openstack_services.py"
_NUMBERS = count(1)
"""Numbers of questions, so that each gets its own answer, also after a test that was interrupted."""
_PROGRAMS = (
    "heat-manage",
    "keystone-manage",
    "swift-proxy-server",
    "zaqar-server",
    "openstack",
)
_PORTS = (
    *(
        "keystone",
        "heat",
        "cfn",
        "engine",
        "engine-cfn",
        "swift",
        "swift-account",
        "swift-container",
        "swift-object",
    ),
    *("zaqar", "zaqar-websocket", "zaqar-notification", "nova", "redis"),
)
_SERVED = (
    "redis",
    "keystone",
    "engine",
    "heat",
    "swift",
    "zaqar",
    "zaqar-websocket",
    "nova",
)
"""The services with ports, in the order of starting."""

_TOKEN_SECONDS = 3600

_PAUSE = 0.25
"""Seconds between two looks at a stack: each takes time of the processors, which Heat needs itself."""

TEMPLATE = """
heat_template_version: 2021-04-16
parameters:
  transport: {type: string, default: POLL_SERVER_HEAT}
  signal: {type: string, default: HEAT_SIGNAL}
  who: {type: string, default: world}
resources:
  server:
    type: OS::Heat::DeployedServer
    properties:
      software_config_transport: {get_param: transport}
  component:
    type: OS::Heat::SoftwareComponent
    properties:
      inputs: [{name: who}]
      outputs: [{name: greeting}]
      configs:
        - actions: [CREATE, UPDATE, SUSPEND, RESUME]
          tool: script
          config: |
            #!/bin/sh
            echo "$deploy_action: hello $who"
            echo "hi $who" >"$heat_outputs_path.greeting"
        - actions: [DELETE]
          tool: script
          config: |
            #!/bin/sh
            echo bye
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: component}
      server: {get_resource: server}
      signal_transport: {get_param: signal}
      input_values: {who: {get_param: who}}
outputs:
  greeting: {value: {get_attr: [deployment, greeting]}}
"""
"""A server and one deployment to it, over the transports that the parameters name."""

TRANSPORTS = {
    "POLL_SERVER_HEAT": "HEAT_SIGNAL",
    "POLL_SERVER_CFN": "CFN_SIGNAL",
    "POLL_TEMP_URL": "TEMP_URL_SIGNAL",
    "ZAQAR_MESSAGE": "ZAQAR_SIGNAL",
}
"""The ways that metadata arrives, each with the signal of the same service."""


@dataclass(frozen=True)
class Stack:
    """A stack, as Heat's own client says."""

    id: str
    status: str
    """For example CREATE_COMPLETE; DELETE_COMPLETE also where there is none."""
    reason: str
    outputs: dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A resource of a stack, as Heat's own client says."""

    status: str
    reason: str
    attributes: dict[str, Any]
    """Return deploy_stdout, deploy_stderr, deploy_status_code and the outputs of a deployment."""
    physical: str
    """The id outside of the stack."""


@dataclass(frozen=True)
class Arrived:
    """A request that arrived at a service, and was answered."""

    at: float
    """When, as of `Lab.now`."""
    verb: str
    path: str
    """Without the query. At zaqar-websocket: the queue, and the verb is the action."""
    agent: str
    status: int


class Lab:
    """The cloud."""

    def __init__(self) -> None:
        """Start everything, and wait until it answers."""
        self.folder = Path(tempfile.mkdtemp(prefix="heat-config-lab-"))
        self.folder.chmod(0o711)  # PostgreSQL is another user
        self._holder = _Holder(self.folder)
        _copy_prepared(self.folder)
        self._numbers = count(1)
        self._full: dict[str, str] = {}
        """The names of stacks with their ids: by the name alone Heat answers where to ask, and is to be asked again."""
        self._pids: dict[str, int] = {}
        self._ports = free_ports(_PORTS)
        self._settings = {"ports": self._ports, "token_seconds": _TOKEN_SECONDS}
        self._write_settings()
        with (self.folder / "log/client.log").open("wb") as log:
            self._client = subprocess.Popen(
                [_PYTHON, _SERVICES, "client", self.folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                env=_environment(),
                start_new_session=True,
            )
        self.urls = {
            name: f"http://127.0.0.1:{port}" for name, port in self._ports.items()
        }
        """Where each service is."""
        self.urls["zaqar-websocket"] = self.urls["zaqar-websocket"].replace(
            "http:", "ws:"
        )
        self.urls["keystone"] += "/v3"
        try:
            for name in (
                each for each in _SERVED if each not in ("keystone", "engine")
            ):
                self._launch(name)
            self._holder.start(
                "postgres", *_postgres_command(self.folder), end=signal.SIGINT
            )
            _wait_for_postgres(self.folder)
            self._catalogue()
            self._launch("engine")
            self._launch("keystone")
            for name in _SERVED:
                self._wait_for_port(name)
        except BaseException:
            self.end()
            raise

    def name(self, word: str = "stack") -> str:
        """Return a name that no stack has yet."""
        return f"{word}-{next(self._numbers)}"

    def stack_validate(self, template: str, files: Mapping[str, str]) -> None:
        """Have Heat check a template, without values for its parameters."""
        self._heat("stacks.validate", template=template, files=dict(files))

    def stack_create(
        self,
        name: str,
        template: str = TEMPLATE,
        parameters: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
        environment: str = "",
    ) -> str:
        """Have Heat create a stack, of a template in YAML, and return its id. It is in progress then."""
        made = self._heat(
            "stacks.create",
            stack_name=name,
            **_definition(template, parameters, files, environment),
            timeout_mins=10,
        )
        self._full[name] = f"{name}/{made['stack']['id']}"
        return str(made["stack"]["id"])

    def stack_update(
        self,
        name: str,
        template: str = TEMPLATE,
        parameters: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
        environment: str = "",
    ) -> None:
        """Have Heat update a stack."""
        self._heat(
            "stacks.update",
            stack_id=name,
            **_definition(template, parameters, files, environment),
        )

    def stack_suspend(self, name: str) -> None:
        self._heat("actions.suspend", stack_id=name)

    def stack_resume(self, name: str) -> None:
        self._heat("actions.resume", stack_id=name)

    def stack_delete(self, name: str) -> None:
        self._heat("stacks.delete", stack_id=name)

    def stack_get(self, name: str, *, outputs: bool = True) -> Stack:
        """Return what there is to know of a stack. Outputs cost Heat a lot."""
        try:
            value = self._heat("stacks.get", stack_id=name, resolve_outputs=outputs)
        except LookupError:
            return Stack(name, "DELETE_COMPLETE", "", {})
        if value["stack_status"] == "DELETE_COMPLETE":
            self._full.pop(name, None)
        found = {
            each["output_key"]: each.get("output_value")
            for each in value.get("outputs", [])
        }
        return Stack(
            value["id"], value["stack_status"], value["stack_status_reason"], found
        )

    def resource_get(self, name: str, resource: str) -> Resource:
        """Return what there is to know of a stack's resource."""
        value = self._heat("resources.get", stack_id=name, resource_name=resource)
        attributes = value["attributes"]
        return Resource(
            value["resource_status"],
            value["resource_status_reason"],
            {**attributes, **(attributes.get("output_values") or {})},
            value["physical_resource_id"],
        )

    def metadata(self, name: str, resource: str) -> dict[str, Any]:
        """Return a resource's metadata."""
        value = self._heat("resources.metadata", stack_id=name, resource_name=resource)
        assert isinstance(value, dict)
        return value

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return what happened to a stack, the oldest first."""
        value = self._heat("events.list", stack_id=name)
        assert isinstance(value, list)
        return value

    def signal(self, name: str, resource: str, details: Mapping[str, Any]) -> None:
        """Signal a resource."""
        self._heat(
            "resources.signal",
            stack_id=name,
            resource_name=resource,
            data=dict(details),
        )

    def mark_unhealthy(self, name: str, resource: str, reason: str) -> None:
        """Have Heat replace a resource at the next update, as `openstack stack resource mark unhealthy` does."""
        self._heat(
            "resources.mark_unhealthy",
            stack_id=name,
            resource_name=resource,
            mark_unhealthy=True,
            resource_status_reason=reason,
        )

    def set_password(self, user: str, password: str) -> None:
        """Set the password of a user of Keystone's, as the operator of a cloud does."""
        self._heat("password", user=user, password=password)

    def complete_deployment(self, config: str) -> None:
        """Set the status of a software deployment by Heat's API; `config` is the id of its config."""
        found = self._heat("software_deployments.list")
        [deployment] = [each["id"] for each in found if each["config_id"] == config]
        words = {"status": "COMPLETE", "status_reason": "by hand"}
        self._heat("software_deployments.update", deployment_id=deployment, **words)

    def deletions(self, server: str) -> list[str]:
        """Return the configs of the software deployments of a server whose DELETE has not ended, by Heat's API."""
        found = self._heat("software_deployments.list", server_id=server)
        return [
            each["config_id"]
            for each in found
            if (each["action"], each["status"]) == ("DELETE", "IN_PROGRESS")
        ]

    def wait(self, name: str, status: str, seconds: float = 120) -> Stack:
        """Wait until a stack has a status; fail as soon as the action has ended otherwise."""
        deadline = time.monotonic() + pace.seconds(seconds)
        while (recorded := self._recorded(name)) != [status]:
            [current] = recorded or [""]
            is_over = current.startswith(
                status.partition("_")[0]
            ) and not current.endswith("_IN_PROGRESS")
            assert not is_over, f"{name} is {current}: {self.stack_get(name).reason}"
            assert time.monotonic() < deadline, (
                f"{name} is still {current}: {self.stack_get(name).reason}"
            )
            time.sleep(_PAUSE)
        stack = self.stack_get(name)
        assert stack.status == status
        return stack

    def recorded(self, name: str) -> str:
        """Return the status of a stack as Heat's database has it, which can be asked without Keystone and Heat."""
        [status] = self._recorded(name) or [""]
        return status

    def settings(
        self, name: str, server: str = "server", seconds: float = 60
    ) -> dict[str, Any]:
        """Wait until a stack's server is there, and return its metadata: what an agent on it begins with."""
        deadline = time.monotonic() + pace.seconds(seconds)
        while "CREATE_COMPLETE" not in self._recorded(name, server):
            assert time.monotonic() < deadline, (
                f"{server} of {name} is not there: {self.stack_get(name).reason}"
            )
            time.sleep(_PAUSE)
        return self.metadata(name, server)

    def deployments(
        self, name: str, server: str = "server", number: int = 1, seconds: float = 60
    ) -> list[dict[str, Any]]:
        """Wait until a server's metadata has that many deployments, and return them."""
        self.settings(name, server, seconds)
        deadline = time.monotonic() + pace.seconds(seconds)
        while len(found := self.metadata(name, server).get("deployments", [])) < number:
            assert time.monotonic() < deadline, (
                f"{server} of {name} has only {len(found)} deployments"
            )
            time.sleep(_PAUSE)
        assert isinstance(found, list)
        return found

    def now(self) -> float:
        """Return this moment, for `requests`."""
        return time.time()

    def requests(
        self, service: str, since: float = 0.0, agent: str = ""
    ) -> list[Arrived]:
        """Return what arrived at a service since a moment, of clients whose User-Agent begins like that.

        Services are those that have a port, and «cfn»; «heat» counts only what comes to its own API.
        """
        path = self.folder / "arrived" / service
        lines = path.read_text().splitlines() if path.exists() else []
        found = [Arrived(*json.loads(line)) for line in lines]
        return [
            each for each in found if each.at >= since and each.agent.startswith(agent)
        ]

    def stop(self, service: str) -> None:
        """Kill a service. Whoever comes to its port is refused.

        «heat» is only what takes Heat's requests: its engine goes on. «engine» is all of Heat, which loses what it was
        about.
        """
        self._holder.stop(service)
        del self._pids[service]

    def start(self, service: str) -> None:
        """Start a service again, on its port, and wait until it answers."""
        self._launch(service)
        self._wait_for_port(service)

    def pid(self, service: str) -> int:
        """Return a service's process."""
        return self._pids[service]

    def token_seconds(self, seconds: int) -> None:
        """Start Keystone anew, so that its tokens last so long. Those that there are last as long as they said."""
        self._settings["token_seconds"] = seconds
        self._write_settings()
        if "keystone" in self._pids:
            self.stop("keystone")
        self.start("keystone")

    def put_back(self) -> None:
        """Have everything run that was stopped, with tokens as usual."""
        if self._settings["token_seconds"] != _TOKEN_SECONDS:
            self._settings["token_seconds"] = _TOKEN_SECONDS
            self._write_settings()
            if "keystone" in self._pids:
                self.stop("keystone")
        for name, pid in list(self._pids.items()):
            if self._holder.ended(name) is None:
                os.kill(pid, signal.SIGCONT)
            else:
                self.stop(name)
        missing = [name for name in _SERVED if name not in self._pids]
        for name in missing:
            self._launch(name)
        for name in missing:
            self._wait_for_port(name)

    def end(self) -> None:
        """Have it gone."""
        self._client.communicate(timeout=pace.seconds(10))
        self._holder.end()

    def _heat(self, method: str, **arguments: Any) -> Any:
        """Have Heat's own client call something. Raises LookupError where there is no such thing."""
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        if stack := self._full.get(arguments.get("stack_id", "")):
            arguments["stack_id"] = stack
        number = next(_NUMBERS)
        self._client.stdin.write(json.dumps([number, method, arguments]) + "\n")
        answer: dict[str, Any] = {}
        while answer.get("number") != number:
            # what a test that was interrupted has asked is answered too
            line = self._client.stdout.readline()
            assert line, "Heat's client has ended"
            answer = json.loads(line)
        if "gone" in answer:
            raise LookupError(answer["gone"])
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def _recorded(self, name: str, resource: str = "") -> list[str]:
        """Return the status of a stack, or those of its resources with a name, from Heat's database."""
        found = self._heat("records", stack=name, resource=resource)
        assert isinstance(found, list)
        return found

    def _write_settings(self) -> None:
        (self.folder / "lab.json").write_text(json.dumps(self._settings))

    def _launch(self, name: str) -> None:
        argv: list[str] = [_python(name), str(_SERVICES), name, str(self.folder)]
        if name == "redis":
            port = str(self._ports["redis"])
            argv = [
                "redis-server",
                "--port",
                port,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
                str(self.folder),
            ]
        self._pids[name] = self._holder.start(name, *argv)

    def _wait_for_port(self, name: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + pace.seconds(seconds)
        while not _answers(self._ports[name]):
            log = self.folder / "log" / f"{name}.log"
            assert self._holder.ended(name) is None, (
                f"{name} has ended: {log.read_text()[-2000:]}"
            )
            assert time.monotonic() < deadline, (
                f"{name} does not answer: {log.read_text()[-2000:]}"
            )
            time.sleep(0.05)

    def _catalogue(self) -> None:
        """Write the ports into Keystone's catalogue."""
        change = "UPDATE endpoint SET url = replace(url, 'http://{}.lab', '{}')"
        changes = [
            change.format(name, url.removesuffix("/v3"))
            for name, url in self.urls.items()
        ]
        _psql(self.folder, "keystone", *changes)


@contextmanager
def lab() -> Iterator[Lab]:
    """Start a cloud; skip the test where that cannot be done, saying what is missing."""
    need_cloud()
    cloud = Lab()
    try:
        yield cloud
    finally:
        cloud.end()


class _Holder:
    """Processes that end with us."""

    def __init__(self, folder: Path) -> None:
        self._logs = folder / "log"
        self._logs.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-IS", _HERE / "openstack_hold.py", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    def start(self, name: str, *argv: str, end: signal.Signals = signal.SIGKILL) -> int:
        """Start a process, that is to be ended by a signal, and return its id."""
        log = str(self._logs / f"{name}.log")
        return int(
            self._say(
                start=name, argv=argv, environment=_environment(), log=log, end=end
            )["pid"]
        )

    def stop(self, name: str) -> None:
        self._say(stop=name)

    def ended(self, name: str) -> int | None:
        """Return the exit status of a process that has ended."""
        code: int | None = self._say(ended=name)["code"]
        return code

    def end(self) -> None:
        self._process.communicate(timeout=pace.seconds(60))

    def _say(self, **what: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        number = next(_NUMBERS)
        self._process.stdin.write(json.dumps({"number": number, **what}) + "\n")
        answer: dict[str, Any] = {}
        while answer.get("number") != number:
            answer = json.loads(self._process.stdout.readline())
        return answer


def need_cloud() -> None:
    """Skip the test where something is missing, saying how to get it."""
    need("redis-server", "redis-server")
    need("setpriv", "util-linux")
    if _postgres_bin() is None:
        pytest.skip("PostgreSQL is not installed: as root, «apt install postgresql»")
    programs = [_ENVIRONMENT / "bin" / each for each in _PROGRAMS]
    if not all(path.exists() for path in (*programs, _ENGINE / "bin/heat-manage")):
        pytest.skip(
            f"OpenStack is not installed in {_ENGINE}: «tests/install-tools heat» installs it"
        )


def _postgres_bin() -> Path | None:
    """Return where PostgreSQL's programs are, of the newest version."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda path: float(path.parts[-3]),
    )
    return found[-1].parent if found else None


def _postgres(program: str, *arguments: str | Path) -> list[str]:
    """Return the command for a program of PostgreSQL's, whose server does not run as root."""
    folder = _postgres_bin()
    assert folder is not None
    user = (
        ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        if os.geteuid() == 0
        else []
    )
    return [*user, str(folder / program), *map(str, arguments)]


def _postgres_command(folder: Path) -> list[str]:
    data = folder / "postgres"
    settings = (
        "fsync=off",
        "full_page_writes=off",
        "synchronous_commit=off",
        "max_connections=200",
        "listen_addresses=",
    )
    words = [word for each in settings for word in ("-c", each)]
    return _postgres("postgres", "-D", data, "-k", data, *words)


def _wait_for_postgres(folder: Path) -> None:
    deadline = time.monotonic() + pace.seconds(30)
    while subprocess.run(
        _postgres("pg_isready", "-q", "-h", folder / "postgres"),
        check=False,
        stderr=subprocess.DEVNULL,
    ).returncode:
        assert time.monotonic() < deadline, (folder / "log/postgres.log").read_text()[
            -2000:
        ]
        time.sleep(0.02)


def _psql(folder: Path, database: str, *commands: str) -> None:
    words = [word for command in commands for word in ("-c", command)]
    command = _postgres(
        "psql", "-q", "-h", folder / "postgres", "-U", "postgres", database, *words
    )
    # that user may not enter every other
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)


def _python(service: str) -> str:
    """Return the interpreter of a service: Heat and Keystone may be of another release than all others."""
    return str(
        (_ENGINE if service in releases.SERVICES else _ENVIRONMENT) / "bin/python"
    )


def _environment() -> dict[str, str]:
    """Return the environment of the services."""
    return {
        "PATH": f"{_ENVIRONMENT}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(
            _HERE.parent
        ),  # for what the services share, and what Swift's settings name
        "PYTHONWARNINGS": "ignore",
        "LANG": "C.UTF-8",
        "TZ": "UTC",  # as Swift wants it
        "HOME": "/nonexistent",
    }


def _copy_prepared(folder: Path) -> None:
    """Copy what every lab begins with: databases with schema and users, and Keystone's keys.

    It is made once for what is installed, and for how it is made.
    """
    installed = sorted(
        str(path)
        for each in {_ENVIRONMENT, _ENGINE}
        for path in each.glob("lib/*/site-packages/*.dist-info")
    )
    sources = [
        path.read_text()
        for path in (_SERVICES, _HERE / "openstack_place.py", Path(__file__))
    ]
    stamp = hashlib.sha256(
        repr([installed, str(_postgres_bin()), os.geteuid(), sources]).encode()
    ).hexdigest()[:12]
    path = _ENGINE / f"lab-{stamp}"
    with (_ENGINE / "lab.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for old in _ENGINE.glob("lab-*"):
                shutil.rmtree(old)
            _prepare(path)
        subprocess.run(["cp", "-a", *path.iterdir(), folder], check=True)


def _prepare(path: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="heat-config-lab-"))
    folder.chmod(0o711)
    (folder / "lab.json").write_text(
        json.dumps({"ports": free_ports(_PORTS), "token_seconds": _TOKEN_SECONDS})
    )
    holder = _Holder(folder)
    try:
        (folder / "postgres").mkdir()
        if os.geteuid() == 0:
            shutil.chown(folder / "postgres", "postgres", "postgres")
        words = (
            "--auth=trust",
            "--username=postgres",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        )
        _run(_postgres("initdb", "-D", folder / "postgres", *words))
        holder.start("postgres", *_postgres_command(folder), end=signal.SIGINT)
        _wait_for_postgres(folder)
        _psql(folder, "postgres", "CREATE DATABASE keystone", "CREATE DATABASE heat")
        with ThreadPoolExecutor() as both:
            steps = [
                [_python(name), str(_SERVICES), name, str(folder)]
                for name in ("prepare-keystone", "prepare-heat")
            ]
            list(both.map(_run, steps))
        holder.stop("postgres")
        part = path.with_suffix(".part")
        part.mkdir()
        for name in ("postgres", "fernet", "credential"):
            subprocess.run(["cp", "-a", folder / name, part], check=True)
        part.rename(path)
    finally:
        holder.end()


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=_environment()
    )
    assert done.returncode == 0, (
        f"{' '.join(command)}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    )


def _definition(
    template: str,
    parameters: Mapping[str, Any] | None,
    files: Mapping[str, str] | None,
    environment: str,
) -> dict[str, Any]:
    words: dict[str, Any] = {
        "template": template,
        "parameters": dict(parameters or {}),
        "files": dict(files or {}),
    }
    return {**words, "environment": environment} if environment else words


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
