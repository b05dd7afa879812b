"""The retention of secrets, results, output, and files that were set aside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.cli.apply import shortcut
from heat_config_agent.model.entry import Removed
from heat_config_agent.state import journal
from heat_config_hooks import files
from support import pace
from support.daemon import Daemon, counting, ran, until
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Done, Machine, deployment

DAY = 86400
SECRET = "kept-9f2d-secret"
MEBI = 1024 * 1024


def settings(machine: Machine, **values: object) -> Path:
    """Write a file of settings."""
    path = machine.folder / "kept.conf"
    path.write_text(
        "[agent]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
    )
    return path


def old(machine: Machine, days: float) -> None:
    """Have time pass, by the clock that ages are told by."""
    path = machine.state / "retention.json"
    said = json.loads(path.read_bytes())
    path.write_text(json.dumps({**said, "lived": said["lived"] + days * DAY}))
    # it goes by the kernel's clock, which has not moved
    (machine.state / shortcut.FILE).unlink(missing_ok=True)


def put(path: Path, text: str = SECRET) -> None:
    """Write a file as the agent does."""
    files.make_directory(path.parent)
    path.touch(mode=0o600)
    path.write_text(text)


def holds(machine: Machine, text: str = SECRET) -> set[str]:
    """Return the files of the state directory that hold a text."""
    return {
        str(path.relative_to(machine.state))
        for path in machine.state.rglob("*")
        if path.is_file() and text.encode() in path.read_bytes()
    }


def secret(
    machine: Machine, identity: str = "d1", then: str = "", **fields: Any
) -> dict[str, Any]:
    """Return a deployment with a secret in its inputs, its config, its output and its result."""
    script = (
        f'{counting(machine, identity)}\n# {SECRET}\necho "it is $api_token"\n{then}\n'
    )
    script += 'printf %s "$api_token" >"$heat_outputs_path.token"\n'
    inputs = [{"name": "api_token", "type": "String", "value": SECRET}]
    return deployment(identity, script, inputs=inputs, outputs=["token"], **fields)


def prune(machine: Machine, *arguments: str, **values: object) -> Done:
    """Remove what is kept no longer by these settings."""
    return machine.agent(
        "prune", "--config", str(settings(machine, **values)), *arguments
    )


# Secrets.


def test_secrets_of_finished_deployments_are_removed(
    machine: Machine, heat: SignalServer
) -> None:
    """From the journal, from deployed/, from the folders of the hook and from what was printed; the id stays known."""
    given = [secret(machine, signal=heat.url())]
    conf = settings(machine, keep_secrets=0)

    assert machine.apply(given, "--config", str(conf)).code == 0

    assert holds(machine) == set()
    assert holds(machine, "Signature") == set()
    assert not list((machine.state / "heat-config-script").iterdir())
    assert heat.values()[0]["token"] == SECRET
    kept = json.loads((machine.state / "deployed/d1.json").read_bytes())
    assert {each["name"]: each.get("value") for each in kept["inputs"]}[
        "api_token"
    ] == "***"
    assert (
        json.loads((machine.state / "deployed/d1.notify.json").read_bytes())[
            "deploy_stdout"
        ]
        == "it is ***\n"
    )
    assert machine.apply(given).code == 0
    assert ran(machine) == ["d1"]
    assert machine.agent("log", "d1").out == f"it is {'*' * len(SECRET)}\n"
    shown = machine.agent("show", "d1", "--json").data
    assert shown["inputs"]["api_token"] == "***"
    assert shown["values"]["token"] == "***"
    assert shown["values"]["deploy_status_code"] == 0


def test_leftover_process_prints_no_secret_once_secrets_are_forgotten(
    machine: Machine,
) -> None:
    """Once the secrets of a deployment are not known any more, its output cannot grow: they could not be masked."""
    go, said = machine.folder / "go", machine.folder / "said"
    later = f"(until [ -e {go} ]; do sleep 0.05; done; echo later $api_token; touch {said}) &\n"
    assert (
        machine.apply(
            [secret(machine, then=later)],
            "--config",
            str(settings(machine, keep_secrets=0)),
        ).code
        == 0
    )
    go.touch()
    wait_until(said.exists)
    assert holds(machine) == set()
    assert "later" not in machine.agent("log", "d1").out


def test_secrets_stay_for_a_day(machine: Machine) -> None:
    """Secrets stay readable for a day, and go at the first run after that."""
    given = [secret(machine)]
    machine.apply(given)
    assert {"deployed/d1.json", "heat-config-script/d1", "runs/d1/stdout"} <= holds(
        machine
    )
    old(machine, 0.9)
    machine.apply([])
    assert "runs/d1/stdout" in holds(machine)

    old(machine, 0.2)
    done = machine.apply(given)

    assert holds(machine) == set()
    assert "inputs and configs of 1 deployment" in done.err
    assert ran(machine) == ["d1"]


def test_secrets_stay_no_longer_than_the_output(machine: Machine) -> None:
    """With `keep_for` of less than a day, and without the older `keep_secrets`; that still says otherwise."""
    given = [secret(machine)]
    machine.apply(given)
    old(machine, 0.5)
    assert prune(machine, keep_for=13 * 3600).code == 0
    assert "runs/d1/stdout" in holds(machine)
    assert prune(machine, keep_for=11 * 3600, keep_secrets=13 * 3600).code == 0
    assert "deployed/d1.json" in holds(machine)
    assert prune(machine, keep_for=11 * 3600).code == 0
    assert holds(machine) == set()


def test_secrets_stay_until_the_result_is_delivered(
    machine: Machine, heat: SignalServer
) -> None:
    """Secrets stay until the result is delivered, and the delivered result is complete."""
    given = [secret(machine, signal=heat.url())]
    heat.always = Answer(status=503)
    conf = str(settings(machine, keep_secrets=0, keep_for=0, keep_size=0))
    machine.apply(given, "--config", conf, "--deliver-for", "0")
    old(machine, 300)
    machine.apply(given, "--config", conf, "--deliver-for", "0")
    assert holds(machine)
    heat.signals.clear()
    heat.always = Answer()

    assert machine.apply(given, "--config", conf).code == 0

    assert heat.values()[0]["token"] == SECRET
    assert holds(machine) == set()
    assert ran(machine) == ["d1"]


def test_files_of_other_hooks_are_removed(machine: Machine) -> None:
    """Files that a hook of a hook directory wrote under the deployment's id are removed."""
    folder = machine.state / "heat-config-own"
    reply = '{"deploy_stdout": "x", "deploy_stderr": "", "deploy_status_code": 0}'
    machine.hook(
        "own",
        f"#!/bin/sh\nmkdir -p {folder}\ncat >{folder}/d1\ncp {folder}/d1 {folder}/d2\necho '{reply}'\n",
    )
    given = [secret(machine) | {"group": "own"}]

    assert (
        machine.apply(given, "--config", str(settings(machine, keep_secrets=0))).code
        == 0
    )

    assert holds(machine) == {"heat-config-own/d2"}


