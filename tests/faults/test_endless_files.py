"""Files that are named, and are pipes, devices or larger than anybody means: read once, up to a size, for a while."""

from __future__ import annotations

import argparse
import errno
import os
import subprocess
import threading
from pathlib import Path

import pytest

from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.settings import layers
from heat_config_agent.sources.cloud.config_drive import ConfigDrive
from heat_config_agent.sources.file import File, ShellConfig
from heat_config_hooks import files
from heat_config_stack.cli import template_options
from heat_config_stack.definition import files as named_files
from heat_config_stack.hot import reader
from support import endings, pace
from support.machine import BIN, Machine, deployment

pytestmark = pytest.mark.takes(20)

fault = pytest.mark.fault

TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  v: {type: OS::Heat::Value, properties: {value: {get_file: NAME}}}
outputs:
  v: {value: {get_attr: [v, value]}}
"""


def pipe(path: Path, content: str | None = None) -> Path:
    """Make a pipe; what is to be in it is written as soon as somebody reads, and then never again."""
    os.mkfifo(path)
    if content is not None:
        threading.Thread(target=lambda: path.write_text(content), daemon=True).start()
    return path


@fault(
    3,
    "a document that is a pipe, and no YAML",
    "it is read once, and the sentence says what is wrong with it",
)
def test_a_pipe_is_read_once(machine: Machine) -> None:
    """The content of a pipe is read once, because it cannot be read again."""
    done = machine.apply(pipe(machine.folder / "f", "bad: [\n"), seconds=30)
    assert done.code == 2
    assert done.err.startswith(f"{machine.folder}/f:2:1: error: it is not YAML: ")


def test_documents_and_templates_may_come_out_of_pipes(machine: Machine) -> None:
    """Documents, templates and the files that they name may be pipes, as from the shell's <(…)."""
    done = machine.apply(
        pipe(
            machine.folder / "d",
            '[{"id": "a", "group": "script", "config": "#!/bin/sh\\n"}]',
        )
    )
    assert (done.code, done.err) == (0, "")
    pipe(machine.folder / "content", "Hello")
    done = machine.apply(
        pipe(machine.folder / "t.yaml", TEMPLATE.replace("NAME", "content"))
    )
    assert done.code == 0, done.err
    assert "v = Hello" in done.out


@fault(
    3,
    "a document or standard input without end",
    "a sentence that names it and the limit, after 64 MiB",
)
def test_endless_file_is_refused(machine: Machine) -> None:
    """With little more memory than the limit."""
    done = machine.apply(Path("/dev/zero"))
    assert (done.code, done.err) == (
        2,
        "error: cannot read /dev/zero: it is longer than 64 MiB\n",
    )
    with endings.ended(subprocess.Popen(["yes"], stdout=subprocess.PIPE)) as yes:
        command = [
            str(BIN / "heat-config-apply"),
            "-",
            "--state-dir",
            str(machine.state),
        ]
        ended = subprocess.run(
            command,
            stdin=yes.stdout,
            capture_output=True,
            text=True,
            timeout=pace.seconds(60),
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (
        3,
        "error: cannot read standard input: it is longer than 64 MiB\n",
    )


def parameter_file(path: Path) -> object:
    """Read the value of a parameter."""
    return template_options.parameters(
        argparse.Namespace(parameter=[], parameter_file=[f"p={path}"])
    )


READERS = {
    "document": lambda path: File(path).collect(),
    "heat-agents' document": lambda path: ShellConfig(path).collect(),
    "template": lambda path: named_files.needed(str(path)),
    "parameter": parameter_file,
    "settings": layers.file,
}


@fault(
    3,
    "a document, a template, an environment, a parameter's file or settings that are a pipe without a writer",
    "a sentence that names it, once its time is over",
)
@pytest.mark.parametrize("what", READERS)
def test_a_pipe_without_an_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A pipe is given up if nothing comes, or if the end does not come."""
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    silent = pipe(tmp_path / "silent")
    with pytest.raises(
        (SourceError, UsageError),
        match=r"silent.*: it is a pipe or a device that has not ended",
    ):
        READERS[what](silent)
    held = pipe(tmp_path / "held")
    writer = os.open(held, os.O_RDWR)
    try:
        os.write(writer, b"x")
        with pytest.raises(
            (SourceError, UsageError), match=r"held.*has not ended after 0.05 s"
        ):
            READERS[what](held)
    finally:
        os.close(writer)


@pytest.mark.parametrize("what", READERS)
def test_a_file_that_is_too_long_is_refused(tmp_path: Path, what: str) -> None:
    """A file of a terabyte takes no terabyte of memory."""
    path = tmp_path / "long"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(
        (SourceError, UsageError), match=r"long.*: it is longer than 64 MiB"
    ):
        READERS[what](path)


def test_files_of_a_template_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many files that are each short enough may be too much."""
    monkeypatch.setattr(named_files, "LARGEST", 2000)
    for name in "abc":
        (tmp_path / name).write_text("x" * 900)
    path = tmp_path / "t.yaml"
    path.write_text(
        "heat_template_version: 2018-08-31\na: {get_file: a}\nb: {get_file: b}\nc: {get_file: c}\n"
    )
    source, missing = reader.read(str(path), [], {})
    assert [str(each.place) for each in missing] == [f"{path}:4:5"]
    assert "files that templates and environments name" in missing[0].problem
    assert len(source.files) == 2


@fault(
    3, "a config drive with a pipe in the place of a file", "a sentence that names it"
)
def test_pipe_on_a_config_drive_is_not_read(tmp_path: Path) -> None:
    """A pipe without a writer on a config drive is not a file."""
    folder = tmp_path / "openstack" / "latest"
    folder.mkdir(parents=True)
    pipe(folder / "user_data")
    source = ConfigDrive({"path": str(tmp_path)}, None)  # type: ignore[arg-type]  # it looks at none of it
    with pytest.raises(SourceError, match=r"user_data: it is not a regular file"):
        source.collect()


def test_a_hook_by_itself_refuses_input_without_end() -> None:
    """A hook that is run alone refuses endless input."""
    with endings.ended(subprocess.Popen(["yes"], stdout=subprocess.PIPE)) as yes:
        command = [str(BIN / "heat-config-hook"), "script"]
        ended = subprocess.run(
            command,
            stdin=yes.stdout,
            capture_output=True,
            text=True,
            timeout=pace.seconds(60),
            check=False,
        )
    assert ended.returncode == 1
    assert (
        ended.stderr == "error: cannot read standard input: it is longer than 64 MiB\n"
    )


def test_a_pipe_in_the_place_of_a_hook_holds_nobody_up(machine: Machine) -> None:
    """A pipe in the place of a hook is examined without waiting."""
    machine.hooks.mkdir()
    os.mkfifo(machine.hooks / "own", 0o755)
    done = machine.apply(
        [deployment("a", "", group="own"), deployment("b")], seconds=30
    )
    assert "s: 1 ok, 1 failed\n" in done.out


def test_folder_is_called_a_folder(tmp_path: Path) -> None:
    """Reading it is no different from before."""
    with pytest.raises(OSError, match=r"directory") as found:
        files.take(tmp_path)
    assert found.value.errno == errno.EISDIR
