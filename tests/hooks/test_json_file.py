from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver import Driver
from machine import deployment
from tools import need_root

DATA: dict[str, Any] = {
    "z": 'ünï "quoted" 🎉\nand more',
    "a": {"number": 3, "float": 1.5, "yes": True, "nothing": None},
    "list": [1, [], {}],
}

TEXT = r"""{
    "a": {
        "float": 1.5,
        "nothing": null,
        "number": 3,
        "yes": true
    },
    "list": [
        1,
        [],
        {}
    ],
    "z": "\u00fcn\u00ef \"quoted\" \ud83c\udf89\nand more"
}"""


def data(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of files."""
    return deployment(identity, config, group="json-file", **fields)


def of_resource(name: str) -> dict[str, str]:
    """Return the inputs by which Heat says which resource a deployment is of."""
    return {"deploy_stack_id": "stack/1", "deploy_resource_name": name}


def mode(path: Path) -> int:
    """Return the permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


def answer(done: dict[str, Any]) -> tuple[int, str, str]:
    """Return a result's three parts."""
    return int(done["deploy_status_code"]), done["deploy_stdout"], done["deploy_stderr"]


def test_files_are_written_changed_and_removed(driver: Driver, tmp_path: Path) -> None:
    """In heat-agents' form, byte for byte, for nobody else; a second time nothing is changed; DELETE leaves nothing."""
    one, two, three = (tmp_path / "etc" / "app" / f"{each}.json" for each in ("1", "2", "3"))
    inputs = of_resource("files")

    done = driver.run(data("1234", {str(one): DATA, str(two): ["bar", "bar2"]}, inputs=inputs))
    assert answer(done) == (0, f"{one} written\n{two} written\n", "")
    assert one.read_bytes() == TEXT.encode()
    assert two.read_bytes() == b'[\n    "bar",\n    "bar2"\n]'
    assert [mode(each) for each in (one, two, one.parent, one.parent.parent)] == [0o600, 0o600, 0o700, 0o700]

    before = one.stat()
    done = driver.run(data("1235", {str(one): DATA, str(two): ["bar", "bar2"]}, inputs=inputs))
    assert answer(done) == (0, f"{one} unchanged\n{two} unchanged\n", "")
    assert one.stat() == before

    config = {str(one): "changed", str(three): None}
    done = driver.run(data("1236", config, inputs=inputs, action="UPDATE", options={"mode": "0644"}))
    assert answer(done) == (0, f"{one} written\n{three} written\n", "")
    assert [each.read_text() for each in (one, two, three)] == ['"changed"', '[\n    "bar",\n    "bar2"\n]', "null"]
    assert [mode(each) for each in (one, two, three)] == [0o644, 0o600, 0o644]

    three.write_text("my own")
    done = driver.run(data("1237", config, inputs=inputs, action="DELETE"))
    said = f"{one} was removed\n{two} was removed\n{three} is left alone: it was changed since it was written\n"
    assert answer(done) == (0, said, "")
    assert os.listdir(one.parent) == ["3.json"]
    assert three.read_text() == "my own"

    done = driver.run(data("1238", config, inputs=inputs, action="DELETE"))
    said = f"{one} is not there\n{three} is left alone: it was changed since it was written\n"
    assert answer(done) == (0, said, "")


def test_where_no_resource_is_named_delete_removes_what_its_config_names(driver: Driver, tmp_path: Path) -> None:
    """A deployment in a file of one's own has a new name for each action; what it never wrote stays."""
    path, other = tmp_path / "a.json", tmp_path / "b.json"
    other.write_text("{}")
    driver.run(data("d1", {str(path): {}}))
    done = driver.run(data("d2", {str(path): {"a": 1}, str(other): {}}, action="DELETE"))
    assert answer(done) == (0, f"{path} was removed\n{other} is left alone: it was not written here\n", "")
    assert os.path.lexists(other)


def test_a_file_that_two_deployments_have_goes_with_the_second(driver: Driver, tmp_path: Path) -> None:
    """Whichever of them wrote it last: the other one may live, and need it."""
    path = tmp_path / "a.json"
    one, two = of_resource("first"), of_resource("second")
    driver.run(data("d1", {str(path): 1}, inputs=one))
    driver.run(data("d2", {str(path): 2}, inputs=two))
    done = driver.run(data("d3", {str(path): 2}, inputs=two, action="DELETE"))
    assert answer(done) == (0, f"{path} is left alone: another deployment has it too\n", "")
    assert path.read_text() == "2"
    done = driver.run(data("d4", {str(path): 1}, inputs=one, action="DELETE"))
    assert answer(done) == (0, f"{path} was removed\n", "")


def test_who_owns_a_file_goes_on_to_own_it(driver: Driver, tmp_path: Path) -> None:
    """One that heat-agents has written, and that was given to a program; its mode is what the option says."""
    need_root()
    path = tmp_path / "a.json"
    path.write_text("{}")
    path.chmod(0o644)
    os.chown(path, 65534, 65533)
    driver.run(data("d1", {str(path): 1}))
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (65534, 65533, 0o600)


def test_a_config_may_be_json_text(driver: Driver, tmp_path: Path) -> None:
    """On DELETE, too."""
    path = tmp_path / "a.json"
    config = json.dumps({str(path): DATA})
    assert driver.run(data("d1", config))["deploy_status_code"] == 0
    assert path.read_bytes() == TEXT.encode()
    assert driver.run(data("d2", config, action="DELETE"))["deploy_stdout"] == f"{path} was removed\n"


@pytest.mark.parametrize("config", [None, "", " \n", {}, "{}"])
def test_nothing_to_write_is_done(driver: Driver, config: object) -> None:
    """With a word about it; nor is there anything to remove."""
    assert answer(driver.run(data("d1", config))) == (0, "", "the config is empty: nothing was written\n")
    assert answer(driver.run(data("d2", config, action="DELETE"))) == (0, "there is nothing to remove\n", "")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"config": {"@/a.json": 1, "b.json": 2}}, 'config["b.json"]: the name of a file has to be its whole path'),
        ({"config": {"@/a.json": 1, "": 2}}, 'config[""]: the name of a file has to be its whole path'),
        ({"config": {"@/a.json": 1, "@/b/": 2}}, 'b/"]: the name of a file has to be its whole path'),
        ({"config": {"@/a.json": 1, "@/b\0": 2}}, "the name of a file has to be its whole path"),
        ({"config": {"@/a.json": 1, "@/\ud800": 2}}, '\\ud800"]: there is half of a character in it'),
        ({"config": {"@/a.json": 1, "@//a.json": 2}}, "a.json is named twice"),
        ({"config": '{"@/a.json": 1,'}, "config: expected an object, or the JSON text of one: "),
        ({"config": "@/a.json"}, "config: expected an object, or the JSON text of one: "),
        ({"config": '{"@/a.json": NaN}'}, "NaN is no number in JSON"),
        ({"config": ["@/a.json"]}, "config: expected an object: the path of each file, and its data"),
        ({"options": {"mode": "rw"}}, "options.mode: expected permissions in octal, e.g. \"0644\", not 'rw'"),
        ({"options": {"mode": "1777"}}, "options.mode: expected permissions in octal"),
        ({"options": {"mode": 420}}, "options.mode: expected text, not 420"),
        ({"options": {"modus": "0644"}}, "options.modus: json-file has no such option; did you mean mode?"),
    ],
)
def test_a_mistake_is_said_and_nothing_is_written(
    driver: Driver, tmp_path: Path, wrong: dict[str, Any], says: str
) -> None:
    """In one sentence, with its place in the deployment; and what cannot have been written is no obstacle to DELETE."""
    folder = tmp_path / "here"
    folder.mkdir()
    fields = json.loads(json.dumps({"config": {"@/a.json": 1}, **wrong}).replace("@", str(folder)))
    done = driver.run(data("d1", **fields))
    assert done["deploy_status_code"] == 125
    assert says in done["deploy_stderr"]
    assert "Traceback" not in done["deploy_stderr"]
    assert os.listdir(folder) == []
    if "options" not in wrong:
        assert driver.run(data("d2", **fields, action="DELETE"))["deploy_status_code"] == 0


