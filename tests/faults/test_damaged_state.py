"""State that is damaged: no known id runs twice, nothing false is told, and nobody else can read it."""

from __future__ import annotations

import stat

import pytest

from support import pace
from support.disks import ONCE, counting, ran
from support.loopback import SignalServer
from support.machine import BIN, Machine, deployment

pytestmark = pytest.mark.takes(20)


@pytest.mark.fault(
    1,
    "a line of the journal damaged, or all of them",
    "a sentence says that the file is set aside; at most its own deployment is lost; nothing is run twice",
)
def test_damaged_line_costs_at_most_its_own_deployment(
    machine: Machine, heat: SignalServer
) -> None:
    """A damaged line of the journal costs at most its own deployment; the file is set aside, and that is said."""
    ids = ("d1", "d2", "d3")
    given = [counting(machine, each, signal=heat.url(each)) for each in ids]
    heat.refuse()
    machine.apply(given, *ONCE)
    heat.start()
    path = machine.state / "journal"
    lines = path.read_bytes().splitlines(keepends=True)
    hurt = next(
        number
        for number, line in enumerate(lines)
        if b'"key":"d2"' in line and b'"state":"finished"' in line
    )
    lines[hurt] = lines[hurt].replace(b"deploy", b"d\xff\0loy", 1)
    damaged = b"".join(lines)
    path.write_bytes(damaged)

    done = machine.apply(given)

    [aside] = machine.state.glob("journal.damaged-*")
    assert aside.read_bytes() == damaged
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert "1 damaged line" in done.err
    assert str(aside) in done.err
    assert ran(machine) == ["d1", "d2", "d3"]
    assert [
        [one["deploy_status_code"] for one in heat.values(each)] for each in ids
    ] == [[0], [0], [0]]
    assert machine.apply(given).err == ""


@pytest.mark.fault(
    1,
    "a line of the journal damaged, or all of them",
    "a sentence says that the file is set aside; at most its own deployment is lost; nothing is run twice",
)
@pytest.mark.parametrize("state", ["accepted", "running", "finished", "signalled"])
def test_a_known_id_runs_once_whatever_line_is_damaged(
    machine: Machine, heat: SignalServer, state: str
) -> None:
    """Whichever line of a deployment is damaged, it is not run a second time."""
    given = [counting(machine, signal=heat.url())]
    machine.apply(given)
    path = machine.state / "journal"
    lines = path.read_bytes().splitlines(keepends=True)
    [hurt] = [
        number
        for number, line in enumerate(lines)
        if f'"state":"{state}"'.encode() in line
    ]
    lines[hurt] = lines[hurt].replace(b'"', b"#", 1)
    path.write_bytes(b"".join(lines))

    machine.apply(given)

    assert ran(machine) == ["d1"]
    assert len({each.body for each in heat.signals}) == 1


@pytest.mark.fault(
    1,
    "a line of the journal damaged, or all of them",
    "a sentence says that the file is set aside; at most its own deployment is lost; nothing is run twice",
)
@pytest.mark.parametrize(
    "content",
    [b"\0" * 8192, b"\xff\xfe garbage\n" * 50, b"{}\n[]\n\n", b"00000000 {}\n"],
)
def test_unreadable_journal_is_set_aside(
    machine: Machine, heat: SignalServer, content: bytes
) -> None:
    """A journal without one readable line is set aside or cut off, and work begins anew."""
    machine.state.mkdir(mode=0o700)
    (machine.state / "journal").write_bytes(content)
    (machine.state / "journal").chmod(0o600)

    assert machine.apply([counting(machine, signal=heat.url())]).code == 0
    assert machine.status()["d1"]["state"] == "signalled"
    assert len(heat.signals) == 1


@pytest.mark.fault(
    1,
    "the last line of the journal torn by a power cut",
    "it is cut off: nothing had relied on it yet",
)
@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_last_line_is_cut_off(
    machine: Machine, heat: SignalServer, cut: int
) -> None:
    """Nothing has relied on a last line that a power cut has torn, so there is no message."""
    given = [counting(machine, signal=heat.url())]
    machine.apply(given)
    path = machine.state / "journal"
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole + last[:-cut])
    assert machine.status()["d1"]["state"] == "signalled"

    given.append(counting(machine, "d2", signal=heat.url()))
    first, second = machine.apply(given), machine.apply(given)

    assert (first.code, first.err) == (0, "")
    assert (second.code, second.err) == (0, ""), "what was written after it is intact"
    assert ran(machine) == ["d1", "d2"]
    assert len(heat.signals) == 2


