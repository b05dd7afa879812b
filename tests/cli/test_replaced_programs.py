"""Failures of heat-agents when deployments are applied, which do not happen here.

Other losses of heat-agents are in `faults/`: work and signal after a kill while a hook runs (test_kills); results for
servers that are down, silent or busy, which count as delivered after a 4xx, delay the next deployment, and are never
sent again on Heat's own transports (test_server_silence); deployments that are skipped after a full disk (test_disk);
two agents that run a deployment twice (test_two_agents).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support import pace
from support.loopback import SignalServer, wait_until
from support.machine import BIN, Machine, deployment

MEBI = 1024 * 1024
BODY_LIMIT = MEBI
"""Bytes of a signal that Heat takes at most."""
SECRET = "correct-horse-battery"


def told(
    machine: Machine, heat: SignalServer, config: object, *arguments: str, **fields: Any
) -> dict[str, Any]:
    """Apply one deployment and return the one result that was signalled."""
    machine.apply(
        [deployment(config=config, signal=heat.url(), **fields)], *arguments, seconds=20
    )
    [value] = heat.values()
    return value


# The result.


def test_reply_of_many_megabytes_is_sent_shortened(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents never sent a reply over 950,000 bytes, for a TypeError; ours sends its beginning and its end."""
    value = told(
        machine, heat, "#!/bin/sh\necho first\nyes | head -c 3000000\necho last\n"
    )

    assert len(heat.signals[0].body) < BODY_LIMIT
    assert value["deploy_stdout"].startswith("first\n")
    assert value["deploy_stdout"].endswith("last\n")
    assert re.search(r"[\d,]+ bytes left out", value["deploy_stdout"])
    assert value["deploy_status_code"] == 0


