"""`heat-config-agent config`: every setting, what holds, and who says so; read, never changed."""

from __future__ import annotations

import json
import os
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.settings.effective import make
from heat_config_agent.settings.layers import metadata
from heat_config_agent.settings.schema import FOLLOW, SETTINGS
from heat_config_agent.sources import active, learned
from heat_config_agent.state import health, lock
from heat_config_agent.state.health import Health
from support.machine import Done, Machine

SECRET = "not-to-be-shown"
HEAT = {
    "auth_url": "http://127.0.0.1:9/v3",
    "user_id": "u1",
    "password": SECRET,
    "project_id": "p1",
    "stack_id": "s/1",
    "resource_name": "server",
}
OWN = """\
[agent]
polling_interval = 7
collectors = heat, zaqar, heat_local
environment = API_TOKEN=not-to-be-shown
  COLOUR=green

[heat_local]
path = /nowhere/first.json
"""


def config(
    machine: Machine, text: str = OWN, *arguments: str, **environment: str
) -> Done:
    """Run the command with a file of settings."""
    path = machine.folder / "agent.conf"
    path.write_text(text)
    done = machine.agent("config", "--config", str(path), *arguments, **environment)
    assert "Traceback" not in done.err
    assert SECRET not in done.out + done.err
    return done


def setting(done: Done, section: str, name: str) -> tuple[Any, str]:
    """Return what is said of a setting."""
    [found] = [
        each
        for each in done.data["settings"]
        if (each["section"], each["name"]) == (section, name)
    ]
    return found["value"], found["origin"]


def section(name: str, **values: str) -> str:
    """Return a section of a file."""
    return f"\n[{name}]\n" + "".join(
        f"{key} = {value}\n" for key, value in values.items()
    )


def hold(machine: Machine, name: str, content: object) -> None:
    """Have a document of a source on the machine, as the agent keeps it."""
    folder = machine.state / "documents"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"source": name, "at": 1.0, "content": content}))
    path.chmod(0o600)


