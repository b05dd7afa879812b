"""A component over its life: which of its configs is run for an action, and with which options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.loopback import SignalServer
from support.machine import Machine, deployment

LIFE = ("CREATE", "UPDATE", "SUSPEND", "RESUME", "DELETE")
SAY = "#!/bin/sh\nprintf '%s' \"$deploy_action\"\n"


def config(script: object, *actions: str, **fields: Any) -> dict[str, Any]:
    """Return one config of a component."""
    return {"actions": list(actions), "tool": "script", "config": script, **fields}


def component(identity: str, *configs: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of a component."""
    return deployment(identity, {"configs": list(configs)}, group="component", **fields)


def noting(folder: Path, word: str) -> str:
    """Return a script that leaves a line in a file, and prints it too."""
    return f"#!/bin/sh\necho {word} | tee -a {folder}/done\n"


def done(folder: Path) -> list[str]:
    """Return what the scripts of `noting` have left."""
    path = folder / "done"
    return path.read_text().split() if path.exists() else []


def test_a_component_is_taken_through_its_life(
    machine: Machine, heat: SignalServer
) -> None:
    """Each action comes as a new deployment in place of the last one, and runs and reports its own config once."""
    configs = [
        config(noting(machine.folder, action.lower()), action) for action in LIFE
    ]

    for number, action in enumerate(LIFE):
        given = [
            component(
                f"id-{number}",
                *configs,
                name="app",
                action=action,
                signal=heat.url(action),
            )
        ]
        assert machine.apply(given).code == 0
        assert machine.apply(given).code == 0
        assert heat.values(action) == [
            {
                "deploy_stdout": f"{action.lower()}\n",
                "deploy_stderr": "",
                "deploy_status_code": 0,
            }
        ]

    assert done(machine.folder) == ["create", "update", "suspend", "resume", "delete"]
    assert len(heat.signals) == len(LIFE)


@pytest.mark.parametrize("action", LIFE)
def test_config_may_serve_several_actions(
    machine: Machine, heat: SignalServer, action: str
) -> None:
    """A config is run for each of the actions that it lists."""
    machine.apply(
        [component("d1", config(SAY, *LIFE), action=action, signal=heat.url())]
    )

    assert heat.values() == [
        {"deploy_stdout": action, "deploy_stderr": "", "deploy_status_code": 0}
    ]


@pytest.mark.parametrize(
    "action", ["MIGRATE", "scale-out", "create", "Sichern & prüfen", "SNAPSHOT"]
)
def test_an_extended_action_is_like_any_other(
    machine: Machine, heat: SignalServer, action: str
) -> None:
    """An action of the template author's own chooses its config, whatever its name; another case is another name."""
    others = config("#!/bin/sh\necho another\n", *LIFE)

    ran = machine.apply(
        [component("d1", others, config(SAY, action), action=action, signal=heat.url())]
    )

    assert ran.code == 0, ran.err
    assert heat.values() == [
        {"deploy_stdout": action, "deploy_stderr": "", "deploy_status_code": 0}
    ]


def test_an_action_without_a_config_is_reported_as_done(
    machine: Machine, heat: SignalServer
) -> None:
    """Nothing is run for an action that no config lists, and the sender is told so rather than left waiting."""
    given = [
        component(
            "d1",
            config(noting(machine.folder, "ran"), "CREATE"),
            action="SUSPEND",
            signal=heat.url(),
        )
    ]

    ran = machine.apply(given)

    assert ran.code == 0, ran.err
    (value,) = heat.values()
    assert value["deploy_status_code"] == 0
    assert "SUSPEND" in value["deploy_stderr"]
    assert "nothing was run" in value["deploy_stderr"]
    assert done(machine.folder) == []
    assert machine.apply(given).code == 0
    assert len(heat.signals) == 1


def test_a_component_without_any_config_is_reported_as_done(
    machine: Machine, heat: SignalServer
) -> None:
    """An empty list of configs has none for the action."""
    assert machine.apply([component("d1", signal=heat.url())]).code == 0
    assert [value["deploy_status_code"] for value in heat.values()] == [0]


