"""Deployments of a stack are carried out on this machine as those of Heat are."""

from __future__ import annotations

import json

from stack.made import deployment, made, script
from stack.working import Working


def test_output_of_a_script_is_an_input_of_the_next(working: Working) -> None:
    """An output of a script is an input of the next one, and an output of the stack."""
    working.session.create(
        made(
            {
                "first": script(
                    'printf "hello $who" > $heat_outputs_path.said',
                    "said",
                    inputs=["who"],
                ),
                "second": script("echo $word", inputs=["word"]),
                "one": deployment("first", input_values={"who": "ada"}),
                "two": deployment(
                    "second", input_values={"word": {"attr": ["one", "said"]}}
                ),
            },
            {
                "said": {"attr": ["one", "said"]},
                "printed": {"attr": ["two", "deploy_stdout"]},
            },
        )
    )
    assert working.state() == ("CREATE", "COMPLETE")
    assert working.root.output("said") == "hello ada"
    assert working.root.output("printed") == "hello ada\n"


def test_failure_stops_only_its_dependents(working: Working) -> None:
    """The stack has failed, with the reason; another deployment is carried out, and a dependent one never begun."""
    working.session.create(
        made(
            {
                "bad": script("echo no >&2; exit 3"),
                "good": script("true"),
                "fails": deployment("bad"),
                "after": deployment("good") | {"depends_on": ["fails"]},
                "other": deployment("good"),
            }
        )
    )
    states = working.states()
    assert (states["fails"], states["after"], states["other"]) == (
        "CREATE_FAILED",
        "INIT_COMPLETE",
        "CREATE_COMPLETE",
    )
    assert working.root.record.reason.endswith(
        "resources.fails: Deployment to server failed: deploy_status_code : "
        "Deployment exited with non-zero status code: 3"
    )


def test_each_action_is_carried_out_in_its_turn(working: Working) -> None:
    """Suspended, resumed and removed, a deployment's script runs for those actions that it is for."""
    log = working.folder / "log"
    resources = {
        "c": script(f"echo $deploy_action >> {log}"),
        "d": deployment("c", "CREATE", "SUSPEND", "DELETE"),
    }
    working.session.create(made(resources))
    working.close()
    working.session.suspend()
    working.session.resume()
    assert working.states() == {"c": "RESUME_COMPLETE", "d": "RESUME_COMPLETE"}
    working.session.delete()
    assert working.session.root is None
    assert log.read_text().split() == ["CREATE", "SUSPEND", "DELETE"]


def test_an_update_carries_out_what_has_changed(working: Working) -> None:
    """Another text of a config means another config, and an UPDATE of the deployment; the same text means nothing."""
    log = working.folder / "log"
    first = made({"c": script(f"echo $deploy_action a >> {log}"), "d": deployment("c")})
    working.session.create(first)
    working.session.update(working.again(first.source))
    assert log.read_text().splitlines() == ["CREATE a"]
    changed = json.loads(json.dumps(first.source).replace(" a ", " b "))
    working.session.update(working.again(changed))
    assert log.read_text().splitlines() == ["CREATE a", "UPDATE b"]
    assert working.states() == {"c": "CREATE_COMPLETE", "d": "UPDATE_COMPLETE"}


def test_a_group_that_no_tool_carries_out_fails_at_once(working: Working) -> None:
    """A group without a tool fails at once instead of waiting for a result that never comes."""
    config = {"type": "OS::Heat::SoftwareConfig", "properties": {"config": "x"}}
    working.session.create(made({"c": config, "d": deployment("c")}))
    assert working.states()["d"] == "CREATE_FAILED"
    assert "no tool" in working.root.resources["d"].get_attribute("deploy_stderr")


def test_nobody_is_waited_for_who_is_not_to_answer(working: Working) -> None:
    """With NO_SIGNAL the deployment is complete at once, and its script runs nevertheless."""
    log = working.folder / "log"
    working.session.create(
        made(
            {
                "c": script(f"sleep 0.2; echo ran >> {log}"),
                "d": deployment("c", signal_transport="NO_SIGNAL"),
            }
        )
    )
    assert working.states()["d"] == "CREATE_COMPLETE"
    assert log.read_text() == "ran\n"


def test_deployments_of_other_servers_are_not_run(working: Working) -> None:
    """By the name of its resource; what is for another one counts as done, and says that it was not."""
    log = working.folder / "log"
    server = {"type": "OS::Nova::Server", "properties": {"flavor": "f"}}
    working.server = "web"
    working.session.create(
        made(
            {
                "c": script(f"echo $deploy_resource_name >> {log}"),
                "web": server,
                "db": server,
                "one": deployment("c", server={"ref": "web"}),
                "other": deployment("c", server={"ref": "db"})
                | {"depends_on": ["one"]},
                "after": deployment("c", server={"ref": "web"})
                | {"depends_on": ["other"]},
            }
        )
    )
    assert working.state() == ("CREATE", "COMPLETE")
    assert log.read_text().split() == ["one", "after"]
    assert "not carried out" in working.root.resources["other"].get_attribute(
        "deploy_stderr"
    )
