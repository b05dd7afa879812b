"""The needs of examples: each is set up for one test, or the test is skipped and names what is missing."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import threading
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from docs.console import ROOT
from support import puppet
from support.containers import IMAGE, Podman
from support.machine import Done, Machine
from support.remote import Hosts
from support.tools import need, need_openstack, need_salt
from system.booted import Booted

Run = Callable[[str], Done]
"""A function that runs a line of a shell."""

Need = Callable[[Machine, pytest.FixtureRequest], Run | None]
"""Sets something up; returns what runs the commands of the example, if they are not run on this machine."""

NEEDS: dict[str, Need] = {}
"""By the name that the head of an example gives it."""


def needed(name: str) -> Callable[[Need], Need]:
    """Have a function set up what has that name."""

    def note(function: Need) -> Need:
        NEEDS[name] = function
        return function

    return note


def _program(
    place: Machine, _request: pytest.FixtureRequest, *, name: str, how: str
) -> None:
    if shutil.which(name, path=place.environment["PATH"]) is None:
        pytest.skip(f"{name} is not installed: {how}")


for _name, _how in {
    "curl": "«apt install curl»",
    "git": "«apt install git»",
    "ansible-playbook": "«pip install ansible-core»",
    "chef-client": "it is in no distribution",
    "crictl": "it is in no distribution",
}.items():
    NEEDS[_name] = functools.partial(_program, name=_name, how=_how)


@needed("quadlet")
def _quadlet(_place: Machine, _request: pytest.FixtureRequest) -> None:
    pytest.skip(
        "it is run on a booted Debian 13, whose podman has quadlet: tests/hooks/test_quadlet.py"
    )


@needed("yaql")
def _yaql(_place: Machine, _request: pytest.FixtureRequest) -> None:
    if importlib.util.find_spec("yaql") is None:
        pytest.skip("yaql is not installed: «pip install yaql»")


@needed("ssh")
def _ssh(place: Machine, _request: pytest.FixtureRequest) -> None:
    """Hosts of any name are reached: a program in the place of ssh starts the agent with a state directory for each."""
    Hosts(place)


@needed("puppet")
def _puppet(place: Machine, _request: pytest.FixtureRequest) -> None:
    found = puppet.real(_folder(place))
    _first(place, found.command.parent)
    place.environment |= {
        "HEAT_PUPPET_LOGDIR": str(_folder(place) / "logs"),
        "HEAT_PUPPET_HIERA_DATADIR": str(_folder(place) / "hieradata"),
    }


@needed("salt-call")
def _salt(place: Machine, _request: pytest.FixtureRequest) -> None:
    _first(place, need_salt())
    place.environment["HEAT_SALT_MINION_CONFIG"] = str(_folder(place) / "minion")


@needed("os-apply-config")
def _apply_config(place: Machine, _request: pytest.FixtureRequest) -> None:
    _first(
        place,
        need_openstack(
            "os-apply-config", "os-apply-config", _folder(place) / "var"
        ).parent,
    )


@needed("cfn-init")
def _cfn_init(place: Machine, _request: pytest.FixtureRequest) -> None:
    var = _folder(place) / "var"
    _first(place, need_openstack("cfn-init", "heat-cfntools", var).parent)
    place.environment |= {
        "HEAT_CFN_INIT_LAST_METADATA_DIR": str(var / "cache/heat-cfntools"),
        "HEAT_CFN_INIT_LOG": str(var / "log/cfn-init.log"),
    }


@needed("podman")
def _podman(place: Machine, request: pytest.FixtureRequest) -> None:
    """Nothing is pulled: the image is one of the tests', under the name that the example has."""
    podman: Podman = request.getfixturevalue("podman")
    podman("tag", IMAGE, "docker.io/library/busybox:latest")
    _first(place, podman.folder / "bin")


@needed("podman-compose")
def _podman_compose(place: Machine, request: pytest.FixtureRequest) -> None:
    need("podman-compose", "podman-compose")
    _podman(place, request)


@needed("web server")
def _web_server(place: Machine, request: pytest.FixtureRequest) -> None:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_args: object) -> None:
            """Print nothing."""

    handler = functools.partial(Handler, directory=str(ROOT / "examples/machine"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    request.addfinalizer(server.server_close)
    request.addfinalizer(server.shutdown)
    place.environment["FILES"] = f"http://127.0.0.1:{server.server_port}"


def _booted(_place: Machine, request: pytest.FixtureRequest) -> Run:
    """Run the example as root on a machine that booted for the tests, with systemd."""
    machine: Booted = request.getfixturevalue("computer")
    return lambda line: machine.run("sh", "-c", f"cd /root && {line}")


NEEDS["root"] = NEEDS["systemd"] = _booted


def _folder(place: Machine) -> Path:
    """Return the folder in which all of this is kept."""
    folder = place.folder / ".needs"
    folder.mkdir(exist_ok=True)
    return folder


def _first(place: Machine, folder: Path) -> None:
    """Have the programs of a folder found before others of the same names."""
    place.environment["PATH"] = f"{folder}:{place.environment['PATH']}"
