"""heat-config-agent show: everything about one deployment, its secrets hidden."""

from __future__ import annotations

import pytest

from support.commands import SH
from support.loopback import SignalServer
from support.machine import Machine, deployment


def test_show_prints_everything_about_a_deployment(
    machine: Machine, heat: SignalServer
) -> None:
    """`show` prints a deployment with its state, inputs and result, as text and as JSON."""
    script = f"{SH}echo hello $who\nprintf 42 >$heat_outputs_path.answer\n"
    given = deployment(
        "abcdef01",
        script,
        name="web",
        inputs={"who": "world"},
        outputs=["answer"],
        signal=heat.url(),
    )
    machine.apply([given])
    heat.refuse()

    shown, facts = (
        machine.agent("show", "web"),
        machine.agent("show", "--json", "web").data,
    )

    assert (facts["id"], facts["name"]) == ("abcdef01", "web")
    assert (facts["state"], facts["result"]) == ("ok", "sent")
    assert facts["inputs"]["who"] == "world"
    assert facts["values"] == heat.values()[0]
    for words in (
        "web",
        "abcdef01",
        "CREATE",
        "script",
        "who: world",
        "hello world",
        "answer: 42",
        "sent: POST to http://127.0.0.1",
    ):
        assert words in shown.out


def test_show_shortens_long_output_for_people(machine: Machine) -> None:
    """People get the beginning and the end of a long output; with --json they get it all."""
    machine.apply([deployment(config=f"{SH}seq 1 1000\n")])

    lines = machine.agent("show", "d1").out.splitlines()

    assert len(lines) < 60
    assert "980 lines" in next(line for line in lines if "[..." in line)
    assert (
        len(
            machine.agent("show", "--json", "d1")
            .data["values"]["deploy_stdout"]
            .splitlines()
        )
        == 1000
    )


@pytest.mark.parametrize("compacted", [False, True])
def test_secrets_are_never_shown(
    machine: Machine, heat: SignalServer, compacted: bool
) -> None:
    """Credentials, the signed URL, and inputs hidden or named like secrets are in nothing that a command prints."""
    secrets = [
        "pa55-w0rd",
        "hidden-value",
        "0123456789abcdef",
        "c2lnbmVk",
        "dep10y-pw",
        "nested-hidden",
    ]
    inputs = [
        {"name": "db_password", "type": "String", "value": secrets[0]},
        {"name": "code", "type": "String", "value": secrets[1], "hidden": True},
        {"name": "deploy_password", "type": "String", "value": secrets[4]},
        {"name": "map", "type": "Json", "value": {"a": [secrets[5]]}, "no_echo": True},
        {
            "name": "filler",
            "type": "String",
            "value": "." * (400_000 if compacted else 1),
        },
    ]
    script = (
        f'{SH}echo "$db_password $code $map"\nenv | grep -v filler\necho "bad: $db_password $code" >&2\n'
        f"echo '{heat.url()} {secrets[4]}' | tee $heat_outputs_path.out\n"
        'printf "$code $map" >$heat_outputs_path.other\nexit 1\n'
    )
    given = [
        deployment(
            "d1", script, inputs=inputs, outputs=["out", "other"], signal=heat.url()
        )
    ]
    printed = [
        machine.apply(given, "--plan"),
        machine.apply(given, "--plan", "--json"),
        machine.apply(given),
    ]
    # opens the journal anew, which may drop what is settled
    printed += [machine.apply(given, "--json")]
    printed += [
        machine.agent(*each)
        for each in (
            ["status"],
            ["status", "--json"],
            ["log", "d1"],
            ["log", "-f", "d1"],
        )
    ]
    printed += [
        machine.agent("show", "d1"),
        machine.agent("show", "--json", "d1"),
        machine.agent("retry", "d1"),
    ]
    printed += [machine.apply(given, "--json")]

    assert [each.code for each in printed] == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    for each in printed:
        assert "Traceback" not in each.err
        assert [secret for secret in secrets if secret in each.out + each.err] == []
    assert len(heat.signals) == 2
    assert [
        secret
        for secret in secrets
        if any(secret.encode() in signal.body for signal in heat.signals)
    ] == []