def test_big_output_without_standard_ones_is_shortened(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents shortened no declared output, and failed where stdout was missing; ours shortens what is longest."""
    big = "head -c 2000000 /dev/zero | tr '\\0' x"
    machine.hook(
        "own",
        f'#!/bin/sh\nprintf \'{{"deploy_status_code": 0, "big": "\'\n{big}\necho \'"}}\'\n',
    )
    value = told(machine, heat, "", group="own", outputs=["big"])

    assert len(heat.signals[0].body) < BODY_LIMIT
    assert "bytes left out" in value["big"]


def test_memory_for_output_is_bounded(machine: Machine, heat: SignalServer) -> None:
    """heat-agents held output many times over, up to a gigabyte; ours is bounded in memory as it is on the disk."""
    none = peak(
        machine, heat, deployment("none", "#!/bin/sh\n", signal=heat.url("none"))
    )
    lines = "#!/bin/sh\nseq 100000000 119999999\n"  # 200 MB
    much = peak(machine, heat, deployment("much", lines, signal=heat.url("much")))

    assert much - none < 10 * MEBI
    assert (machine.state / "runs/much/stdout").stat().st_size == 200_000_000
    assert (machine.state / "runs/much/stdout").stat().st_blocks * 512 <= 64 * MEBI
    (value,) = heat.values("much")
    assert value["deploy_stdout"].startswith("100000000\n")
    assert value["deploy_stdout"].endswith("\n119999999\n")


def peak(machine: Machine, heat: SignalServer, given: dict[str, Any]) -> int:
    """Apply one deployment, and return how many bytes of memory that took."""
    code = """if True:
        import atexit, sys
        from heat_config_agent.cli import main
        atexit.register(lambda: print(open("/proc/self/status").read(), file=sys.stderr))
        main.apply()
    """
    path, before = machine.write([given]), len(heat.signals)
    agent = machine.start(
        str(BIN / "python"), "-c", code, "--state-dir", str(machine.state), str(path)
    )
    _, err = agent.communicate(timeout=pace.seconds(100))

    assert len(heat.signals) == before + 1
    found = re.search(r"VmHWM:\s*(\d+) kB", err)
    assert found, err
    return int(found[1]) * 1024


def test_failed_hook_with_an_empty_reply_fails_its_deployment(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents signalled {} for a hook that ended with 3, a success to Heat; ours signals its exit code."""
    machine.hook("own", "#!/bin/sh\necho '{}'\nexit 3\n")

    assert told(machine, heat, "", group="own")["deploy_status_code"] == 3


@pytest.mark.parametrize(
    "reply",
    ["{}", "", "0", "[1]", '"done"', "null", "true", "done", '{"deploy_stdout": "x"}'],
)
def test_reply_without_a_status_code_is_a_failure(
    machine: Machine, heat: SignalServer, reply: str
) -> None:
    """heat-agents signalled whatever JSON a hook printed; ours makes a failure of it, with a sentence and the text."""
    machine.hook("own", f"#!/bin/sh\necho '{reply}'\n")

    value = told(machine, heat, "", group="own")

    assert value["deploy_status_code"] not in (0, "0", None)
    assert "repl" in value["deploy_stderr"]
    assert reply.startswith("{") or reply in value["deploy_stdout"]


def test_binary_output_is_sent_as_text(machine: Machine, heat: SignalServer) -> None:
    """heat-agents' hook died of output other than UTF-8, after the script had run; ours replaces the bytes."""
    value = told(
        machine,
        heat,
        "#!/bin/sh\nprintf 'a\\377b' | tee $heat_outputs_path.raw\n",
        outputs=["raw"],
    )

    assert value == {
        "deploy_stdout": "a�b",
        "deploy_stderr": "",
        "deploy_status_code": 0,
        "raw": "a�b",
    }


def test_no_separate_program_is_needed_to_signal(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents lost the result where heat-config-notify was not in PATH; ours needs no program to signal."""
    machine.environment["PATH"] = "/usr/bin:/bin"

    assert told(machine, heat, "#!/bin/sh\necho done\n")["deploy_stdout"] == "done\n"


def test_the_kept_result_is_whole(machine: Machine, heat: SignalServer) -> None:
    """heat-agents left the tail of a longer result behind a shorter one; ours keeps the new one and nothing else."""
    longer = "#!/bin/sh\n[ -e again ] || yes | head -c 5000\ntouch again\n"
    given = [deployment(config=longer, signal=heat.url())]
    machine.apply(given)
    machine.agent("retry", "d1")
    machine.apply(given)

    kept = json.loads((machine.state / "deployed" / "d1.notify.json").read_text())
    assert (
        kept
        == heat.values()[1]
        == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}
    )


# What is never answered there.


def test_invalid_json_is_reported_with_its_place(machine: Machine) -> None:
    """heat-agents ignored a broken list of deployments, exit 0; ours says where it is broken, and exits with 2."""
    done = machine.apply(machine.write('[{"id": "d1",\n  "group": }]'), seconds=10)
    drop_in = machine.apply(HEAT_SHELL_CONFIG=str(machine.folder / "document.json"))

    assert (done.code, drop_in.code) == (2, 2)
    assert "document.json:2:12: error: it is not JSON" in done.err
    assert "line 2, column 12" in drop_in.err


def test_missing_tool_fails_its_deployment(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents signalled nothing for a tool without a hook; ours fails it and says which tools there are."""
    value = told(machine, heat, "x", group="cfengine")

    assert value["deploy_status_code"] == 127
    assert "no hook for the tool 'cfengine'" in value["deploy_stderr"]
    assert "script" in value["deploy_stderr"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"inputs": [{"value": "no name"}]},
        {"outputs": "all"},
        {"options": [1]},
        {"inputs": ["x"]},
    ],
)
def test_malformed_entry_fails_with_its_path(
    machine: Machine, heat: SignalServer, wrong: dict[str, Any]
) -> None:
    """heat-agents signalled nothing for a malformed entry; ours fails it with the path, and goes on with the others."""
    bad = deployment("bad", signal=heat.url("bad"))
    bad = {**bad, **wrong, "inputs": [*bad["inputs"], *wrong.get("inputs", [])]}

    done = machine.apply([bad, deployment("good", signal=heat.url("good"))])

    assert done.code == 1
    assert next(iter(wrong)) in heat.values("bad")[0]["deploy_stderr"]
    assert heat.values("bad")[0]["deploy_status_code"] != 0
    assert heat.values("good")[0]["deploy_status_code"] == 0