def test_records_of_heat_agents_are_kept(machine: Machine) -> None:
    """heat-agents' records stay, as they prevent another run; after `keep_for`, their secrets are masked."""
    deployed = machine.state / "deployed"
    put(deployed / "other.json", json.dumps(secret(machine, "other")))
    machine.apply([secret(machine, "other")])

    assert prune(machine, keep_secrets=0, keep_size=0).code == 0
    assert holds(machine) == {"deployed/other.json"}

    assert prune(machine, keep_secrets=0, keep_for=0, keep_size=0).code == 0
    assert holds(machine) == set()
    assert (deployed / "other.json").exists()
    machine.apply([secret(machine, "other")])
    assert ran(machine) == []


def test_secrets_are_removed_where_a_kill_left_them(machine: Machine) -> None:
    """Secrets in the half-written files of a dead writer are removed as well."""
    given = [secret(machine)]
    machine.apply(given)
    left = [
        machine.state / "deployed/.d1.json.new",
        machine.state / "heat-config-script/.d1.new",
        machine.state / "journal.new",
        machine.state / "documents/.local.json.new",
    ]
    for path in left:
        put(path)

    assert prune(machine, keep_secrets=0).code == 0

    assert holds(machine) == set()
    assert [path for path in left if path.exists()] == []


