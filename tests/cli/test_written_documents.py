"""Documents that people write by hand are read as strictly as templates: each mistake has its place, nothing begins."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from heat_config_agent.cli.apply import command
from heat_config_agent.settings import effective
from heat_config_agent.sources.folder import files_of
from support import pace
from support.commands import counted, run, runs
from support.loopback import SignalServer
from support.machine import Done, Machine, deployment

MISSPELT = """\
- {id: c1, group: script, confg: "#!/bin/sh"}
- {id: a, gruop: script, config: "true"}
- id: c2
  name: web
  group: script
  config: "true"
  option: {timeout: 1}
  inputs:
  - {name: x, valu: 1, type: Strng}
  outputs:
  - {name: y, error_outputs: true}
"""


def applied(
    machine: Machine, content: str | bytes, name: str = "site.yaml", *arguments: str
) -> Done:
    """Apply a file of this content in the folder of the machine, which its messages name without a folder."""
    (machine.folder / name).write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    process = machine.start(
        "heat-config-apply", "--state-dir", str(machine.state), *arguments, name
    )
    out, err = process.communicate(timeout=pace.seconds(60))
    return Done(process.returncode, out, err)


def test_misspelt_keys_are_refused_together(machine: Machine) -> None:
    """All unknown keys are named at once with their places and the keys that were meant, and nothing has begun."""
    ran = applied(machine, MISSPELT)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        "site.yaml:1:27: error: c1.confg: there is no key 'confg' (did you mean config?)",
        "site.yaml:2:11: error: a.gruop: there is no key 'gruop' (did you mean group?)",
        "site.yaml:7:3: error: web.option: there is no key 'option' (did you mean options?)",
        "site.yaml:9:15: error: web.inputs[0].valu: there is no key 'valu' (did you mean value?)",
        "site.yaml:9:24: error: web.inputs[0].type: there is no type 'Strng' (did you mean String?)",
        (
            "site.yaml:11:15: error: web.outputs[0].error_outputs: there is no key 'error_outputs' "
            "(did you mean error_output?)"
        ),
    ]
    assert not machine.state.exists()


def test_mistakes_of_programs_are_one_object(machine: Machine) -> None:
    """With --json, the mistakes are values in an object, with file, line and column."""
    ran = applied(machine, MISSPELT, "site.yaml", "--json")

    assert (ran.code, ran.json["exit_code"]) == (2, 2)
    assert ran.json["mistakes"][0] == {
        "file": "site.yaml",
        "line": 1,
        "column": 27,
        "path": "c1.confg",
        "problem": "there is no key 'confg'",
        "hint": "did you mean config?",
    }


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        (
            "- {id: a, group: script}\n",
            "1:3: error: a: there is no `config` for script",
        ),
        (
            "- {id: a, group: script, config: }\n",
            "1:3: error: a: there is no `config` for script",
        ),
        (
            "- {id: a, config: 'true'}\n",
            "1:3: error: a: there is no `group`, which names the tool",
        ),
        (
            "- {group: script, config: 'true'}\n",
            "1:3: error: [0].id: every deployment needs an id, or a name",
        ),
        (
            "deploymnts: []\n",
            "1:1: error: deploymnts: there is no key 'deploymnts' (did you mean deployments?)",
        ),
        (
            "{id: a, group: script, confg: x}\n",
            "1:24: error: a.confg: there is no key 'confg' (did you mean config?)",
        ),
        (
            "- id: a\n  group: script\n  config: 'true'\n  config: 'false'\n",
            "4:3: error: a.config: the key 'config' is there twice: first in line 3",
        ),
        (
            '[{"id": "a", "group": "script",\n "config": "true", "id": "b"}]',
            "2:20: error: b.id: the key 'id' is there twice: first in line 1",
        ),
        (
            b"- id: a\n  name: caf\xe9\n",
            "2:12: error: it is not UTF-8 text: the byte 0xe9 does not belong there",
        ),
        ("- id: a\n".encode("utf-16"), "1:1: error: it is UTF-16, not UTF-8 text"),
        ("- id: a\n\tgroup: script\n", "2:1: error: it is not YAML: "),
        ("- id: a\n  config:\n\t  - x\n", "3:1: error: it is not YAML: "),
        (
            (
                "- id: a\n  group: component\n  inputs: [{name: deploy_action, value: CRAETE}]\n"
                "  config: {configs: [{actions: [CREATE], tool: script, config: 'true'}]}\n"
            ),
            (
                "3:34: error: a.inputs[0].value: the component has no config for the action 'CRAETE' "
                "(did you mean CREATE?)"
            ),
        ),
        (
            (
                "- id: a\n  group: component\n  inputs: [{name: deploy_action, value: CREATE}]\n"
                "  config: {configs: [{action: [CREATE], tool: script, config: 'true'}]}\n"
            ),
            "4:23: error: a.config.configs[0].action: there is no key 'action' (did you mean actions?)",
        ),
        (
            "- {name: web, group: script, config: 'true'}\n- {name: web, group: script, config: 'false'}\n",
            "2:4: error: web.name: the name 'web' is also that of [0] in line 1, and neither of them has an id",
        ),
        (
            "- {name: 12, group: script, config: 'true'}\n",
            "1:4: error: [0].name: expected text, not the number 12",
        ),
        (
            "- {id: a}\n---\n- {id: b}\n",
            "2:1: error: it is not YAML: expected a single document",
        ),
        (
            "- {id: a}\n---\n- {id: b}\n",
            "(a file has one document: remove the line `---`)",
        ),
        (
            "# only a comment\n",
            "1:1: error: expected deployments (an object with `deployments`, or a list)",
        ),
        (
            "deployments: {a: {group: script}}\n",
            "1:1: error: deployments: expected a list, not an object",
        ),
        (
            "42\n",
            "1:1: error: expected deployments (an object with `deployments`, or a list), not the number 42",
        ),
    ],
)
def test_mistake_of_a_document_has_its_place(
    machine: Machine, content: str | bytes, mistake: str
) -> None:
    """A document that would do something else than it seems to say is refused, with file, line and column."""
    ran = applied(machine, content)

    assert (ran.code, ran.out) == (2, "")
    assert (mistake if mistake.startswith("(") else f"site.yaml:{mistake}") in ran.err
    assert not machine.state.exists()


@pytest.mark.parametrize(
    "content", ["- id: a\n\tgroup: script\n", "- id: a\n  config:\n\t  - x\n"]
)
def test_tab_is_answered_with_its_cure(machine: Machine, content: str) -> None:
    """For every tab that YAML refuses, the message says to indent with spaces."""
    assert (
        "(indent with spaces: YAML allows no tabs there)"
        in applied(machine, content).err
    )


def test_mistakes_of_all_files_are_shown_together(machine: Machine) -> None:
    """A mistake in one of several files keeps back all of them."""
    machine.write(json.dumps([counted(machine, "good")]), "a.yaml")
    machine.write("- {id: b, group: script, confg: x}\n", "b.yaml")
    machine.write("- {id: c, group: script, config: x, id: d}\n", "c.yaml")

    ran = run(
        machine,
        "heat-config-apply",
        "--state-dir",
        str(machine.state),
        *(f"{machine.folder}/{x}.yaml" for x in "abc"),
    )

    assert ran.code == 2
    assert ["b.yaml:1:26" in ran.err, "c.yaml:1:37" in ran.err] == [True, True]
    assert not machine.state.exists()


def test_standard_input_has_places(machine: Machine) -> None:
    """Standard input is a file like others."""
    ran = run(
        machine,
        "heat-config-apply",
        "--state-dir",
        str(machine.state),
        "-",
        given=MISSPELT,
    )

    assert ran.code == 2
    assert (
        "standard input:2:11: error: a.gruop: there is no key 'gruop' (did you mean group?)"
        in ran.err
    )


def test_keys_that_heat_sends_are_known(machine: Machine) -> None:
    """A copy of Heat's metadata has keys that people do not write."""
    entry = counted(machine, "d1")
    entry |= {"creation_time": "2026-11-20T10:00:00Z", "project": "p"}
    entry["inputs"] += [
        {
            "name": "a",
            "type": "String",
            "value": "",
            "description": "x",
            "replace_on_change": False,
            "default": "",
        }
    ]
    entry["outputs"] = [
        {"name": "b", "type": "String", "description": "y", "error_output": False}
    ]

    assert (
        machine.apply(
            {"deployments": [entry], "os-collect-config": {}, "anything": 1}
        ).code
        == 0
    )
    assert runs(machine) == ["d1"]


