from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from driver import Driver
from machine import deployment
from tools import need

DATA: dict[str, Any] = {
    "text": 'ünï "quoted" 🎉\nand more',
    "number": 3,
    "float": 1.5,
    "yes": True,
    "nothing": None,
    "list": [1, "b"],
    "map": {"key": {"inner": "x"}},
}


@pytest.fixture(autouse=True)
def etc(driver: Driver, tmp_path: Path) -> Path:
    """The folder of Puppet's configuration, and no os-apply-config."""
    folder = tmp_path / "etc" / "puppet"
    driver.environment |= {
        "HEAT_HIERA_CONFIG": str(folder / "hiera.yaml"),
        "HEAT_PUPPET_HIERA_DATADIR": str(folder / "hieradata"),
        "HEAT_HIERA_ELEMENT_CHECK_CMD": "/opt/none/os-apply-config",
    }
    return folder


def data(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of data for Hiera."""
    return deployment(identity, config, group="hiera", **fields)


def mode(path: Path) -> int:
    """Return the permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


def answer(done: dict[str, Any]) -> tuple[int, str, str]:
    """Return a result's three parts."""
    return int(done["deploy_status_code"]), done["deploy_stdout"], done["deploy_stderr"]


def say(*command: str | Path) -> str:
    """Run a command that has to do well, and return what it says."""
    done = subprocess.run(
        [str(each) for each in command],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def looked_up(etc: Path, tmp_path: Path, *keys: str) -> dict[str, Any]:
    """Return what the real puppet finds in the data."""
    own = tmp_path / "puppet"
    notices = ", ".join(f"'{key}' => lookup('{key}')" for key in keys)
    own.mkdir(exist_ok=True)
    functions = own / "modules" / "shown" / "lib" / "puppet" / "functions"
    functions.mkdir(parents=True, exist_ok=True)
    (functions / "to_json.rb").write_text(
        "Puppet::Functions.create_function(:to_json) do\n  def to_json(value)\n    value.to_json\n  end\nend\n"
    )
    manifest = f"file {{ '{own}/found': content => to_json({{ {notices} }}) }}"
    folders = [f"--{each}={own}/{each}" for each in ("confdir", "vardir", "rundir", "logdir")]
    config = [f"--hiera_config={etc}/hiera.yaml", f"--modulepath={own}/modules"]
    say(need("puppet", "puppet"), "apply", *folders, *config, "-e", manifest)
    found = json.loads((own / "found").read_text())
    assert isinstance(found, dict)
    return found


def test_hiera_finds_what_is_written_and_nothing_of_it_is_left(driver: Driver, etc: Path) -> None:
    """In heat-agents' form, byte for byte; a second time nothing is changed; on DELETE all goes that nobody changed."""
    hiera = need("hiera", "hiera")
    config = {
        "hierarchy": ["nodes/%{::host}", '"%{::host}"', "%{::role}", "compute"],
        "datafiles": {"compute": {"debug": True, "who": "compute"}, "nodes/web": {"who": "web"}, "db.1": {"who": 1}},
    }

    done = driver.run(data("1234", config))

    paths = [etc / "hieradata" / f"{name}.json" for name in ("compute", "nodes/web", "db.1")] + [etc / "hiera.yaml"]
    assert answer(done) == (0, "".join(f"{each} written\n" for each in paths), "")
    assert paths[0].read_bytes() == b'{\n    "debug": true,\n    "who": "compute"\n}'
    assert (
        paths[3].read_text()
        == f"""
---
:backends:
  - json
:json:
  :datadir: {etc}/hieradata
:hierarchy:
  - nodes/%{{::host}}
  - "%{{::host}}"
  - "%{{::role}}"
  - compute
"""
    )
    assert {mode(each) for each in paths} == {0o600}
    assert {mode(each.parent) for each in paths} == {0o700}
    assert say(hiera, "-c", paths[3], "who") == "compute"
    assert say(hiera, "-c", paths[3], "who", "::host=web") == "web"
    assert say(hiera, "-c", paths[3], "who", "::host=db.1") == "1"
    assert say(hiera, "-c", paths[3], "debug", "::host=web") == "true"

    before = [each.stat() for each in paths]
    done = driver.run(data("1235", config))
    assert answer(done) == (0, "".join(f"{each} unchanged\n" for each in paths), "")
    assert [each.stat() for each in paths] == before

    done = driver.run(data("1236", {"datafiles": {"compute": {"debug": False}}}, action="UPDATE"))
    assert answer(done) == (0, f"{paths[0]} written\n", "")
    assert say(hiera, "-c", paths[3], "debug") == "false"
    assert say(hiera, "-c", paths[3], "who", "::host=web") == "web"

    paths[2].write_text("{}")
    done = driver.run(data("1237", config, action="DELETE"))
    assert done["deploy_status_code"] == 0
    left = f"{paths[2]} is left alone: it was changed since it was written"
    assert sorted(done["deploy_stdout"].splitlines()) == sorted(
        [left, *(f"{each} was removed" for each in paths if each != paths[2])]
    )
    assert [each.exists() for each in paths] == [False, False, True, False]


@pytest.mark.parametrize("options", [{}, {"version": 5}])
def test_puppet_finds_what_is_written(driver: Driver, etc: Path, tmp_path: Path, options: dict[str, object]) -> None:
    """In Hiera 3's form, which it still reads, and in Hiera 5's; values with their types."""
    config = {
        "hierarchy": ["%{facts.kernel}", "nodes/none", "compute"],
        "datafiles": {"compute": DATA, "Linux": {"number": 4}},
    }
    assert driver.run(data("d1", config, options=options))["deploy_status_code"] == 0
    found = looked_up(etc, tmp_path, *(each for each in DATA if each != "nothing"))
    assert found == {**{name: value for name, value in DATA.items() if value is not None}, "number": 4}
    written = yaml.safe_load((etc / "hiera.yaml").read_text())
    assert ("version" in written) == bool(options)


def test_the_form_of_hiera_5(driver: Driver, etc: Path) -> None:
    """Quotes that an item needed in the other form are none of its own; a text is as good as a number."""
    config = {"hierarchy": ["compute", '"%{facts.x}"', "a: b #c"]}
    assert driver.run(data("d1", config, options={"version": "5"}))["deploy_status_code"] == 0
    assert yaml.safe_load((etc / "hiera.yaml").read_text()) == {
        "version": 5,
        "defaults": {"datadir": str(etc / "hieradata"), "data_hash": "json_data"},
        "hierarchy": [
            {"name": "compute", "path": "compute.json"},
            {"name": "%{facts.x}", "path": "%{facts.x}.json"},
            {"name": "a: b #c", "path": "a: b #c.json"},
        ],
    }
    assert driver.run(data("d2", {"hierarchy": []}, options={"version": "5"}))["deploy_status_code"] == 0
    assert yaml.safe_load((etc / "hiera.yaml").read_text())["hierarchy"] == []


def test_items_that_yaml_would_take_for_something_else_are_quoted(driver: Driver, etc: Path) -> None:
    """Each is the text that it was in the config."""
    items = ["123", "true", "a: b", "a #b", "- x", "", "@x", "*x", "2026-11-20", "a\nb", " a", '"a" b', "ü🎉", "~"]
    assert driver.run(data("d1", {"hierarchy": items}))["deploy_status_code"] == 0
    assert yaml.safe_load((etc / "hiera.yaml").read_text())[":hierarchy"] == items


@pytest.mark.parametrize(
    "config", ['{"hierarchy": ["x"], "datafiles": {"x": {"a": 1}}}', "hierarchy: [x]\ndatafiles:\n  x: {a: 1}\n"]
)
def test_a_config_may_be_text(driver: Driver, etc: Path, config: str) -> None:
    """JSON or YAML; on DELETE, too."""
    assert driver.run(data("d1", config))["deploy_status_code"] == 0
    assert (etc / "hieradata" / "x.json").read_text() == '{\n    "a": 1\n}'
    assert "  - x\n" in (etc / "hiera.yaml").read_text()
    assert driver.run(data("d2", config, action="DELETE"))["deploy_status_code"] == 0
    assert [each for each in etc.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize("config", [None, "", " \n", {}, {"merge_behavior": "deeper"}])
def test_nothing_to_write_is_done(driver: Driver, etc: Path, config: object) -> None:
    """With a word about it; nor is there anything to remove."""
    says = "the config has neither hierarchy nor datafiles: nothing was written\n"
    assert answer(driver.run(data("d1", config))) == (0, "", says)
    assert answer(driver.run(data("d2", config, action="DELETE"))) == (0, "there is nothing to remove\n", "")
    assert not etc.exists()


def test_what_is_not_used_is_said(driver: Driver, etc: Path) -> None:
    """Of a config that may hold more: heat-agents passed over it without a word."""
    done = driver.run(data("d1", {"datafiles": {"x": 1}, "merge_behavior": "deeper", "datafile": {}}))
    said = "not used of the config: datafile, merge_behavior\n"
    assert answer(done) == (0, f"{etc}/hieradata/x.json written\n", said)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"config": {"datafiles": {"x": 1, "../x": 1}}},
            'config.datafiles["../x"]: the name of a datafile may not lead',
        ),
        ({"config": {"datafiles": {"x": 1, "a/../../x": 1}}}, "the name of a datafile may not lead elsewhere"),
        ({"config": {"datafiles": {"x": 1, "/etc/x": 1}}}, "the name of a datafile may not lead elsewhere"),
        ({"config": {"datafiles": {"x": 1, "a/": 1}}}, "the name of a datafile may not lead elsewhere"),
        ({"config": {"datafiles": {"x": 1, "": 1}}}, 'config.datafiles[""]: the name of a datafile may not lead'),
        ({"config": {"datafiles": {"x": 1, "a\0": 1}}}, "the name of a datafile may not lead elsewhere"),
        (
            {"config": {"datafiles": {"x": 1, "a\ud800": 1}}},
            'config.datafiles["a\\ud800"]: there is half of a character in it',
        ),
        ({"config": {"datafiles": {"x": 1}, "hierarchy": ["\ud800"]}}, "config.hierarchy: there is half of a char"),
        ({"config": {"datafiles": ["x"]}}, "config.datafiles: expected an object"),
        ({"config": {"datafiles": {"x": 1}, "hierarchy": "x"}}, "config.hierarchy: expected a list of texts"),
        ({"config": {"datafiles": {"x": 1}, "hierarchy": ["x", 1]}}, "config.hierarchy: expected a list of texts"),
        ({"config": "a: [b"}, "config: it is no YAML: line 2, column 1: "),
        ({"config": "just text"}, "config: expected an object with hierarchy and datafiles"),
        ({"config": ["x"]}, "config: expected an object with hierarchy and datafiles"),
        ({"options": {"version": 4}}, "options.version: expected one of 3, 5, not 4"),
        ({"options": {"verison": 5}}, "options.verison: hiera has no such option; did you mean version?"),
    ],
)
def test_a_mistake_is_said_and_nothing_is_written(driver: Driver, etc: Path, wrong: dict[str, Any], says: str) -> None:
    """In one sentence, with its place in the deployment; and what cannot have been written is no obstacle to DELETE."""
    done = driver.run(data("d1", **{"config": {"datafiles": {"x": 1}}, **wrong}))
    assert done["deploy_status_code"] == 125
    assert says in done["deploy_stderr"]
    assert "Traceback" not in done["deploy_stderr"]
    assert not etc.exists()
    if "options" not in wrong:
        assert driver.run(data("d2", **wrong, action="DELETE"))["deploy_status_code"] == 0


