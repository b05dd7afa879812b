"""Runs as another user than root: what they can reach, what comes back, and what is left."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import leftovers, pace, planted
from support.governed import POLICY, Governed
from support.http import Answer, Stub
from support.loopback import SignalServer, wait_until
from support.machine import BIN, Done, Machine, deployment
from support.stories import Traps
from support.tools import need, need_root, need_salt

SH = "#!/bin/sh\n"
USER = "nobody"


@pytest.fixture
def place(machine: Machine) -> Iterator[Path]:
    """The folder of runs of other users, which they can reach: pytest's own they cannot."""
    need_root()
    outer = Path(tempfile.mkdtemp(prefix="heat-users-", dir="/var/lib"))
    leftovers.belongs(outer)
    outer.chmod(0o755)
    machine.config = machine.folder / "agent.conf"
    machine.config.write_text(f"[agent]\nuser_dir = {outer}/users\n")
    yield outer / "users"
    machine.end()
    shutil.rmtree(outer)


def apply(machine: Machine, given: object, *arguments: str, **environment: Any) -> Done:
    """Run `heat-config-apply` with the settings of the machine."""
    return machine.apply(
        given, "--config", str(machine.config), *arguments, **environment
    )


def theirs(identity: str, script: str, **more: Any) -> dict[str, Any]:
    """Return a deployment for the other user."""
    config = more.pop("config", script)
    return deployment(
        identity,
        config,
        **{"options": {"user": USER, **more.pop("options", {})}, **more},
    )


def result(heat: SignalServer) -> dict[str, Any]:
    """Return the one result that the server was sent."""
    (signal_,) = heat.signals
    found = json.loads(signal_.body)
    assert isinstance(found, dict)
    return found


def test_a_script_is_that_user(
    machine: Machine, place: Path, heat: SignalServer
) -> None:
    """A script has the user's id, groups, HOME and folders and no privilege, with the same inputs and outputs."""
    user = pwd.getpwnam(USER)
    groups = " ".join(map(str, os.getgrouplist(USER, user.pw_gid)))
    script = (
        f'{SH}echo "$(id -u) $(id -g) $(id -G) $HOME $USER $LOGNAME $given"; pwd\n'
        "grep -h CapEff /proc/self/status; echo error >/dev/stderr\n"
        f"for file in {machine.state} {machine.state}/journal /root /etc/shadow; do\n"
        "  ls $file/ && cat $file\ndone 2>/dev/null\n"
        'grep -c planted "$HEAT_INPUTS_FILE"; touch mine; echo out >$heat_outputs_path.one; exit 3\n'
    )
    given = theirs(
        "d1",
        script,
        inputs={"given": "an input"},
        outputs=["one"],
        signal=heat.url("d1"),
    )
    assert apply(machine, [given]).code == 1
    found = result(heat)
    first, folder, *rest = found["deploy_stdout"].splitlines()
    assert (
        first
        == f"{user.pw_uid} {user.pw_gid} {groups} {user.pw_dir} {USER} {USER} an input"
    )
    assert Path(folder).parent.parent == place
    assert rest == ["CapEff:\t0000000000000000", "1"]
    assert (found["deploy_stderr"], found["deploy_status_code"], found["one"]) == (
        "error\n",
        3,
        "out\n",
    )
    assert list(place.iterdir()) == []


@pytest.mark.usefixtures("place")
def test_run_has_the_groups_of_its_user_and_a_private_folder(machine: Machine) -> None:
    """All groups of the machine's record and none of the agent's; PATH is that of all runs."""
    (machine.folder / "group").write_text(
        f"{Path('/etc/group').read_text()}heat-extra:x:64711:daemon,{USER}\n"
    )
    governed = Governed(machine, f"mount --bind {machine.folder}/group /etc/group")
    script = f'{SH}id -G; echo "$PATH"; stat -c "%a %U" . .. ../.. ../run "$HEAT_INPUTS_FILE"\n'
    given = theirs("d1", script, inputs={"given": "an input"})
    done = governed.apply([given], "--config", str(machine.config))
    assert done.code == 0, done.out
    groups, path, *folders = governed.agent("log", "d1").out.splitlines()
    assert groups.split() == [str(pwd.getpwnam(USER).pw_gid), "64711"]
    assert path == machine.environment["PATH"]
    assert folders == [
        f"700 {USER}",
        f"700 {USER}",
        "711 root",
        f"700 {USER}",
        f"600 {USER}",
    ]


