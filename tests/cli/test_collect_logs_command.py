"""heat-config-agent collect-logs: a support bundle without secrets."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from support import planted
from support.commands import SH, counted
from support.loopback import SignalServer
from support.machine import Machine, deployment

USUAL = {
    "versions.txt",
    "config.txt",
    "doctor.txt",
    "agent.log",
    "status.txt",
    "journal.json",
}


@pytest.fixture
def machine(machine: Machine) -> Machine:
    """A machine on which the checks, which are a part of each bundle, take little time."""
    machine.have_quick_tools()
    return machine


def parts(path: Path) -> dict[str, str]:
    """Return the texts in a bundle by their names."""
    with tarfile.open(path) as bundle:
        members = bundle.getmembers()
        assert all(member.isreg() and member.mode == 0o600 for member in members)
        found = {member.name: bundle.extractfile(member) for member in members}
        return {
            name.removeprefix("heat-config-agent/"): file.read().decode()
            for name, file in found.items()
            if file
        }


def collected(machine: Machine, name: str = "bundle.tar.gz") -> dict[str, str]:
    """Return the texts of a new bundle."""
    path = machine.folder / name
    done = machine.agent("collect-logs", str(path))
    assert done.code == 0, done.err
    assert path.stat().st_mode & 0o777 == 0o600
    return parts(path)


def test_bundle_has_states_settings_checks_and_output(
    machine: Machine, heat: SignalServer
) -> None:
    """The states, the settings, the checks, the output and the versions, each as a part of its own."""
    machine.apply(
        [counted(machine, "d1", "echo hello; echo no >&2; exit 3", signal=heat.url())]
    )
    found = collected(machine)
    assert found.keys() == USUAL | {"output/d1.txt"}
    assert found["versions.txt"].startswith("heat-config-agent ")
    assert "exit code 3: no" in found["status.txt"]
    assert "state_dir" in found["config.txt"]
    assert re.search(r"^ok +state ", found["doctor.txt"], re.MULTILINE)
    assert found["output/d1.txt"] == "--- stdout\nhello\n\n--- stderr\nno\n\n"
    summary = json.loads(found["journal.json"])
    assert summary["states"] == {"signalled": 1}
    assert [each["id"] for each in summary["deployments"]] == ["d1"]


def test_bundle_is_named_to_programs(machine: Machine) -> None:
    """The answer has the file, its size and its parts; the commands inside leave it alone."""
    path = machine.folder / "bundle.tar.gz"
    done = machine.agent("collect-logs", "--json", str(path))
    assert done.code == 0
    assert (done.json["kind"], done.data["file"]) == ("bundle", str(path))
    assert done.data["bytes"] == path.stat().st_size
    assert set(done.data["parts"]) == parts(path).keys()
    again = machine.agent("collect-logs", "--json", str(path))
    assert (again.code, again.json["error"]["code"]) == (2, "exists")


def test_no_secret_is_in_the_bundle(machine: Machine, heat: SignalServer) -> None:
    """Secrets of deployments, settings and signed URLs are masked wherever programs have written them."""
    path = machine.folder / "agent.conf"
    path.write_text(
        f"[agent]\nstate_dir = {machine.state}\n[heat]\nauth_url = http://127.0.0.1:9/v3\nuser_id = u1\n"
        f"password = {planted.PASSWORD}\nproject_id = p1\nstack_id = s/1\nresource_name = r\n"
    )
    script = f'{SH}echo "$planted"; echo "$planted" | base64; echo \'{planted.HIDDEN}\' >&2; exit 1\n'
    machine.apply([deployment("d1", script, signal=f"{heat.url()}")])
    bundle = machine.folder / "bundle.tar.gz"
    assert machine.agent("collect-logs", "--config", str(path), str(bundle)).code == 0
    found = parts(bundle)
    assert planted.leaks(found.items()) == []
    assert "***" in found["output/d1.txt"]


@pytest.mark.shows_secrets(
    "the id of a deployment is the secret of another one, and ids are shown"
)
def test_a_part_with_a_secret_is_left_out(machine: Machine) -> None:
    """The bundle is searched for secrets that the commands do not mask."""
    machine.apply(
        [
            deployment("d1", f"{SH}true"),
            deployment(planted.HIDDEN, f"{SH}true", name="d2"),
        ]
    )
    found = collected(machine)
    assert planted.leaks(found.items()) == []
    assert (
        found["status.txt"]
        == "This part was left out: a secret of this machine was found in it.\n"
    )
    assert found["journal.json"] == found["status.txt"]
    assert found["versions.txt"].startswith("heat-config-agent ")


def test_the_bundle_is_bounded(machine: Machine) -> None:
    """The bundle has the beginning and the end of long output, and the newest of many runs."""
    many = [deployment(f"d{number:02}", f"{SH}true") for number in range(25)]
    machine.apply([*many, deployment("long", f"{SH}seq 1 300000")])
    found = collected(machine)
    assert len([name for name in found if name.startswith("output/")]) == 20
    assert "output/d25.txt" not in found
    text = found["output/long.txt"]
    assert len(text) < 300_000
    assert text.startswith("--- stdout\n1\n2\n")
    assert "bytes left out" in text
    assert "\n300000\n" in text


def test_stacks_have_parts_of_their_own(machine: Machine) -> None:
    """Each stack is a part of the bundle, as a state directory."""
    template = Path(__file__).parents[2] / "examples/hot/greeting.yaml"
    assert machine.apply(template.read_text(), "--name", "site").code == 0
    found = collected(machine)
    assert {"stacks/site/status.txt", "stacks/site/journal.json"} <= found.keys()
    assert any(name.startswith("stacks/site/output/") for name in found)


def test_logs_are_collected_from_a_damaged_state(machine: Machine) -> None:
    """The bundle is needed most where something is wrong."""
    machine.apply([deployment("d1", f"{SH}true")])
    (machine.state / "journal").write_bytes(b"damaged\n")
    found = collected(machine)
    assert found.keys() >= USUAL


def test_bundle_replaces_no_existing_file(machine: Machine) -> None:
    """The bundle is written over neither an existing file nor a link to one."""
    path = machine.folder / "bundle.tar.gz"
    path.symlink_to(machine.folder / "elsewhere")
    done = machine.agent("collect-logs", str(path))
    assert done.code == 2
    assert "exists already" in done.err
    assert not (machine.folder / "elsewhere").exists()
    done = machine.agent("collect-logs", "/no/such/folder/bundle.tar.gz")
    assert done.code == 1
    assert (
        "cannot write /no/such/folder/bundle.tar.gz: No such file or directory"
        in done.err
    )
