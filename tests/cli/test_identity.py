"""Deployments without an id: their name and content are their identity."""

from __future__ import annotations

import json
import os
import re
import time

import pytest

from support import pace
from support.machine import Done, Machine


def site(
    machine: Machine, text: str = "one", name: str = "web", **others: object
) -> dict[str, object]:
    """Return a deployment without an id that appends its action and a text to the file `log`."""
    script = f'#!/bin/sh\necho "$deploy_action {text}" >>{machine.folder}/log\n'
    return {"name": name, "group": "script", "config": script, **others}


def log(machine: Machine) -> list[str]:
    """Return the lines of the file `log`."""
    path = machine.folder / "log"
    return path.read_text().splitlines() if path.exists() else []


def apply(
    machine: Machine, *entries: dict[str, object], name: str = "site.json"
) -> Done:
    """Apply a file with these deployments."""
    return machine.apply(machine.write(list(entries), name))


def test_unchanged_deployment_runs_once(machine: Machine) -> None:
    """Applied again, also from another file, it is known."""
    codes = [apply(machine, site(machine)).code, apply(machine, site(machine)).code]
    codes.append(apply(machine, site(machine), name="moved.json").code)

    assert codes == [0, 0, 0]
    assert log(machine) == ["CREATE one"]


def test_edited_deployment_is_updated(machine: Machine) -> None:
    """Other content under the same name runs as UPDATE; content that is put back runs again."""
    for text in ("one", "two", "two", "one", "one"):
        assert apply(machine, site(machine, text)).code == 0

    assert log(machine) == ["CREATE one", "UPDATE two", "UPDATE one"]


def test_changed_input_is_an_edit(machine: Machine) -> None:
    """Inputs and options are content as the config is; the order of keys is not."""
    given = site(machine, "$who", inputs=[{"name": "who", "value": "you"}])
    apply(machine, given)
    apply(machine, dict(reversed(given.items())))
    apply(machine, {**given, "inputs": [{"name": "who", "value": "me"}]})

    assert log(machine) == ["CREATE you", "UPDATE me"]


def test_failed_deployment_is_created_until_it_has_succeeded(machine: Machine) -> None:
    """UPDATE is for work that has succeeded before under its name, however the last edition ended."""
    failing = {
        **site(machine),
        "config": f'#!/bin/sh\necho "$deploy_action no" >>{machine.folder}/log; exit 3\n',
    }
    codes = [apply(machine, failing).code]
    codes.append(apply(machine, site(machine)).code)
    codes.append(apply(machine, failing).code)
    codes.append(apply(machine, site(machine, "two")).code)

    assert codes == [1, 0, 1, 0]
    assert log(machine) == ["CREATE no", "CREATE one", "UPDATE no", "UPDATE two"]


def test_deleted_deployment_is_created_again(machine: Machine) -> None:
    """An action that the file names is the action; after a DELETE, new work is a CREATE."""
    delete = site(
        machine, "gone", inputs=[{"name": "deploy_action", "value": "DELETE"}]
    )
    for given in (site(machine), delete, site(machine, "two")):
        assert apply(machine, given).code == 0

    assert log(machine) == ["CREATE one", "DELETE gone", "CREATE two"]


def test_component_gets_its_action(machine: Machine) -> None:
    """The config for the action of a component runs without an input that names the action."""

    def configs(text: str) -> dict[str, object]:
        script = f'#!/bin/sh\necho "$deploy_action {text}" >>{machine.folder}/log\n'
        config = {
            "configs": [
                {"actions": ["CREATE", "UPDATE"], "tool": "script", "config": script}
            ]
        }
        return {"name": "web", "group": "component", "config": config}

    assert [apply(machine, configs(text)).code for text in ("one", "two")] == [0, 0]
    assert log(machine) == ["CREATE one", "UPDATE two"]


def test_plan_says_which_action_will_run(machine: Machine) -> None:
    """A plan has the ids and actions of the run, and leaves nothing on disk."""
    path = machine.write([site(machine)])
    first = machine.apply(path, "--plan", "--json").data["changes"][0]
    assert (first["action"], first["change"], machine.state.exists()) == (
        "CREATE",
        "run",
        False,
    )
    machine.apply(path)
    machine.write([site(machine, "two")])

    assert (
        machine.apply(path, "--plan", "--json").data["changes"][0]["action"] == "UPDATE"
    )
    assert log(machine) == ["CREATE one"]


