"""A hook that is started by hand, or by another agent through a link."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from heat_config_hooks import HOOKS
from support import pace
from support.commands import SH, hook_places, run
from support.loopback import SignalServer
from support.machine import BIN, Machine, deployment


@pytest.mark.parametrize("how", ["argument", "link"])
def test_a_hook_may_be_run_by_hand(machine: Machine, how: str) -> None:
    """A deployment on standard input, its reply on standard output; also by a link of the tool's name."""
    given = deployment(
        "d1",
        f"{SH}echo $who $PLACE; pwd\necho err >&2\nprintf x >$heat_outputs_path.out\nexit 3\n",
        inputs={"who": "wörld", "port": 80},
        outputs=["out", "none"],
    )
    link = machine.folder / "script"
    link.symlink_to(BIN / "heat-config-hook")
    command = (
        [str(link)] if how == "link" else [str(BIN / "heat-config-hook"), "script"]
    )

    done = subprocess.run(
        command,
        input=json.dumps(given),
        env={**machine.environment, **hook_places(machine), "PLACE": "here"},
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(30),
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "deploy_stdout": f"wörld here\n{machine.folder}/work\n",
        "deploy_stderr": "err\n",
        "deploy_status_code": 3,
        "out": "x",
    }


def test_a_link_to_our_hook_is_our_hook(machine: Machine, heat: SignalServer) -> None:
    """A hook directory that links the tool's name to our command is served without a process for it."""
    machine.hooks.mkdir()
    (machine.hooks / "script").symlink_to(BIN / "heat-config-hook")

    ran = machine.apply(
        [deployment(config=f"{SH}echo hi\nexit 4\n", signal=heat.url())]
    )

    assert ran.code == 1
    assert heat.values() == [
        {"deploy_stdout": "hi\n", "deploy_stderr": "", "deploy_status_code": 4}
    ]


@pytest.mark.parametrize(
    ("arguments", "given", "code", "message"),
    [
        (
            ["no-such-hook"],
            "{}",
            2,
            f"the hooks are: {', '.join(sorted(HOOKS))}; see --help",
        ),
        (["../script"], "{}", 2, "see --help"),
        ([], "{}", 2, "expected the name of one hook"),
        (["script", "extra"], "{}", 2, "expected the name of one hook"),
        (["script"], "", 1, "standard input is not valid JSON"),
        (["script"], "{", 1, "standard input is not valid JSON"),
        (["script"], "[]", 1, "standard input is not a deployment"),
        (["script"], "[" * 100_000, 1, "standard input is not valid JSON"),
    ],
)
def test_bad_usage_of_a_hook_exits_without_a_reply(
    machine: Machine, arguments: list[str], given: str, code: int, message: str
) -> None:
    """The exit code is 2 for an unknown hook, and 1 without a deployment; nothing is printed as a reply."""
    done = run(
        machine, "heat-config-hook", *arguments, given=given, **hook_places(machine)
    )

    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("error: ")
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"config": {"a": 1}}, 125),
        ({"config": f"{SH}exit 0\n", "inputs": "text"}, 125),
        ({"config": f"{SH}exit 0\n", "inputs": [{"value": 1}]}, 125),
        ({"config": f"{SH}exit 0\n", "options": {"timeout": "soon"}}, 125),
        ({"config": f"{SH}sleep 9\n", "options": {"timeout": 0.2}}, 124),
        ({"config": "#!/no/such/interpreter\n"}, None),
        ({"config": f"{SH}kill -9 $$\n"}, 137),
        ({"config": ""}, 0),
        ({"config": f"{SH}exit 0\n"}, 0),
        ({}, 0),
    ],
)
def test_a_hook_always_replies(
    machine: Machine, fields: dict[str, Any], code: int | None
) -> None:
    """A hook replies whatever the outcome of the deployment is, and itself exits with 0."""
    done = run(
        machine,
        "heat-config-hook",
        "script",
        given=json.dumps({"id": "d1", **fields}),
        **hook_places(machine),
    )

    assert (done.code, done.err) == (0, "")
    assert (
        done.json["deploy_status_code"] == code
        if code is not None
        else done.json["deploy_status_code"] != 0
    )
    assert isinstance(done.json["deploy_stdout"], str)
    assert bool(done.json["deploy_stderr"]) is (
        code not in (0, 137) or fields.get("config", "") == ""
    )
