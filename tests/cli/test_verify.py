"""`heat-config-agent verify`: whether the machine still is as its deployments say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support import pace
from support.machine import Machine, deployment


def json_file(machine: Machine, name: str = "page", **options: Any) -> dict[str, Any]:
    """Return a deployment that writes one file."""
    config = {str(machine.folder / f"{name}.json"): {"port": 80, "host": "db"}}
    return deployment(name, config, group="json-file", options=options)


def script(name: str, verify: object, config: str = "true", **more: Any) -> Any:
    """Return a deployment with a script that verifies it."""
    return deployment(name, config, options={"verify": verify}, **more)


def verified(machine: Machine, *words: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and what is said of each deployment by its name."""
    done = machine.agent("verify", "--json", *words)
    rows = json.loads(done.out)["data"]["deployments"]
    return done.code, {row["name"]: row for row in rows}


def test_unchanged_file_is_in_effect(machine: Machine) -> None:
    """The exit code is 0, and nothing was changed."""
    assert machine.apply([json_file(machine)]).code == 0
    before = (machine.folder / "page.json").stat().st_ctime_ns

    done = machine.agent("verify")

    assert done.code == 0, done.err
    assert "1 deployment: 1 ok; nothing was changed" in done.out
    assert (machine.folder / "page.json").stat().st_ctime_ns == before


def edit(path: Path) -> None:
    """Change the content of a file."""
    path.write_text(path.read_text().replace("80", "81"))


def to_link(path: Path) -> None:
    """Put a link in the place of a file, with the same content behind it."""
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


def to_folder(path: Path) -> None:
    """Put a folder in the place of a file."""
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (edit, "its content differs"),
        (Path.unlink, "it is missing"),
        (to_link, "a link is in its place"),
        (to_folder, "a folder is in its place"),
        (lambda path: path.chmod(0o666), "its mode is 0666 instead of 0600"),
    ],
)
def test_changed_file_has_drifted(machine: Machine, change: Any, how: str) -> None:
    """Each way to change a file is named, and the exit code is 9."""
    assert machine.apply([json_file(machine)]).code == 0
    path = machine.folder / "page.json"
    change(path)

    code, rows = verified(machine)

    assert code == 9
    assert rows["page"]["state"] == "drifted"
    assert rows["page"]["message"] == f"{path}: {how}"
    assert [change["how"] for change in rows["page"]["changes"]] == [how]


def test_diff_shows_the_lines_of_the_machine_and_of_the_deployment(
    machine: Machine,
) -> None:
    """As `diff -u` does."""
    assert machine.apply([json_file(machine)]).code == 0
    edit(machine.folder / "page.json")

    done = machine.agent("verify", "--diff")

    lines = [line.strip() for line in done.out.splitlines()]
    assert '-    "port": 81' in lines
    assert '+    "port": 80' in lines


def test_change_of_a_file_is_seen_after_it_was_verified_unchanged(
    machine: Machine,
) -> None:
    """A file with the same size and time of change as before is read again too."""
    assert machine.apply([json_file(machine)]).code == 0
    path = machine.folder / "page.json"
    os.utime(path, (1, 1))
    assert verified(machine)[0] == 0
    path.write_text(path.read_text().replace("80", "81"))
    os.utime(path, (1, 1))

    assert verified(machine)[0] == 9


def test_file_that_another_deployment_has_written_since_is_unknown(
    machine: Machine,
) -> None:
    """To repair the one would break the other."""
    path = str(machine.folder / "shared.json")
    both = [
        deployment(name, {path: {"by": name}}, group="json-file")
        for name in ("first", "second")
    ]
    assert machine.apply(both).code == 0

    code, rows = verified(machine)

    assert code == 1
    assert rows["first"]["state"] == "unknown"
    assert rows["first"]["message"] == f"another deployment has written {path} since"
    assert rows["second"]["state"] == "ok"


def test_script_says_whether_a_deployment_is_in_effect(machine: Machine) -> None:
    """It gets the inputs of the deployment; its last line is the reason."""
    flag = machine.folder / "flag"
    verify = (
        f'echo looking; [ -e {flag} ] || {{ echo "$port does not answer"; exit 3; }}'
    )
    inputs = [{"name": "port", "value": 8080}]
    given = script("web", verify, f"touch {flag}", inputs=inputs)
    assert machine.apply([given]).code == 0
    assert verified(machine)[0] == 0
    flag.unlink()

    code, rows = verified(machine)

    assert code == 9
    assert rows["web"]["message"] == "8080 does not answer"