@pytest.mark.usefixtures("place")
def test_an_account_needs_nothing_but_a_name(machine: Machine) -> None:
    """As with `User=` of systemd: without a shell, a home and a password, locked and expired."""
    (machine.folder / "passwd").write_text(
        f"{Path('/etc/passwd').read_text()}heat-bare:x:64712:64713::/nowhere:/usr/sbin/nologin\n"
    )
    (machine.folder / "shadow").write_text(
        f"{Path('/etc/shadow').read_text()}heat-bare:!:1:0:1:7:0:1:\n"
    )
    governed = Governed(
        machine,
        *(
            f"mount --bind {machine.folder}/{name} /etc/{name}"
            for name in ("passwd", "shadow")
        ),
    )
    given = theirs(
        "d1",
        f'{SH}echo "$(id -u) $(id -g) $(id -G) $HOME $USER"; umask\n',
        options={"user": "heat-bare"},
    )
    done = governed.apply([given], "--config", str(machine.config))
    assert done.code == 0, done.out
    assert (
        governed.agent("log", "d1").out
        == "64712 64713 64713 /nowhere heat-bare\n0022\n"
    )


@pytest.mark.usefixtures("place")
def test_a_python_that_the_user_cannot_read_is_named(machine: Machine) -> None:
    """The sentence says what to do; the tool `script` needs no more of Python."""
    folder = Path(os.__file__).parent
    given = [theirs("d1", "print(1)\n", group="python"), theirs("d2", SH)]
    closed = [each for each in folder.parents if not each.stat().st_mode & 0o001]
    if not closed:
        pytest.skip(
            "all users can read the Python of the tests: put it where they may not"
        )
    apply(machine, given)
    why = f"cannot start d1: its user cannot read the agent's Python in {folder}; install the agent where all users can"
    assert why in machine.agent("show", "d1").out
    assert not machine.status()["d2"]["failed"]


def test_artifacts_are_the_users(
    machine: Machine, place: Path, heat: SignalServer
) -> None:
    """The agent fetches artifacts, which then belong to the user, in the folder of the run."""
    body = b"an artifact\n"
    server = Stub(lambda _request: Answer(body=body))
    server.start()
    url = f"http://127.0.0.1:{server.port}/file"
    artifact = {"url": url, "sha256": hashlib.sha256(body).hexdigest(), "to": "a/file"}
    script = f'{SH}cat "$HEAT_ARTIFACTS/a/file"; echo more >>"$HEAT_ARTIFACTS/a/file"; echo "$HEAT_ARTIFACTS"\n'
    apply(
        machine,
        [
            theirs(
                "d1", script, options={"artifacts": [artifact]}, signal=heat.url("d1")
            )
        ],
    )
    server.stop()
    first, folder = result(heat)["deploy_stdout"].splitlines()
    assert first == "an artifact"
    assert Path(folder).parent.parent == place
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_an_output_is_only_what_the_user_can_read(
    machine: Machine, place: Path, heat: SignalServer
) -> None:
    """A link to a file of root's does not count as an output, whatever its folder is; nothing of root's is removed."""
    secret, folder = machine.folder / "secret", machine.folder / "folder"
    secret.write_text("root's")
    secret.chmod(0o600)
    folder.mkdir()
    (folder / "d1.three").write_text("root's")
    script = (
        f"{SH}ln -s {secret} $heat_outputs_path.one; ln -s /etc/shadow $heat_outputs_path.two\n"
        'cd "${heat_outputs_path%/*}/.." && mv outputs was && ln -s /etc outputs\n'
        "mkdir deep; (cd deep; for n in $(seq 2000); do mkdir d; cd d; done); chmod 0 deep\n"
        f"mv working gone; ln -s {folder} working; rm -r run; ln -s /root run\n"
    )
    assert (
        apply(
            machine,
            [
                theirs(
                    "d1", script, outputs=["one", "two", "three"], signal=heat.url("d1")
                )
            ],
        ).code
        == 0
    )
    assert result(heat) == {
        "deploy_stdout": "",
        "deploy_stderr": "",
        "deploy_status_code": 0,
    }
    assert (folder / "d1.three").exists()
    assert Path("/etc/passwd").exists()
    assert list(place.iterdir()) == []