def test_id_shows_nothing_of_the_content(machine: Machine) -> None:
    """Two machines give the same content different ids: it cannot be guessed from the id. The key is for its owner."""
    ids = []
    for name in ("s1", "s2"):
        state = machine.folder / name
        path = machine.write(
            [site(machine, inputs=[{"name": "password", "value": "1234"}])]
        )
        ran = machine.command(
            "heat-config-apply", ["--state-dir", str(state), "--json", str(path)], {}
        )
        ids.append(ran.data["deployments"][0]["id"])
        assert (state / "edition-key").stat().st_mode & 0o777 == 0o600

    assert len(set(ids)) == 2
    assert [each.rpartition("-")[0] for each in ids] == ["web", "web"]


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 500])
def test_damaged_key_is_replaced(machine: Machine, content: bytes) -> None:
    """Without its key the agent does not know unchanged content: it runs as an update, and the command goes on."""
    apply(machine, site(machine))
    (machine.state / "edition-key").write_bytes(content)

    assert [apply(machine, site(machine)).code for _ in range(2)] == [0, 0]
    assert log(machine) == ["CREATE one", "UPDATE one"]


def test_interrupted_deployment_keeps_its_identity(machine: Machine) -> None:
    """A deployment whose run was not followed to its end is known by its content."""
    waiting = site(
        machine,
        config=f"#!/bin/sh\ntouch {machine.folder}/begun\nread x <{machine.folder}/go\n",
    )
    os.mkfifo(machine.folder / "go")
    process = machine.start_apply([waiting])
    while not (machine.folder / "begun").exists():
        assert process.poll() is None
    process.kill()
    process.communicate()
    (machine.folder / "begun").unlink()
    again = machine.start_apply([waiting])
    (machine.folder / "go").write_text("on\n")
    out, err = again.communicate(timeout=pace.seconds(60))

    assert again.returncode == 0, err
    assert "web" in out
    assert not (machine.folder / "begun").exists()


def test_name_in_two_files_is_refused(machine: Machine) -> None:
    """Two files with different work of one name would replace each other at each run."""
    machine.write([site(machine)], "a.json")
    machine.write([site(machine, "two")], "b.json")
    arguments = [
        "--state-dir",
        str(machine.state),
        f"{machine.folder}/a.json",
        f"{machine.folder}/b.json",
    ]

    ran = machine.command("heat-config-apply", arguments, {})

    assert ran.code == 2
    problem = "the name 'web' is that of two deployments without an id"
    places = [f"{machine.folder}/{name}.json:1:" for name in "ab"]
    assert re.search(f"{problem}, in {places[0]}[0-9]+ and {places[1]}[0-9]+ ", ran.err)
    assert log(machine) == []


def test_deployments_with_and_without_ids_are_two(machine: Machine) -> None:
    """An id is an identity of its own, also with a name that is used without one."""
    given = [{**site(machine, "known"), "id": "known"}, site(machine)]
    for _ in range(2):
        assert apply(machine, *given).code == 0

    assert len(log(machine)) == 2
    assert (
        machine.apply(machine.folder / "site.json", "--json").data["summary"]["skipped"]
        == 2
    )


def test_server_has_to_give_ids(machine: Machine) -> None:
    """In the document that heat-agents would apply, a deployment without an id is a mistake."""
    path = machine.write([site(machine)])
    ran = machine.apply(None, "--json", HEAT_SHELL_CONFIG=str(path))

    assert [(each["path"], each["problem"]) for each in ran.data["mistakes"]] == [
        ("[0].id", "every deployment needs an id")
    ]
    assert log(machine) == []


@pytest.mark.parametrize("collector", ["local", "file"])
def test_files_of_the_daemon_need_no_ids(machine: Machine, collector: str) -> None:
    """The daemon knows the deployments of its own files by name and content too, across restarts."""
    folder = machine.folder / "local-data"
    folder.mkdir()
    path = folder / "site.json"
    place = folder if collector == "local" else path
    settings = machine.write(
        f"[agent]\ncollectors = {collector}\n[{collector}]\npath = {place}\n",
        "agent.conf",
    )
    for text in ("one", "one", "two", "one"):
        path.write_text(json.dumps([site(machine, text)]))
        assert machine.agent("run", "--once", "--config", str(settings)).code == 0

    assert log(machine) == ["CREATE one", "UPDATE two", "UPDATE one"]