def test_an_action_in_two_configs_fails_and_names_both(
    machine: Machine, heat: SignalServer
) -> None:
    """An action in two configs fails and names both, and neither is run."""
    run = noting(machine.folder, "ran")
    configs = [
        config(run, "CREATE"),
        config(run, "UPDATE"),
        config(run, "DELETE", "CREATE"),
    ]

    ran = machine.apply({"deployments": [component("d1", *configs, signal=heat.url())]})

    assert ran.code == 1
    (value,) = heat.values()
    assert value["deploy_status_code"] != 0
    assert value["deploy_stderr"].startswith(f"{machine.folder}/document.json:1:")
    assert ": d1.config: " in value["deploy_stderr"]
    assert "configs[0]" in value["deploy_stderr"]
    assert "configs[2]" in value["deploy_stderr"]
    assert "configs[1]" not in value["deploy_stderr"]
    assert done(machine.folder) == []


@pytest.mark.parametrize(
    ("configs", "path"),
    [
        (
            {"configs": [{"actions": ["CREATE"], "config": "true"}]},
            "config.configs[0].tool",
        ),
        ({"configs": [config("true", "CREATE", tool="")]}, "config.configs[0].tool"),
        ({"configs": [config("true", "CREATE", tool=7)]}, "config.configs[0].tool"),
        (
            {
                "configs": [
                    config("true", "UPDATE"),
                    {"tool": "script", "config": "true"},
                ]
            },
            "config.configs[1].actions",
        ),
        (
            {"configs": [config("true", "CREATE", actions="CREATE")]},
            "config.configs[0].actions",
        ),
        ({"configs": ["script"]}, "config.configs[0]"),
        ({"configs": {"CREATE": "true"}}, "config"),
        ({}, "config"),
        ("", "config"),
        ("#!/bin/sh\n", "config"),
        ("[]", "config"),
        (None, "config"),
        (3, "config"),
    ],
)
def test_a_malformed_component_fails_with_the_path(
    machine: Machine, heat: SignalServer, configs: object, path: str
) -> None:
    """A component of an unknown shape is answered as failed, with the place of the mistake; the others are applied."""
    bad = deployment("bad", configs, group="component", signal=heat.url("bad"))

    ran = machine.apply(
        {"deployments": [bad, deployment("good", signal=heat.url("good"))]}
    )

    assert ran.code == 1
    (value,) = heat.values("bad")
    assert value["deploy_status_code"] != 0
    assert value["deploy_stderr"].startswith(f"{machine.folder}/document.json:1:")
    assert f": bad.{path}: " in value["deploy_stderr"]
    assert [value["deploy_status_code"] for value in heat.values("good")] == [0]


def test_a_component_needs_an_action(machine: Machine, heat: SignalServer) -> None:
    """Without the input `deploy_action` nothing says which config is meant."""
    given = component("d1", config("true", "CREATE"), signal=heat.url())
    given["inputs"] = [
        each for each in given["inputs"] if each["name"] != "deploy_action"
    ]

    assert machine.apply([given]).code == 1
    (value,) = heat.values()
    assert value["deploy_status_code"] != 0
    assert "deploy_action" in value["deploy_stderr"]


def test_a_component_may_be_json_text(machine: Machine, heat: SignalServer) -> None:
    """Some transports carry a component's config as text: heat-agents crashed on it and never answered."""
    text = json.dumps({"configs": [config("#!/bin/sh\necho made\n", "CREATE")]})

    machine.apply([deployment("d1", text, group="component", signal=heat.url())])

    assert heat.values() == [
        {"deploy_stdout": "made\n", "deploy_stderr": "", "deploy_status_code": 0}
    ]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"script": {"timeout": 0.2}, "ansible": {"tags": "x"}}, 124),
        ({"timeout": 0.2}, 124),
        ({"timeout": "0.2"}, 124),
        ({"timeout": 0.2, "ansible": {"tags": "x"}}, 124),
        ({"ansible": {"timeout": 0.2}}, 0),
        ({"script": {}, "timeout": 0.2}, 0),
        ({"script": {}, "tiemout": 0.2}, 0),
        ({"script": "text", "timeout": 0.2}, 125),
        ({"script": {"tiemout": 0.2}}, 125),
        (None, 0),
    ],
)
def test_the_options_of_a_component_are_the_tools(
    machine: Machine, heat: SignalServer, options: object, code: int
) -> None:
    """Options count that stand under the tool's name where they have such a section, else the options as they are."""
    script = config("#!/bin/sh\nsleep 0.6\n", "CREATE")

    machine.apply([component("d1", script, options=options, signal=heat.url())])

    assert [value["deploy_status_code"] for value in heat.values()] == [code]


