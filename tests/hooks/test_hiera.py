from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from support import pace
from support.driver import Driver
from support.machine import deployment
from support.observations import answer, mode
from support.tools import need

pytestmark = pytest.mark.slow

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
    """Return the folder of Puppet's configuration, on a machine without os-apply-config."""
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


def say(*command: str | Path) -> str:
    """Run a command that must succeed, and return its output."""
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
    """Return the values that the real puppet looks up in the data."""
    own = tmp_path / "puppet"
    notices = ", ".join(f"'{key}' => lookup('{key}')" for key in keys)
    own.mkdir(exist_ok=True)
    functions = own / "modules" / "shown" / "lib" / "puppet" / "functions"
    functions.mkdir(parents=True, exist_ok=True)
    (functions / "to_json.rb").write_text(
        "Puppet::Functions.create_function(:to_json) do\n  def to_json(value)\n    value.to_json\n  end\nend\n"
    )
    manifest = f"file {{ '{own}/found': content => to_json({{ {notices} }}) }}"
    folders = [
        f"--{each}={own}/{each}" for each in ("confdir", "vardir", "rundir", "logdir")
    ]
    config = [f"--hiera_config={etc}/hiera.yaml", f"--modulepath={own}/modules"]
    say(need("puppet", "puppet"), "apply", *folders, *config, "-e", manifest)
    found = json.loads((own / "found").read_text())
    assert isinstance(found, dict)
    return found


def test_hiera_reads_the_files_and_delete_removes_them(
    driver: Driver, etc: Path
) -> None:
    """The files have heat-agents' form, the same config changes nothing, and DELETE removes unchanged files."""
    hiera = need("hiera", "hiera")
    config = {
        "hierarchy": ["nodes/%{::host}", '"%{::host}"', "%{::role}", "compute"],
        "datafiles": {
            "compute": {"debug": True, "who": "compute"},
            "nodes/web": {"who": "web"},
            "db.1": {"who": 1},
        },
    }

    done = driver.run(data("1234", config))

    paths = [
        etc / "hieradata" / f"{name}.json" for name in ("compute", "nodes/web", "db.1")
    ] + [etc / "hiera.yaml"]
    assert answer(done) == (0, "", "")
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
    assert answer(done) == (0, "", "")
    assert [each.stat() for each in paths] == before

    done = driver.run(
        data("1236", {"datafiles": {"compute": {"debug": False}}}, action="UPDATE")
    )
    assert answer(done) == (0, "", "")
    assert [each.stat() for each in paths[1:]] == before[1:]
    assert say(hiera, "-c", paths[3], "debug") == "false"
    assert say(hiera, "-c", paths[3], "who", "::host=web") == "web"

    paths[2].write_text("{}")
    done = driver.run(data("1237", config, action="DELETE"))
    assert done["deploy_status_code"] == 0
    left = f"{paths[2]} is left alone: it was changed since it was written"
    assert sorted(done["deploy_stderr"].splitlines()) == sorted(
        [left, *(f"{each} was removed" for each in paths if each != paths[2])]
    )
    assert [each.exists() for each in paths] == [False, False, True, False]


@pytest.mark.parametrize("options", [{}, {"version": 5}])
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_puppet_reads_the_files(
    driver: Driver, etc: Path, tmp_path: Path, options: dict[str, object]
) -> None:
    """It reads the forms of Hiera 3 and Hiera 5, and the values have their types."""
    config = {
        "hierarchy": ["%{facts.kernel}", "nodes/none", "compute"],
        "datafiles": {"compute": DATA, "Linux": {"number": 4}},
    }
    assert driver.run(data("d1", config, options=options))["deploy_status_code"] == 0
    found = looked_up(etc, tmp_path, *(each for each in DATA if each != "nothing"))
    assert found == {
        **{name: value for name, value in DATA.items() if value is not None},
        "number": 4,
    }
    written = yaml.safe_load((etc / "hiera.yaml").read_text())
    assert ("version" in written) == bool(options)


def test_files_have_the_form_of_hiera_5(driver: Driver, etc: Path) -> None:
    """Quotes that a level needed in the other form are removed; the option may be text or a number."""
    config = {"hierarchy": ["compute", '"%{facts.x}"', "a: b #c"]}
    assert (
        driver.run(data("d1", config, options={"version": "5"}))["deploy_status_code"]
        == 0
    )
    assert yaml.safe_load((etc / "hiera.yaml").read_text()) == {
        "version": 5,
        "defaults": {"datadir": str(etc / "hieradata"), "data_hash": "json_data"},
        "hierarchy": [
            {"name": "compute", "path": "compute.json"},
            {"name": "%{facts.x}", "path": "%{facts.x}.json"},
            {"name": "a: b #c", "path": "a: b #c.json"},
        ],
    }
    assert (
        driver.run(data("d2", {"hierarchy": []}, options={"version": "5"}))[
            "deploy_status_code"
        ]
        == 0
    )
    assert yaml.safe_load((etc / "hiera.yaml").read_text())["hierarchy"] == []