def test_awaited_deployment_is_carried_out_with_unknown_keys(
    machine: Machine, heat: SignalServer
) -> None:
    """A deployment for whose result a server waits comes from there: a key of a later Heat is not a mistake."""
    given = {
        **deployment("d1", "#!/bin/sh\necho done\n", signal=heat.url()),
        "later": 1,
    }

    assert machine.apply([given]).code == 0
    assert [value["deploy_stdout"] for value in heat.values()] == ["done\n"]


def test_mistake_of_one_entry_has_its_place(machine: Machine) -> None:
    """A mistake for which only its entry fails is shown with its place too, and the others are applied."""
    machine.write(
        json.dumps(
            [counted(machine, "good"), {**deployment("bad"), "options": {"timeot": 1}}]
        ),
        "d.json",
    )

    ran = machine.apply(machine.folder / "d.json")

    assert ran.code == 1
    assert f"{machine.folder}/d.json:1:" in ran.out
    assert (
        "bad.options.timeot: script has no such option; did you mean timeout?"
        in ran.out
    )
    assert runs(machine) == ["good"]


def test_unknown_tool_is_answered_with_the_one_that_was_meant(machine: Machine) -> None:
    """A misspelt group is answered with its neighbour instead of a list of all tools."""
    ran = machine.apply([deployment("a", group="scirpt")])

    assert ran.code == 1
    assert "no hook for the tool 'scirpt'; did you mean script?" in ran.out


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "k.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
            "this is a manifest of Kubernetes",
        ),
        ("c.yaml", "services: {web: {image: nginx}}\n", "`group: docker-compose`"),
        (
            "p.yaml",
            "- hosts: localhost\n  tasks: []\n",
            "this is a playbook of Ansible",
        ),
        ("e.yaml", "parameters: {a: 1}\n", "name this file with --environment"),
        ("s.sh", "#!/bin/sh\necho hi\n", "this is a script"),
        ("u.yaml", "#cloud-config\npackages: [nginx]\n", "user data for cloud-init"),
        ("w.service", "[Unit]\nDescription=x\n", "this is a unit of systemd"),
        ("agent.conf", "[agent]\nparallel = 2\n", "name it with --config"),
        ("page.html", "<!DOCTYPE html>\n<p>x\n", "this is a web page"),
        ("x.tgz", b"\x1f\x8b\x08\0\0\0", "this is an archive made with gzip"),
    ],
)
def test_file_of_another_kind_is_named(
    machine: Machine, name: str, content: str | bytes, words: str
) -> None:
    """A file that is something else than deployments is called what it is, with the way in which it is used."""
    ran = applied(machine, content, name)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"{name}:1:1: error: ")
    assert words in ran.err


