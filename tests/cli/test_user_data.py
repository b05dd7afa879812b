"""The user data of servers: named where it is left out, carried out where people ask, never waited for in vain."""

from __future__ import annotations

import json
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import pytest

from heat_config_stack.resource_types import servers
from support.machine import Done, Machine

LEFT = "the user_data of web is not carried out; --user-data carries out its scripts"


def template(resources: dict[str, Any], outputs: dict[str, Any] | None = None) -> str:
    """Return a template, as JSON."""
    return json.dumps(
        {
            "heat_template_version": "2018-08-31",
            "resources": resources,
            "outputs": outputs or {},
        }
    )


def server(content: object, format_: str = "RAW") -> dict[str, Any]:
    """Return a server with user data."""
    properties = {
        "image": "any",
        "flavor": "any",
        "user_data_format": format_,
        "user_data": content,
    }
    return {"type": "OS::Nova::Server", "properties": properties}


def waiting(content: object) -> dict[str, Any]:
    """Return a wait condition, its handle, and a server whose user data may signal it."""
    condition = {"handle": {"get_resource": "done"}, "timeout": 60}
    return {
        "done": {"type": "OS::Heat::WaitConditionHandle"},
        "wait": {"type": "OS::Heat::WaitCondition", "properties": condition},
        "web": server(content),
    }


NOTIFIES = {
    "str_replace": {
        "params": {"NOTIFY": {"get_attr": ["done", "curl_cli"]}},
        "template": "#!/bin/sh\nNOTIFY\n",
    }
}


def apply(machine: Machine, text: str, *arguments: str) -> Done:
    """Apply a template as the stack `s`."""
    path = machine.write(text, "s.yaml")
    return machine.apply(None, str(path), *arguments)


def test_user_data_that_is_not_carried_out_is_named(
    machine: Machine, tmp_path: Path
) -> None:
    """The command says so at the end, of one server or of several."""
    script = f"#!/bin/sh\ntouch {tmp_path}/ran\n"
    done = apply(machine, template({"web": server(script), "none": server("")}))
    assert (done.code, LEFT in done.err) == (0, True)
    assert not (tmp_path / "ran").exists()
    done = apply(machine, template({"web": server(script), "db": server(script)}))
    assert "the user_data of db, web is not carried out" in done.err


def test_scripts_of_user_data_run_once_for_each_server(
    machine: Machine, tmp_path: Path
) -> None:
    """They are deployments with a name, a log and a result."""
    text = template(
        {"web": server(f"#!/bin/sh\necho from user data; echo >> {tmp_path}/ran\n")}
    )
    done = apply(machine, text, "--user-data")
    assert (done.code, done.err) == (0, "")
    assert machine.agent("log", "s/web").out.splitlines()[-1] == "from user data"
    assert apply(machine, text, "--user-data").code == 0
    assert apply(machine, text).err == ""
    assert (tmp_path / "ran").read_text() == "\n"


def test_scripts_run_later_if_people_ask_for_them_later(
    machine: Machine, tmp_path: Path
) -> None:
    """A server that was made without its user data gets it with the first command that has the option."""
    text = template({"web": server(f"#!/bin/sh\necho >> {tmp_path}/ran\n")})
    assert apply(machine, text).code == 0
    for _ in range(2):
        assert apply(machine, text, "--user-data").code == 0
    assert (tmp_path / "ran").read_text() == "\n"


def test_changed_user_data_is_named_until_it_is_carried_out(
    machine: Machine, tmp_path: Path
) -> None:
    """A server runs its user data once, so the stack has not on the machine what its template says."""
    texts = [
        template({"web": server(f"#!/bin/sh\necho {word} >> {tmp_path}/ran\n")})
        for word in ("one", "two")
    ]
    assert apply(machine, texts[0], "--user-data").err == ""

    changed = [apply(machine, texts[1], *options) for options in (["--user-data"], [])]

    for done in changed:
        assert (done.code, done.out.count("UPDATE_COMPLETE")) == (0, 1)
        assert "the user_data of web has changed since it was carried out" in done.err
        assert "retry s/web" in done.err
    assert (tmp_path / "ran").read_text() == "one\n"
    assert machine.agent("retry", "s/web").code == 0
    assert apply(machine, texts[1], "--user-data").err == ""
    assert (tmp_path / "ran").read_text() == "one\ntwo\n"
    assert apply(machine, texts[1]).err == ""


