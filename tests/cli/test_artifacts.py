"""Artifacts of a deployment: fetched and verified before anything runs, or nothing runs."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support import disks, pace, planted
from support.http import Answer, Stub
from support.loopback import SignalServer, wait_until
from support.machine import BIN, Machine, deployment, small_disk

SH = "#!/bin/sh\nset -e\n"


class Files:
    """A server with files, whose URLs have a secret."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.stub = Stub(lambda request: self._answer(request.path.partition("?")[0]))
        self.stub.start()

    def put(self, name: str, body: bytes, **fields: Any) -> dict[str, Any]:
        """Serve a file, and return the artifact that names it."""
        self.answers.setdefault(f"/{name}", Answer(body=body))
        url = f"http://user:{planted.WORD}@127.0.0.1:{self.stub.port}/{name}?signature={planted.WORD}"
        return {"url": url, "sha256": hashlib.sha256(body).hexdigest(), **fields}

    def _answer(self, name: str) -> Answer:
        self.asked.append(name)
        return self.answers.get(name, Answer(status=404))


@pytest.fixture
def files() -> Iterator[Files]:
    """Return a server of files on loopback."""
    served = Files()
    yield served
    served.stub.stop()


def archive(contents: dict[str, str]) -> bytes:
    """Return a tar archive with these files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as members:
        for name, text in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            members.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


def wanting(
    identity: str, script: str, *artifacts: dict[str, Any], **fields: Any
) -> dict[str, Any]:
    """Return a deployment with artifacts."""
    options = {"artifacts": list(artifacts), **fields.pop("options", {})}
    return deployment(identity, script, options=options, **fields)


def only_in_the_journal(machine: Machine) -> bool:
    """Return whether no file but the record of the deployments has the secret of the URLs."""
    found = [
        path
        for path in machine.state.rglob("*")
        if path.is_file() and not path.is_symlink()
    ]
    named = [path for path in found if planted.WORD.encode() in path.read_bytes()]
    return all(
        path.name.startswith("journal") or path.parent.name == "deployed"
        for path in named
    )


def test_a_run_finds_its_artifacts(
    machine: Machine, heat: SignalServer, files: Files
) -> None:
    """A built-in and an executable hook find their artifacts, which are fetched once and removed after the run."""
    reply = """'{"deploy_status_code": 0}'"""
    machine.hook(
        "looks",
        f'{SH}cat "$HEAT_ARTIFACTS/plain" >{machine.folder}/read\necho {reply}\n',
    )
    plain = files.put("plain", b"one\n")
    packed = files.put("packed", archive({"bin/tool": "two\n"}), to="opt", unpack=True)
    script = f'{SH}cat "$HEAT_ARTIFACTS/plain" "$HEAT_ARTIFACTS/opt/bin/tool"; echo x >"$HEAT_ARTIFACTS/plain"\n'
    given = [
        wanting("d1", script, plain, packed, signal=heat.url("d1")),
        wanting("d2", "", plain, group="looks"),
    ]
    assert machine.apply(given, "--plan").code == 0
    assert files.asked == []
    done = machine.apply(given)
    assert done.code == 0, done.out
    [signal] = heat.signals
    assert json.loads(signal.body)["deploy_stdout"] == "one\ntwo\n"
    assert (machine.folder / "read").read_text() == "one\n"
    assert sorted(files.asked) == ["/packed", "/plain"]
    assert [*machine.state.glob("runs/*/artifacts")] == []
    assert len([*(machine.state / "artifacts").iterdir()]) == 2
    kept = machine.agent("prune", "--plan", "--json").data["kept_files"]
    machine.agent("prune")
    assert len([*(machine.state / "artifacts").iterdir()]) == 2
    assert kept >= 2


@pytest.mark.fault(
    2,
    "an artifact that is missing, or is another one than its digest says",
    "its deployment fails, and runs nothing",
)
def test_failed_fetch_fails_only_its_deployment(
    machine: Machine, heat: SignalServer, files: Files
) -> None:
    """A failed fetch is one sentence without a secret, and other deployments continue."""
    files.answers["/other"] = Answer(body=b"something else")
    missing = wanting(
        "d1",
        f"{SH}touch {machine.folder}/ran\n",
        files.put("x", b"x"),
        signal=heat.url("d1"),
    )
    files.answers["/x"] = Answer(status=404)
    other = wanting(
        "d2",
        f"{SH}touch {machine.folder}/ran\n",
        files.put("other", b"o"),
        signal=heat.url("d2"),
    )
    done = machine.apply([missing, other, deployment("d3")])
    assert done.code == 1
    results = {
        each.path.partition("?")[0].rpartition("/")[2]: json.loads(each.body)
        for each in heat.signals
    }
    assert {key: each["deploy_status_code"] for key, each in results.items()} == {
        "d1": 126,
        "d2": 126,
    }
    says = "cannot fetch artifacts[0] from 127.0.0.1: it answers HTTP 404 Not Found: nothing was run"
    assert says in results["d1"]["deploy_stderr"]
    assert (
        "cannot use artifacts[0] from 127.0.0.1: its SHA-256 digest is "
        in results["d2"]["deploy_stderr"]
    )
    assert not (machine.folder / "ran").exists()
    assert machine.status()["d3"]["state"] == "unasked"
    shown = [
        done.out,
        done.err,
        *(
            machine.agent(*words).out
            for words in (("show", "d1"), ("log", "d1"), ("status",))
        ),
    ]
    assert planted.WORD not in "".join([*shown, json.dumps(results)])
    assert only_in_the_journal(machine)


def test_a_stack_has_artifacts(machine: Machine, files: Files) -> None:
    """A config in a template may have artifacts, whose URLs may be parameters."""
    artifact = files.put("plain", b"one\n")
    config = {
        "group": "script",
        "options": {"artifacts": [{**artifact, "url": {"get_param": "url"}}]},
        "outputs": [{"name": "said"}],
        "config": f'{SH}cp "$HEAT_ARTIFACTS/plain" "$heat_outputs_path.said"\n',
    }
    server = {"flavor": "f", "image": "i", "user_data_format": "SOFTWARE_CONFIG"}
    deployment_ = {
        "config": {"get_resource": "config"},
        "server": {"get_resource": "server"},
    }
    template = {
        "heat_template_version": "2018-08-31",
        "parameters": {"url": {"type": "string", "hidden": True}},
        "resources": {
            "config": {"type": "OS::Heat::SoftwareConfig", "properties": config},
            "server": {"type": "OS::Nova::Server", "properties": server},
            "deployment": {
                "type": "OS::Heat::SoftwareDeployment",
                "properties": deployment_,
            },
        },
        "outputs": {"said": {"value": {"get_attr": ["deployment", "said"]}}},
    }
    done = machine.apply(
        template, "--name", "shop", "--parameter", f"url={artifact['url']}"
    )
    assert done.code == 0, done.out + done.err
    assert "said = one" in done.out
    assert files.asked == ["/plain"]


def test_mistake_in_the_artifacts_fails_before_any_fetch(
    machine: Machine, heat: SignalServer, files: Files
) -> None:
    """A mistake in the artifacts is found before anything is fetched."""
    artifact = {**files.put("x", b"x"), "sha256": "1234"}
    machine.apply([wanting("d1", SH, artifact, signal=heat.url("d1"))])
    result = json.loads(heat.signals[0].body)
    assert (
        "options.artifacts[0].sha256: expected the SHA-256 digest"
        in result["deploy_stderr"]
    )
    assert planted.WORD not in json.dumps(result)
    assert files.asked == []


@pytest.mark.slow
def test_a_playbook_finds_its_roles(
    machine: Machine, heat: SignalServer, files: Files
) -> None:
    """Roles and collections that were fetched are found by their names."""
    if not (BIN / "ansible-playbook").exists():
        pytest.skip("ansible-core and ansible-runner are not installed with the agent")
    role = archive(
        {"tasks/main.yml": "- ansible.builtin.debug: {msg: the fetched role}\n"}
    )
    name = "ansible_collections/our/site"
    galaxy = (
        "namespace: our\nname: site\nversion: 1.0.0\nreadme: README.md\nauthors: [us]\n"
    )
    collection = archive(
        {
            "galaxy.yml": galaxy,
            "roles/deep/tasks/main.yml": "- ansible.builtin.debug: {msg: deep}\n",
        }
    )
    artifacts = [
        files.put("role", role, to="fetched", unpack=True),
        files.put("collection", collection, to=name, unpack=True),
    ]
    playbook = (
        "- hosts: localhost\n  gather_facts: false\n  roles: [fetched, our.site.deep]\n"
    )
    machine.apply(
        [wanting("d1", playbook, *artifacts, group="ansible", signal=heat.url("d1"))]
    )
    result = json.loads(heat.signals[0].body)
    assert result["deploy_status_code"] == 0, result
    assert "the fetched role" in result["deploy_stdout"]
    assert "deep" in result["deploy_stdout"]


@pytest.mark.fault(
    3, "the server of an artifact hangs", "its deployment times out; others go on"
)
def test_fetch_from_a_hanging_server_ends_with_the_timeout(
    machine: Machine, heat: SignalServer, files: Files
) -> None:
    """The timeout of the deployment counts."""
    artifact = files.put("x", b"x" * 1000)
    files.answers["/x"] = Answer(body=b"x" * 1000, trickle=0.05)
    began = time.monotonic()
    hanging = wanting(
        "d1", f"{SH}touch {machine.folder}/ran\n", artifact, options={"timeout": 1}
    )
    machine.apply([{**hanging, **signalled(heat, "d1")}, deployment("d2")])
    assert time.monotonic() - began < pace.seconds(20)
    assert "it timed out after 1 s" in json.loads(heat.signals[0].body)["deploy_stderr"]
    assert machine.status()["d2"]["state"] == "unasked"
    assert not (machine.folder / "ran").exists()
    assert [*machine.state.glob("runs/*/.arriving")] == []


def signalled(heat: SignalServer, identity: str) -> dict[str, Any]:
    """Return the inputs of a deployment whose result goes to the server."""
    return {"inputs": deployment(identity, signal=heat.url(identity))["inputs"]}


@pytest.mark.fault(
    1,
    "kill -9 of the agent while an artifact is fetched",
    "it is fetched and its deployment runs once",
)
def test_fetching_run_survives_a_kill_of_the_agent(
    machine: Machine, heat: SignalServer, files: Files
) -> None:
    """The run goes on without the agent, and the next one sends its result."""
    artifact = files.put("x", b"x" * 60)
    files.answers["/x"] = Answer(body=b"x" * 60, trickle=0.02)
    given = [
        wanting(
            "d1",
            f'{SH}wc -c <"$HEAT_ARTIFACTS/x"; echo d1 >>{machine.folder}/ran\n',
            artifact,
        )
        | signalled(heat, "d1")
    ]
    process = machine.start_apply(given)
    wait_until(lambda: bool(files.asked))
    process.kill()
    process.communicate()
    wait_until(lambda: disks.ran(machine) == ["d1"])
    machine.apply(given)
    assert [
        json.loads(each.body)["deploy_stdout"].strip() for each in heat.signals
    ] == ["60"]
    assert disks.ran(machine) == ["d1"]
    assert files.asked == ["/x"]


@pytest.mark.fault(
    2,
    "a full disk while an artifact is fetched or unpacked",
    "its deployment fails, and runs nothing",
)
def test_full_disk_during_a_fetch_fails_with_a_result(
    machine: Machine, heat: SignalServer, files: Files
) -> None:
    """The partial file is removed, so there is room for the result."""
    with small_disk(machine, "1m"):
        bomb = archive({"zeros": "0" * 3_000_000})
        given = [
            wanting(
                "d1",
                f"{SH}touch {machine.folder}/ran\n",
                files.put("x", b"x" * 3_000_000),
            ),
            wanting(
                "d2",
                f"{SH}touch {machine.folder}/ran\n",
                files.put("y", bomb, unpack=True),
            ),
        ]
        machine.apply([{**each, **signalled(heat, each["id"])} for each in given])
        results = [json.loads(each.body)["deploy_stderr"] for each in heat.signals]
        assert len(results) == 2
        assert all(
            "cannot store artifacts[0] from 127.0.0.1: No space left on device" in each
            for each in results
        )
        assert not (machine.folder / "ran").exists()
        assert machine.apply([deployment("d3")]).code == 0