def test_address_is_not_a_file(machine: Machine) -> None:
    """A URL is refused as such, unchanged, with the ways to use it."""
    ran = machine.apply(None, "https://example.org/x.yaml")

    assert ran.code == 2
    assert (
        ran.err
        == "error: https://example.org/x.yaml is not fetched (download it, or follow it: [follow NAME])\n"
    )


# Folders.


def folder_with(machine: Machine, **files: str) -> Path:
    """Return a folder with these files; `__` stands for a dot in their names."""
    folder = machine.folder / "site"
    folder.mkdir()
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return folder


def test_folder_is_its_documents_in_the_order_of_names(machine: Machine) -> None:
    """The documents in a folder are applied in the order of names; scripts, hidden files and folders are left alone."""
    texts = {
        f"{number}__yaml": json.dumps([counted(machine, f"d{number}")])
        for number in (3, 1, 2)
    }
    folder = folder_with(
        machine,
        **texts,
        readme__md="# x\n",
        run__sh="#!/bin/sh\n",
        __hidden__yaml="- {gruop: x}\n",
    )
    (folder / "more").mkdir()

    first, second = machine.apply(folder, "--json"), machine.apply(folder)

    assert [each["id"] for each in first.json["deployments"]] == ["d1", "d2", "d3"]
    assert (first.code, second.code) == (0, 0)
    assert runs(machine) == ["d1", "d2", "d3"]


def test_changed_file_in_a_folder_is_noticed(machine: Machine) -> None:
    """A run without work does not hide that a file of the folder has changed since."""
    folder = folder_with(machine, a__yaml=json.dumps([counted(machine, "d1")]))
    machine.apply(folder)
    machine.apply(folder)
    (folder / "a.yaml").write_text(json.dumps([counted(machine, "d2")]))

    assert machine.apply(folder).code == 0
    assert runs(machine) == ["d1", "d2"]