# Output and results.


def test_departed_deployment_leaves_only_its_id(machine: Machine) -> None:
    """After thirty days nothing is left but that it ran: it is not run again if it comes back."""
    given = [secret(machine), secret(machine, "d2")]
    machine.apply(given)
    machine.apply(given[:1])
    old(machine, 29)
    machine.apply(given[:1])
    assert (machine.state / "runs/d2").is_dir()

    old(machine, 2)
    done = machine.apply(given[:1])

    assert "all but that they ran of 1 deployment" in done.err
    assert not list(machine.state.rglob("*d2*"))
    assert (machine.state / "deployed/d1.json").is_file()
    assert set(machine.status()) == {"d1"}
    assert {
        each["id"]
        for each in machine.agent("status", "--json", "--all").data["deployments"]
    } == {"d1", "d2"}
    assert "1 older deployment without details" in machine.agent("status").out
    assert "it was pruned" in machine.agent("log", "d2").err
    assert machine.agent("show", "d2").code == 0
    for _ in range(2):
        assert machine.apply(given).code == 0
    assert ran(machine) == ["d1", "d2"]


def test_current_deployment_loses_only_its_output(machine: Machine) -> None:
    """A deployment in the metadata loses only its output, and its outcome stays known."""
    given = [secret(machine)]
    machine.apply(given)
    old(machine, 400)
    machine.apply(given)

    assert not (machine.state / "runs/d1").exists()
    assert (machine.state / "deployed/d1.json").is_file()
    assert machine.status()["d1"]["state"] == "unasked"
    assert "it was pruned" in machine.agent("log", "d1").err
    assert (
        machine.agent("show", "d1", "--json").data["values"]["deploy_status_code"] == 0
    )
    machine.apply(given)
    assert ran(machine) == ["d1"]


def test_a_result_that_was_not_sent_is_sent_when_its_deployment_is_back(
    machine: Machine, heat: SignalServer
) -> None:
    """An unsent result is sent when its deployment returns, even if its secrets were removed meanwhile."""
    given = [secret(machine, signal=heat.url())]
    heat.always = Answer(status=503)
    machine.apply(given, "--deliver-for", "0")
    machine.apply([])
    old(machine, 3)
    machine.apply([])
    assert not {"deployed/d1.json", "heat-config-script/d1"} & holds(machine)
    assert machine.agent("show", "d1", "--json").data["values"]["token"] == "***"
    heat.signals.clear()
    heat.always = Answer()

    assert machine.apply(given).code == 0

    assert [each["token"] for each in heat.values()] == [SECRET]
    assert ran(machine) == ["d1"]


def test_removed_result_is_sent_as_a_failure(
    machine: Machine, heat: SignalServer
) -> None:
    """A result that was removed before delivery is sent as a failure, and nothing runs again."""
    given = [secret(machine, signal=heat.url())]
    heat.always = Answer(status=503)
    machine.apply(given, "--deliver-for", "0")
    machine.apply([])
    old(machine, 31)
    machine.apply([])
    assert holds(machine) == set()
    heat.signals.clear()
    heat.always = Answer()

    machine.apply(given)
    machine.apply(given)

    (value,) = heat.values()
    assert value["deploy_status_code"] == 125
    assert "not kept any more" in value["deploy_stderr"]
    assert ran(machine) == ["d1"]


def test_so_many_are_kept(machine: Machine) -> None:
    """The newest of the departed deployments are kept."""
    for number in range(4):
        machine.apply([deployment(f"d{number}", counting(machine, f"d{number}"))])
    machine.apply([])

    done = prune(machine, "--json", keep_count=2)

    assert [(each["id"], each["type"]) for each in done.data["changes"]] == [
        ("d0", "deployment"),
        ("d1", "deployment"),
    ]
    assert set(machine.status()) == {"d2", "d3"}