@pytest.mark.parametrize("group", ["script", "component"])
@pytest.mark.parametrize("status", ["COMPLETE", "FAILED"])
def test_only_work_in_progress_is_done(
    machine: Machine, heat: SignalServer, group: str, status: str
) -> None:
    """A deployment whose status is another than IN_PROGRESS asks for nothing, until it is in progress."""

    def given(status: str) -> list[dict[str, Any]]:
        run = noting(machine.folder, "ran")
        body: object = (
            {"configs": [config(run, "CREATE")]} if group == "component" else run
        )
        return [
            deployment(
                "d1",
                body,
                group=group,
                inputs={"deploy_status": status},
                signal=heat.url(),
            )
        ]

    assert machine.apply(given(status)).code == 0
    assert done(machine.folder) == []
    assert heat.signals == []

    assert machine.apply(given("IN_PROGRESS")).code == 0
    assert done(machine.folder) == ["ran"]
    assert len(heat.signals) == 1

    assert machine.apply(given("COMPLETE")).code == 0
    assert done(machine.folder) == ["ran"]
    assert len(heat.signals) == 1


def test_a_failed_action_stands_in_the_way_of_none_after_it(
    machine: Machine, heat: SignalServer
) -> None:
    """After an UPDATE that failed, the DELETE is run like any other."""
    configs = [
        config("#!/bin/sh\nexit 9\n", "UPDATE"),
        config(noting(machine.folder, "deleted"), "DELETE"),
    ]

    failed = machine.apply(
        [component("d1", *configs, action="UPDATE", signal=heat.url())]
    )
    deleted = machine.apply(
        [component("d2", *configs, action="DELETE", signal=heat.url())]
    )

    assert (failed.code, deleted.code) == (1, 0)
    assert [value["deploy_status_code"] for value in heat.values()] == [9, 0]
    assert done(machine.folder) == ["deleted"]


def test_deployments_are_run_in_the_order_of_the_document(
    machine: Machine, heat: SignalServer
) -> None:
    """Deployments run in the order of the document, and a failed one does not stop the others."""
    given = [
        component(
            f"d{n}", config(noting(machine.folder, str(n)), "CREATE"), signal=heat.url()
        )
        for n in (3, 1, 2)
    ]
    given.insert(
        1, component("d0", config("#!/bin/sh\nexit 1\n", "CREATE"), signal=heat.url())
    )

    assert machine.apply(given).code == 1
    assert done(machine.folder) == ["3", "1", "2"]
    assert len(heat.signals) == 4


def test_each_config_has_its_own_tool(machine: Machine, heat: SignalServer) -> None:
    """A component may be made with one tool and removed with another, and each gets only its own config."""
    machine.hook(
        "puppet", '#!/bin/sh\ncat >"$0.given"\necho \'{"deploy_status_code": 0}\'\n'
    )
    configs = [
        config("notify { 'hi': }", "CREATE", tool="puppet"),
        config(SAY, "DELETE"),
    ]

    machine.apply(
        [
            component(
                "d1", *configs, options={"puppet": {"tags": "x"}}, signal=heat.url()
            )
        ]
    )
    machine.apply([component("d2", *configs, action="DELETE", signal=heat.url())])

    given = json.loads((machine.hooks / "puppet.given").read_text())
    assert (given["id"], given["group"], given["config"]) == (
        "d1",
        "puppet",
        "notify { 'hi': }",
    )
    assert given["options"] == {"puppet": {"tags": "x"}}
    assert [value["deploy_status_code"] for value in heat.values()] == [0, 0]
    assert heat.values()[1]["deploy_stdout"] == "DELETE"