def test_file_removed_from_a_folder_has_no_deployments(machine: Machine) -> None:
    """They count as taken out: nothing says any more that one of them has failed, until the file is back."""
    bad = {"name": "bad", "group": "script", "config": "#!/bin/sh\nexit 3\n"}
    folder = folder_with(
        machine, a__yaml=json.dumps([counted(machine, "d1")]), b__yaml=json.dumps([bad])
    )
    assert machine.apply(folder).code == 1
    assert machine.agent("status", "--failed").out == "bad: exit code 3\n"
    (folder / "b.yaml").rename(machine.folder / "b.yaml")
    assert machine.apply(folder).out.splitlines()[-1] == "1 deployment: 1 skipped"
    assert (machine.agent("status", "--failed").code, runs(machine)) == (0, ["d1"])

    (machine.folder / "b.yaml").rename(folder / "b.yaml")
    assert (
        machine.apply(folder).out.splitlines()[-1]
        == "2 deployments: 2 skipped, 1 of them failed earlier"
    )
    assert machine.agent("status", "--failed").out == "bad: exit code 3\n"


def test_lost_file_of_a_folder_is_said_and_keeps_its_deployments(
    machine: Machine,
) -> None:
    """A link whose file is away is a file that cannot be read, in a plan too; its deployments are not taken out."""
    bad = {"name": "bad", "group": "script", "config": "#!/bin/sh\nexit 3\n"}
    folder = folder_with(
        machine, a__yaml=json.dumps([counted(machine, "d1")]), b__yaml=json.dumps([bad])
    )
    assert machine.apply(folder).code == 1
    (folder / "b.yaml").unlink()
    (folder / "b.yaml").symlink_to(machine.folder / "away")

    for words in ((), ("--plan",)):
        done = machine.apply(folder, *words)
        assert done.code == 1
        assert f"cannot read {folder}/b.yaml: No such file or directory" in done.err
    assert machine.agent("status", "--failed").out == "bad: exit code 3\n"