def test_failed_script_fails_its_server(machine: Machine) -> None:
    """A success would be a false one."""
    done = apply(
        machine,
        template({"web": server("#!/bin/sh\necho no disk >&2; exit 3\n")}),
        "--user-data",
    )
    assert done.code == 1
    assert "web: exit code 3: no disk\n" in done.err
    assert "         | no disk\n" in done.out


def test_wait_that_only_user_data_ends_fails_at_once(machine: Machine) -> None:
    """Nothing on this machine would ever signal it; with the option, its script does."""
    done = apply(machine, template(waiting(NOTIFIES)))
    assert done.code == 1
    assert (
        "nothing here signals done: only the user_data of web does, which is not carried out"
        in done.out
    )
    done = apply(machine, template(waiting(NOTIFIES)), "--user-data")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("way", ["a config", "an output", "a deployment"])
def test_wait_that_something_else_may_end_goes_on(way: str, machine: Machine) -> None:
    """Through a config it is user data again; a deployment or a person may signal it."""
    resources, outputs = waiting(NOTIFIES), {}
    if way == "a config":
        resources["config"] = {
            "type": "OS::Heat::SoftwareConfig",
            "properties": {"config": NOTIFIES},
        }
        resources["web"] = server({"get_resource": "config"}, "SOFTWARE_CONFIG")
    elif way == "an output":
        outputs["notify"] = {"value": {"get_attr": ["done", "curl_cli"]}}
    else:
        resources["config"] = {
            "type": "OS::Heat::SoftwareConfig",
            "properties": {"group": "script", "config": NOTIFIES},
        }
        properties = {
            "server": {"get_resource": "web"},
            "config": {"get_resource": "config"},
        }
        resources["run"] = {
            "type": "OS::Heat::SoftwareDeployment",
            "properties": properties,
        }
    resources["wait"]["properties"]["timeout"] = 2
    done = apply(machine, template(resources, outputs))
    assert ("nothing here signals" in done.out) is (way == "a config")
    assert ("WaitConditionTimeout" in done.out) is (way == "an output")
    assert (done.code == 0) is (way == "a deployment")


def test_parts_for_cloud_init_are_named(machine: Machine, tmp_path: Path) -> None:
    """The scripts among them run, in their order; the others are for cloud-init alone."""
    message = MIMEMultipart()
    for content, kind in (
        ("packages: [nginx]\n", "cloud-config"),
        (f"#!/bin/sh\necho one >> {tmp_path}/ran; exit 5\n", "x-shellscript"),
        (f"#!/bin/bash\necho two é >> {tmp_path}/ran\n", "x-shellscript"),
    ):
        message.attach(MIMEText(content, kind))
    done = apply(machine, template({"web": server(message.as_string())}), "--user-data")
    assert (done.code, (tmp_path / "ran").read_text()) == (1, "one\ntwo é\n")
    done = apply(
        machine,
        template({"web": server("#cloud-config\npackages: [nginx]\n")}),
        "--user-data",
    )
    assert (
        "cloud-config in the user_data of web is not carried out: it is for cloud-init"
        in done.err
    )


@pytest.mark.parametrize(
    ("text", "scripts", "others"),
    [
        ("", (), ()),
        ("\n#!/bin/sh\ntrue\n", ("#!/bin/sh\ntrue\n",), ()),
        ("#cloud-config\n{}", (), ("cloud-config",)),
        ("#cloud-config-archive\n[]", (), ("an archive of cloud-config",)),
        ("#cloud-boothook\n#!/bin/sh\n", (), ("a boothook",)),
        ("#include\nhttp://example.com\n", (), ("a list of URLs",)),
        ("## template: jinja\n#cloud-config\n", (), ("a template",)),
        ("#part-handler\n", (), ("a part handler",)),
        ("echo hello", (), ("a text of an unknown kind",)),
        (
            'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/plain\n\n#!/bin/sh\n--b--\n',
            ("#!/bin/sh",),
            (),
        ),
    ],
)
def test_user_data_is_read_as_cloud_init_reads_it(
    text: str, scripts: tuple[str, ...], others: tuple[str, ...]
) -> None:
    """The first words say what a text is."""
    assert servers.read_user_data(text) == servers.UserData(scripts, others)