def test_tool_without_verification_is_unknown(machine: Machine) -> None:
    """Never ok; `--allow-unknown` accepts it."""
    assert machine.apply([deployment("plain", "true")]).code == 0

    code, rows = verified(machine)

    assert code == 1
    assert rows["plain"]["state"] == "unknown"
    assert verified(machine, "--allow-unknown")[0] == 0


def test_script_that_hangs_is_unknown(machine: Machine) -> None:
    """It is ended at its timeout, with the processes that it has started."""
    flag = machine.folder / "flag"
    verify = {"script": f"[ ! -e {flag} ] || sleep 1000", "timeout": 0.2}
    assert machine.apply([script("web", verify)]).code == 0
    flag.touch()

    code, rows = verified(machine)

    assert code == 1
    assert rows["web"]["state"] == "unknown"
    assert rows["web"]["message"] == "the verification did not end in time"


def test_two_verifications_at_once_do_not_disturb_each_other(machine: Machine) -> None:
    """Both wait in the script of the same deployment until the other has begun."""
    both = machine.folder / "both"
    verify = f"[ -e {both} ] || exit 0; echo >>{both}; until [ $(wc -l <{both}) = 2 ]; do sleep 0.01; done"
    assert machine.apply([script("web", verify)]).code == 0
    both.touch()

    processes = [
        machine.start("heat-config-agent", "verify", "--state-dir", str(machine.state))
        for _ in range(2)
    ]

    for process in processes:
        out, err = process.communicate(timeout=pace.seconds(30))
        assert process.returncode == 0, (out, err)
    assert list((machine.state / "verifications").iterdir()) == []


def test_secret_in_a_verdict_is_masked(machine: Machine) -> None:
    """In the answer, and in the record."""
    inputs = [{"name": "password", "value": "s3cr3t-Passw0rd", "hidden": True}]
    flag = machine.folder / "flag"
    verify = f'[ ! -e {flag} ] || {{ echo "bad $password"; exit 1; }}'
    assert machine.apply([script("web", verify, inputs=inputs)]).code == 0
    flag.touch()

    done = machine.agent("verify", "--json")

    assert "s3cr3t" not in done.out
    assert "bad ***" in done.out
    assert "s3cr3t" not in (machine.state / "verified.json").read_text()


def test_secret_in_a_long_line_of_a_difference_is_masked(machine: Machine) -> None:
    """Also where the line is cut in the middle of it."""
    secret = "s3cr3t-" + "x1" * 200
    path = machine.folder / "page.json"
    given = deployment(
        "page",
        {str(path): {"line": "a" * 300 + secret + "b" * 900}},
        group="json-file",
        inputs=[{"name": "password", "value": secret, "hidden": True}],
    )
    assert machine.apply([given]).code == 0
    path.write_text("{}")

    done = machine.agent("verify", "--diff")

    assert "aaa***" in done.out
    assert "s3cr3t" not in done.out


def test_failed_deployment_is_not_verified(machine: Machine) -> None:
    """It never took effect."""
    assert machine.apply([script("web", "true", "exit 3")]).code == 1

    code, rows = verified(machine)

    assert code == 1
    assert rows["web"]["state"] == "failed"


def test_named_deployment_is_verified_alone(machine: Machine) -> None:
    """Others do not count."""
    given = [json_file(machine, "page"), json_file(machine, "other")]
    assert machine.apply(given).code == 0
    (machine.folder / "other.json").unlink()

    code, rows = verified(machine, "page")

    assert code == 0
    assert list(rows) == ["page"]
    assert machine.agent("verify", "nothing").code == 8


def test_executable_hook_may_verify(machine: Machine) -> None:
    """`TOOL.verify` beside the hook gets the deployment, and prints the verdict."""
    hooks = machine.folder / "hooks"
    hooks.mkdir()
    reply = '{"deploy_status_code": 0, "deploy_stdout": "", "deploy_stderr": ""}'
    answer = '{"state": "drifted", "changes": [{"what": "x", "how": "gone"}]}'
    for name, text in (("mine", reply), ("mine.verify", answer)):
        (hooks / name).write_text(f"#!/bin/sh\ncat >/dev/null\necho '{text}'\n")
        (hooks / name).chmod(0o755)
    given = deployment("web", "anything", group="mine")
    assert machine.apply([given], "--hooks-dir", str(hooks)).code == 0

    done = machine.agent("verify", "--json", HEAT_CONFIG_HOOKS=str(hooks))

    assert done.code == 9
    [row] = json.loads(done.out)["data"]["deployments"]
    assert row["message"] == "x: gone"
