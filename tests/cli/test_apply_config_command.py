"""55-heat-config, which heat-agents' callers start: the list it reads, and the files it leaves for other readers."""

from __future__ import annotations

import json
import os
import stat
import threading
from typing import Any

import pytest

from support import pace
from support.commands import SH, counted, runs
from support.loopback import Answer, SignalServer
from support.machine import Done, Machine, deployment


def drop_in(
    machine: Machine,
    document: object,
    *arguments: str,
    mode: int = 0o644,
    **environment: Any,
) -> Done:
    """Run the command the way os-refresh-config runs 55-heat-config."""
    path = machine.write(document, "heat-config")
    path.chmod(mode)
    return machine.apply(None, *arguments, HEAT_SHELL_CONFIG=str(path), **environment)


def test_the_list_of_heat_agents_is_applied(
    machine: Machine, heat: SignalServer
) -> None:
    """$HEAT_SHELL_CONFIG names the list of deployments; it is made 0600, for it holds passwords."""
    assert drop_in(machine, [counted(machine, signal=heat.url())]).code == 0
    assert drop_in(machine, [counted(machine, signal=heat.url())]).code == 0
    assert runs(machine) == ["d1"]
    assert len(heat.signals) == 1
    assert stat.S_IMODE((machine.folder / "heat-config").stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "\n", "[]"])
def test_empty_list_has_nothing_to_do(machine: Machine, text: str) -> None:
    """The template of os-apply-config leaves an empty file where there are no deployments yet."""
    ran = drop_in(machine, text)

    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("trouble", ["script", "signal", "refused", "entry", "tool"])
def test_failed_deployment_does_not_stop_the_caller(
    machine: Machine, heat: SignalServer, trouble: str
) -> None:
    """As with heat-agents the exit code is 0 although a deployment failed or its signal did: others come after us."""
    if trouble in ("signal", "refused"):
        heat.always = Answer(503 if trouble == "signal" else 403)
    given: list[object] = [
        counted(
            machine, "d1", "exit 3" if trouble == "script" else "", signal=heat.url()
        ),
        *(["nonsense"] if trouble == "entry" else []),
        *([deployment("d2", group="no-such-tool")] if trouble == "tool" else []),
    ]

    assert drop_in(machine, given, "--deliver-for", "0").code == 0
    assert runs(machine) == ["d1"]


def test_bad_json_is_refused_there_too(machine: Machine) -> None:
    """A list that cannot be read is a failure: heat-agents ignored it without a message."""
    ran = drop_in(machine, '[{"id": "a"')

    assert ran.code == 2
    assert "line 1, column" in ran.err


def test_a_list_that_is_not_there_is_no_source(machine: Machine) -> None:
    """A file that is named but is not there is said."""
    ran = machine.apply(None, HEAT_SHELL_CONFIG=str(machine.folder / "missing"))

    assert ran.code == 3
    assert "missing" in ran.err


def test_deployment_of_heat_agents_is_not_run_again(
    machine: Machine, heat: SignalServer
) -> None:
    """An `ID.json` that heat-agents left means done: not run, not signalled, until it is removed."""
    deployed = machine.folder / "deployed"
    deployed.mkdir()
    for name in ("old", "old-too"):
        (deployed / f"{name}.json").write_text("{}" if name == "old" else "")
    (deployed / "new.notify.json").write_text("{}")
    names = ("old", "new", "old-too")
    given = [counted(machine, each, signal=heat.url(each)) for each in names]
    places: dict[str, Any] = {"HEAT_CONFIG_DEPLOYED": str(deployed)}

    ran = drop_in(machine, given, **places)

    assert ran.code == 0, ran.err
    assert runs(machine) == ["new"]
    assert [len(heat.values(each)) for each in names] == [0, 1, 0]
    assert (
        json.loads((deployed / "new.json").read_text())["config"] == given[1]["config"]
    )

    (deployed / "old.json").unlink()
    drop_in(machine, given, **places)
    assert runs(machine) == ["new", "old"]