_WITH_A_KEY = """
import ctypes, os, sys
call = ctypes.CDLL(None).syscall
assert call(250, 1, None) > 0
os.environ["HEAT_KEY"] = str(call(248, b"user", b"of root's login", b"the key", 7, -3))
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Starts a program in a session with a key, as pam_keyinit does for a login."""


def test_keys_of_roots_login_are_out_of_reach(
    machine: Machine, place: Path, heat: SignalServer
) -> None:
    """A run of another user has a keyring of its own; the key of root's session is known by its number only."""
    if os.uname().machine != "x86_64":
        pytest.skip("this test knows the system calls of x86_64 only")
    read = 'import ctypes, os; print(ctypes.CDLL(None).syscall(250, 11, int(os.environ["HEAT_KEY"]), None, 0))'
    script = f"{SH}/usr/bin/python3 -c '{read}'\n"
    given = [
        theirs("d1", script, signal=heat.url("d1")),
        deployment("d2", script, signal=heat.url("d2")),
    ]
    assert place.parent.is_dir()
    words = [
        "--config",
        str(machine.config),
        "--state-dir",
        str(machine.state),
        str(machine.write(given)),
    ]
    command = [
        sys.executable,
        "-c",
        _WITH_A_KEY,
        str(BIN / "heat-config-apply"),
        *words,
    ]
    done = subprocess.run(
        command,
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(60),
    )
    if "AssertionError" in done.stderr:
        pytest.skip(
            "the kernel gives no keyrings here: allow keyctl in the container of the tests"
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [heat.values(f"d{number}")[0]["deploy_stdout"] for number in (1, 2)] == [
        "-1\n",
        "7\n",
    ]


@pytest.mark.fault(
    4,
    "what a run of another user has left behind fills its folders while they are removed",
    "no file of it is left",
)
def test_folders_that_are_being_filled_are_removed(
    machine: Machine, place: Path
) -> None:
    """Its folders are taken from the user before they are emptied."""
    ready = place.parent / "ready"
    ready.mkdir()
    ready.chmod(0o777)
    loop = f"until [ -e {ready}/end ] || ! [ -e {ready} ]; do i=$((i+1)); mkdir -p z/$i ../z/$i; touch {ready}/it; done"
    script = f"{SH}setsid sh -c '{loop}' >/dev/null 2>&1 </dev/null &\nuntil [ -e {ready}/it ]; do sleep 0.05; done\n"
    done = apply(machine, [theirs("d1", script)])
    (ready / "it").unlink()
    wait_until((ready / "it").exists)  # it is still at work
    left = list(place.iterdir())
    (ready / "end").touch()
    assert (done.code, done.err, left) == (0, "", [])


def test_output_is_roots_again_once_it_is_final(machine: Machine, place: Path) -> None:
    """A name that the user has given to the file of its output is another file, after secrets were masked in it."""
    vault = machine.folder / "secrets"
    vault.mkdir(mode=0o700)
    (vault / "it").write_text(f"{planted.WORD}-it")
    (vault / "it").chmod(0o600)
    assert machine.config is not None
    own = place.parent / "own"
    own.mkdir()
    own.chmod(0o777)
    machine.config.write_text(f"[agent]\nuser_dir = {place}\nsecrets_dir = {vault}\n")
    link = own / "link"
    script = f"{SH}echo now $it; ln -L /proc/self/fd/1 {link} || cp /proc/self/fd/1 {link}; chmod 666 {link}\n"
    given = theirs("d1", script, inputs={"it": {"secret": "file:it"}})
    assert apply(machine, [given]).code == 0
    kept = machine.state / "runs/d1/stdout"
    assert not kept.samefile(link)
    status = kept.stat()
    assert (status.st_uid, status.st_mode & 0o777, status.st_nlink) == (0, 0o600, 1)
    assert machine.agent("log", "d1").out.strip("*\n") == "now "
    link.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["python", "ansible", "puppet", "salt", "chef"])
