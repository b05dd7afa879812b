from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from heat_config_agent.model.entry import Run
from heat_config_agent.model.errors import PASSING, StateError
from heat_config_agent.runs import run_folder, scopes, supervisor
from heat_config_agent.runs.scopes import Scope, ScopeError
from heat_config_agent.runs.supervisor import Running
from heat_config_hooks import files, processes
from heat_config_hooks.protocol import Command
from heat_config_hooks.values import replace
from support import endings
from support.loopback import wait_until

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}


def marked(mark: str) -> list[psutil.Process]:
    """Return the living processes that have a mark in their environment."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if each.environ().get(supervisor.MARK) == mark:
                found.append(each)
    return found


class Runs:
    """Commands run in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "run"
        self.work = folder / "work"
        self.work.mkdir()
        self.mark = f"{self.folder}.1"
        run_folder.make(self.folder, self.mark)

    def announce(
        self, pid: int, ticks: int, scope: str = "", limit: float | None = None
    ) -> Run:
        return Run(
            mark=self.mark,
            boot=processes.boot_id(),
            pid=pid,
            ticks=ticks,
            began=processes.since_boot(),
            limit=limit,
            hook="",
            working="",
            outputs="",
            scope=scope,
        )

    def start(
        self,
        *argv: str,
        announce: Callable[[int, int, str], Run] | None = None,
        cwd: Path | None = None,
        stdin: Path | None = None,
        scope: Scope | None = None,
    ) -> Running:
        command = Command(
            argv=argv, cwd=cwd or self.work, environment={"X": "y"}, stdin=stdin
        )
        return supervisor.start(
            self.folder,
            command,
            ENVIRONMENT,
            self.mark,
            announce or self.announce,
            scope=scope,
        )

    def recorded(self) -> str:
        """Return what is recorded of the run."""
        return run_folder.recorded(self.folder, self.announce(0, 0))

    def shell(self, script: str) -> Running:
        return self.start("sh", "-c", script)

    def sleeper(
        self, announce: Callable[[int, int, str], Run] | None = None
    ) -> Running:
        """Start a command that obeys TERM, and wait until it does."""
        running = self.start(
            "sh", "-c", "echo x >begun; exec sleep 60", announce=announce
        )
        wait_until(self.made("begun"))
        return running

    def end(self, running: Running) -> str:
        """Wait for the end of a run, and return what was recorded of it."""
        wait_until(lambda: running.ended)
        return running.close()

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def made(self, name: str) -> Callable[[], bool]:
        """Return whether there is a file that is not empty."""
        return lambda: (
            (self.work / name).exists() and bool((self.work / name).read_text())
        )

    def living(self) -> list[psutil.Process]:
        return marked(self.mark)

    def another_agent(self, script: str) -> subprocess.Popen[str]:
        """Start an agent that starts `sh -c SCRIPT` and prints its run; standard input is its word to go on."""
        agent = f"""
import json, os, sys
from pathlib import Path
from typing import Any
from heat_config_agent.runs import supervisor
from heat_config_hooks import processes
from heat_config_agent.model.entry import Run
from heat_config_hooks.protocol import Command

def announce(pid, ticks, scope):
    run = Run(mark={self.mark!r}, boot=processes.boot_id(), pid=pid, ticks=ticks, began=0.0, limit=None,
              hook="", working="", outputs="")
    print(json.dumps(run.__dict__), flush=True)
    sys.stdin.readline()
    return run

command = Command(argv=("sh", "-c", {script!r}), cwd=Path({str(self.work)!r}))
supervisor.start(Path({str(self.folder)!r}), command, {ENVIRONMENT!r}, {self.mark!r}, announce)
sys.stdin.readline()
"""
        return subprocess.Popen(
            [sys.executable, "-c", agent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Return a place for runs; whatever is left of them ends with the test."""
    found = Runs(tmp_path)
    yield found
    endings.kill(*found.living())


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", "0"),
        ("exit 7", "7"),
        ("exit 255", "255"),
        ("false", "1"),
        ("kill -KILL $$", "137"),
        ("kill -SEGV $$", "139"),
        ("exec no-such-command", "127"),
        ("exec /etc/passwd", "126"),
    ],
)
def test_how_the_command_ended_is_recorded(runs: Runs, script: str, code: str) -> None:
    """As a shell says it: the exit code, or 128 and the number of the signal."""
    running = runs.shell(f"ulimit -c 0; {script}")
    assert runs.end(running) == code
    assert runs.recorded() == code


@pytest.mark.parametrize(
    ("name", "code"),
    [("missing", "127"), ("folder", "126"), ("text", "126"), ("bad", "127")],
)
def test_command_that_cannot_be_started_is_recorded_and_reported(
    runs: Runs, name: str, code: str
) -> None:
    """With a word about why, where the deployment's own errors are."""
    (runs.work / "folder").mkdir()
    (runs.work / "text").write_text("no program")
    (runs.work / "bad").write_text("#!/no/such/interpreter\n")
    (runs.work / "bad").chmod(0o755)
    running = runs.start(str(runs.work / name))
    assert runs.end(running) in ({"126", "127"} if name == "bad" else {code})
    assert runs.text("stderr")


def test_missing_working_folder_fails_the_run(runs: Runs) -> None:
    """The command is not run anywhere else; no more than this deployment fails, however quickly it does."""
    for _ in range(20):
        try:
            running = runs.start(
                "touch", str(runs.folder / "ran"), cwd=runs.work / "missing"
            )
        except OSError:
            continue
        assert runs.end(running) == "126"
    assert not (runs.folder / "ran").exists()


def test_supervisor_has_a_short_command_line(runs: Runs) -> None:
    """As by `ps` and `systemctl status`: the name of the agent and the command, and not a program for the shell."""
    running = runs.sleeper()
    [supervising] = [each for each in runs.living() if each.pid == running.run.pid]
    line = " ".join(supervising.cmdline())
    assert "heat-config-agent" in line
    assert line.endswith("sh -c echo x >begun; exec sleep 60")
    assert len(line) - len(str(runs.work)) < 120
    running.terminate(0)
    runs.end(running)


def test_the_streams_are_files_and_the_commands_alone(runs: Runs) -> None:
    """Nothing of the supervisor's is between."""
    running = runs.shell("echo out; echo err >&2; pwd; kill -KILL $$")
    assert runs.end(running) == "137"
    assert runs.text("stdout") == f"out\n{runs.work}\n"
    assert runs.text("stderr") == "err\n"


def test_standard_input_is_a_file_or_nothing(runs: Runs, tmp_path: Path) -> None:
    """A run does not read the standard input of the agent, nor the pipe of its supervisor."""
    given = tmp_path / "given"
    given.write_text("the deployment\n")
    assert runs.end(runs.start("cat", stdin=given)) == "0"
    assert runs.end(runs.start("cat")) == "0"
    assert runs.text("stdout") == "the deployment\n"


def test_arguments_and_values_come_unchanged(runs: Runs) -> None:
    """Arguments and values pass through the shell unchanged."""
    odd = ["", "a b", "$HOME `id` $(id)", "'\"\\", "-n", "é\n*"]
    runs.end(runs.start("printf", "<%s>", *odd))
    assert runs.text("stdout") == "".join(f"<{each}>" for each in odd)


def test_the_environment_is_the_given_one(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the agent's environment is handed on; the mark is the run's."""
    monkeypatch.setenv("OS_PASSWORD", "secret")
    runs.end(runs.start("env", "-0"))
    found = dict(each.split("=", 1) for each in runs.text("stdout").split("\0") if each)
    shells_own = {"PWD", "SHLVL", "_"}
    assert {name: value for name, value in found.items() if name not in shells_own} == {
        **ENVIRONMENT,
        "X": "y",
        supervisor.MARK: runs.mark,
    }


@pytest.mark.parametrize(
    "name", ["HUP", "INT", "QUIT", "TERM", "PIPE", "XFSZ", "USR1", "USR2"]
)
def test_signals_do_what_programs_expect(runs: Runs, name: str) -> None:
    """A run has default signal handling, also for signals that the agent ignores."""
    number = signal.Signals[f"SIG{name}"]
    before = signal.signal(number, signal.SIG_IGN)
    try:
        running = runs.shell(f"ulimit -c 0; kill -{name} $$; sleep 5")
    finally:
        signal.signal(number, before)
    assert runs.end(running) == str(128 + number)


@pytest.mark.parametrize("inheritable", [False, True])
def test_no_descriptor_is_handed_on(runs: Runs, inheritable: bool) -> None:
    """A run inherits neither the lock, the journal, a connection nor a descriptor that the agent inherited."""
    descriptor = os.open(runs.folder / "held", os.O_WRONLY | os.O_CREAT)
    os.set_inheritable(descriptor, inheritable)
    processes.keep_descriptors()
    try:
        assert runs.end(runs.shell("ls -l /proc/self/fd")) == "0"
    finally:
        os.close(descriptor)
    assert str(runs.folder / "held") not in runs.text("stdout")


def test_a_run_leaves_no_descriptor_and_no_zombie(runs: Runs) -> None:
    """Runs leave no descriptors and no zombies, however many there are."""
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        running = runs.shell("exit 0")
        assert runs.end(running) == "0"
        assert not psutil.pid_exists(running.run.pid)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_the_command_waits_until_its_run_is_on_record(runs: Runs) -> None:
    """The process of a command exists before its record, and has done nothing."""
    seen: list[bool] = []

    def announce(pid: int, ticks: int, scope: str) -> Run:
        time.sleep(0.2)
        seen.append(processes.alive(pid, ticks) and not (runs.work / "ran").exists())
        return runs.announce(pid, ticks, scope)

    running = runs.start("touch", "ran", announce=announce)
    assert runs.end(running) == "0"
    assert seen == [True]
    assert (runs.work / "ran").exists()


def test_a_command_that_could_not_be_recorded_is_never_run(runs: Runs) -> None:
    """The supervisor of an unrecorded run exits with a message, and leaves nothing."""
    pids: list[int] = []

    def announce(pid: int, ticks: int, scope: str) -> Run:
        pids.append(pid)
        raise StateError(f"no room for {ticks}{scope}")

    with pytest.raises(StateError, match="no room"):
        runs.start("touch", "ran", announce=announce)
    wait_until(lambda: runs.recorded() == run_folder.UNSTARTED)
    assert not (runs.work / "ran").exists()
    wait_until(lambda: not psutil.pid_exists(pids[0]), 2)


def test_supervisor_killed_at_once_has_run_nothing(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was run, and it may be tried again: a machine without memory kills what is about to begin."""
    spawned: list[int] = []
    spawn = os.posix_spawn

    def spawn_and_kill(*given: Any, **options: Any) -> int:
        spawned.append(spawn(*given, **options))
        os.kill(spawned[0], signal.SIGKILL)
        wait_until(lambda: psutil.Process(spawned[0]).status() == psutil.STATUS_ZOMBIE)
        return spawned[0]

    monkeypatch.setattr(os, "posix_spawn", spawn_and_kill)
    with pytest.raises(OSError, match="its supervisor was killed") as raised:
        runs.start("touch", "ran")
    assert raised.value.errno in PASSING
    assert not psutil.pid_exists(spawned[0])
    assert not (runs.work / "ran").exists()


def test_an_agent_that_dies_before_its_word_has_started_nothing(runs: Runs) -> None:
    """The agent's end of the pipe closes, and the supervisor exits."""
    with runs.another_agent("touch ran") as agent:
        assert agent.stdout is not None
        run = Run(**json.loads(agent.stdout.readline()))
        agent.kill()
    wait_until(lambda: runs.recorded() == run_folder.UNSTARTED)
    assert not (runs.work / "ran").exists()
    wait_until(lambda: supervisor.adopt(runs.folder, run) is None)


def test_a_run_outlives_its_agent_and_is_found_by_the_next(runs: Runs) -> None:
    """A run continues without its agent, and the next one learns how it ended."""
    with runs.another_agent(
        "echo begun >begun; while [ ! -e go ]; do sleep 0.02; done; echo done; exit 5"
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        run = Run(**json.loads(agent.stdout.readline()))
        agent.stdin.write("go\n")
        wait_until(runs.made("begun"))
        agent.kill()
    running = supervisor.adopt(runs.folder, run)
    assert running is not None
    assert not running.ended
    (runs.work / "go").touch()
    assert runs.end(running) == "5"
    assert runs.text("stdout") == "done\n"
    assert supervisor.adopt(runs.folder, run) is None


def test_a_run_is_only_taken_for_one_that_it_is(runs: Runs) -> None:
    """Boot, process id and start time must all match."""
    running = runs.sleeper()
    run = running.run
    for other in (
        replace(run, boot="another"),
        replace(run, ticks=run.ticks + 1),
        replace(run, pid=2**22 + 1),
    ):
        assert supervisor.adopt(runs.folder, other) is None
    found = supervisor.adopt(runs.folder, run)
    assert found is not None
    assert found.run == run
    running.terminate(0)
    assert runs.end(running) == "143"
    assert runs.end(found) == "143"


def test_a_run_can_be_waited_for(runs: Runs) -> None:
    """The descriptor of a run is readable once it has ended, where the kernel supports that."""
    running = runs.shell("exit 0")
    assert running.fileno() >= 0 or sys.platform != "linux"
    assert runs.end(running) == "0"
    assert running.fileno() == -1


def test_a_script_may_start_a_daemon_and_end(runs: Runs) -> None:
    """A daemon that keeps the streams open delays nothing, and is not ended."""
    running = runs.shell("sleep 60 & echo $! >daemon; exit 3")
    assert runs.end(running) == "3"
    assert psutil.pid_exists(int((runs.work / "daemon").read_text()))


def test_the_status_is_written_in_its_place(runs: Runs) -> None:
    """The block of the status is reserved, so a full disk cannot hide how a run ended."""
    before = run_folder.status(runs.folder, runs.mark).stat()
    assert runs.end(runs.shell("exit 143")) == "143"
    after = run_folder.status(runs.folder, runs.mark).stat()
    assert (after.st_ino, after.st_size, after.st_blocks) == (
        before.st_ino,
        before.st_size,
        before.st_blocks,
    )


def test_a_run_has_its_time(runs: Runs) -> None:
    """When something is to be done about it is known from when it began."""
    running = runs.sleeper(
        announce=lambda pid, ticks, scope: runs.announce(pid, ticks, scope, limit=30.0)
    )
    assert running.due == running.run.began + 30
    running.terminate(5)
    assert running.due is not None
    assert 4 < running.due - processes.since_boot() <= 5
    assert runs.end(running) == "143"


def test_without_a_limit_nothing_is_due(runs: Runs) -> None:
    """Until somebody ends it."""
    running = runs.sleeper()
    assert running.due is None
    running.terminate(0)
    runs.end(running)


def test_a_run_that_is_ended_may_say_so_itself(runs: Runs) -> None:
    """A run is first asked to end, and what it does then is recorded."""
    running = runs.shell(
        "trap 'echo cleaned; exit 9' TERM; echo >begun x; while :; do sleep 0.02; done"
    )
    wait_until(runs.made("begun"))
    running.terminate(60)
    assert runs.end(running) == "9"
    assert runs.text("stdout") == "cleaned\n"


def test_a_run_that_will_not_end_is_killed_with_all_that_it_started(runs: Runs) -> None:
    """In its session, in sessions of their own, and what has left its parents too."""
    stubborn = "trap '' TERM HUP; echo x >>begun; while :; do sleep 1; done"
    running = runs.shell(
        f'setsid sh -c "{stubborn}" & (setsid sh -c "{stubborn}" &) & {stubborn}'
    )
    wait_until(
        lambda: runs.made("begun")() and len((runs.work / "begun").read_text()) == 6
    )
    running.terminate(0)
    assert not running.ended
    running.terminate(0)
    assert runs.end(running) == "137"
    wait_until(lambda: runs.living() == [])


def test_leftover_processes_of_an_ended_run_are_ended(runs: Runs) -> None:
    """The command obeys, what it started does not."""
    running = runs.shell(
        "sh -c \"trap '' TERM; echo x >begun; while :; do sleep 1; done\" & wait"
    )
    wait_until(runs.made("begun"))
    running.terminate(60)
    assert runs.end(running) == "143"
    wait_until(lambda: runs.living() == [])


def test_a_run_without_its_supervisor_has_ended_unrecorded(runs: Runs) -> None:
    """Nothing says how; what is left of it can be ended."""
    running = runs.shell("echo x >begun; sleep 60")
    wait_until(runs.made("begun"))
    os.kill(running.run.pid, signal.SIGKILL)
    assert runs.end(running) == ""
    assert supervisor.adopt(runs.folder, running.run) is None
    assert supervisor.end_remains(running.run)
    wait_until(lambda: not supervisor.end_remains(running.run))


def test_run_of_an_earlier_boot_has_no_processes(runs: Runs) -> None:
    """After a reboot the process ids of a run belong to other processes."""
    running = runs.sleeper()
    assert not supervisor.end_remains(replace(running.run, boot="another"))
    assert not running.ended
    running.terminate(0)
    runs.end(running)


def test_the_folder_of_a_run_is_for_nobody_else_and_begins_empty(runs: Runs) -> None:
    """The folder of a run is private and begins empty, whatever an earlier run left."""
    runs.end(runs.shell("echo out; echo err >&2"))
    run_folder.make(runs.folder, runs.mark)
    assert stat.S_IMODE(runs.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in runs.folder.iterdir()} == {
        0o600
    }
    assert [runs.text(name) for name in ("stdout", "stderr", "supervisor")] == [
        "",
        "",
        "",
    ]
    assert runs.recorded() == ""


def test_inputs_of_a_run_are_removed(runs: Runs) -> None:
    """Inputs may be secrets; its streams and how it ended are kept."""
    runs.end(runs.shell("echo out; exit 3"))
    (runs.folder / "inputs.json").touch()
    (runs.folder / "more" / "deep").mkdir(parents=True)
    run_folder.tidy(runs.folder)
    assert {each.name for each in runs.folder.iterdir()} == {
        "stdout",
        "stderr",
        "supervisor",
        "status.1",
    }
    assert (runs.text("stdout"), runs.recorded()) == ("out\n", "3")
    run_folder.tidy(runs.folder / "missing")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"0\n             \n", "0"),
        (b"137\n", "137"),
        (b"unstarted\n     \n", "unstarted"),
        (b"-              \n", ""),
        (b"", ""),
        (b"0", ""),
        (b"\n", ""),
        (b"-1\n", ""),
        (b"\0\0\0\n", ""),
        (b"\xff\n", ""),
        ("٣\n".encode(), ""),
    ],
)
def test_only_what_a_supervisor_writes_is_a_record(
    runs: Runs, content: bytes, said: str
) -> None:
    """Any other file gives no outcome."""
    run_folder.status(runs.folder, runs.mark).write_bytes(content)
    assert runs.recorded() == said


def test_a_run_speaks_for_itself_alone(runs: Runs) -> None:
    """The status of another run of the deployment does not count."""
    assert runs.end(runs.shell("exit 3")) == "3"
    another = replace(runs.announce(1, 1), mark=f"{runs.folder}.2")
    assert run_folder.recorded(runs.folder, another) == ""


def test_a_folder_without_a_status_records_nothing(runs: Runs) -> None:
    """The command may have done anything to its own folder."""
    path = run_folder.status(runs.folder, runs.mark)
    path.unlink()
    assert runs.recorded() == ""
    path.mkdir()
    assert runs.recorded() == ""


def test_a_disk_that_does_not_give_a_status_is_asked_again(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once more, and then it is said; changes by the command to its own folder are not blamed on the disk."""
    run = runs.announce(1, 1)
    run_folder.status(runs.folder, runs.mark).write_bytes(b"3\n")
    read, errors = files.read, [errno.EIO]

    def fails(path: Path) -> bytes:
        if errors:
            number = errors.pop(0)
            raise OSError(number, os.strerror(number), str(path))
        return read(path)

    monkeypatch.setattr(files, "read", fails)
    assert run_folder.recorded(runs.folder, run) == "3"
    errors[:] = [errno.EIO] * 3
    assert run_folder.recorded(runs.folder, run) == ""
    assert run_folder.unreadable(runs.folder, run).startswith("Input/output error: ")
    assert run_folder.unreadable(runs.folder, run) == ""
    errors[:] = [errno.ELOOP] * 2
    assert run_folder.recorded(runs.folder, run) == ""
    assert errors == [errno.ELOOP]
    assert run_folder.unreadable(runs.folder, run) == ""


def test_who_is_in_no_scope_waits_in_vain_and_says_nothing(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its last word would be taken for that of the run that is begun in its place."""
    program = tmp_path / "systemd-run"
    program.write_text(
        '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(scopes, "PROGRAM", str(program))
    children = psutil.Process().children()
    with pytest.raises(ScopeError, match="made no scope"):
        runs.start("touch", "ran", scope=Scope("x", {}))
    assert psutil.Process().children() == children
    assert runs.recorded() == ""
    assert not (runs.work / "ran").exists()
    assert runs.end(runs.start("touch", "ran")) == "0"


def test_a_command_too_long_for_the_kernel_is_not_started(runs: Runs) -> None:
    """Too long a command is an error of the system, and no run is announced."""

    def announce(pid: int, ticks: int, scope: str) -> Run:
        pytest.fail(f"announced {pid} {ticks} {scope}")

    with pytest.raises(OSError, match="Argument list too long"):
        runs.start("echo", "x" * 200_000, announce=announce)


def test_reason_for_ending_a_run_is_recorded_if_there_is_room(
    tmp_path: Path,
) -> None:
    """The reason is known to whichever agent sees its end, and spoils nothing that the supervisor writes."""
    run = Run(
        mark="a.1",
        boot="b",
        pid=1,
        ticks=1,
        began=0,
        limit=1,
        hook="h",
        working="w",
        outputs="o",
    )
    run_folder.make(tmp_path / "run", run.mark)
    size = run_folder.status(tmp_path / "run", run.mark).stat().st_size
    assert run_folder.noted_ending(tmp_path / "run", run) == ""
    run_folder.note_ending(tmp_path / "run", run, "its time was over, é" + "!" * 1000)
    assert run_folder.noted_ending(tmp_path / "run", run).startswith(
        "its time was over, é!!!"
    )
    assert run_folder.recorded(tmp_path / "run", run) == ""
    assert run_folder.status(tmp_path / "run", run.mark).stat().st_size == size