def test_file_of_a_broken_disk_is_not_gone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its deployments stay in force: a disk that cannot say whether a file is there has not lost it."""
    folder = folder_with(
        machine,
        a__yaml=json.dumps([counted(machine, "d1")]),
        b__yaml=json.dumps([counted(machine, "d2")]),
    )
    assert machine.apply(folder).code == 0
    settings = effective.make({}, state=machine.state)
    for name in ("stat", "lstat"):
        monkeypatch.setattr(os, name, breaking(getattr(os, name), "b.yaml"))

    files = [str(folder / each) for each in ("a.yaml", "b.yaml")]
    assert list(files_of(str(folder))) == files
    assert command.removed(settings, [str(folder)], [f"file:{files[0]}"]) == []


def breaking(call: Callable[..., object], name: str) -> Callable[..., object]:
    """Return a system call that fails with an error of the disk for a file of this name."""

    def called(path: object, *arguments: object, **options: object) -> object:
        if str(path).endswith(name):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return call(path, *arguments, **options)

    return called


HOT = "heat_template_version: 2018-08-31\nresources: {}\n"


def test_folder_with_a_template_is_that_template(machine: Machine) -> None:
    """The only template of a folder is applied as if it was named."""
    ran = machine.apply(folder_with(machine, web__yaml=HOT, run__sh="#!/bin/sh\n"))

    assert ran.code == 0, ran.err
    assert "web: CREATE_COMPLETE" in ran.out


TOSCA = "tosca_definitions_version: tosca_simple_yaml_1_3\ntopology_template: {}\n"


def test_folder_with_a_plain_tosca_template_is_that_template(machine: Machine) -> None:
    """It needs no name of an archive: the stack has the name of the file, as if the file was named."""
    ran = machine.apply(folder_with(machine, shop__yaml=TOSCA, run__sh="#!/bin/sh\n"))

    assert ran.code == 0, ran.err
    assert "shop: CREATE_COMPLETE" in ran.out


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "there is nothing to apply in"),
        ({"a__md": "x"}, "there is nothing to apply in"),
        ({"a__yaml": HOT, "b__yaml": HOT}, "has 2 templates (name one: "),
        (
            {"a__yaml": HOT, "b__yaml": "- {id: a, group: script, config: 'true'}"},
            "a template and documents",
        ),
        ({"a__yaml": HOT, "e__yaml": "parameters: {}\n"}, "site/e.yaml)"),
        (
            {"k__yaml": "apiVersion: v1\nkind: Pod\n"},
            "k.yaml:1:1: error: this is a manifest of Kubernetes",
        ),
        (
            {"a__yaml": "- {id: a, gruop: script, config: 'true'}"},
            "a.yaml:1:11: error: a.gruop: there is no key",
        ),
    ],
)
def test_folder_with_other_files_is_refused_in_their_words(
    machine: Machine, files: dict[str, str], words: str
) -> None:
    """A folder that does not say what is to be applied is refused, and nothing has begun."""
    ran = machine.apply(folder_with(machine, **files))

    assert ran.code == 2
    assert words in ran.err
    assert "template_name" not in ran.err
    assert not machine.state.exists()


@pytest.mark.parametrize(
    "mistake",
    [
        {"options": {"timeot": 1}},
        {"group": 5},
        {"inputs": [{"value": 1}]},
        {"options": {"timeout": "x"}},
    ],
)
def test_corrected_deployment_runs_under_its_id(
    machine: Machine, mistake: dict[str, object]
) -> None:
    """Nothing of a deployment with mistakes has run, so it runs once they are corrected, and then never again."""
    good = counted(machine, "d1")
    codes = [
        machine.apply([given]).code
        for given in ({**good, **mistake}, good, {**good, "name": "other"})
    ]

    assert codes == [1, 0, 0]
    assert runs(machine) == ["d1"]


# The same mistakes in templates.


@pytest.mark.parametrize(
    "command", [["heat-config-apply"], ["heat-config-agent", "template", "validate"]]
)
def test_template_of_another_encoding_is_called_a_template(
    machine: Machine, command: list[str]
) -> None:
    """A byte that is not UTF-8 has its place, whatever the language."""
    path = machine.folder / "t.yaml"
    path.write_bytes(b"heat_template_version: 2018-08-31\ndescription: caf\xe9\n")
    state = ["--state-dir", str(machine.state)] if len(command) == 1 else []

    ran = run(machine, *command, *state, str(path))

    assert ran.code == 2
    assert f"{path}:2:17: it is not UTF-8 text (save it as UTF-8)" in ran.err.replace(
        "error: it is", "it is"
    )


def test_repeated_key_of_a_template_is_among_its_mistakes(machine: Machine) -> None:
    """A key that is there twice is shown with the mistakes for which it may be the reason."""
    path = machine.folder / "t.yaml"
    resource = (
        "{type: OS::Heat::Value, properties: {value: 1}, depends_on: a, depends_on: a}"
    )
    path.write_text(f"heat_template_version: 2018-08-31\nresources:\n  a: {resource}\n")

    ran = machine.apply(path)

    assert ran.code == 2
    assert "Circular Dependency Found: a → a" in ran.err
    assert (
        f"{path}:3:69: error: resources.a.depends_on: the key 'depends_on' is there twice"
        in ran.err
    )


@pytest.mark.parametrize(
    "content",
    [
        "- {id: a, group: script, config: x}\n",
        "deployments: [{name: a, group: script}]\n",
    ],
)
def test_document_is_not_validated_as_a_template(
    machine: Machine, content: str
) -> None:
    """A command for templates says what the file is, and which command shows what it does."""
    path = machine.write(content, "d.yaml")

    ran = run(machine, "heat-config-agent", "template", "validate", str(path))

    assert ran.code == 1
    assert (
        "this is a document of deployments: heat-config-apply --plan shows what it does"
        in ran.err
    )


def test_config_that_a_tool_cannot_use_has_its_place(machine: Machine) -> None:
    """The failure of a deployment whose config has the wrong form has the place of the config."""
    ran = applied(
        machine,
        "- name: web\n  group: script\n  config: {a: 1}\n",
        "site.yaml",
        "--json",
    )

    assert ran.code == 1
    [failed] = ran.json["deployments"]
    assert failed["result"]["deploy_status_code"] == 125
    assert (
        "site.yaml:3:3: web.config: expected the text of a script"
        in failed["result"]["deploy_stderr"]
    )


def test_mistake_in_a_member_of_a_config_has_its_place(machine: Machine) -> None:
    """The path has the name of the member in the form that the tool gives it, whatever characters it contains."""
    config = "  config:\n    /nowhere/a[0].json: {}\n    ./b[1].json: {}\n"
    ran = applied(
        machine, f"- name: web\n  group: json-file\n{config}", "site.yaml", "--json"
    )

    [failed] = ran.json["deployments"]
    assert failed["result"]["deploy_status_code"] == 125
    assert (
        'site.yaml:5:5: web.config["./b[1].json"]: '
        in failed["result"]["deploy_stderr"]
    )