def everything(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return what is in a folder, to the last byte."""
    return {
        str(path): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


def test_every_setting_is_shown_with_who_says_it(machine: Machine) -> None:
    """With the line of the file, where a file says it."""
    done = config(machine, OWN, "--json")
    place = machine.folder / "agent.conf"
    assert {(each["section"], each["name"]) for each in done.data["settings"]} == {
        (each.section, each.name) for each in SETTINGS if each.section != FOLLOW
    }
    assert setting(done, "agent", "polling_interval") == (7, f"{place}, line 2")
    assert setting(done, "heat_local", "path") == (
        ["/nowhere/first.json"],
        f"{place}, line 8",
    )
    assert setting(done, "agent", "splay") == (1, "default")
    assert setting(done, "agent", "state_dir") == (
        str(machine.state),
        "the command line",
    )
    assert setting(done, "agent", "environment")[0] == ["API_TOKEN=***", "COLOUR=green"]
    assert setting(done, "heat", "auth_url") == ("", "not set")
    shown = config(machine).out
    assert all(each.name in shown for each in SETTINGS if each.section != FOLLOW)
    assert done.code == 0


def test_each_followed_source_is_shown(machine: Machine) -> None:
    """Each followed source is shown with its name; a wrong name, a wrong setting and a missing URL are mistakes."""
    done = config(
        machine, "[follow  web]\nurl = /srv/site\ntoken = hunter2hunter2\n", "--json"
    )
    assert setting(done, "follow web", "url") == (
        "/srv/site",
        f"{machine.folder / 'agent.conf'}, line 2",
    )
    assert setting(done, "follow web", "token")[0] == "***"
    assert setting(done, "follow web", "interval") == (300, "default")
    for text, says in {
        "[follow we/b]\nurl = /x": "a stack cannot have the name in [follow we/b]",
        "[follow web]\nurl = /x\npaht = y": "there is no setting 'paht' in [follow NAME]; did you mean path?",
        "[follow web]\npath = y": "[follow web] needs the setting url",
        "[folow web]\nurl = y": "there is no section [folow web]",
    }.items():
        done = config(machine, f"[agent]\nsplay = 1\n{text}\n", "--json")
        assert done.code == 2
        assert says in done.data["mistakes"][0]["message"]


def test_the_origin_of_the_state_directory_is_shown(
    machine: Machine, tmp_path: Path
) -> None:
    """The command line, the environment, a file, or nobody."""
    path = tmp_path / "one.conf"
    path.write_text(f"[agent]\nstate_dir = {tmp_path}/said\n")

    def said(*arguments: str, **environment: str) -> tuple[Any, str]:
        done = machine.command(
            "heat-config-agent", ["config", "--json", *arguments], environment
        )
        return setting(done, "agent", "state_dir")

    variable = {"HEAT_CONFIG_AGENT_STATE": f"{tmp_path}/variable"}
    assert said("--config", str(path)) == (f"{tmp_path}/said", f"{path}, line 2")
    assert said("--config", str(path), **variable) == (
        f"{tmp_path}/said",
        f"{path}, line 2",
    )
    assert said(**variable) == (
        f"{tmp_path}/variable",
        "the environment, HEAT_CONFIG_AGENT_STATE",
    )


@pytest.mark.parametrize(
    "secret",
    ["Signature=not-to-be-shown", "x=1&temp_url_sig=not-to-be-shown#not-to-be-shown"],
)
def test_signed_urls_are_shown_without_what_signs_them(
    machine: Machine, secret: str
) -> None:
    """A signed URL is shown without its signature, user and password."""
    url = f"http://user:{SECRET}@127.0.0.1:9/v1/a?{secret}"
    done = config(machine, f"[request]\nmetadata_url = {url}\n", "--json")
    assert (
        setting(done, "request", "metadata_url")[0] == "http://***@127.0.0.1:9/v1/a?***"
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_parameters_of_a_followed_stack_are_masked(
    machine: Machine, *, as_json: bool
) -> None:
    """Any of them may be one that the template hides."""
    text = f"[follow web]\nurl = {machine.folder}/web\nparameters = plain={SECRET} db_password={SECRET}\n"
    done = config(machine, text, *(["--json"] if as_json else []))
    assert "plain=***" in done.out
    assert SECRET not in done.out


def test_transports_are_listed_in_the_order_of_their_use(
    machine: Machine,
) -> None:
    """The agent's own file before what the instance was given; of two equal ones, the second is left out."""
    hold(
        machine,
        "heat_local",
        {"os-collect-config": {"heat": {**HEAT, "user_id": "u2"}}},
    )
    hold(machine, "ec2", {"os-collect-config": {"heat": HEAT}})
    done = config(machine, OWN + section("heat", **HEAT), "--json")
    ways = done.data["transports"]["heat"]
    assert [(each["origin"], each["same_as"]) for each in ways] == [
        (str(machine.folder / "agent.conf"), None),
        ("the document of ec2", 1),
        ("the document of heat_local", None),
    ]
    assert not any(each["in_use"] for each in ways)
    assert setting(done, "heat", "user_id") == (
        "u1",
        f"{machine.folder / 'agent.conf'}, line 12",
    )
    assert setting(done, "heat", "password")[0] == "***"


def test_learned_settings_come_first_while_the_machines_own_are_unchanged(
    machine: Machine,
) -> None:
    """The order is the daemon's own."""
    hold(machine, "heat_local", {"os-collect-config": {"heat": HEAT}})
    path = machine.folder / "agent.conf"
    path.write_text(OWN)
    given = make({}, config=path, state=machine.state)
    first = metadata({"os-collect-config": {"heat": HEAT}}, "heat_local")
    newer = metadata(
        {
            "os-collect-config": {
                "heat": {**HEAT, "user_id": "u9"},
                "polling_interval": 3,
            }
        },
        "the metadata",
    )
    learned.save(
        machine.state, newer, learned.digest([*active.base(given, {})[:1], first]), None
    )

    def order() -> list[str]:
        return [
            each["origin"]
            for each in config(machine, OWN, "--json").data["transports"]["heat"]
        ]

    assert order() == ["learned from the metadata", "the document of heat_local"]
    hold(
        machine,
        "heat_local",
        {"os-collect-config": {"heat": {**HEAT, "user_id": "u3"}}},
    )
    assert order() == ["the document of heat_local", "learned from the metadata"]
    assert setting(
        config(machine, OWN.replace("polling_interval = 7\n", ""), "--json"),
        "agent",
        "polling_interval",
    ) == (
        3,
        "learned from the metadata",
    )


def test_the_source_in_use_is_shown_while_the_daemon_runs(machine: Machine) -> None:
    """The source in use is what the running daemon has reported; without a daemon there is none."""
    hold(machine, "heat_local", {"os-collect-config": {"heat": HEAT}})
    machine.state.chmod(0o700)
    current = Health(
        process=os.getpid(),
        version="1",
        started=1.0,
        sources=({"name": "heat", "from": "heat_local"},),
    )
    with lock.held(machine.state, lock.DAEMON):
        health.write(machine.state, current)
        done = config(machine, OWN, "--json")
        shown = config(machine).out
    [way] = done.data["transports"]["heat"]
    assert way["in_use"]
    assert "1. the document of heat_local: in use now" in shown
    assert f"the agent is running (process {os.getpid()}) and asks heat" in shown
    assert not config(machine, OWN, "--json").data["transports"]["heat"][0]["in_use"]


def test_a_source_without_its_settings_is_shown_with_what_is_missing(
    machine: Machine,
) -> None:
    """A source is shown with the settings that it lacks, or with the note that `collectors` does not name it."""
    done = config(
        machine, OWN + section("zaqar", queue_id="q") + section("cfn", stack_name="s")
    )
    assert "not used: auth_url, user_id, password, project_id missing" in done.out
    full = section("heat", **HEAT)
    shown = config(machine, OWN.replace("heat, ", "") + full).out
    assert "not used: collectors does not name it" in shown
    assert "[ec2]  not asked: collectors does not name it" in shown
    assert "[heat_local]\n" in shown


def test_unused_settings_of_os_collect_config_are_shown_with_the_reason(
    machine: Machine,
) -> None:
    """A reason is shown; a mistake in that file does not keep the agent from starting."""
    text = "[DEFAULT]\ncommand = os-refresh-config\nlog_file = /x\npolling_interval = soon\nsplay = 3\n[other]\na = b\n"
    done = config(machine, text, "--json")
    assert {each["setting"]: each["why"] for each in done.data["not_used"]} == {
        "[DEFAULT] command": "the agent carries out deployments itself",
        "[DEFAULT] log_file": "the agent always logs to standard error",
        "[other] a": "the agent has no such setting",
    }
    assert setting(done, "agent", "splay") == (
        3,
        f"{machine.folder / 'agent.conf'}, line 5",
    )
    assert any(
        "line 4" in each and "polling_interval" in each
        for each in map(itemgetter("message"), done.data["mistakes"])
    )
    assert done.code == 0
    assert "carries out deployments itself" in config(machine, text).out


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("keep_secrets", "keep_for"),
        ("keep_count", "keep_size"),
        ("keep_files", "keep_size"),
    ],
)
def test_a_deprecated_setting_names_its_replacement(
    machine: Machine, name: str, use: str
) -> None:
    """A deprecated setting works with a warning; if it is not set, there is none."""
    done = config(machine, f"[agent]\n{name} = 7\n", "--json")
    origin = f"{machine.folder / 'agent.conf'}, line 2"
    assert done.data["deprecated"] == [
        {"setting": f"agent {name}", "origin": origin, "use": use}
    ]
    assert (done.code, setting(done, "agent", name)) == (0, (7, origin))
    sentence = f"{name} of [agent] is deprecated, and still works: use {use} instead ({origin})"
    assert (
        f"warning: {sentence}"
        in config(machine, f"[agent]\n{name} = 7\n").err.splitlines()
    )
    machine.have_quick_tools()
    done = machine.agent(
        "doctor", "--config", str(machine.folder / "agent.conf"), "--json"
    )
    said = {each["message"]: each["hint"] for each in done.data["checks"]}
    assert (
        said[f"{name} of [agent] is deprecated, and still works ({origin})"]
        == f"use {use} instead, and remove it"
    )
    assert (
        config(machine, "[agent]\nkeep_for = 7\nkeep_size = 7M\n", "--json").data[
            "deprecated"
        ]
        == []
    )