@pytest.mark.fault(
    2,
    "a script or a hook that removes the files of its run",
    "a result, and no success where nothing says so",
)
@pytest.mark.parametrize("hurt", ["status", "stdout", "everything"])
@pytest.mark.parametrize("tool", ["script", "own"])
def test_run_without_its_files_ends_in_a_result(
    machine: Machine, heat: SignalServer, hurt: str, tool: str
) -> None:
    """A run whose files were taken away ends in a result, and holds up no other deployment."""
    folder = machine.state / "runs" / "d1"
    damage = {
        "status": f"name=$(echo {folder}/status.*); rm $name; mkdir $name",
        "stdout": f"rm {folder}/stdout; mkdir -m 700 {folder}/stdout",
        "everything": f"rm -r {folder}",
    }[hurt]
    script = f"#!/bin/sh\necho d1 >>{machine.folder}/ran\necho '{{\"deploy_status_code\": 0}}'\n{damage}\n"
    machine.hook("own", script)
    given = [
        deployment(config=script, group=tool, signal=heat.url("d1")),
        deployment("d2", signal=heat.url("d2")),
    ]

    done = machine.apply(given)

    assert "Traceback" not in done.err
    assert len(heat.values("d1")) == 1
    assert len(heat.values("d2")) == 1
    machine.apply(given)
    assert ran(machine) == ["d1"]
    if hurt != "stdout" or tool == "own":
        assert heat.values("d1")[0]["deploy_status_code"] != 0, (
            "nothing is known of how it ended"
        )


@pytest.mark.fault(
    2,
    "a disk that does not give how a run ended (EIO)",
    "it has failed, and the reason says that its end cannot be read",
)
def test_unreadable_status_is_not_taken_for_a_kill(
    machine: Machine, heat: SignalServer
) -> None:
    """Nothing else is made of it: nobody has killed what watched over the run."""
    unreadable = f"for each in {machine.state}/runs/d1/status.*; do ln -sf /proc/self/mem $each; done"
    given = [counting(machine, then=unreadable, signal=heat.url())]

    assert machine.apply(given).code == 1

    value = heat.values()[0]
    assert value["deploy_status_code"] == 125
    assert (
        "it is not known how it ended: cannot read the record of it: Input/output error: "
        in value["deploy_stderr"]
    )
    assert "interrupted" not in value["deploy_stderr"]
    assert machine.apply(given).code == 0
    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1


@pytest.mark.fault(
    4,
    "an agent with a umask that lets all users read",
    "files are 0600 and folders 0700, while a run goes on and after it",
)
@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_state_files_are_private_under_any_umask(
    machine: Machine, heat: SignalServer, umask: str
) -> None:
    """Under any umask our files are 0600, scripts and folders 0700, during a run and after it."""
    machine.hook("own", "#!/bin/sh\necho '{\"deploy_status_code\": 0}'\n")
    seen = machine.folder / "seen"
    look = f"#!/bin/sh\nfind {machine.state} -printf '%y %m %P\\n' >{seen}\n"
    heat.refuse()
    given = [
        deployment("a", group="own", inputs={"password": "p"}, signal=heat.url()),
        deployment("b", look, inputs={"password": "p"}, signal=heat.url()),
    ]
    command = [
        str(BIN / "heat-config-apply"),
        "--state-dir",
        str(machine.state),
        "--hooks-dir",
        str(machine.hooks),
    ]
    shell = f'umask {umask}; exec "$@"'
    machine.start(
        "/bin/sh", "-c", shell, "sh", *command, *ONCE, str(machine.write(given))
    ).communicate(timeout=pace.seconds(20))

    found = [
        f"{'d' if path.is_dir() else 'f'} {stat.S_IMODE(path.stat().st_mode):o} {path.relative_to(machine.state)}"
        for path in [machine.state, *machine.state.rglob("*")]
    ]
    lines = [*seen.read_text().splitlines(), *found]
    assert len(lines) > 20
    wrong = [
        line
        for kind, mode, name, line in ((*line.split(" ", 2), line) for line in lines)
        if mode
        != ("700" if kind == "d" or name.startswith("heat-config-script/") else "600")
    ]
    assert wrong == []