def test_items_that_yaml_would_take_for_something_else_are_quoted(
    driver: Driver, etc: Path
) -> None:
    """YAML reads each level as the text that is in the config."""
    items = [
        "123",
        "true",
        "a: b",
        "a #b",
        "- x",
        "",
        "@x",
        "*x",
        "2026-11-20",
        "a\nb",
        " a",
        '"a" b',
        "ü🎉",
        "~",
    ]
    assert driver.run(data("d1", {"hierarchy": items}))["deploy_status_code"] == 0
    assert yaml.safe_load((etc / "hiera.yaml").read_text())[":hierarchy"] == items


@pytest.mark.parametrize(
    "config",
    [
        '{"hierarchy": ["x"], "datafiles": {"x": {"a": 1}}}',
        "hierarchy: [x]\ndatafiles:\n  x: {a: 1}\n",
    ],
)
def test_a_config_may_be_text(driver: Driver, etc: Path, config: str) -> None:
    """It may be JSON or YAML, also on DELETE."""
    assert driver.run(data("d1", config))["deploy_status_code"] == 0
    assert (etc / "hieradata" / "x.json").read_text() == '{\n    "a": 1\n}'
    assert "  - x\n" in (etc / "hiera.yaml").read_text()
    assert driver.run(data("d2", config, action="DELETE"))["deploy_status_code"] == 0
    assert [each for each in etc.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize("config", [None, "", " \n", {}, {"merge_behavior": "deeper"}])
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_nothing_to_write_is_done(driver: Driver, etc: Path, config: object) -> None:
    """The result says that nothing was written, or that there is nothing to remove."""
    says = "the config has neither hierarchy nor datafiles: nothing was written\n"
    assert answer(driver.run(data("d1", config))) == (0, "", says)
    assert answer(driver.run(data("d2", config, action="DELETE"))) == (
        0,
        "",
        "there is nothing to remove\n",
    )
    assert not etc.exists()


def test_ignored_keys_are_named(driver: Driver) -> None:
    """The deployment succeeds, as in heat-agents, which ignores such keys silently."""
    done = driver.run(
        data("d1", {"datafiles": {"x": 1}, "merge_behavior": "deeper", "datafile": {}})
    )
    said = "ignored keys of the config: datafile, merge_behavior\n"
    assert answer(done) == (0, "", said)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"config": {"datafiles": {"x": 1, "../x": 1}}},
            'config.datafiles["../x"]: expected a name that stays in the folder',
        ),
        (
            {"config": {"datafiles": {"x": 1, "a/../../x": 1}}},
            "expected a name that stays in the folder",
        ),
        (
            {"config": {"datafiles": {"x": 1, "/etc/x": 1}}},
            "expected a name that stays in the folder",
        ),
        (
            {"config": {"datafiles": {"x": 1, "a/": 1}}},
            "expected a name that stays in the folder",
        ),
        (
            {"config": {"datafiles": {"x": 1, "": 1}}},
            'config.datafiles[""]: expected a name that stays in the folder',
        ),
        (
            {"config": {"datafiles": {"x": 1, "a\0": 1}}},
            "expected a name that stays in the folder",
        ),
        (
            {"config": {"datafiles": {"x": 1, "a\ud800": 1}}},
            'config.datafiles["a\\ud800"]: it contains half of a surrogate pair',
        ),
        (
            {"config": {"datafiles": {"x": 1}, "hierarchy": ["\ud800"]}},
            "config.hierarchy: it contains half of a surrogate",
        ),
        ({"config": {"datafiles": ["x"]}}, "config.datafiles: expected an object"),
        (
            {"config": {"datafiles": {"x": 1}, "hierarchy": "x"}},
            "config.hierarchy: expected a list of texts",
        ),
        (
            {"config": {"datafiles": {"x": 1}, "hierarchy": ["x", 1]}},
            "config.hierarchy: expected a list of texts",
        ),
        ({"config": "a: [b"}, "config: it is not valid YAML: line 2, column 1: "),
        (
            {"config": "just text"},
            "config: expected an object with hierarchy and datafiles",
        ),
        ({"config": ["x"]}, "config: expected an object with hierarchy and datafiles"),
        ({"options": {"version": 4}}, "options.version: expected one of 3, 5, not 4"),
        (
            {"options": {"verison": 5}},
            "options.verison: hiera has no such option; did you mean version?",
        ),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_mistake_is_reported_and_nothing_is_written(
    driver: Driver, etc: Path, wrong: dict[str, Any], says: str
) -> None:
    """The message has its path. A DELETE with the same mistake succeeds, because nothing was written."""
    done = driver.run(data("d1", **{"config": {"datafiles": {"x": 1}}, **wrong}))
    assert done["deploy_status_code"] == 125
    assert says in done["deploy_stderr"]
    assert "Traceback" not in done["deploy_stderr"]
    assert not etc.exists()
    if "options" not in wrong:
        assert (
            driver.run(data("d2", **wrong, action="DELETE"))["deploy_status_code"] == 0
        )