def test_other_tools_work_as_that_user(
    machine: Machine, place: Path, tool: str
) -> None:
    """Each tool runs and reports as that user, who owns the files that it makes."""
    if tool == "puppet":
        need("puppet", "puppet")
    path = (
        f"{need_salt()}:{machine.environment['PATH']}"
        if tool == "salt"
        else machine.environment["PATH"]
    )
    created = place.parent / "made"
    created.mkdir()
    created.chmod(0o777)
    stand_in = created / "chef-client"  # it does what a recipe would
    stand_in.write_text(
        f'{SH}sed -n \'s/.*"given": "\\(.*\\)".*/\\1/p\' "$5" | tr -d \'\\n\' >{created}/it\n'
    )
    stand_in.chmod(0o755)
    config = {
        "chef": '["recipe[x]"]',
        "python": f"import os\nopen('{created}/it', 'w').write(inputs['given'])\noutputs['one'] = os.getuid()\n",
        "puppet": f"file {{ '{created}/it': content => $facts['given'] }}\n",
        "salt": f"{created}/it:\n  file.managed:\n    - contents_newline: false\n"
        "    - contents: {{ opts['given'] }}\n",
        "ansible": "- hosts: localhost\n  connection: local\n  gather_facts: false\n"
        f"  tasks: [{{raw: 'printf %s \"{{{{ given }}}}\" >{created}/it'}}]\n",
    }[tool]
    outputs = ["one"] if tool == "python" else []
    open_home = f"mount -t overlay overlay -o lowerdir={created}:{Path.home()} {Path.home()}"  # our Python may be there
    governed = Governed(machine, open_home)
    options = {"kitchen_path": str(created)} if tool == "chef" else {}
    given = [
        theirs(
            "d1",
            config,
            group=tool,
            inputs={"given": "text"},
            outputs=outputs,
            options=options,
        )
    ]
    done = governed.apply(
        given, "--config", str(machine.config), PATH=path, HEAT_CHEF_CMD=str(stand_in)
    )
    assert done.code == 0, done.out + machine.agent("log", "d1").err
    assert (created / "it").read_text() == "text"
    assert (created / "it").stat().st_uid == pwd.getpwnam(USER).pw_uid
    if tool == "python":
        assert f"one: {pwd.getpwnam(USER).pw_uid}" in machine.agent("show", "d1").out


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"options": {"user": "no-such-user"}},
            "there is no user 'no-such-user' on this machine",
        ),
        ({"options": {"user": "4711"}}, "there is no user '4711' on this machine"),
        ({"options": {"user": "--x"}}, "there is no user '--x' on this machine"),
        ({"options": {"user": ["nobody"]}}, "options.user: expected text"),
        (
            {"group": "json-file", "config": {}},
            "json-file has no such option: it runs as the user of the agent only",
        ),
        ({"group": "systemd-unit"}, "systemd-unit has no such option"),
    ],
)
def test_unknown_user_fails_the_deployment(
    machine: Machine, place: Path, fields: dict[str, Any], why: str
) -> None:
    """The reason is in the result, and nothing is run as root instead."""
    proof = machine.folder / "proof"
    given = theirs("d1", f"{SH}echo ran >{proof}\n", **fields)
    assert apply(machine, [given]).code == 1
    assert why in machine.agent("show", "d1").out
    assert not proof.exists()
    assert not place.exists() or list(place.iterdir()) == []


def test_a_folder_that_others_may_change_is_not_used(
    machine: Machine, place: Path
) -> None:
    """A folder that others may change is refused, because they could replace the program."""
    place.mkdir()
    place.chmod(0o777)
    assert apply(machine, [theirs("d1", SH)]).code == 1
    assert (
        "must be a folder of root that no other user may write to"
        in machine.agent("show", "d1").out
    )


