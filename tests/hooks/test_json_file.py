from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver import Driver
from support.machine import deployment
from support.observations import answer, mode
from support.tools import need_root

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
    """Return the inputs with which Heat names the resource of a deployment."""
    return {"deploy_stack_id": "stack/1", "deploy_resource_name": name}


def test_files_are_written_changed_and_removed(driver: Driver, tmp_path: Path) -> None:
    """The files have heat-agents' form and are private; the same config changes nothing; DELETE removes them."""
    one, two, three = (
        tmp_path / "etc" / "app" / f"{each}.json" for each in ("1", "2", "3")
    )
    inputs = of_resource("files")

    done = driver.run(
        data("1234", {str(one): DATA, str(two): ["bar", "bar2"]}, inputs=inputs)
    )
    assert answer(done) == (0, "", "")
    assert one.read_bytes() == TEXT.encode()
    assert two.read_bytes() == b'[\n    "bar",\n    "bar2"\n]'
    assert [mode(each) for each in (one, two, one.parent, one.parent.parent)] == [
        0o600,
        0o600,
        0o700,
        0o700,
    ]

    before = one.stat()
    done = driver.run(
        data("1235", {str(one): DATA, str(two): ["bar", "bar2"]}, inputs=inputs)
    )
    assert answer(done) == (0, "", "")
    assert one.stat() == before

    config = {str(one): "changed", str(three): None}
    done = driver.run(
        data("1236", config, inputs=inputs, action="UPDATE", options={"mode": "0644"})
    )
    assert answer(done) == (0, "", "")
    assert [each.read_text() for each in (one, two, three)] == [
        '"changed"',
        '[\n    "bar",\n    "bar2"\n]',
        "null",
    ]
    assert [mode(each) for each in (one, two, three)] == [0o644, 0o600, 0o644]

    three.write_text("my own")
    done = driver.run(data("1237", config, inputs=inputs, action="DELETE"))
    said = f"{one} was removed\n{two} was removed\n{three} is left alone: it was changed since it was written\n"
    assert answer(done) == (0, "", said)
    assert os.listdir(one.parent) == ["3.json"]
    assert three.read_text() == "my own"

    done = driver.run(data("1238", config, inputs=inputs, action="DELETE"))
    said = f"{one} does not exist\n{three} is left alone: it was changed since it was written\n"
    assert answer(done) == (0, "", said)


def test_where_no_resource_is_named_delete_removes_what_its_config_names(
    driver: Driver, tmp_path: Path
) -> None:
    """In a local file, each action may have its own name; files that were never written stay."""
    path, other = tmp_path / "a.json", tmp_path / "b.json"
    other.write_text("{}")
    driver.run(data("d1", {str(path): {}}))
    done = driver.run(
        data("d2", {str(path): {"a": 1}, str(other): {}}, action="DELETE")
    )
    assert answer(done) == (
        0,
        "",
        f"{path} was removed\n{other} is left alone: it was not written here\n",
    )
    assert os.path.lexists(other)


def test_a_file_that_two_deployments_have_goes_with_the_second(
    driver: Driver, tmp_path: Path
) -> None:
    """The first DELETE leaves it, because the other deployment may need it."""
    path = tmp_path / "a.json"
    one, two = of_resource("first"), of_resource("second")
    driver.run(data("d1", {str(path): 1}, inputs=one))
    driver.run(data("d2", {str(path): 2}, inputs=two))
    done = driver.run(data("d3", {str(path): 2}, inputs=two, action="DELETE"))
    assert answer(done) == (
        0,
        "",
        f"{path} is left alone: another deployment has it too\n",
    )
    assert path.read_text() == "2"
    done = driver.run(data("d4", {str(path): 1}, inputs=one, action="DELETE"))
    assert answer(done) == (0, "", f"{path} was removed\n")


def test_rewritten_file_keeps_its_owner(driver: Driver, tmp_path: Path) -> None:
    """A file that heat-agents wrote keeps its user and group; its mode is that of the option."""
    need_root()
    path = tmp_path / "a.json"
    path.write_text("{}")
    path.chmod(0o644)
    os.chown(path, 65534, 65533)
    driver.run(data("d1", {str(path): 1}))
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (65534, 65533, 0o600)


def test_a_config_may_be_json_text(driver: Driver, tmp_path: Path) -> None:
    """A config may be JSON text, also on DELETE."""
    path = tmp_path / "a.json"
    config = json.dumps({str(path): DATA})
    assert driver.run(data("d1", config))["deploy_status_code"] == 0
    assert path.read_bytes() == TEXT.encode()
    assert (
        driver.run(data("d2", config, action="DELETE"))["deploy_stderr"]
        == f"{path} was removed\n"
    )