def test_every_mistake_is_shown(machine: Machine) -> None:
    """With its line, and the rest of the settings, and the exit code says that the agent would not start."""
    text = f"[agent]\nparalel = 2\nsplay = x\nca_file = {machine.folder}/none.pem\nenvironment = {SECRET}\ngrace = 4\n"
    done = config(machine, text)
    assert done.code == 2
    for part in (
        "line 2: there is no setting 'paralel'",
        "line 3: splay: expected",
        "none.pem",
        "NAME=VALUE",
    ):
        assert part in done.err
    assert setting(config(machine, text, "--json"), "agent", "grace")[0] == 4


def test_unreadable_settings_file_is_reported(machine: Machine) -> None:
    """An unreadable file is reported, and the settings in force are shown."""
    done = config(machine, "[agent\n", "--json")
    assert done.code == 2
    assert (
        "line 1: the ']' at the end of the section"
        in done.data["mistakes"][0]["message"]
    )
    gone = machine.agent("config", "--config", str(machine.folder / "gone"))
    assert (gone.code, "Traceback" in gone.err) == (2, False)
    assert "No such file or directory" in gone.err


def test_nothing_is_changed(machine: Machine) -> None:
    """`config` changes nothing: it does not even set a damaged file aside, which is the agent's task."""
    hold(machine, "heat", {"os-collect-config": {"heat": 7, "splay": "x"}})
    (machine.state / "documents/ec2.json").write_text("{")
    (machine.state / "learned.json").write_text("[]")
    for name in ("documents/ec2.json", "learned.json"):
        (machine.state / name).chmod(0o600)
    before = everything(machine.folder)
    path = machine.folder / "agent.conf"
    done = config(machine)
    assert done.code == 0
    assert "ec2.json: it is not a document" in done.err
    assert "learned.json: it is damaged" in done.err
    after = everything(machine.folder)
    after.pop(str(path))
    assert after == before


def test_there_need_be_no_state(machine: Machine) -> None:
    """`config` works without a state directory, and creates none."""
    assert config(machine).code == 0
    assert not machine.state.exists()


def test_the_schema_is_printed_whatever_the_settings_are(machine: Machine) -> None:
    """The schema is one JSON object, and no settings are read for it."""
    done = config(machine, "[agnet]\n", "--schema")
    assert (done.code, done.err) == (0, "")
    assert set(done.json["properties"]["agent"]["properties"]) > {
        "parallel",
        "collectors",
    }