def test_a_hook_by_hand_changes_no_user(machine: Machine) -> None:
    """A hook that is run by hand refuses the option, because only the agent can change the user."""
    given = json.dumps({"id": "d1", "config": SH, "options": {"user": USER}})
    command = [str(BIN / "heat-config-hook"), "script"]
    done = subprocess.run(
        command,
        input=given,
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(30),
    )
    assert "only the agent can run as another user" in done.stdout + done.stderr


@pytest.mark.fault(
    3,
    "a script of another user ignores TERM, leaves its session and starts others, and times out",
    "none of its processes is left",
)
def test_a_timeout_ends_everything_of_that_user(machine: Machine, place: Path) -> None:
    """A timeout ends all processes of another user's run."""
    script = f"{SH}trap '' TERM\nsetsid sh -c 'trap \"\" TERM; sleep 600 & sleep 600' &\nsleep 600\n"
    assert (
        apply(
            machine, [theirs("d1", script, options={"timeout": 1})], "--grace", "0.5"
        ).code
        == 1
    )
    assert "it timed out after 1 s" in machine.agent("show", "d1").out
    assert machine.processes() == []
    assert list(place.iterdir()) == []


@pytest.mark.slow
@pytest.mark.fault(
    1,
    "kill -9 of the agent at transitions of a run of another user; and of the process that reports",
    "the report is true",
)
def test_a_run_of_another_user_outlives_the_agent(
    machine: Machine, place: Path, heat: SignalServer, tried: Callable[[int], None]
) -> None:
    """The next agent tells its result, also if there is none; no file of it is left."""
    for number, point in enumerate(
        ("runner.prepared", "runner.word", "runner.closed", "journal.finished.after")
    ):
        traps = Traps(machine.folder, (point, 1))
        script = f"{SH}echo ran; echo out >$heat_outputs_path.one\n"
        given = [
            theirs(f"d{number}", script, outputs=["one"], signal=heat.url(f"d{number}"))
        ]
        apply(machine, given, **traps.environment)
        assert not traps.left, point
        apply(machine, given)
        results = [
            json.loads(each.body) for each in heat.signals if f"/d{number}" in each.path
        ]
        wanted = {
            "deploy_stdout": "ran\n",
            "deploy_stderr": "",
            "deploy_status_code": 0,
            "one": "out\n",
        }
        assert results, point
        assert all(each == wanted for each in results), (point, results)
        assert list(place.iterdir()) == [], point
    agent = machine.start_apply(
        [theirs("d9", f"{SH}echo ran\nsleep 600\n")], "--config", str(machine.config)
    )
    wait_until(
        lambda: (
            "ran" in machine.agent("log", "d9").out
            if machine.status().get("d9")
            else False
        )
    )
    (program,) = [
        each
        for each in machine.processes()
        if "heat_config_agent.runs.resolution" in each.cmdline()
        and "python" in each.name()
    ]
    program.send_signal(signal.SIGKILL)
    agent.communicate(timeout=pace.seconds(30))
    assert machine.processes() == []
    assert (
        "the run has ended before it could report its result"
        in machine.agent("show", "d9").out
    )
    tried(5)


def test_a_setting_and_a_policy_say_who_runs_what(
    machine: Machine, place: Path
) -> None:
    """The setting counts for tools that can; with the rule, metadata cannot choose root."""
    governed = Governed(machine)
    assert machine.config is not None
    machine.config.write_text(f"[agent]\nuser = {USER}\nuser_dir = {place}\n")
    governed.policy(f"users = {USER}, daemon")
    given = [
        deployment("d1", f"{SH}id -un\n"),
        deployment("d2", f"{SH}id -un\n", options={"user": "daemon"}),
        deployment("d3", f"{SH}id -un\n", options={"user": "root"}),
        deployment("d4", {}, group="json-file"),
    ]
    config = str(machine.config)
    refused = f"refused by the rule users of {POLICY}: the user 'root' is not in it"
    plan = governed.apply(given, "--plan", "--config", config).out
    assert plan.count(refused) == 2, plan
    assert governed.apply(given, "--config", config).code == 1
    shown = [governed.agent("show", f"d{number}").out for number in range(1, 5)]
    assert "deploy_stdout: nobody" in shown[0]
    assert "deploy_stdout: daemon" in shown[1]
    assert all(refused in each for each in shown[2:])
