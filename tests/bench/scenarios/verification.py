"""Verification: the same files, in effect and drifted, beside dry runs of other tools; and a thousand deployments."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import measure, work
from bench.scenario import OURS, Figure, Goal, LackingError, Sample, Scenario, Subject

FILES = 20
"""The number of files of the comparison; of those that have drifted, every second one."""

KNOWN = 1000
"""The number of deployments that are all in effect."""

_SALT = Path(__file__).parents[3] / ".venv/salt/bin/salt-call"

_Verify = Callable[[], tuple[measure.Took, int]]
"""A verification: what it took, and how many differences it reported."""


def _paths(folder: Path, count: int = FILES) -> list[Path]:
    return [folder / f"file-{number}" for number in range(count)]


def _text(number: int) -> str:
    return f"number = {number}\nport = 80\n"


def _program(name: str, package: str) -> str:
    """Return the path of a program. Raises LackingError."""
    path = shutil.which(name)
    if path is None:
        raise LackingError(
            f"there is no {name}; install it with «apt install {package}»"
        )
    return path


def _run(
    argv: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str],
    codes: tuple[int, ...],
) -> tuple[measure.Took, str]:
    """Run a verification; return what it took, and what it printed."""
    with (folder / "output").open("w+b") as output:
        took = measure.run(
            argv, env=environment, cwd=folder, output=output, codes=codes
        )
        output.seek(0)
        return took, output.read().decode()


class _Agent(work.Ours):
    """`heat-config-agent verify` on the deployments that `apply` has applied."""

    def verify(self) -> tuple[measure.Took, int]:
        """Verify; return also how many differences it reports."""
        argv = (
            Path(sys.executable).with_name("heat-config-agent"),
            *("verify", "--json", "--state-dir", self.state),
        )
        took, said = _run(argv, self.folder, self.environment, (0, 9))
        rows = json.loads(said)["data"]["deployments"]
        assert {row["state"] for row in rows} <= {"ok", "drifted"}, said[:1000]
        return took, sum(len(row["changes"]) + row["left_out"] for row in rows)


def _agent(folder: Path, files: Path, group: str, config: object) -> _Verify:
    """Apply one deployment, and return its verification."""
    ours = _Agent(folder)
    # ansible is installed beside the agent
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ours.environment["PATH"] = path
    [given] = work.deployments(1, group=group)
    ours.write([{**given, "config": config}])
    ours.apply()
    assert len(list(files.iterdir())) == FILES, f"{group} has not written its files"
    return ours.verify


def _json_file(folder: Path, files: Path) -> _Verify:
    config = {
        str(path): {"number": number, "port": 80}
        for number, path in enumerate(_paths(files))
    }
    return _agent(folder, files, "json-file", config)


def _playbook(files: Path) -> list[dict[str, Any]]:
    tasks = [
        {"copy": {"dest": str(path), "content": _text(number), "mode": "0644"}}
        for number, path in enumerate(_paths(files))
    ]
    variables = {"ansible_python_interpreter": sys.executable}
    return [
        {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": variables,
            "tasks": tasks,
        }
    ]


def _by_ansible(folder: Path, files: Path) -> _Verify:
    return _agent(folder, files, "ansible", json.dumps(_playbook(files)))


def _ansible(folder: Path, files: Path) -> _Verify:
    playbook = folder / "playbook.json"
    playbook.write_text(json.dumps(_playbook(files)))
    program = Path(sys.executable).with_name("ansible-playbook")
    argv = (program, "-i", "localhost,", playbook)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    measure.run(argv, env=environment, cwd=folder)

    def verify() -> tuple[measure.Took, int]:
        took, said = _run((*argv, "--check", "--diff"), folder, environment, (0,))
        match = re.search(r"changed=(\d+)", said)
        assert match, said[-1000:]
        return took, int(match[1])

    return verify


def _puppet(folder: Path, files: Path) -> _Verify:
    manifest = folder / "site.pp"
    manifest.write_text(
        "".join(
            f"file {{ '{path}': content => \"number = {number}\\nport = 80\\n\", mode => '0644' }}\n"
            for number, path in enumerate(_paths(files))
        )
    )
    own: list[str] = [
        word
        for name in ("confdir", "vardir", "rundir", "logdir")
        for word in (f"--{name}", str(folder / name))
    ]
    puppet = _program("puppet", "puppet")
    argv: tuple[str | Path, ...] = (puppet, "apply", *own, "--color", "false", manifest)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    measure.run(argv, env=environment, cwd=folder)

    def verify() -> tuple[measure.Took, int]:
        took, said = _run((*argv, "--noop", "--show_diff"), folder, environment, (0,))
        return took, len(re.findall(r"^Notice: /Stage.*\(noop\)$", said, re.MULTILINE))

    return verify


def _salt(folder: Path, files: Path) -> _Verify:
    if not _SALT.exists():
        raise LackingError("there is no salt-call; «make test-all» installs it")
    states = {
        str(path): {"file.managed": [{"contents": _text(number)}, {"mode": "0644"}]}
        for number, path in enumerate(_paths(files))
    }
    (folder / "states").mkdir()
    (folder / "states/site.sls").write_text(json.dumps(states))
    settings = {"id": "bench", "root_dir": str(folder), "file_client": "local"}
    (folder / "minion").write_text(json.dumps(settings))
    argv: tuple[str | Path, ...] = (
        *(_SALT, "--local", f"--config-dir={folder}"),
        f"--file-root={folder}/states",
        *("--out=json", "--log-level=quiet", "state.apply", "site"),
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    environment["PYTHONWARNINGS"] = "ignore"
    measure.run(argv, env=environment, cwd=folder)

    def verify() -> tuple[measure.Took, int]:
        took, said = _run((*argv, "test=True"), folder, environment, (0,))
        returned = json.loads(said[said.index("{") :])["local"]
        return took, sum(each["result"] is None for each in returned.values())

    return verify


_SUBJECTS: Mapping[str, Callable[[Path, Path], _Verify]] = {
    OURS: _json_file,
    "ours, by ansible": _by_ansible,
    "ansible-playbook --check": _ansible,
    "puppet apply --noop": _puppet,
    "salt-call test=True": _salt,
}


@contextlib.contextmanager
def _files(folder: Path, *, drifted: bool) -> Iterator[list[Subject]]:
    """Apply the same files with all tools, and change every second one if they are to have drifted."""
    subjects = []
    for number, (name, prepare) in enumerate(_SUBJECTS.items()):
        own, files = folder / f"subject-{number}", folder / f"files-{number}"
        own.mkdir()
        files.mkdir()
        verify = prepare(own, files)
        paths = _paths(files)[::2] if drifted else []
        for path in paths:
            path.write_text(path.read_text().replace("80", "81"))

        def sample(verify: _Verify = verify, expected: int = len(paths)) -> Sample:
            took, differences = verify()
            assert differences == expected, f"{differences} differences"
            return {"cpu": took.cpu, "wall": took.wall, "differences": differences}

        subjects.append(Subject(name, sample))
    yield subjects


@contextlib.contextmanager
def _thousand(folder: Path) -> Iterator[list[Subject]]:
    """Verify many deployments with one file each, of which none has changed since the last verification."""
    ours = _Agent(folder / "ours")
    given = work.deployments(KNOWN, group="json-file")
    files = _paths(folder / "files", KNOWN)
    ours.write(
        [
            {**one, "config": {str(path): {"number": number}}}
            for number, (one, path) in enumerate(zip(given, files, strict=True))
        ]
    )
    ours.apply()
    time.sleep(1.1)  # files that have just changed would be read every time
    ours.verify()

    def sample() -> Sample:
        took, differences = ours.verify()
        assert not differences
        return {"cpu": took.cpu, "wall": took.wall}

    yield [Subject(OURS, sample)]


_COST = (Figure("cpu", "processor time", "s"), Figure("wall", "wall time", "s"))

_NOTE = (
    f"{FILES} files of two lines. The first is one deployment with `json-file`, the second one with `ansible` and the "
    "playbook of `ansible-playbook`; the others are the tools alone. Facts of ansible are not gathered. A difference "
    "is a file: the agent and the tools have to report the same number, or nothing is recorded."
)


def _compared(name: str, title: str, *, drifted: bool) -> Scenario:
    return Scenario(
        name,
        title,
        (*_COST, Figure("differences", "differences that are reported", "")),
        functools.partial(_files, drifted=drifted),
        (
            Goal("cpu", "ansible-playbook --check", 0.2),
            Goal("cpu", "puppet apply --noop", 0.2),
            Goal("cpu", "salt-call test=True", 0.2),
        ),
        rounds=5,
        seconds=150,
        long=True,
        note=_NOTE,
    )


SCENARIOS: tuple[Scenario, ...] = (
    _compared(
        "verify-in-effect",
        f"{FILES} files that are as they were written are verified",
        drifted=False,
    ),
    _compared(
        "verify-drifted",
        f"{FILES} files are verified, of which {FILES // 2} were changed behind the tool's back",
        drifted=True,
    ),
    Scenario(
        "verify-1000",
        f"{KNOWN:,} deployments with a file each are verified, of which none has changed",
        _COST,
        _thousand,
        (
            Goal(
                "cpu",
                "",
                0.15,
                "It was measured on a busy machine, where its runs took from 149 to 234 ms: it is not yet established, "
                "and has to be measured again on a quiet one.",
            ),
        ),
        rounds=11,
        seconds=90,
        long=True,
        note="The whole command, with the start of Python and `--json`.",
    ),
)