def test_a_secret_output_is_sent_but_not_shown(
    machine: Machine, heat: SignalServer
) -> None:
    """An output may be about what an input's name says is secret: Heat is given it, and nobody else is shown it."""
    script = f'{SH}printf "postgres://u:$db_password@db" >$heat_outputs_path.dsn\n'
    given = [
        deployment(
            "d1",
            script,
            inputs={"db_password": "pa55-w0rd"},
            outputs=["dsn"],
            signal=heat.url(),
        )
    ]

    printed = [
        machine.apply(given, "--only", "d1"),
        machine.agent("show", "d1"),
        machine.agent("show", "--json", "d1"),
    ]
    printed += [machine.agent("retry", "d1"), machine.apply(given, "--json")]

    assert [value["dsn"] for value in heat.values()] == [
        "postgres://u:pa55-w0rd@db"
    ] * 2
    assert [each.out for each in printed if "pa55-w0rd" in each.out + each.err] == []


def test_a_secret_inside_another_input_is_not_shown(machine: Machine) -> None:
    """Where one input repeats the secret of another, it is hidden there too."""
    inputs = [
        {"name": "db_password", "value": "pa55-w0rd"},
        {"name": "code", "value": "hidden-value", "hidden": True},
        {"name": "db_url", "value": "postgres://u:pa55-w0rd@db"},
        {
            "name": "setup",
            "type": "Json",
            "value": {"pin": ["hidden-value"], "password": "pa55-w0rd"},
        },
    ]
    machine.apply([deployment(inputs=inputs)])

    shown = machine.agent("show", "d1").out + machine.agent("show", "d1", "--json").out

    assert "postgres://u:" in shown
    assert "pa55-w0rd" not in shown
    assert "hidden-value" not in shown


def test_config_of_a_deployment_is_printed(machine: Machine) -> None:
    """It is the config for the action of the deployment, with secrets masked, and nothing else."""
    script = f"{SH}echo gr8-secret\n"
    component = {
        "configs": [
            {"actions": ["CREATE"], "tool": "script", "config": script},
            {"actions": ["DELETE"], "tool": "script", "config": "other"},
        ]
    }
    inputs = {"db_password": "gr8-secret"}
    machine.apply([deployment("d1", component, group="component", inputs=inputs)])

    printed = machine.agent("show", "--print-config", "d1")
    answer = machine.agent("show", "--print-config", "d1", "--json").data

    assert (printed.code, printed.out) == (0, f"{SH}echo ***\n")
    assert (answer["content"], answer["name"]) == (printed.out, "d1")
    assert machine.agent("show", "d1", "--json").data["content"] is None


def test_deployment_of_a_stack_is_shown_under_its_own_name(machine: Machine) -> None:
    """The name is the one that was asked for, and nothing is said of where a stack's result goes."""
    config = {"group": "script", "config": f"{SH}true\n"}
    uses = {"config": {"get_resource": "config"}, "server": "here"}
    resources = {
        "config": {"type": "OS::Heat::SoftwareConfig", "properties": config},
        "app": {"type": "OS::Heat::SoftwareDeployment", "properties": uses},
    }
    template = {"heat_template_version": "2018-08-31", "resources": resources}
    machine.apply(machine.write(template, "web.yaml"))

    lines = machine.agent("show", "app").out.splitlines()
    facts = machine.agent("show", "web/app", "--json").data
    stack = machine.agent("show", "web")

    assert lines[0].split() == ["name", "web/app"]
    assert "source      stack web" in lines
    assert not any(line.startswith("result") for line in lines)
    assert "nowhere" not in "".join(lines)
    assert (facts["stack"], facts["goes_to"], facts["result"]) == ("web", None, None)
    assert stack.code == 0
    assert "web" in stack.out


def test_show_without_a_name_is_the_status(machine: Machine) -> None:
    """It shows everything that there is."""
    machine.apply([deployment("d1", name="web")])
    assert machine.agent("show").out == machine.agent("status").out
    assert machine.agent("show", "--json").json["kind"] == "status"