def test_what_stands_in_the_way_is_said(driver: Driver, tmp_path: Path) -> None:
    """With the files that were written before it, and those that were not tried."""
    one, folder, three = (tmp_path / each for each in ("1.json", "2.json", "3.json"))
    folder.mkdir()
    done = driver.run(data("d1", {str(one): 1, str(folder): 2, str(three): 3}))
    says = f"cannot write {folder}: a folder is in its place; after that, these were not written: {three}\n"
    assert answer(done) == (1, f"{one} written\n", says)
    done = driver.run(data("d2", {str(one): 1, str(folder): 2}, action="DELETE"))
    assert answer(done)[0] == 0
    assert folder.is_dir()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system: run the tests as root")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"tmpfs cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_takes_no_file_fails_the_deployment(driver: Driver, disk: Path) -> None:
    """At once, with the reason: its author or the machine's owner has to do something. What was there stays."""
    small, large = disk / "small.json", disk / "large.json"
    assert answer(driver.run(data("d1", {str(small): 1, str(large): 2})))[0] == 0
    done = driver.run(data("d2", {str(small): 3, str(large): "x" * 100_000}))
    assert answer(done) == (1, f"{small} written\n", f"cannot write {large}: No space left on device\n")
    assert sorted((each.name, each.read_text()) for each in disk.iterdir()) == [
        ("large.json", "2"),
        ("small.json", "3"),
    ]
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    done = driver.run(data("d3", {str(large): 3}))
    assert done["deploy_status_code"] == 1
    assert f"cannot write {large}: Read-only file system" in done["deploy_stderr"]
    done = driver.run(data("d4", {str(large): 2}, action="DELETE"))
    assert done["deploy_status_code"] == 1
    assert f"cannot remove {large}: Read-only file system" in done["deploy_stderr"]
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    done = driver.run(data("d5", {str(large): 2}, action="DELETE"))
    assert answer(done) == (0, f"{large} was removed\n", "")


def test_what_it_has_written_is_kept_in_its_working_folder(driver: Driver, tmp_path: Path) -> None:
    """Or where the variable says; without the data, which may be secret."""
    path = tmp_path / "a.json"
    driver.run(data("d1", {str(path): "hunter2-hunter2"}))
    (note,) = (driver.working("json-file") / "written").iterdir()
    assert "hunter2" not in note.read_text()
    assert (mode(note), mode(note.parent)) == (0o600, 0o700)
    driver.environment["HEAT_JSON_FILE_WORKING"] = str(tmp_path / "elsewhere")
    done = driver.run(data("d2", {str(path): 1}, action="DELETE"))
    assert answer(done) == (0, f"{path} is left alone: it was not written here\n", "")