def test_what_stands_in_the_way_is_said(driver: Driver, etc: Path) -> None:
    """With the files that were written before it, and those that were not tried."""
    folder = etc / "hieradata" / "b.json"
    folder.mkdir(parents=True)
    done = driver.run(data("d1", {"hierarchy": ["a"], "datafiles": {"a": 1, "b": 2}}))
    says = f"cannot write {folder}: a folder is in its place; after that, these were not written: {etc}/hiera.yaml\n"
    assert answer(done) == (1, f"{etc}/hieradata/a.json written\n", says)


# With os-apply-config on the machine.


def os_apply_config(driver: Driver, tmp_path: Path, script: str) -> str:
    """Put a program called os-apply-config first in the PATH, and return how it is called."""
    program = tmp_path / "bin" / "os-apply-config"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    driver.environment["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    del driver.environment["HEAT_HIERA_ELEMENT_CHECK_CMD"]
    return f"{program} --key hiera.datafiles --type raw --key-default empty"


CONFIG: dict[str, Any] = {"hierarchy": ["x"], "datafiles": {"x": {"a": 1}}, "more": 1}


def test_where_os_apply_config_has_no_data_the_files_are_written(driver: Driver, etc: Path, tmp_path: Path) -> None:
    """It is asked as heat-agents asks it; on DELETE it is not asked."""
    asked = tmp_path / "asked"
    os_apply_config(driver, tmp_path, f'echo "$@" >>{shlex.quote(str(asked))}; echo empty')
    written = f"{etc}/hieradata/x.json written\n{etc}/hiera.yaml written\n"
    assert answer(driver.run(data("d1", CONFIG))) == (0, written, "not used of the config: more\n")
    assert driver.run(data("d2", CONFIG, action="DELETE"))["deploy_status_code"] == 0
    assert asked.read_text() == "--key hiera.datafiles --type raw --key-default empty\n"


def test_where_os_apply_config_has_data_it_has_failed(driver: Driver, etc: Path, tmp_path: Path) -> None:
    """With that data as text, and what to do; nothing is written."""
    os_apply_config(driver, tmp_path, 'printf \'{"common": "\\377"}\'')
    done = driver.run(data("d1", CONFIG))
    assert (done["deploy_status_code"], done["deploy_stdout"]) == (1, '{"common": "\ufffd"}\n')
    assert "os-apply-config has data for Hiera (hiera.datafiles)" in done["deploy_stderr"]
    assert not etc.exists()


def test_where_os_apply_config_cannot_say_it_has_failed(driver: Driver, etc: Path, tmp_path: Path) -> None:
    """Nobody knows then whether its data would be in the way."""
    command = os_apply_config(driver, tmp_path, "echo no metadata >&2; exit 3")
    says = f"no metadata\ncannot tell whether os-apply-config has data for Hiera: «{command}» failed\n"
    assert answer(driver.run(data("d1", CONFIG))) == (1, "", says)
    assert not etc.exists()


def test_what_cannot_be_written_is_said_after_asking_too(driver: Driver, etc: Path, tmp_path: Path) -> None:
    """A mistake before it, with nothing asked."""
    os_apply_config(driver, tmp_path, "echo empty")
    (etc / "hiera.yaml").mkdir(parents=True)
    done = driver.run(data("d1", CONFIG))
    says = f"cannot write {etc}/hiera.yaml: a folder is in its place\nnot used of the config: more\n"
    assert answer(done) == (1, f"{etc}/hieradata/x.json written\n", says)
    says = f"cannot write {etc}/hiera.yaml: a folder is in its place\n"
    assert answer(driver.run(data("d2", {"hierarchy": []}))) == (1, "", says)
    assert driver.run(data("d3", {"datafiles": {"../x": 1}}))["deploy_status_code"] == 125


def test_an_os_apply_config_that_hangs_is_ended(driver: Driver, etc: Path, tmp_path: Path) -> None:
    """When the time is over; nothing of it is left, and nothing is written."""
    os_apply_config(driver, tmp_path, f"exec tail -f {shlex.quote(str(tmp_path / 'followed'))}")
    (tmp_path / "followed").touch()
    done = driver.run(data("d1", CONFIG, options={"timeout": 2}))
    assert done["deploy_status_code"] == 124
    assert "time limit of 2 s was over" in done["deploy_stderr"]
    assert not etc.exists()
    end = time.monotonic() + 20
    while any(str(tmp_path / "followed") in words(each) for each in psutil.process_iter()):
        assert time.monotonic() < end, "it still runs"
        time.sleep(0.1)


def words(process: psutil.Process) -> list[str]:
    """Return the words of a process's command line."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
