"""The input of executable hooks, and the results of their replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heat_config_hooks import HOOKS
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment
from support.outcomes import BODY_LIMIT, SH, left_out, result


def hook_replying(reply: object, then: str = "exit 0") -> str:
    """Return a hook that prints a reply and does something then."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return f"{SH}cat >\"$0.given\"\ncat <<'END'\n{text}\nEND\n{then}\n"


def test_a_hook_gets_the_deployment_as_it_came(
    machine: Machine, heat: SignalServer
) -> None:
    """Unknown keys and credentials and all; only a component's config is chosen, and String inputs are made text."""
    machine.hook("puppet", hook_replying({"deploy_status_code": 0}))
    inputs = [
        {"name": "s", "type": "String", "value": 1, "description": "kept", "x": [None]},
        {"name": "n", "type": "Number", "value": 1},
        {"name": "j", "type": "Json", "value": {"a": [1, None]}},
        {"name": "u", "value": 5},
        {"name": "deploy_password", "type": "String", "value": "pa55"},
    ]
    configs = [
        {"actions": ["DELETE"], "tool": "script", "config": "no"},
        {
            "actions": ["CREATE"],
            "tool": "puppet",
            "config": {"any": ["thing"]},
            "more": 1,
        },
    ]
    extra: dict[str, Any] = {"x-future": {"deep": [1, {"k": "ü"}]}, "deploy": None}
    given = deployment(
        config={"configs": configs},
        group="component",
        inputs=inputs,
        outputs=[{"name": "out", "description": "kept"}],
        options={"puppet": {"tags": "x"}, "other": 1},
        signal=heat.url(),
        **extra,
    )

    machine.apply([given])

    got = json.loads((machine.hooks / "puppet.given").read_text())
    wanted = {**given, "group": "puppet", "config": {"any": ["thing"]}}
    wanted["inputs"] = [{**given["inputs"][0], "value": "1"}, *given["inputs"][1:]]
    assert got == wanted


def test_a_hooks_reply_is_passed_on_unchanged(
    machine: Machine, heat: SignalServer
) -> None:
    """Every key and every type of the reply is signalled, and kept in `ID.notify.json`; what it logs is not."""
    reply = {
        "deploy_stdout": "é\r\n\0",
        "deploy_stderr": "",
        "deploy_status_code": "0",
        "number": 5,
        "float": 1.5,
        "map": {"a": [None, True, {"ü": ""}]},
        "null": None,
        "": "no name",
    }
    machine.hook("puppet", hook_replying(reply, "echo logged >&2"))

    assert (
        machine.apply([deployment(group="puppet", config={}, signal=heat.url())]).code
        == 0
    )
    assert heat.values() == [reply]
    assert (
        json.loads((machine.state / "deployed" / "d1.notify.json").read_text()) == reply
    )


@pytest.mark.parametrize("code", [4, "4", -1, "127"])
def test_a_hook_may_report_a_failure(
    machine: Machine, heat: SignalServer, code: object
) -> None:
    """A status code other than 0, a number or text that holds one, is the deployment's failure."""
    reply = {"deploy_stdout": "", "deploy_stderr": "why", "deploy_status_code": code}
    machine.hook("puppet", hook_replying(reply))

    assert machine.apply([deployment(group="puppet", signal=heat.url())]).code == 1
    assert heat.values() == [reply]