def test_keep_size_removes_the_oldest_first(machine: Machine) -> None:
    """The oldest files are removed first; the plan lists them and changes nothing."""
    for number in range(3):
        machine.apply(
            [
                deployment(
                    f"d{number}", "#!/bin/sh\nhead -c 300000 /dev/zero | tr '\\0' x\n"
                )
            ]
        )
    machine.apply([])
    before = {path: path.stat().st_size for path in machine.state.rglob("*")}

    planned = prune(machine, "--plan", "--json", keep_size="1500K").data
    assert {path: path.stat().st_size for path in machine.state.rglob("*")} == before
    shown = prune(machine, "--plan", keep_size="1500K")
    done = prune(machine, "--json", keep_size="1500K").data
    again = prune(machine, "--dry-run", keep_size="1500K")

    assert planned["kept_bytes"] > 1500 * 1024
    assert [each["id"] for each in planned["changes"]] == ["d0"]
    assert planned["changes"] == done["changes"]
    header, row, *_ = shown.out.splitlines()
    assert header.split() == ["CHANGE", "NAME", "TYPE", "WHY"]
    assert row.startswith("remove  d0 ")
    assert again.out.startswith("nothing to prune; ")
    assert "all deployments together take more than 1 MiB" in shown.out
    assert "nothing was" in shown.out
    assert not (machine.state / "runs/d0").exists()


def test_nothing_is_pruned_by_doubtful_limits(machine: Machine) -> None:
    """With a mistake in the settings, prune removes nothing, and the plan shows it with a warning."""
    machine.apply([deployment("d1")])
    machine.apply([])
    path = settings(machine, keep_for=0)
    path.write_text(f"{path.read_text()}\nkeep_count = many\n")
    done = machine.agent("prune", "--config", str(path))
    assert (done.code, done.out) == (2, "")
    assert "keep_count" in done.err
    assert (machine.state / "runs/d1").is_dir()
    planned = machine.agent("prune", "--plan", "--json", "--config", str(path))
    assert planned.code == 0
    assert "keep_count" in planned.json["warnings"][0]["message"]


def test_files_set_aside_are_removed_after_their_time(machine: Machine) -> None:
    """State of other instances, damaged copies, and folders of runs of which nobody knows."""
    machine.apply([deployment()])
    aside = [
        machine.state / "of-other/runs/x/stdout",
        machine.state / "journal.damaged-123",
        machine.state / "documents/heat.json.corrupt-5",
        machine.state / "runs/nobodys/stdout",
    ]
    for path in aside:
        put(path)
    assert prune(machine).code == 0
    old(machine, 29)
    assert prune(machine).code == 0
    assert all(path.exists() for path in aside)

    old(machine, 2)
    assert prune(machine).code == 0

    assert not [path for path in aside if path.exists()]
    assert machine.status()["d1"]["state"] == "unasked"


def test_a_document_that_is_not_applied_any_more(machine: Machine) -> None:
    """Deployments of a document count as gone once it has not been applied for the retention time."""
    one, two = (
        machine.write([deployment("d1", counting(machine))], "one.json"),
        machine.write([], "two.json"),
    )
    machine.apply(one)
    old(machine, 20)
    machine.apply(one)
    old(machine, 20)
    machine.apply(two)
    assert journal.read(machine.state)["d1"].left_at is None

    for _ in range(2):
        old(machine, 31)
        machine.apply(two)

    assert journal.read(machine.state)["d1"].removed is Removed.ALL
    machine.apply(one)
    assert ran(machine) == ["d1"]


# Output while it is printed.


def test_output_is_bounded_while_a_run_prints(
    machine: Machine, heat: SignalServer
) -> None:
    """Its beginning and its end are in the result, and in the log, which says how much was left out."""
    go = machine.folder / "go"
    text = f"#!/bin/sh\necho begins\nhead -c 30000000 /dev/zero | tr '\\0' x\n{until(go)}\necho\necho ends\n"
    conf = str(settings(machine, output_limit="4M"))
    agent = machine.start_apply(
        [deployment("d1", text, signal=heat.url())], "--config", conf
    )
    path = machine.state / "runs/d1/stdout"
    wait_until(lambda: path.exists() and path.stat().st_size > 30_000_000, 60)
    descriptor = path.open("rb")
    descriptor.seek(10 * MEBI)
    if descriptor.read(1) != b"\0":
        wait_until(lambda: path.stat().st_blocks * 512 <= 4 * MEBI, 60)
    descriptor.close()
    go.touch()
    agent.communicate(timeout=pace.seconds(60))

    assert path.stat().st_blocks * 512 <= 4 * MEBI
    (value,) = heat.values()
    assert value["deploy_stdout"].startswith("begins\nx")
    assert value["deploy_stdout"].endswith("x\nends\n")
    assert "\0" not in value["deploy_stdout"]
    log = machine.agent("log", "d1").out
    assert log.startswith("begins\nx")
    assert log.endswith("x\nends\n")
    assert "bytes left out" in log
    assert "\ufffd" not in log
    assert len(log) < 4 * MEBI