def test_unwritable_file_and_untried_files_are_named(driver: Driver, etc: Path) -> None:
    """The reply names the file that cannot be written, and the files after it, which were not tried."""
    folder = etc / "hieradata" / "b.json"
    folder.mkdir(parents=True)
    done = driver.run(data("d1", {"hierarchy": ["a"], "datafiles": {"a": 1, "b": 2}}))
    says = (
        f"cannot write {folder}: a folder is in its place; "
        f"because of that, these were not written: {etc}/hiera.yaml\n"
    )
    assert answer(done) == (1, "", says)
    assert (etc / "hieradata" / "a.json").exists()


# With os-apply-config on the machine.


def os_apply_config(driver: Driver, tmp_path: Path, script: str) -> str:
    """Install a program called os-apply-config, first in the PATH, and return its command line."""
    program = tmp_path / "bin" / "os-apply-config"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    driver.environment["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    del driver.environment["HEAT_HIERA_ELEMENT_CHECK_CMD"]
    return f"{program} --key hiera.datafiles --type raw --key-default empty"


CONFIG: dict[str, Any] = {"hierarchy": ["x"], "datafiles": {"x": {"a": 1}}, "more": 1}


def test_where_os_apply_config_has_no_data_the_files_are_written(
    driver: Driver, etc: Path, tmp_path: Path
) -> None:
    """It is called as heat-agents calls it, but not on DELETE."""
    asked = tmp_path / "asked"
    os_apply_config(
        driver, tmp_path, f'echo "$@" >>{shlex.quote(str(asked))}; echo empty'
    )
    assert answer(driver.run(data("d1", CONFIG))) == (
        0,
        "",
        "ignored keys of the config: more\n",
    )
    assert [
        path.exists() for path in (etc / "hieradata" / "x.json", etc / "hiera.yaml")
    ] == [True, True]
    assert driver.run(data("d2", CONFIG, action="DELETE"))["deploy_status_code"] == 0
    assert asked.read_text() == "--key hiera.datafiles --type raw --key-default empty\n"


def test_data_of_os_apply_config_fails_the_deployment(
    driver: Driver, etc: Path, tmp_path: Path
) -> None:
    """The result has that data as text, and says what to do; nothing is written."""
    os_apply_config(driver, tmp_path, 'printf \'{"common": "\\377"}\'')
    done = driver.run(data("d1", CONFIG))
    assert (done["deploy_status_code"], done["deploy_stdout"]) == (
        1,
        '{"common": "\ufffd"}\n',
    )
    assert (
        "because os-apply-config has data for Hiera too (hiera.datafiles)"
        in done["deploy_stderr"]
    )
    assert not etc.exists()


def test_failing_os_apply_config_fails_the_deployment(
    driver: Driver, etc: Path, tmp_path: Path
) -> None:
    """It is unknown then whether its data would conflict."""
    command = os_apply_config(driver, tmp_path, "echo no metadata >&2; exit 3")
    says = f"no metadata\n«{command}» failed, so it is unknown whether os-apply-config has data for Hiera\n"
    assert answer(driver.run(data("d1", CONFIG))) == (1, "", says)
    assert not etc.exists()


def test_mistake_is_reported_before_os_apply_config_is_called(
    driver: Driver, etc: Path, tmp_path: Path
) -> None:
    """A mistake in the config is reported before os-apply-config is called."""
    os_apply_config(driver, tmp_path, "echo empty")
    (etc / "hiera.yaml").mkdir(parents=True)
    done = driver.run(data("d1", CONFIG))
    says = f"cannot write {etc}/hiera.yaml: a folder is in its place\nignored keys of the config: more\n"
    assert answer(done) == (1, "", says)
    says = f"cannot write {etc}/hiera.yaml: a folder is in its place\n"
    assert answer(driver.run(data("d2", {"hierarchy": []}))) == (1, "", says)
    assert (
        driver.run(data("d3", {"datafiles": {"../x": 1}}))["deploy_status_code"] == 125
    )


def test_an_os_apply_config_that_hangs_is_ended(
    driver: Driver, etc: Path, tmp_path: Path
) -> None:
    """The timeout ends it with its processes, and nothing is written."""
    os_apply_config(
        driver, tmp_path, f"exec tail -f {shlex.quote(str(tmp_path / 'followed'))}"
    )
    (tmp_path / "followed").touch()
    done = driver.run(data("d1", CONFIG, options={"timeout": 2}))
    assert done["deploy_status_code"] == 124
    assert "timed out after 2 s" in done["deploy_stderr"]
    assert not etc.exists()
    end = time.monotonic() + pace.seconds(20)
    while any(
        str(tmp_path / "followed") in words(each) for each in psutil.process_iter()
    ):
        assert time.monotonic() < end, "it still runs"
        time.sleep(0.1)


def words(process: psutil.Process) -> list[str]:
    """Return the words of a process's command line."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