def test_a_hook_that_dies_is_reported_as_it_died(
    machine: Machine, heat: SignalServer
) -> None:
    """Its exit code is the status code, and what it printed stands in the result."""
    machine.hook("puppet", f"{SH}echo out\necho err >&2\nexit 7\n")

    assert machine.apply([deployment(group="puppet", signal=heat.url())]).code == 1
    assert heat.values() == [
        {"deploy_stdout": "out\n", "deploy_stderr": "err\n", "deploy_status_code": 7}
    ]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (f"{SH}exit 7\n", 7),
        (f"{SH}kill -9 $$\n", 137),
        (
            hook_replying({"deploy_status_code": 0, "deploy_stdout": "fine"}, "exit 3"),
            3,
        ),
        (hook_replying({}, "exit 3"), 3),
        (hook_replying("[]", "exit 3"), 3),
        (hook_replying({"deploy_status_code": 9}, "exit 3"), 9),
        ("#!/no/such/interpreter\n", 126),
    ],
)
def test_a_hooks_exit_code_wins(
    machine: Machine, heat: SignalServer, script: str, code: int
) -> None:
    """A hook that exits with an error has failed, although Heat counts a reply without a status code as success."""
    machine.hook("puppet", script)

    assert result(machine, heat, None, group="puppet")["deploy_status_code"] == code
    assert machine.status()["d1"]["failed"] is True


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "nonsense",
        "{",
        '{"deploy_status_code": 0} trailing',
        '{"deploy_status_code": 0}\n{"deploy_status_code": 0}',
        "Installing...\n{}",
        "[1, 2]",
        "3",
        "null",
        '"text"',
        "true",
        "{}",
        '{"deploy_stdout": "fine"}',
        '{"deploy_status_code": null}',
        '{"deploy_status_code": true}',
        '{"deploy_status_code": "all well"}',
        '{"deploy_status_code": 0.5}',
        '{"deploy_status_code": [0]}',
        "[" * 100_000,
    ],
)
def test_reply_without_a_result_is_a_failure(
    machine: Machine, heat: SignalServer, reply: str
) -> None:
    """A hook that exits with 0 and replies without a result has failed; the reason has what it printed."""
    machine.hook("puppet", hook_replying(reply) if reply else f"{SH}echo logged >&2\n")

    value = result(machine, heat, None, group="puppet")

    assert value["deploy_status_code"] not in (0, "0", None, True)
    assert "puppet" in value["deploy_stderr"]
    if not reply.startswith("{") or not reply.endswith("}"):
        assert value["deploy_stdout"].strip().startswith(reply[:1000])
    assert machine.status()["d1"]["failed"] is True


def test_a_hook_that_cannot_be_run_is_a_failure(
    machine: Machine, heat: SignalServer
) -> None:
    """A file in the hook directory that nobody may execute is answered, and said to be the reason."""
    machine.hook("puppet", hook_replying({"deploy_status_code": 0}), mode=0o644)

    value = result(machine, heat, None, group="puppet")

    assert value["deploy_status_code"] == 126
    assert "puppet" in value["deploy_stderr"]
    assert "it is not executable; make it so with «chmod +x " in value["deploy_stderr"]


def test_a_secret_in_a_number_spoils_no_reply(
    machine: Machine, heat: SignalServer
) -> None:
    """A secret in a value of another type than text is hidden, and the result is delivered."""
    reply = {
        "deploy_status_code": 0,
        "deploy_stdout": "",
        "deploy_stderr": "",
        "pin": 424242,
        "list": [1424242, "x"],
    }
    machine.hook("puppet", hook_replying(reply))
    inputs = [{"name": "pin_code", "type": "Number", "value": 424242, "hidden": True}]

    ran = machine.apply([deployment(group="puppet", inputs=inputs, signal=heat.url())])

    assert ran.code == 0, ran.err
    (value,) = heat.values()
    assert value["deploy_status_code"] == 0
    assert b"424242" not in heat.signals[0].body


def test_a_huge_reply_is_bounded(machine: Machine, heat: SignalServer) -> None:
    """A hook's reply is shortened like a script's output, whatever the type of its values."""
    reply = {
        "deploy_status_code": 0,
        "deploy_stdout": "x" * 3_000_000,
        "list": ["y" * 1000] * 3000,
        "n": [1],
    }
    machine.hook("puppet", f'{SH}cat "$0.reply"\n')
    (machine.hooks / "puppet.reply").write_text(json.dumps(reply))

    value = result(machine, heat, None, group="puppet")

    assert len(heat.signals[0].body) < BODY_LIMIT
    assert (value["deploy_status_code"], value["n"]) == (0, [1])
    assert left_out(value["deploy_stdout"]) > 2_000_000
    assert left_out(value["list"]) > 2_000_000


def test_a_hook_that_hangs_is_ended(machine: Machine, heat: SignalServer) -> None:
    """The time limit holds for hooks of other people's too, and a reply that came before it was over does not count."""
    machine.hook("puppet", hook_replying({"deploy_status_code": 0}, "sleep 60"))

    assert (
        result(machine, heat, None, "--timeout", "0.4", group="puppet")[
            "deploy_status_code"
        ]
        == 124
    )
    wait_until(lambda: not machine.processes())


