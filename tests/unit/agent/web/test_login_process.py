"""The process that logs in: how it is started, what becomes of one that fails, and that none is left behind."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from heat_config_agent.model.errors import DeniedError, UnreachableError
from heat_config_agent.web import keystone, login_messages, login_process, login_program
from heat_config_agent.web.login_messages import Access
from support import cloud
from support.loopback import Answer, SignalServer, wait_until

NAME = login_process.NAME

Program = Callable[..., None]


_BEFORE: set[psutil.Process] = set()
"""The processes that others have started before this test."""


@pytest.fixture(autouse=True)
def _logins() -> Iterator[None]:
    """Each test starts a process as the agent does, and leaves none behind."""
    login_process.LOGINS.rest()
    _BEFORE.clear()
    _BEFORE.update(psutil.Process().children())
    yield
    login_process.LOGINS.rest()
    wait_until(_all_are_gone)


def _all_are_gone() -> bool:
    """Return whether the processes are gone; a busy machine, or the thread of idle logins, may still end them."""
    login_process._reap_left_over()  # noqa: SLF001
    return processes() == []


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Have this code in the place of the program that logs in."""

    def replace(code: str, *, is_ready: bool = True) -> None:
        begin = "import os, signal, subprocess, sys, time\n"
        ready = "os.write(1, b'ready\\n')\n" if is_ready else ""
        monkeypatch.setattr(login_process, "_PROGRAM", f"{begin}{ready}{code}")

    return replace


def processes(parent: int | None = None) -> list[psutil.Process]:
    """Return the processes that log in for these tests, or for another process; also those that nobody has reaped."""
    found = []
    for process in set(psutil.Process(parent).children()) - _BEFORE:
        with contextlib.suppress(psutil.NoSuchProcess):  # it is ended just now
            # A program that has only just begun has no command line yet.
            wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE or process.cmdline() != [])  # noqa: B023
            if process.status() == psutil.STATUS_ZOMBIE or "-I" in process.cmdline():
                found.append(process)
    return found


def only_child(parent: int | None = None) -> psutil.Process:
    """Return the one process that logs in."""
    (process,) = processes(parent)
    return process


def failure(user: keystone.Cloud, **how: float) -> str:
    """Return why there is no token."""
    with pytest.raises(UnreachableError) as caught:
        user.token(**how)
    assert not isinstance(caught.value, DeniedError)
    assert cloud.PASSWORD not in str(caught.value)
    return str(caught.value)


def test_a_login_takes_a_process_that_is_gone_after_it(openstack: cloud.Cloud) -> None:
    """As soon as no other login follows."""
    user = keystone.Cloud(openstack.credentials())
    assert (user.token(), user.endpoint("orchestration")) == ("token-1", f"{openstack.service.origin}/v1/p1")
    assert openstack.requests == (1, 0)


def test_the_agent_loads_nothing_of_it(openstack: cloud.Cloud) -> None:
    """The agent itself loads neither requests nor keystoneauth1, whether the login succeeds or not."""
    code = """if True:
        import json, sys
        from heat_config_agent.model.deployment import Credentials
        from heat_config_agent.model.errors import DeniedError
        from heat_config_agent.web import keystone
        cloud = keystone.Cloud(Credentials(**json.loads(sys.stdin.read())))
        assert cloud.ask("GET", "orchestration", "/stacks").status == 200
        try:
            other = cloud.endpoint("messaging")
            keystone.Cloud(Credentials(auth_url=other, user_id="", password="", project_id="")).token()
        except DeniedError:
            print(*sys.modules)
    """
    openstack.service.answers.extend([Answer(body=b"{}"), Answer(404)])
    given = json.dumps(vars(openstack.credentials()))
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, text=True, check=True)
    assert {"heat_config_agent.web.keystone", "http.client"} <= set(done.stdout.split())
    libraries = {"requests", "urllib3", "keystoneauth1", "subprocess", "heat_config_agent.web.login"}
    assert not libraries & set(done.stdout.split())


def test_nothing_secret_is_in_its_arguments_or_environment(openstack: cloud.Cloud, program: Program) -> None:
    """Credentials are passed on standard input."""
    program("""if True:
        import json
        words = open("/proc/self/cmdline").read() + open("/proc/self/environ").read()
        secret = json.loads(sys.stdin.readline())["credentials"]["password"]
        print(json.dumps({"failure": "unreachable", "why": f"{len(words)} {len(secret)} {secret in words}"}))
    """)
    said = failure(keystone.Cloud(openstack.credentials())).split()
    assert int(said[0]) > 100
    assert said[1:] == [str(len(cloud.PASSWORD)), "False"]