def test_output_printed_at_once_is_bounded(machine: Machine) -> None:
    """A run may have come to its end before anybody looked."""
    text = "#!/bin/sh\nhead -c 20000000 /dev/zero | tr '\\0' x\n"
    machine.apply(
        [deployment("d1", text)], "--config", str(settings(machine, output_limit="4M"))
    )
    assert (machine.state / "runs/d1/stdout").stat().st_blocks * 512 <= 4 * MEBI


def test_output_printed_after_the_end_is_bounded(machine: Machine) -> None:
    """A daemon that a script has left may go on to print for ever; at the next look it is shortened again."""
    machine.apply([deployment()])
    path = machine.state / "runs/d1/stdout"
    path.write_bytes(b"x" * 20 * MEBI)

    assert prune(machine, output_limit="4M").code == 0

    assert path.stat().st_blocks * 512 <= 4 * MEBI
    assert path.stat().st_size == 20 * MEBI


def test_files_over_the_limit_are_reported(
    machine: Machine, heat: SignalServer
) -> None:
    """`status` and `doctor` report more files than the limit if undelivered results keep them."""
    heat.refuse()
    machine.apply([deployment("d1", signal=heat.url())], "--deliver-for", "0")
    conf = str(settings(machine, keep_files=1))
    assert prune(machine, keep_files=1).code == 0

    machine.have_quick_tools()
    for command in ("status", "doctor"):
        said = machine.agent(command, "--config", conf).out
        assert "more than keep_size or keep_files allows" in said
        assert "prune --plan" in said
    heat.start()


# The daemon.


def test_daemon_prunes_without_being_asked(machine: Machine, daemon: Daemon) -> None:
    """At its start, once a deployment is done, and when it is asked to."""
    machine.apply([secret(machine)])
    daemon.configure(keep_secrets=0)
    daemon.put([secret(machine, "d2")])
    daemon.start()
    daemon.wait_state("d2", "unasked")
    wait_until(lambda: holds(machine) <= {"documents/local.json"}, 60)
    assert holds(machine) == {"documents/local.json"}  # what is in force is needed

    (machine.state / "runs/d2/stdout").write_text(SECRET)
    assert daemon.command("prune").code == 0
    wait_until(lambda: not (machine.state / "asked/prune").exists(), 60)
    daemon.put([])
    wait_until(lambda: "documents/local.json" not in holds(machine), 60)
    assert ran(machine) == ["d1", "d2"]
    assert daemon.stop() == 0


def test_settings_are_heeded_when_they_are_read_again(
    machine: Machine, daemon: Daemon
) -> None:
    """Secrets go as soon as they are to go sooner."""
    daemon.put([secret(machine)])
    daemon.start()
    daemon.wait_state("d1", "unasked")
    assert "runs/d1/stdout" in holds(machine)
    daemon.configure(keep_secrets=0)
    daemon.send(1)
    wait_until(lambda: "runs/d1/stdout" not in holds(machine), 60)


def test_prune_without_a_state_directory_does_nothing(machine: Machine) -> None:
    """Where no agent has worked, there is nothing to do, and nothing is made."""
    for words in ((), ("--plan",), ("--json",)):
        assert machine.agent("prune", *words).code == 0
    assert not machine.state.exists()


@pytest.mark.parametrize("value", ["-1", "many", "1X", "0.5M"])
def test_an_invalid_size_is_refused(machine: Machine, value: str) -> None:
    """The message says what is expected."""
    done = machine.apply(
        [deployment()], "--config", str(settings(machine, keep_size=value))
    )
    assert done.code == 2
    assert "expected a number of bytes" in done.err