@pytest.mark.parametrize("end", ["exit 0", "exit 1", "sleep 60", "kill -9 0"])
def test_input_file_of_a_hook_is_removed(
    machine: Machine, heat: SignalServer, end: str
) -> None:
    """The file with the deployment, which has secrets, is removed however the hook ends."""
    machine.hook("puppet", hook_replying({"deploy_status_code": 0}, end))

    result(
        machine,
        heat,
        None,
        "--timeout",
        "0.4",
        group="puppet",
        inputs={"db_password": "gr8-secret"},
    )

    assert "gr8-secret" in (machine.hooks / "puppet.given").read_text()
    assert not [
        path
        for path in (machine.state / "runs").rglob("*")
        if path.is_file() and b"gr8" in path.read_bytes()
    ]


def test_a_hook_in_a_directory_wins_over_ours(
    machine: Machine, heat: SignalServer
) -> None:
    """A hook named `script` in a hook directory replaces the built-in one."""
    machine.hook(
        "script", hook_replying({"deploy_status_code": 0, "deploy_stdout": "theirs"})
    )

    assert result(machine, heat, f"{SH}echo ours\n")["deploy_stdout"] == "theirs"


def test_hook_directories_have_an_order(machine: Machine, heat: SignalServer) -> None:
    """Directories of the command line come first, in their order, then $HEAT_CONFIG_HOOKS."""
    machine.hook("one", hook_replying({"deploy_status_code": 0, "from": "first"}))
    second, third = machine.folder / "second", machine.folder / "third"
    for folder, names in {
        second: ("one", "two"),
        third: ("one", "two", "three"),
    }.items():
        folder.mkdir()
        for name in names:
            (folder / name).write_text(
                hook_replying({"deploy_status_code": 0, "from": folder.name})
            )
            (folder / name).chmod(0o755)
    given = [
        deployment(name, group=name, signal=heat.url(name))
        for name in ("one", "two", "three")
    ]

    machine.apply(given, "--hooks-dir", str(second), HEAT_CONFIG_HOOKS=str(third))

    assert [heat.values(name)[0]["from"] for name in ("one", "two", "three")] == [
        "first",
        "second",
        "third",
    ]


@pytest.mark.parametrize(
    ("group", "hook"),
    [
        ("../evil", "evil"),
        ("/etc/../pup.pet", "etcpuppet"),
        ("docker cmd", "dockercmd"),
        ("docker-cmd", "docker-cmd"),
    ],
)
def test_group_cannot_leave_the_hook_directory(
    machine: Machine, heat: SignalServer, group: str, hook: str
) -> None:
    """Odd characters of a tool's name are removed, as heat-agents does, so that it never leaves the hook directory."""
    machine.hook(
        hook, hook_replying({"deploy_status_code": 0, "deploy_stdout": "inside"})
    )
    outside = machine.folder / "evil"
    outside.write_text(f"{SH}touch {machine.folder}/escaped\n")
    outside.chmod(0o755)

    assert result(machine, heat, None, group=group)["deploy_stdout"] == "inside"
    assert not (machine.folder / "escaped").exists()


@pytest.mark.parametrize(
    "group",
    ["cfengine", "../evil", "../..", "..", "/", "☃", "$(id)", "deployed/../../evil"],
)
def test_a_tool_without_a_hook_is_a_failure(
    machine: Machine, heat: SignalServer, group: str
) -> None:
    """No hook for the tool: that is answered at once with 127 and the tools there are, and nothing outside is run."""
    machine.hook("mine", SH)
    (machine.folder / "evil").write_text(f"{SH}touch {machine.folder}/escaped\n")
    (machine.folder / "evil").chmod(0o755)

    value = result(machine, heat, None, group=group)

    assert value["deploy_status_code"] == 127
    assert repr(group) in value["deploy_stderr"]
    assert value["deploy_stderr"].endswith(
        f"installed: {', '.join(sorted({'mine', *HOOKS}))}\n"
    )
    assert not (machine.folder / "escaped").exists()


@pytest.mark.parametrize("group", ["Heat::Ungrouped", "os-apply-config", None])
def test_groups_that_name_no_tool_are_passed_over(
    machine: Machine, heat: SignalServer, group: str | None
) -> None:
    """Metadata for other programs is neither run nor answered."""
    ran = machine.apply([deployment(group=group, config={"a": 1}, signal=heat.url())])

    assert ran.code == 0, ran.err
    assert "skipped" in ran.out
    assert heat.signals == []