@pytest.mark.parametrize("config", [None, "", " \n", {}, "{}"])
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_nothing_to_write_is_done(driver: Driver, config: object) -> None:
    """The result says that nothing was written, or that there is nothing to remove."""
    assert answer(driver.run(data("d1", config))) == (
        0,
        "",
        "the config is empty: nothing was written\n",
    )
    assert answer(driver.run(data("d2", config, action="DELETE"))) == (
        0,
        "",
        "there is nothing to remove\n",
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"config": {"@/a.json": 1, "b.json": 2}},
            'config["b.json"]: expected the absolute path of a file',
        ),
        (
            {"config": {"@/a.json": 1, "": 2}},
            'config[""]: expected the absolute path of a file',
        ),
        (
            {"config": {"@/a.json": 1, "@/b/": 2}},
            'b/"]: expected the absolute path of a file',
        ),
        (
            {"config": {"@/a.json": 1, "@/b\0": 2}},
            "expected the absolute path of a file",
        ),
        (
            {"config": {"@/a.json": 1, "@/\ud800": 2}},
            '\\ud800"]: it contains half of a surrogate pair',
        ),
        ({"config": {"@/a.json": 1, "@//a.json": 2}}, "a.json occurs twice"),
        (
            {"config": '{"@/a.json": 1,'},
            "config: expected an object, or its JSON text: ",
        ),
        ({"config": "@/a.json"}, "config: expected an object, or its JSON text: "),
        ({"config": '{"@/a.json": NaN}'}, "NaN is not a number in JSON"),
        (
            {"config": ["@/a.json"]},
            "config: expected an object: the path of each file, and its data",
        ),
        (
            {"options": {"mode": "rw"}},
            "options.mode: expected permissions in octal, e.g. \"0644\", not 'rw'",
        ),
        ({"options": {"mode": "1777"}}, "options.mode: expected permissions in octal"),
        ({"options": {"mode": 420}}, "options.mode: expected text, not 420"),
        (
            {"options": {"modes": "0644"}},
            "options.modes: json-file has no such option; did you mean mode?",
        ),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_mistake_is_reported_and_nothing_is_written(
    driver: Driver, tmp_path: Path, wrong: dict[str, Any], says: str
) -> None:
    """The message has its path. A DELETE with the same mistake succeeds, because nothing was written."""
    folder = tmp_path / "here"
    folder.mkdir()
    fields = json.loads(
        json.dumps({"config": {"@/a.json": 1}, **wrong}).replace("@", str(folder))
    )
    done = driver.run(data("d1", **fields))
    assert done["deploy_status_code"] == 125
    assert says in done["deploy_stderr"]
    assert "Traceback" not in done["deploy_stderr"]
    assert os.listdir(folder) == []
    if "options" not in wrong:
        assert (
            driver.run(data("d2", **fields, action="DELETE"))["deploy_status_code"] == 0
        )


def test_unwritable_file_and_untried_files_are_named(
    driver: Driver, tmp_path: Path
) -> None:
    """The reply names the file that cannot be written, and the files after it, which were not tried."""
    one, folder, three = (tmp_path / each for each in ("1.json", "2.json", "3.json"))
    folder.mkdir()
    done = driver.run(data("d1", {str(one): 1, str(folder): 2, str(three): 3}))
    says = f"cannot write {folder}: a folder is in its place; because of that, these were not written: {three}\n"
    assert answer(done) == (1, "", says)
    assert one.read_text() == "1"
    assert not three.exists()
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


def test_a_disk_that_takes_no_file_fails_the_deployment(
    driver: Driver, disk: Path
) -> None:
    """It fails at once with the reason, and the previous file stays."""
    small, large = disk / "small.json", disk / "large.json"
    assert answer(driver.run(data("d1", {str(small): 1, str(large): 2})))[0] == 0
    done = driver.run(data("d2", {str(small): 3, str(large): "x" * 100_000}))
    assert answer(done) == (1, "", f"cannot write {large}: No space left on device\n")
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
    assert answer(done) == (0, "", f"{large} was removed\n")


def test_notes_are_kept_in_the_working_folder(driver: Driver, tmp_path: Path) -> None:
    """The variable may name another folder; the notes contain no data, which may be secret."""
    path = tmp_path / "a.json"
    driver.run(data("d1", {str(path): "hunter2-hunter2"}))
    (note,) = (driver.working("json-file") / "written").iterdir()
    assert "hunter2" not in note.read_text()
    assert (mode(note), mode(note.parent)) == (0o600, 0o700)
    driver.environment["HEAT_JSON_FILE_WORKING"] = str(tmp_path / "elsewhere")
    done = driver.run(data("d2", {str(path): 1}, action="DELETE"))
    assert answer(done) == (0, "", f"{path} is left alone: it was not written here\n")