def test_the_old_folder_is_moved(machine: Machine) -> None:
    """$HEAT_CONFIG_DEPLOYED_OLD becomes $HEAT_CONFIG_DEPLOYED where that does not exist yet, with all that is in it."""
    old, new = machine.folder / "old", machine.folder / "far" / "new"
    old.mkdir()
    (old / "done.json").write_text("{}")
    places: dict[str, Any] = {
        "HEAT_CONFIG_DEPLOYED": str(new),
        "HEAT_CONFIG_DEPLOYED_OLD": str(old),
    }

    drop_in(machine, [counted(machine, "done"), counted(machine, "d1")], **places)
    drop_in(machine, [counted(machine, "done"), counted(machine, "d1")], **places)

    assert runs(machine) == ["d1"]
    assert not old.exists()
    assert {each.name for each in new.iterdir()} == {
        "done.json",
        "d1.json",
        "d1.notify.json",
    }


def test_the_old_folder_is_left_where_there_is_a_new_one(machine: Machine) -> None:
    """If both folders exist, only the new one counts."""
    old, new = machine.folder / "old", machine.folder / "new"
    for folder, name in {old: "d1", new: "d2"}.items():
        folder.mkdir()
        (folder / f"{name}.json").write_text("{}")

    given = [counted(machine, "d1"), counted(machine, "d2")]
    drop_in(
        machine, given, HEAT_CONFIG_DEPLOYED=str(new), HEAT_CONFIG_DEPLOYED_OLD=str(old)
    )

    assert runs(machine) == ["d1"]
    assert (old / "d1.json").exists()


@pytest.mark.parametrize("server", ["up", "refusing", "down"])
def test_removing_the_file_runs_it_again(
    machine: Machine, heat: SignalServer, server: str
) -> None:
    """A deployment whose `ID.json` was removed runs again, whether or not its signal was accepted."""
    heat.always = Answer({"up": 200, "refusing": 404, "down": 503}[server])
    given = [counted(machine, signal=heat.url())]
    drop_in(machine, given, "--deliver-for", "0")
    drop_in(machine, given, "--deliver-for", "0")
    assert runs(machine) == ["d1"]

    (machine.state / "deployed" / "d1.json").unlink()
    heat.always = Answer()
    drop_in(machine, given)

    assert runs(machine) == ["d1", "d1"]
    assert (machine.state / "deployed" / "d1.json").exists()


def test_files_for_other_readers_have_deployment_and_result(
    machine: Machine, heat: SignalServer
) -> None:
    """`ID.json` is the deployment as it was run, its config chosen; `ID.notify.json` the result as it was signalled."""
    configs = [
        {
            "actions": ["CREATE"],
            "tool": "script",
            "config": f"{SH}echo made; printf x >$heat_outputs_path.out\n",
        }
    ]
    given = deployment(
        "d1",
        {"configs": configs},
        group="component",
        outputs=["out"],
        signal=heat.url(),
    )

    drop_in(machine, [given])

    deployed = machine.state / "deployed"
    assert json.loads((deployed / "d1.json").read_text()) == {
        **given,
        "group": "script",
        "config": configs[0]["config"],
    }
    assert [json.loads((deployed / "d1.notify.json").read_text())] == heat.values()
    assert {stat.S_IMODE(each.stat().st_mode) for each in deployed.iterdir()} == {0o600}


def test_mode_of_a_pipe_or_a_folder_is_not_changed(machine: Machine) -> None:
    """$HEAT_SHELL_CONFIG may be /dev/null on a machine without deployments, which stays open for all users."""
    pipe, folder = machine.folder / "pipe", machine.folder / "folder"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    folder.mkdir(mode=0o755)
    # it waits for a reader, and writes nothing
    writer = threading.Thread(target=pipe.write_bytes, args=(b"",))
    writer.start()
    assert machine.apply(None, HEAT_SHELL_CONFIG=str(pipe)).code == 0
    writer.join(pace.seconds(10))
    refused = machine.apply(None, HEAT_SHELL_CONFIG=str(folder))
    assert f"cannot read {folder}: Is a directory" in refused.err
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o666
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
