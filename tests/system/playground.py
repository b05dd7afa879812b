"""A cloud to play with: `python -m system.playground FOLDER`, which `make heat` runs.

It starts the cloud of the tests (`openstack.py`), has Heat make a server, and starts the daemon as that server's agent:
what is deployed to the server is done on this machine. FOLDER gets what a person needs for it (see `Playground`), and
is removed at the end. SIGINT and SIGTERM end it.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from support.machine import BIN
from system.agents import Agent
from system.openstack import Lab, lab
from system.openstack_place import PASSWORD, REGION

_SERVER = """
heat_template_version: 2021-04-16
resources:
  machine: {type: "OS::Heat::DeployedServer", properties: {software_config_transport: POLL_SERVER_HEAT}}
"""
_PYTHON = Path(__file__).parents[2] / ".venv/heat/bin/python"
_CLIENT = """
import logging, sys
# Plug-ins that do not fit together are of other services, which the playground does not use.
logging.getLogger("stevedore.extension").setLevel(logging.CRITICAL)
from openstackclient.shell import main
sys.exit(main())
"""

_READY = """
A cloud of your own is there, and the daemon on this machine is the agent of one
of its servers.

  {folder}/openstack    OpenStack's own command, as admin: try «stack list»
  {folder}/agent        heat-config-agent for the daemon: try «status»
  {folder}/server.yaml  an environment whose parameter «server» is this machine
  {folder}/log          the log of the daemon

{services}

In a second terminal, follow docs/playground.md. Everything listens on loopback
only, and what you deploy runs here, as you.
Ctrl-C ends the cloud and the daemon, and removes {folder}.
"""


class Playground:
    """A server of a cloud, with the daemon on this machine as its agent, and what a person needs to use both."""

    def __init__(self, cloud: Lab, folder: Path) -> None:
        """Create the server, start the daemon, and fill the folder, which must not exist."""
        self.folder = folder
        name = cloud.name("machine")
        cloud.stack_create(name, _SERVER)
        cloud.wait(name, "CREATE_COMPLETE")
        self._agent = Agent(folder, cloud.settings(name, "machine"))
        server = cloud.resource_get(name, "machine").physical
        (folder / "server.yaml").write_text(
            json.dumps({"parameters": {"server": server}}, indent=2) + "\n"
        )
        login = {
            "OS_AUTH_URL": cloud.urls["keystone"],
            "OS_IDENTITY_API_VERSION": "3",
            "OS_USERNAME": "admin",
            "OS_PASSWORD": PASSWORD,
            "OS_PROJECT_NAME": "admin",
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_REGION_NAME": REGION,
            "PYTHONWARNINGS": "ignore",
        }
        self._command("openstack", [_PYTHON, "-c", _CLIENT], (), login)
        self._command(
            "agent", [BIN / "heat-config-agent"], ("--config", folder / "agent.conf")
        )

    def close(self) -> None:
        """End the daemon and what it has started, and remove the folder."""
        self._agent.end()
        shutil.rmtree(self.folder)
        # of the commands that looked for what the daemon had started
        shutil.rmtree(f"{self.folder}.tmp")

    def _command(
        self,
        name: str,
        words: Iterable[object],
        options: Iterable[object],
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Write a command that runs `words`, its own arguments and `options` with an environment."""
        assignments = "".join(
            f"export {key}={shlex.quote(value)}\n" for key, value in environment.items()
        )
        before, after = (shlex.join(map(str, each)) for each in (words, options))
        path = self.folder / name
        path.write_text(f'#!/bin/sh\n{assignments}exec {before} "$@" {after}\n')
        path.chmod(0o700)


@contextlib.contextmanager
def playground(folder: Path) -> Iterator[str]:
    """Start a cloud and its playground, and yield what to tell a person about them."""
    with lab() as cloud, contextlib.closing(Playground(cloud, folder.absolute())):
        services = "\n".join(
            f"  {name:18}{url}" for name, url in cloud.urls.items() if name in SERVICES
        )
        yield _READY.format(folder=folder, services=services)


SERVICES = ("keystone", "heat", "swift", "zaqar")


def main(folder: Path) -> int:
    """Run a playground until a signal ends it; return the exit code."""
    if folder.exists():
        print(
            f"{folder} exists: a playground runs there, or was killed. Remove {folder} if none runs.",
            file=sys.stderr,
        )
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    print(
        "Starting Keystone, Heat, Swift and Zaqar; the first time it takes a minute …",
        flush=True,
    )
    try:
        with playground(folder) as text:
            print(text, flush=True)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        print("The cloud and the daemon have ended.")
        return 0
    except pytest.skip.Exception as missing:
        print(missing, file=sys.stderr)
        return 1
    except AssertionError as failed:  # a program of the cloud has failed, and says why
        print(f"The cloud cannot start: {failed}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