def test_entry_without_inputs_is_carried_out(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents failed for an entry without inputs and for a String input without a value; ours accepts both."""
    bare = {
        "id": "bare",
        "group": "script",
        "config": f"#!/bin/sh\necho bare >{machine.folder}/ran\n",
    }
    valueless = deployment("valueless", '#!/bin/sh\necho "<$x>"\n', signal=heat.url())
    valueless["inputs"].append({"name": "x", "type": "String"})

    assert machine.apply([bare, valueless]).code == 0
    assert (machine.folder / "ran").read_text() == "bare\n"
    assert heat.values()[0]["deploy_stdout"] == "<>\n"


def test_component_as_json_text_is_carried_out(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents signalled nothing where a component's config was JSON text; ours reads it."""
    component = {
        "configs": [
            {
                "actions": ["CREATE"],
                "tool": "script",
                "config": "#!/bin/sh\necho created\n",
            }
        ]
    }

    assert (
        told(machine, heat, json.dumps(component), group="component")["deploy_stdout"]
        == "created\n"
    )


@pytest.mark.parametrize("group", ["../..", "..", "/", "\u00e4\u00f6/../.", " "])
def test_group_of_odd_characters_fails_its_deployment(
    machine: Machine, heat: SignalServer, group: str
) -> None:
    """heat-agents took the hook directory itself for the hook, and signalled nothing; ours fails the deployment."""
    machine.hook("own", "#!/bin/sh\n")

    value = told(machine, heat, "x", group=group)

    assert value["deploy_status_code"] == 127
    assert "no hook for the tool" in value["deploy_stderr"]


@pytest.mark.parametrize(
    ("first", "mode"), [("#!/bin/sh", 0o644), ("#!/no/such/interpreter", 0o755)]
)
def test_unstartable_hook_fails_its_deployment(
    machine: Machine, heat: SignalServer, first: str, mode: int
) -> None:
    """heat-agents marked a deployment as done whose hook could not be started; ours fails it, with the reason."""
    hook = machine.hook("own", f"{first}\n", mode=mode)

    value = told(machine, heat, "x", group="own")

    assert value["deploy_status_code"] in (126, 127)
    assert str(hook) in value["deploy_stderr"]


# What is stuck there.


def test_background_child_does_not_delay_the_result(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents waited for a background child that kept stdout open; ours waits for the script alone."""
    began = time.monotonic()
    value = told(machine, heat, "#!/bin/sh\necho started\nsleep 30 &\n")

    assert time.monotonic() - began < pace.seconds(20)
    assert (value["deploy_stdout"], value["deploy_status_code"]) == ("started\n", 0)
    assert [each.name() for each in machine.processes()] == ["sleep"], "it may live on"


def test_endless_script_is_ended_at_its_time_limit(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents waited for ever for a script, and all later deployments with them; ours ends it at its time limit."""
    given = [
        deployment(
            "stuck",
            "#!/bin/sh\necho so far\nsleep 30 & wait\n",
            signal=heat.url("stuck"),
        ),
        deployment("next", signal=heat.url("next")),
    ]

    done = machine.apply(given, "--timeout", "0.3", seconds=8)

    assert done.code == 1
    [value] = heat.values("stuck")
    assert (value["deploy_stdout"], value["deploy_status_code"]) == ("so far\n", 124)
    assert heat.values("next")[0]["deploy_status_code"] == 0
    assert machine.processes() == []


@pytest.mark.parametrize("config", ["", None, " \n"])
def test_empty_config_is_done_at_once(
    machine: Machine, heat: SignalServer, config: object
) -> None:
    """heat-agents failed an empty script with a traceback; ours has nothing to do, and is done at once."""
    assert told(machine, heat, config)["deploy_status_code"] == 0


def test_empty_config_without_a_server_ends_at_once(machine: Machine) -> None:
    """heat-agents failed an empty script with a traceback; ours ends at once where nobody is to be told either."""
    process = machine.start_apply([deployment(config="")])
    try:
        process.communicate(timeout=pace.seconds(5))
    except subprocess.TimeoutExpired:
        pytest.fail("it did not end within 5 s", pytrace=False)
    assert process.returncode == 0


# Scripts and their inputs.


@pytest.mark.parametrize(
    "config",
    [
        "echo $((6 * 7))\n",
        "#!/bin/sh\r\necho 42\r\n",
        "\ufeff#!/bin/sh\necho 42\n",
        "#! /bin/sh -e\necho 42",
    ],
    ids=["no interpreter", "CRLF", "byte order mark", "no last newline"],
)
def test_however_a_script_begins(
    machine: Machine, heat: SignalServer, config: str
) -> None:
    """heat-agents answered a script without #! with a traceback; ours runs it with the shell, and Windows' ones too."""
    value = told(machine, heat, config)

    assert (value["deploy_stdout"].strip(), value["deploy_status_code"]) == ("42", 0)


def test_inputs_of_every_type_reach_the_script(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents' hook died of inputs of other types than text; ours writes all types in one documented way."""
    inputs = {
        "t": "a b",
        "i": 7,
        "f": 1.5,
        "yes": True,
        "no": False,
        "none": None,
        "l": [1, "b"],
        "m": {"k": [None]},
    }
    script = "#!/bin/sh\n" + "".join(f'echo "{name}=${name}"\n' for name in inputs)

    assert told(machine, heat, script, inputs=inputs)["deploy_stdout"] == (
        't=a b\ni=7\nf=1.5\nyes=true\nno=false\nnone=\nl=[1,"b"]\nm={"k":[null]}\n'
    )


def test_shorter_script_of_the_same_id_runs_alone(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents ran the tail of a longer script of the same id too; ours runs what it was given."""
    machine.apply([deployment(config="#!/bin/sh\necho long\n" + "echo tail\n" * 50)])
    assert machine.agent("forget", "--yes", "d1").code == 0

    assert told(machine, heat, "#!/bin/sh\necho short\n")["deploy_stdout"] == "short\n"


@pytest.mark.parametrize(
    "identity", ["../../escaped", "/escaped", "..", "a/b", ".hidden", "a\nb", "x" * 300]
)
def test_id_with_path_characters_stays_in_its_folder(
    machine: Machine, heat: SignalServer, identity: str
) -> None:
    """heat-agents wrote a script to wherever its id led; ours keeps all files in their folders."""
    before = {
        path for path in machine.folder.rglob("*") if machine.state not in path.parents
    }

    value = told(
        machine,
        heat,
        "#!/bin/sh\ncat <$0 >/dev/null && echo $heat_outputs_path\n",
        identity=identity,
    )

    assert value["deploy_status_code"] == 0
    assert (
        Path(value["deploy_stdout"].strip()).parent
        == machine.state / "run" / "heat-config-script"
    )
    after = {
        path for path in machine.folder.rglob("*") if machine.state not in path.parents
    }
    assert {path.name for path in after - before} == {"document.json", "state"}


def test_a_clean_environment(machine: Machine, heat: SignalServer) -> None:
    """heat-agents handed its own environment on to every script; ours gives what a program needs, and the inputs."""
    machine.environment |= {
        "OS_PASSWORD": SECRET,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "NOTIFY_SOCKET": "/run/x",
    }

    names = {
        line.partition("=")[0]
        for line in told(machine, heat, "#!/bin/sh\nenv\n", inputs={"who": "me"})[
            "deploy_stdout"
        ].splitlines()
    }

    assert names >= {
        "PATH",
        "HOME",
        "LANG",
        "TZ",
        "who",
        "deploy_action",
        "heat_outputs_path",
    }
    assert not {name for name in names if name.startswith(("OS_", "AWS_", "NOTIFY"))}


# Secrets, logs and what stays on the disk.


def test_no_command_shows_a_secret_input(machine: Machine, heat: SignalServer) -> None:
    """heat-agents logged the value of every input; ours shows no secret, in no output of any command."""
    inputs = [
        {"name": "db_password", "value": SECRET},
        {"name": "hidden", "value": f"{SECRET}/2", "hidden": True},
        {"name": "deploy_password", "value": f"{SECRET}+3"},
    ]
    script = (
        f'#!/bin/sh\necho "$db_password $hidden"\necho "{heat.url()}" >&2\nexit 1\n'
    )
    given = [deployment(config=script, inputs=inputs, signal=heat.url(), name="web")]

    shown = [machine.apply(given), machine.agent("status"), machine.agent("log", "d1")]
    shown += [
        machine.agent("status", "--json"),
        machine.agent("show", "d1"),
        machine.agent("show", "d1", "--json"),
    ]
    machine.agent("forget", "--yes", "d1")
    shown += [machine.apply(given, "--json")]

    for text in [
        *(each.out + each.err for each in shown),
        heat.signals[0].body.decode(),
    ]:
        assert SECRET not in text
        assert "c2lnbmVk" not in text
    assert heat.values()[0]["deploy_stdout"] == "*** ***\n"


def test_the_log_can_be_read(machine: Machine) -> None:
    """heat-agents' log «for humans» held base64; ours prints what the tool printed."""
    machine.apply(
        [deployment(config="#!/bin/sh\necho öffentlich\nprintf '\\377\\n' >&2\n")]
    )

    log = machine.agent("log", "d1")

    assert (log.out, log.err) == ("öffentlich\n", "�\n")


def test_the_inputs_of_a_run_are_removed_when_it_ends(machine: Machine) -> None:
    """heat-agents left the inputs of every run on the disk; ours removes the files with them when the run ends."""
    machine.hook("own", "#!/bin/sh\necho '{\"deploy_status_code\": 0}'\n")
    inputs = {"db_password": SECRET}

    machine.apply(
        [deployment(inputs=inputs), deployment("d2", group="own", inputs=inputs)]
    )

    runs = [path for path in (machine.state / "runs").rglob("*") if path.is_file()]
    assert len(runs) >= 6
    assert not [path for path in runs if SECRET in path.read_text()]


@pytest.mark.parametrize("tool", ["script", "own"])
def test_nothing_is_kept_of_a_forgotten_deployment(machine: Machine, tool: str) -> None:
    """heat-agents never removed what they kept of a deployment; ours removes all of it when told to forget it."""
    machine.hook("own", "#!/bin/sh\necho '{\"deploy_status_code\": 0}'\n")
    script = f"#!/bin/sh\nprintf {SECRET} >$heat_outputs_path.out\n"
    given = deployment(
        "d1", script, group=tool, inputs={"db_password": SECRET}, outputs=["out"]
    )
    assert machine.apply([given]).code == 0

    assert machine.agent("forget", "--yes", "d1").code == 0

    files = [path for path in machine.state.rglob("*") if path.is_file()]
    assert not [path for path in files if path.name.startswith("d1")]
    assert not [path for path in files if SECRET in path.read_text()]


def test_records_are_on_disk_before_they_are_relied_on(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents flushed nothing to the disk; ours flushes before it runs a command, and before it sends a result."""
    trace = machine.folder / "trace"
    path = machine.write([deployment(config="#!/bin/sh\n", signal=heat.url())])
    command = [
        str(BIN / "heat-config-apply"),
        "--state-dir",
        str(machine.state),
        str(path),
    ]
    calls = "trace=fdatasync,fsync,write,writev,sendto,sendmsg"
    strace = [
        "strace",
        "-f",
        "-qq",
        "-y",
        "-s",
        "400",
        "-e",
        calls,
        "-o",
        str(trace),
        *command,
    ]
    try:
        done = subprocess.run(
            strace,
            env=machine.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=pace.seconds(30),
        )
    except FileNotFoundError:
        pytest.skip("strace is missing: apt-get install strace")
    if not heat.signals:
        pytest.skip(f"strace cannot trace here: {done.stderr.strip()}")
    if os.geteuid() != 0:
        pytest.skip(
            "only root's strace sees what a process writes that leaves no core: run the tests as root"
        )

    def first(pattern: str) -> int:
        return next(
            number for number, line in enumerate(lines) if re.search(pattern, line)
        )

    lines = trace.read_text().splitlines()
    running, word = (
        first(r"write\(.*/journal>.*running"),
        first(r'write\(.*pipe.*"\\n"'),
    )
    finished, sent = (
        first(r"write\(.*/journal>.*finished"),
        first(r'send(to|msg)\(.*"POST '),
    )
    synced = [
        number
        for number, line in enumerate(lines)
        if re.search(r"f(data)?sync\(.*/journal>", line)
    ]
    assert any(running < number < word for number in synced)
    assert any(finished < number < sent for number in synced)


def test_a_script_goes_on_without_the_agent(
    machine: Machine, heat: SignalServer
) -> None:
    """heat-agents' successor never learned what became of a script that outlived its agent; ours picks it up."""
    begun = machine.folder / "begun"
    script = f"#!/bin/sh\ntouch {begun}\nsleep 0.5\necho done\nexit 4\n"
    given = [deployment(config=script, signal=heat.url())]
    agent = machine.start_apply(given)
    wait_until(begun.exists, 60)
    agent.terminate()
    agent.communicate(timeout=pace.seconds(60))
    machine.apply(given)

    assert heat.values() == [
        {"deploy_stdout": "done\n", "deploy_stderr": "", "deploy_status_code": 4}
    ]