def test_long_credentials_pass(openstack: cloud.Cloud) -> None:
    """Credentials that are longer than the buffer of a pipe are passed."""
    long = "p" * 300_000
    assert keystone.Cloud(openstack.credentials(password=long)).token() == "token-1"
    assert long.encode() in openstack.logins[0].body


@pytest.mark.parametrize("text", ["Zürich €", "\ud800", 'quote " and \\ and \n'])
def test_any_text_passes(openstack: cloud.Cloud, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """In any locale, also half of a character."""
    monkeypatch.setenv("LC_ALL", "C")
    assert keystone.Cloud(openstack.credentials(password=text)).token() == "token-1"
    asked = json.loads(openstack.logins[0].body)
    assert asked["auth"]["identity"]["password"]["user"]["password"] == text


def test_nothing_that_was_planted_runs(openstack: cloud.Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of Python's, no module in the working directory or of the user."""
    trap = f"open({str(tmp_path / 'sprung')!r}, 'a').write(__name__)\n"
    for name in ("requests", "keystoneauth1", "heat_config_agent", "sitecustomize", "usercustomize", "json"):
        (tmp_path / f"{name}.py").write_text(trap)
    startup = tmp_path / "startup.py"
    startup.write_text(trap)
    monkeypatch.chdir(tmp_path)
    values = {"PATH": str(tmp_path), "STARTUP": str(startup), "HOME": str(tmp_path), "BREAKPOINT": "requests.x"}
    values |= {"USERBASE": str(tmp_path), "INSPECT": "1", "WARNINGS": "error", "PLATLIBDIR": "x"}
    for name, value in values.items():
        monkeypatch.setenv(f"PYTHON{name}", value)
    assert keystone.Cloud(openstack.credentials()).token() == "token-1"
    assert not (tmp_path / "sprung").exists()


def test_it_is_killed_at_the_deadline(openstack: cloud.Cloud) -> None:
    """The sentence is the one about a server that is silent, and the next login may do."""
    keystone.Cloud(openstack.credentials()).token()
    process = only_child()
    sensible, openstack.keystone.always = openstack.keystone.always, Answer(delay=60)
    host = openstack.keystone.origin.partition("://")[2]
    other = keystone.Cloud(openstack.credentials())
    assert re.fullmatch(
        f"Keystone at {host}: no (full )?answer (in time|within 0.[0-9]+ s)", failure(other, seconds=0.3)
    )
    login_process.LOGINS.rest()
    assert not process.is_running()
    openstack.keystone.always = sensible
    assert other.token() == "token-1"


def test_all_that_it_has_started_is_killed(openstack: cloud.Cloud, program: Program, tmp_path: Path) -> None:
    """A hanging process is killed with its children, as a process group."""
    program(f"""if True:
        child = subprocess.Popen(["sleep", "1000"])
        open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
        time.sleep(1000)
    """)
    host = openstack.keystone.origin.partition("://")[2]
    assert failure(keystone.Cloud(openstack.credentials()), seconds=2) == f"Keystone at {host}: no full answer in time"
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_slow_start_is_not_blamed_on_keystone(
    openstack: cloud.Cloud, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow start is reported as this machine's, and the process is ended after its time."""
    monkeypatch.setattr(login_process, "START_SECONDS", 0.1)
    program("time.sleep(1000)", is_ready=False)
    assert failure(keystone.Cloud(openstack.credentials()), seconds=0.2) == f"{NAME} did not start in time"
    assert processes() == []


def test_slow_process_is_left_to_start(openstack: cloud.Cloud, program: Program, tmp_path: Path) -> None:
    """The logins that give up do not keep a slow machine from logging in: each finds the process further on."""
    may_start = tmp_path / "may-start"
    program(
        f"""if True:
        while not os.path.exists({str(may_start)!r}):
            time.sleep(0.01)
        from heat_config_agent.web.login_program import main
        main()
    """,
        is_ready=False,
    )
    for _ in range(2):
        assert failure(keystone.Cloud(openstack.credentials()), seconds=0.1) == f"{NAME} did not start in time"
    process = only_child()
    may_start.touch()
    assert keystone.Cloud(openstack.credentials()).token() == "token-1"
    assert only_child() == process


UNKNOWN = {
    "no JSON": "print('<html>')",
    "an empty line": "print()",
    "a number": "print(7)",
    "a list": "print([])",
    "another object": "print('{}')",
    "a failure of another kind": 'print(\'{"failure": "other", "why": "x"}\')',
    "a failure without a reason": 'print(\'{"failure": "denied", "why": 7}\')',
    "no services": 'print(\'{"token": "t", "seconds": 1, "endpoints": {}, "missing": {}}\')',
    "no time": 'print(\'{"token": "t", "seconds": NaN, "endpoints": {}, "missing": {}}\')',
    "an odd URL": 'print(\'{"token": "t", "seconds": 1, "endpoints": {"messaging": 7}, "missing": {}}\')',
    "brackets": "print('[' * 100000)",
    "no UTF-8": "os.write(1, b'\\xff\\n')",
    "two lines": "print('{}\\n{}')",
    "no end": "os.write(1, b'x' * (1 << 20))",
}


@pytest.mark.parametrize("code", UNKNOWN.values(), ids=UNKNOWN)
def test_an_answer_that_is_none_is_said(
    openstack: cloud.Cloud, program: Program, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """An invalid answer of the process is neither used nor repeated in the message."""
    monkeypatch.setattr(login_process, "LARGEST", 1 << 19)
    program(f"{code}\nsys.stdout.flush()\ntime.sleep(1000)")
    assert failure(keystone.Cloud(openstack.credentials())) == f"{NAME} gave an answer that cannot be understood"


def test_another_program_is_not_believed(openstack: cloud.Cloud, program: Program) -> None:
    """A program that does not speak the protocol gets no credentials."""
    program("print('Python 2.7'); sys.stdout.flush(); time.sleep(1000)", is_ready=False)
    assert failure(keystone.Cloud(openstack.credentials())) == f"{NAME} gave an answer that cannot be understood"


ENDS = {
    "exits": ("sys.exit(3)", " (exit code 3)"),
    "is killed": ("os.kill(os.getpid(), signal.SIGKILL)", " (signal 9)"),
    "fails": ("raise ValueError(sys.stdin.readline())", " (exit code 1)"),
    "complains": ("sys.stderr.write(sys.stdin.readline())\nsys.exit(4)", " (exit code 4)"),
    "lets go": ("os.close(0); os.close(1); time.sleep(1000)", ""),
    "says a half": ("os.write(1, b'{\"tok'); os._exit(0)", " (exit code 0)"),
}
AT_ONCE = ("exits", "is killed", "lets go", "says a half")
"""Answers that may come before the process is told anything."""


@pytest.mark.parametrize(("code", "how"), ENDS.values(), ids=ENDS)
def test_end_of_the_process_is_reported(
    openstack: cloud.Cloud, program: Program, capfd: pytest.CaptureFixture[str], code: str, how: str
) -> None:
    """With how it ended; what it complains of may be secret, and goes nowhere."""
    program(code)
    assert failure(keystone.Cloud(openstack.credentials())) == f"{NAME} ended without an answer{how}"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", AT_ONCE)
def test_immediate_end_of_the_process_is_reported(openstack: cloud.Cloud, program: Program, name: str) -> None:
    """A process that ends at once is reported, also while the agent writes to it."""
    code, how = ENDS[name]
    program(code, is_ready=False)
    assert failure(keystone.Cloud(openstack.credentials())) == f"{NAME} ended without an answer{how}"


def test_unkillable_process_is_not_waited_for(
    openstack: cloud.Cloud, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel may wait for a disk. It is reaped when the next one starts."""
    monkeypatch.setattr(login_process, "GONE_SECONDS", 0.05)
    program("time.sleep(1000)")
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda *_: None)
        assert failure(keystone.Cloud(openstack.credentials()), seconds=1).endswith(": no full answer in time")
    process = only_child()
    process.kill()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE)
    program("sys.exit(3)")
    assert failure(keystone.Cloud(openstack.credentials())).endswith(" (exit code 3)")
    assert not login_process._left_over  # noqa: SLF001


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
def test_failed_start_of_the_process_is_reported(
    openstack: cloud.Cloud, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """With what the machine lacks; and the next login tries it again."""

    def fail(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    user = keystone.Cloud(openstack.credentials())
    descriptors = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_spawn", fail)
        assert failure(user) == f"{NAME} cannot be started: {os.strerror(number)}"
        login_process.LOGINS.prepare()  # which reports nothing
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert user.token() == "token-1"


def test_no_interpreter_is_said(openstack: cloud.Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing interpreter, which may have been removed meanwhile, is reported."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    assert failure(keystone.Cloud(openstack.credentials())).startswith(
        f"{NAME} cannot be started: No such file or directory"
    )


def test_it_serves_logins_that_follow_one_another(openstack: cloud.Cloud) -> None:
    """Results of many users need one process, and one connection to Keystone."""
    for number in range(3):
        keystone.Cloud(openstack.credentials(user_id=str(number))).token()
    only_child()
    assert (openstack.requests, openstack.keystone.connections) == ((3, 0), 1)


def test_logins_at_once_do_not_wait_for_one_another(openstack: cloud.Cloud, other: SignalServer) -> None:
    """A silent Keystone delays no login at another one."""
    other.always = Answer(delay=60)
    silent = openstack.credentials(auth_url=other.origin)
    thread = threading.Thread(target=failure, args=(keystone.Cloud(silent),), kwargs={"seconds": 3})
    thread.start()
    wait_until(lambda: other.signals != [])
    assert keystone.Cloud(openstack.credentials()).token() == "token-1"
    assert thread.is_alive()
    thread.join()


def test_an_idle_one_is_ended_after_a_while(openstack: cloud.Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next login, an hour later, starts another one."""
    monkeypatch.setattr(login_process, "IDLE_SECONDS", 0.05)
    logins = login_process.Logins()
    monkeypatch.setattr(keystone, "LOGINS", logins)
    for _ in range(2):
        keystone.Cloud(openstack.credentials()).token()
        wait_until(lambda: not processes())
    logins.prepare()
    wait_until(lambda: not processes())


def test_without_a_thread_none_is_kept(openstack: cloud.Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would end it."""

    def fail(**_: object) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(keystone, "LOGINS", login_process.Logins())
    monkeypatch.setattr(login_process, "threading", SimpleNamespace(Thread=fail))
    assert keystone.Cloud(openstack.credentials()).token() == "token-1"
    assert processes() == []


def test_process_killed_while_idle_is_replaced(openstack: cloud.Cloud) -> None:
    """As by a kernel that has no memory left. No login fails for it."""
    keystone.Cloud(openstack.credentials()).token()
    process = only_child()
    process.kill()
    threads = Path(f"/proc/{process.pid}/task")  # its output stays open until the last of them has ended
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE and len([*threads.iterdir()]) == 1)
    assert keystone.Cloud(openstack.credentials()).token() == "token-1"
    assert openstack.requests == (2, 0)


def test_prepared_process_is_used(openstack: cloud.Cloud) -> None:
    """The process starts while the deployment runs whose result needs a login."""
    login_process.LOGINS.prepare()
    process = only_child()
    login_process.LOGINS.prepare()
    assert keystone.Cloud(openstack.credentials()).token() == "token-1"
    assert only_child() == process


def test_forbidden_address_starts_no_process(openstack: cloud.Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network rule of the policy is checked before the process for a login starts."""
    asked: list[str] = []

    def refuse(url: str) -> None:
        asked.append(url)
        raise UnreachableError("the policy refuses it")

    monkeypatch.setattr(os, "posix_spawn", None)
    session = keystone.Connections(allow=refuse)
    assert failure(keystone.Cloud(openstack.credentials(), session=session)) == "the policy refuses it"
    assert asked == [openstack.keystone.origin + cloud.LOGIN]


def test_it_ends_with_the_agent(openstack: cloud.Cloud) -> None:
    """The process ends with the agent, also during a login and after a kill of the agent."""
    openstack.keystone.always = Answer(delay=60)
    code = """if True:
        import json, sys
        from heat_config_agent.model.deployment import Credentials
        from heat_config_agent.web import keystone
        keystone.Cloud(Credentials(**json.loads(sys.stdin.readline()))).token()
    """
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        agent.stdin.write(json.dumps(vars(openstack.credentials())).encode() + b"\n")
        agent.stdin.flush()
        wait_until(lambda: openstack.requests == (1, 0))
        process = only_child(agent.pid)
        agent.kill()
        wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize("module", ["requests", "keystoneauth1"])
def test_a_library_that_is_missing_is_named(openstack: cloud.Cloud, program: Program, module: str) -> None:
    """With what to do about it."""
    program(
        f"sys.modules[{module!r}] = None\nfrom heat_config_agent.web import login_program; login_program.main()",
        is_ready=False,
    )
    said = failure(keystone.Cloud(openstack.credentials()))
    assert said.startswith(f"cannot load what logs in to Keystone: import of {module} halted")
    assert said.endswith("(is the agent's installation complete?)")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), "the machine has no memory left to log in to Keystone"),
        (
            OSError(errno.ENFILE, "Too many open files in system"),
            "cannot log in to Keystone: Too many open files in system",
        ),
        (
            ImportError("no socks"),
            "cannot load what logs in to Keystone: no socks (is the agent's installation complete?)",
        ),
        (KeyError(cloud.PASSWORD), "a defect in the login to Keystone: KeyError in fail, test_login_process.py:"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_any_other_failure_is_an_answer(openstack: cloud.Cloud, error: Exception, says: str) -> None:
    """The answer names the failure without quoting anything."""

    def fail(_request: login_messages.Request) -> Access:
        raise error

    request = login_messages.Request(credentials=openstack.credentials(), services=(), ca_file=None, until=0.0)
    outcome = login_program._outcome(fail, login_messages.request_line(request))  # noqa: SLF001
    assert isinstance(outcome, UnreachableError)
    assert str(outcome).startswith(says)
    assert cloud.PASSWORD not in str(outcome)