def test_name_in_two_files_of_the_daemon_is_a_mistake(machine: Machine) -> None:
    """The second of two deployments with one name fails, and the first one keeps its identity."""
    folder = machine.folder / "local-data"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps([site(machine, "one")]))
    (folder / "b.json").write_text(json.dumps([site(machine, "two")]))
    settings = machine.write(
        f"[agent]\ncollectors = local\n[local]\npath = {folder}\n", "agent.conf"
    )

    done = machine.agent("run", "--once", "--config", str(settings))
    machine.agent("run", "--once", "--config", str(settings))

    problem = "web.id: every deployment needs an id, or a name of its own in its place; the name 'web' is also that of"
    assert f"{folder}/b.json:1:2: {problem} {folder}/a.json:1:2" in done.out + done.err
    assert log(machine) == ["CREATE one"]


@pytest.mark.parametrize("collector", ["local", "file"])
def test_id_in_two_files_of_the_daemon_names_both_lines(
    machine: Machine, collector: str
) -> None:
    """The place of an entry counts in its own file, which may have a list or an object."""
    folder = machine.folder / "local-data"
    folder.mkdir()
    entry = '{id: web, group: script, config: "echo %s"}\n'
    (folder / "a.yaml").write_text(f"# the first\n- {entry % 'one'}")
    (folder / "b.yaml").write_text(
        "deployments:\n- {id: other, group: script, config: 'true'}\n- " + entry % "two"
    )
    paths = folder if collector == "local" else f"{folder}/a.yaml, {folder}/b.yaml"
    settings = machine.write(
        f"[agent]\ncollectors = {collector}\n[{collector}]\npath = {paths}\n",
        "agent.conf",
    )

    done = machine.agent("run", "--once", "--config", str(settings))

    expected = f"{folder}/b.yaml:3:4: web.id: 'web' is also the id of {folder}/a.yaml:2:4; ids must be unique"
    assert expected in done.out
    assert expected in machine.agent("status", "--json").out
    assert machine.agent("log", "web").out == "one\n"


def test_id_in_two_files_of_a_command_names_both_lines(machine: Machine) -> None:
    """The first is applied, as it would be without the other."""
    for name in ("one", "two"):
        machine.write(
            f'\n- {{id: web, group: script, config: "echo {name}"}}\n', f"{name}.yaml"
        )
    paths = [f"{machine.folder}/{name}.yaml" for name in ("one", "two")]

    done = machine.command(
        "heat-config-apply", ["--state-dir", str(machine.state), *paths], {}
    )

    assert (
        f"{paths[1]}:2:4: web.id: 'web' is also the id of one in {paths[0]}:2:4; that one is applied"
        in done.err
    )
    assert machine.agent("log", "web").out == "one\n"


def test_name_twice_in_a_file_names_both_lines(machine: Machine) -> None:
    """Neither has an id that would tell them apart."""
    path = machine.write(
        "".join(
            f"- {{name: web, group: script, config: 'echo {n}'}}\n" for n in (1, 2)
        ),
        "site.yaml",
    )

    done = machine.apply(path)

    problem = (
        "the name 'web' is also that of [0] in line 1, and neither of them has an id"
    )
    assert f"{path}:2:4: error: web.name: {problem}" in done.err


def test_mistake_in_a_file_of_the_daemon_has_its_place(machine: Machine) -> None:
    """A misspelt key keeps back its file, and the pass says where it is."""
    folder = machine.folder / "local-data"
    folder.mkdir()
    (folder / "a.yaml").write_text("- name: web\n  gruop: script\n  config: 'true'\n")
    settings = machine.write(
        f"[agent]\ncollectors = local\n[local]\npath = {folder}\n", "agent.conf"
    )

    done = machine.agent("run", "--once", "--config", str(settings))

    assert done.code != 0
    assert (
        f"{folder}/a.yaml:2:3: web.gruop: there is no key 'gruop' (did you mean group?)"
        in done.err
    )


def held(
    machine: Machine, name: str, end: str = "exit 0", **others: object
) -> dict[str, object]:
    """Return an edition of `web` that says its action, begins to wait for a line of a pipe, and ends as told."""
    pipe = machine.folder / name
    os.mkfifo(pipe)
    script = f"""#!/bin/sh
    echo "$deploy_action {name}" >>{machine.folder}/log
    touch {pipe}.begun
    trap 'exit 9' TERM
    read line <{pipe}
    echo "{name} ends" >>{machine.folder}/log
    {end}
    """
    return {"name": "web", "group": "script", "config": script, **others}


