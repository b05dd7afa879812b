"""Stacks that the installed commands make of templates, whose scripts count their runs and signal wait conditions."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil

from heat_config_stack.records import listing
from heat_config_stack.records.store import Store
from support import pace
from support.loopback import wait_until
from support.machine import Done, Machine

LONG = 60.0
"""Seconds that nothing takes, however busy the machine is."""

_SENDS = """\
import sys, urllib.request
urllib.request.urlopen(urllib.request.Request(sys.argv[1], b"{}", {"X-Auth-Token": sys.argv[2]}), timeout=50)
"""


def stack(machine: Machine, *words: str) -> Done:
    """Run `heat-config-agent stack WORDS`."""
    done = machine.command(
        "heat-config-agent", ["stack", *words, "--state-dir", str(machine.state)], {}
    )
    assert "Traceback" not in done.err
    return done


class Stacks:
    """The stack `t`, and the commands that work on it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.log = machine.folder / "log"
        self.go = machine.folder / "go"
        self.told = machine.folder / "told"

    @property
    def folder(self) -> Path:
        """Where the stack is kept."""
        return self.machine.state / "stacks" / "t"

    @property
    def record(self) -> Path:
        """The file with its records."""
        return self.folder / "stack"

    def template(
        self, resources: dict[str, Any], name: str = "t", **sections: Any
    ) -> Path:
        """Write a template: JSON, which is YAML."""
        return self.machine.write(
            {"heat_template_version": "2018-08-31", "resources": resources, **sections},
            f"{name}.yaml",
        )

    def script(
        self, name: str, then: str = "", *actions: str, **more: Any
    ) -> dict[str, Any]:
        """Return a deployment, and its config, whose script counts its runs by name and action."""
        text = f'#!/bin/sh\necho "{name} $deploy_action" >>{self.log}\n{then}\n'
        inputs = more.pop("input_values", {})
        config = {
            "group": "script",
            "config": text,
            "inputs": [{"name": each} for each in inputs],
        }
        given = {
            "config": {"get_resource": f"{name}_config"},
            "server": "here",
            "input_values": inputs,
        }
        given["actions"] = list(actions or ("CREATE", "UPDATE"))
        return {
            f"{name}_config": {
                "type": "OS::Heat::SoftwareConfig",
                "properties": config,
            },
            name: {"type": "OS::Heat::SoftwareDeployment", "properties": given, **more},
        }

    def waiting(self, timeout: float = 600, then: str = "") -> dict[str, Any]:
        """Return a wait condition, and a script that signals it once the file `go` is there."""
        sends = self.machine.folder / "sends.py"
        sends.write_text(_SENDS)
        said = f'echo "$endpoint $token" >{self.told}.new; mv {self.told}.new {self.told}\n'
        text = f"{said}while [ ! -e {self.go} ]; do sleep 0.05; done\n{then}\n"
        text += f'{sys.executable} -I {sends} "$endpoint" "$token" || exit 7'
        address = {
            "endpoint": {"get_attr": ["handle", "endpoint"]},
            "token": {"get_attr": ["handle", "token"]},
        }
        condition = {"handle": {"get_resource": "handle"}, "timeout": timeout}
        return {
            "handle": {"type": "OS::Heat::WaitConditionHandle"},
            "condition": {"type": "OS::Heat::WaitCondition", "properties": condition},
            **self.script("sender", text, input_values=address),
        }

    def apply(
        self, path: Path, *words: str, code: int | None = 0, **environment: str
    ) -> Done:
        """Run `heat-config-apply` on a template, which ends with that code."""
        done = self.machine.apply(path, *words, seconds=LONG, **environment)
        assert code is None or done.code == code, done.out + done.err
        assert "Traceback" not in done.err
        return done

    def start(
        self, path: Path, *words: str, **environment: str
    ) -> subprocess.Popen[str]:
        """Start `heat-config-apply` on a template."""
        return self.machine.start_apply(path, *words, **environment)

    def __call__(self, *words: str, code: int | None = 0, **environment: str) -> Done:
        """Run `heat-config-agent stack WORDS`, which ends with that code."""
        place = ("--state-dir", str(self.machine.state))
        done = self.machine.command(
            "heat-config-agent", ["stack", *words, *place], environment, LONG
        )
        assert code is None or done.code == code, done.out + done.err
        assert "Traceback" not in done.err
        return done

    def state(self, name: str = "t") -> str:
        """Return the state of a stack, as `list` has it; empty where there is none."""
        kept = listing.kept(self.machine.state, name)
        return (
            f"{kept.record.action}_{kept.record.status}" if kept and kept.record else ""
        )

    @property
    def ran(self) -> list[str]:
        """Return the scripts that ran with their actions, in order, each as often as it ran."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def address(self) -> tuple[str, str]:
        """Return where the wait condition is signalled, and with which token, once the script has been told."""
        wait_until(self.told.exists, LONG)
        address, token = self.told.read_text().split()
        return address, token

    def port(self) -> int:
        """Return the port that is on record."""
        root = Store(self.folder, write=False).root
        assert root
        return root.port


def ends(process: subprocess.Popen[str]) -> Done:
    """Return how a command ended, once it has."""
    out, err = process.communicate(timeout=pace.seconds(LONG))
    return Done(process.returncode, out, err)


def listens(process: subprocess.Popen[str], port: int) -> bool:
    """Return whether a process accepts connections at a port."""
    try:
        found = psutil.Process(process.pid).net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(
        each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in found
    )


def signalled(address: str, token: str, body: bytes = b"{}") -> int:
    """Send a signal, and return the status of the answer."""
    asked = urllib.request.Request(address, body, {"X-Auth-Token": token})  # noqa: S310  # of this machine
    try:
        with urllib.request.urlopen(asked, timeout=LONG) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