def left_running(machine: Machine, *entries: dict[str, object], name: str) -> None:
    """Apply a file with these deployments, and kill the command as soon as the deployment `name` has begun."""
    process = machine.start_apply([*entries])
    try:
        begun = machine.folder / f"{name}.begun"
        deadline = time.monotonic() + pace.seconds(30)
        while not begun.exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()


def apply_over(
    machine: Machine, *entries: dict[str, object], name: str, parallel: int = 1
) -> str:
    """Apply a file while the run `name` goes on, which may end once this command waits; return its output."""
    settings = machine.write(f"[agent]\nparallel = {parallel}\n", "agent.conf")

    def known() -> int:
        return len(machine.agent("status", "--json").data["deployments"])

    before = known()
    process = machine.start_apply([*entries], "--config", str(settings))
    try:
        deadline = time.monotonic() + pace.seconds(30)
        while known() == before:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        with (machine.folder / name).open("w") as pipe:
            pipe.write("on\n")
        out, err = process.communicate(timeout=pace.seconds(60))
    finally:
        process.kill()
        process.communicate()
    return out + err


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize(
    ("end", "action"), [("exit 0", "UPDATE"), ("exit 3", "CREATE")]
)
def test_edition_runs_after_the_former_one_with_the_action_that_its_end_decides(
    machine: Machine, end: str, action: str, parallel: int
) -> None:
    """The former edition still runs when the edited file is applied: both never run at once."""
    left_running(machine, held(machine, "one", end), name="one")

    said = apply_over(machine, site(machine, "two"), name="one", parallel=parallel)

    assert log(machine) == ["CREATE one", "one ends", f"{action} two"]
    assert "not sent" not in said + machine.agent("status").out
    assert apply(machine, site(machine, "two")).code == 0
    assert machine.agent("status", "--json").data["deployments"][-1]["action"] == action
    assert len(log(machine)) == 3


def test_edition_after_a_removal_that_still_runs_is_created(machine: Machine) -> None:
    """The service is there when the file is read, and has been removed when its turn comes."""
    apply(machine, site(machine))
    delete = [{"name": "deploy_action", "value": "DELETE"}]
    left_running(machine, held(machine, "gone", inputs=delete), name="gone")

    apply_over(machine, site(machine, "two"), name="gone", parallel=4)

    assert log(machine) == ["CREATE one", "DELETE gone", "gone ends", "CREATE two"]


def test_action_of_a_file_stays_after_the_former_edition(machine: Machine) -> None:
    """An action that the file names is the action, in whatever way it is written there."""
    create = [{"name": "deploy_action", "type": "String", "value": "CREATE"}]
    left_running(machine, held(machine, "one"), name="one")

    apply_over(machine, site(machine, "two", inputs=create), name="one")

    assert log(machine) == ["CREATE one", "one ends", "CREATE two"]


def test_component_after_the_former_edition_runs_its_config_for_update(
    machine: Machine,
) -> None:
    """The config is selected for the action that runs, and the deployments after it keep their places."""
    configs = [
        {
            "actions": [action],
            "tool": "script",
            "config": f"#!/bin/sh\necho '{action} component' >>{machine.folder}/log\n",
        }
        for action in ("CREATE", "UPDATE")
    ]
    left_running(machine, held(machine, "one"), name="one")
    component = site(machine, group="component", config={"configs": configs})

    apply_over(machine, component, site(machine, "last", name="z"), name="one")

    assert log(machine) == [
        "CREATE one",
        "one ends",
        "UPDATE component",
        "CREATE last",
    ]


def test_plan_says_that_an_edition_waits_for_the_former_one(machine: Machine) -> None:
    """The action is open until then."""
    left_running(machine, held(machine, "one"), name="one")

    path = machine.write([site(machine, "two")])
    planned = machine.apply(path, "--plan").out
    apply_over(machine, site(machine, "two"), name="one")

    assert "begins when the run of its former edition has ended" in planned


def test_pass_without_work_is_one_line(machine: Machine) -> None:
    """The deployment is offered twice: as the last run has left it, and as its source has it now."""
    folder = machine.folder / "local-data"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps([site(machine)]))
    settings = machine.write(
        f"[agent]\ncollectors = local\n[local]\npath = {folder}\n", "agent.conf"
    )
    machine.agent("run", "--once", "--config", str(settings))

    done = machine.agent("run", "--once", "--config", str(settings))

    assert [line.split()[:2] for line in done.out.splitlines()] == [
        ["1", "deployment:"]
    ]
