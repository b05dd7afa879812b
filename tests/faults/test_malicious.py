"""Names, options and inputs that try to be more than that: they do nothing, and where they matter they are refused.

Whoever writes a config runs what they like on the machine; that is what it is for. All else in a document is data: it
leads nowhere, starts nothing, and says nothing in the agent's name. Each test leaves something to be touched, a canary,
and looks whether it was.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.daemon import Daemon
from support.loopback import SignalServer
from support.machine import Done, Machine, deployment

pytestmark = pytest.mark.takes(20)

BROKEN, CANNOT_START, NO_TOOL = 125, 126, 127

Tried = Callable[[int], None]


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A program next to the state directory that must never run, and the file that it would write."""
    path = tmp_path / "canary"
    path.write_text(f"#!/bin/sh\necho sung >>{tmp_path}/sung\n")
    path.chmod(0o755)
    return path


def sung(canary: Path) -> bool:
    """Return whether the canary was run."""
    return canary.with_name("sung").exists()


def beside(machine: Machine) -> dict[str, tuple[int, bytes]]:
    """Return all files around the state directory, with mode and content."""
    found = {}
    for path in sorted(machine.folder.rglob("*")):
        if machine.state not in (path, *path.parents) and not path.is_dir():
            content = (
                os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            )
            found[str(path)] = (path.lstat().st_mode, content)
    return found


def results(machine: Machine) -> dict[str, dict[str, Any]]:
    """Return what became of each deployment, by name."""
    done = machine.agent("status", "--json")
    assert done.code == 0, done.err
    return {each["name"]: each for each in done.data["deployments"]}


def values(done: Done) -> dict[str, dict[str, Any]]:
    """Return what the results of a command with --json are, by id."""
    return {each["id"]: each["values"] for each in done.data["deployments"]}


def paths(machine: Machine) -> list[str]:
    """Return names that are paths, or would like to be."""
    victim = machine.folder / "victim"
    return [
        *(
            "../victim",
            "../../victim",
            "../../../victim",
            str(victim),
            f"../{victim.name}/x",
            "/",
            ".",
            "..",
            "./x",
            "x/",
        ),
        *(
            "-rf",
            "--help",
            "-",
            "~",
            "~root",
            "*",
            "?",
            "a\nb",
            "a\rb",
            "a\0b",
            "\0",
            "\x1b[2J",
            " ",
            "\t",
            "x" * 5000,
        ),
        *(
            "‥/victim",
            "．．/victim",
            "..∕victim",
            "%2e%2e/victim",
            "..\\victim",
            "\u202evictim",
            "\ufeff",
            "\ud800",
        ),
        *(
            "$(touch victim)",
            "`touch victim`",
            ";touch victim",
            "|touch victim",
            "a b",
            "{key}",
            "%s",
            "CON",
            ".hidden",
        ),
    ]


@pytest.mark.fault(
    4,
    "ids and names of deployments that are paths, options, shell commands, NUL, newlines, or 5,000 characters long",
    "they name one deployment each, which is run once; nothing is written outside its own folders",
)
def test_ids_and_names_lead_nowhere(
    machine: Machine, canary: Path, tried: Tried
) -> None:
    """An id is only an id, even if it looks like a path."""
    (machine.folder / "victim").write_text("alive")
    given = [
        deployment(
            each,
            f"#!/bin/sh\necho {number} >>{machine.state}/ran\n",
            name=each,
            outputs=["out"],
        )
        for number, each in enumerate(paths(machine))
    ]
    machine.write(given)
    before = beside(machine)
    done = machine.apply(machine.folder / "document.json")
    assert done.code == 0, done.out + done.err
    assert beside(machine) == before
    assert not sung(canary)
    assert sorted((machine.state / "ran").read_text().split(), key=int) == [
        str(each) for each in range(len(given))
    ]
    assert "\x1b" not in done.out + done.err
    again = machine.apply(machine.folder / "document.json")
    assert again.out == f"{len(given)} deployments: nothing to do\n"
    tried(len(given))


@pytest.mark.fault(
    4,
    "names of outputs that are paths, options, NUL, newlines, or 5,000 characters long",
    "a name that leads elsewhere fails its deployment; any other names a file in the folder for outputs",
)
@pytest.mark.parametrize("tool", ["script", "python"])
def test_names_of_outputs_lead_nowhere(
    machine: Machine, canary: Path, tool: str, tried: Tried
) -> None:
    """The name of an output can neither remove nor read a file elsewhere."""
    (machine.folder / "victim").write_text("alive")
    config = {"script": "#!/bin/sh\n:\n", "python": "pass\n"}[tool]
    given = [
        deployment(f"d{number}", config, group=tool, outputs=[each])
        for number, each in enumerate(paths(machine))
    ]
    machine.write(given)
    before = beside(machine)
    done = machine.apply(machine.folder / "document.json")
    assert done.code == 1, done.out + done.err
    assert "Traceback" not in done.err
    assert beside(machine) == before
    assert not sung(canary)
    found = results(machine)
    for number, each in enumerate(paths(machine)):
        failed = found[f"d{number}"]["state"] == "failed"
        assert failed == (
            "/" in each or "\0" in each or "\ud800" in each or len(each) > 200
        ), (
            each,
            found[f"d{number}"],
        )
        assert not failed or found[f"d{number}"]["reason"]
    tried(len(given))


@pytest.mark.fault(
    2,
    "tools that are paths, modules of Python or of ours, options, look-alikes, files that are no hooks",
    "there is no such hook: the deployment fails with status 127, and nothing is run or imported",
)
@pytest.mark.parametrize("shape", ["plain", "component"])
def test_names_of_tools_start_nothing(
    machine: Machine, canary: Path, shape: str, tried: Tried
) -> None:
    """A tool is a name in a table or in a hook directory, and never a path or a module."""
    machine.hook("known", "#!/bin/sh\nexit 1\n")
    (machine.hooks / "folder").mkdir()
    (machine.hooks / "link").symlink_to("/nowhere")
    (machine.hooks / "pipe").with_suffix("").mkdir(exist_ok=True)
    named = [
        *(
            "../canary",
            str(canary),
            "./../canary",
            f"known/../../{canary.name}",
            "canary",
            "/bin/sh",
            "sh",
            "bash -c",
        ),
        *(
            "os",
            "sys",
            "__init__",
            "__main__",
            "builtin:os",
            "heat_config_hooks",
            "tools.script",
            "steps",
            "protocol",
        ),
        *(
            "reply",
            "engines",
            "pods",
            "standalone",
            "heat-config-hook",
            "ѕcript",
            "scrípt",
            "SCRIPT",
            "script.py",
        ),
        *(
            "--help",
            "-",
            "/",
            "..",
            "☃",
            " ",
            "\0",
            "folder",
            "link",
            "pipe",
            "$(../canary)",
            "x" * 5000,
            "\ud800",
        ),
    ]
    config = f"#!/bin/sh\n{canary}\n"
    given = []
    for number, tool in enumerate(named):
        one = deployment(f"d{number}", config)
        if shape == "plain":
            one["group"] = tool
        else:
            one |= {
                "group": "component",
                "config": {
                    "configs": [{"actions": ["CREATE"], "tool": tool, "config": config}]
                },
            }
        given.append(one)
    done = machine.apply(given, "--json")
    assert done.code == 1, done.out + done.err
    assert "Traceback" not in done.err
    assert not sung(canary)
    for number, tool in enumerate(named):
        found = values(done)[f"d{number}"]
        assert found["deploy_status_code"] == NO_TOOL, (tool, found)
        assert "no hook for the tool" in found["deploy_stderr"]
    tried(len(named))


@pytest.mark.fault(
    2,
    "actions of a component that are paths, patterns, of other types, or look like another",
    "only the exact action is chosen; anything but a list of texts fails the deployment",
)
def test_config_of_a_component_needs_its_exact_action(
    machine: Machine, canary: Path, tried: Tried
) -> None:
    """An action chooses a config only by its exact name, not by a pattern, another case or another type."""
    config = f"#!/bin/sh\n{canary}\n"
    actions: list[Any] = [
        *(
            ["*"],
            [".*"],
            ["create"],
            ["CREATE "],
            ["СREATE"],
            ["CREATE\0"],
            [""],
            [],
            ["CREAT", "CREATED"],
        ),
        *(
            "CREATE",
            [["CREATE"]],
            [{"CREATE": 1}],
            {"CREATE": True},
            [None],
            [True],
            None,
            0,
        ),
    ]
    given = []
    for number, each in enumerate(actions):
        component = {"configs": [{"actions": each, "tool": "script", "config": config}]}
        given.append(deployment(f"d{number}", component, group="component"))
    done = machine.apply(given, "--json")
    assert done.code == 1
    assert not sung(canary)
    for number, each in enumerate(actions):
        good = isinstance(each, list) and all(isinstance(one, str) for one in each)
        found = values(done)[f"d{number}"]
        assert (found["deploy_status_code"] == 0) == good, (each, found)
        assert ("has no config for CREATE" in found["deploy_stderr"]) == good
    tried(len(actions))


def injections(
    machine: Machine, canary: Path
) -> list[tuple[str, dict[str, Any], object]]:
    """Return tools with options that try to be others, and a config that does nothing."""
    play = "- hosts: localhost\n  gather_facts: false\n  tasks: []\n"
    run = f"--vault-password-file={canary}"
    kitchen = machine.folder / "kitchen"
    hosts = machine.folder / "hosts"
    return [
        ("ansible", {"tags": run}, play),
        ("ansible", {"skip_tags": ["a", run]}, play),
        ("ansible", {"modulepath": run}, play),
        ("ansible", {"inventory": run}, play),
        ("ansible", {"inventory": f"../../{hosts.name}"}, play),
        ("chef", {"kitchen": f"ext::{canary}"}, ["recipe[a]"]),
        ("chef", {"kitchen": f"--upload-pack={canary}"}, ["recipe[a]"]),
        ("chef", {"kitchen": f"{kitchen} --upload-pack={canary}"}, ["recipe[a]"]),
        ("chef", {"kitchen": f"-c core.sshCommand={canary}"}, ["recipe[a]"]),
        ("docker-cmd", {}, {"--privileged": {"image": "x"}}),
        ("docker-cmd", {}, {"a": {"image": "--entrypoint=/canary"}}),
        ("docker-cmd", {}, {"a": {"image": "x", "--volume": "/:/host"}}),
        (
            "docker-cmd",
            {},
            {"a": {"action": "exec", "command": ["--privileged", str(canary)]}},
        ),
        ("hiera", {}, {"datafiles": {"../../victim": {"a": 1}}}),
        ("hiera", {"version": "--help"}, {"hierarchy": ["a"]}),
        ("json-file", {}, {"../victim": {"a": 1}}),
        ("json-file", {"mode": "7777"}, {str(machine.folder / "new"): {"a": 1}}),
        (
            "kubelet",
            {},
            {
                "metadata": {"name": "../../victim"},
                "spec": {"containers": [{"name": "a"}]},
            },
        ),
        (
            "puppet",
            {
                "tags": [f"--external_nodes={canary}"],
                "modulepath": [f"--config={canary}"],
            },
            "fail('no')",
        ),
        ("python", {"interpreter": "--version"}, "pass"),
        ("python", {"interpreter": f"'{canary}"}, "pass"),
        ("quadlet", {}, {"../x.container": "[Container]\nImage=x\n"}),
        (
            "quadlet",
            {},
            {"x.kube": "[Kube]\nYaml=y.yaml\n", "../../y.yaml": "kind: Pod\n"},
        ),
        ("quadlet", {"name": "/etc/x.container"}, "[Container]\nImage=x\n"),
        ("script", {"timeout": f"1; {canary}"}, "#!/bin/sh\n"),
        ("systemd-unit", {}, {"--root=x.service": "[Service]\nExecStart=/bin/true\n"}),
        ("systemd-unit", {}, {"../x.service": "[Service]\nExecStart=/bin/true\n"}),
        ("systemd-unit", {}, {"x.service.d/../../y.conf": "[Service]\n"}),
        (
            "systemd-unit",
            {"name": "/etc/x.service"},
            "[Service]\nExecStart=/bin/true\n",
        ),
    ]


@pytest.mark.fault(
    2,
    "options and names in configs of our hooks that begin with «-», lead elsewhere, or name other programs",
    "they are refused, or taken as the value that they are: no other program is run, nothing is written elsewhere",
)
def test_options_of_hooks_do_not_reach_their_programs(
    machine: Machine, canary: Path, tried: Tried
) -> None:
    """An option of a hook is neither an option of its program nor a path, unless the hook declares that."""
    (machine.folder / "victim").write_text("alive")
    (machine.folder / "hosts").write_text(
        f"localhost ansible_connection=local ansible_python_interpreter={canary}\n"
    )
    (machine.folder / "kitchen").mkdir()
    tools = machine.folder / "tools"
    tools.mkdir()
    for name in ("chef-client", "docker", "crictl", "systemctl", "systemd-analyze"):
        # Not the machine's own: what would be asked of them must never be.
        (tools / name).write_text("#!/bin/sh\nexit 3\n")
        (tools / name).chmod(0o755)
    given = [
        deployment(f"d{number}", config, group=tool, options=options)
        for number, (tool, options, config) in enumerate(injections(machine, canary))
    ]
    machine.write(given)
    before = beside(machine)
    done = machine.apply(
        machine.folder / "document.json",
        "--json",
        seconds=110,
        PATH=f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        HEAT_PUPPET_HIERA_DATADIR=str(machine.state / "hieradata"),
        HEAT_HIERA_CONFIG=str(machine.state / "hiera.yaml"),
        HEAT_SYSTEMD_UNIT_DIR=str(machine.state / "units"),
        HEAT_PUPPET_LOGDIR=str(machine.state / "logs"),
    )
    assert "Traceback" not in done.err
    assert not sung(canary), done.out
    after = {
        path: each for path, each in beside(machine).items() if "/.ansible/" not in path
    }
    assert after == before
    for number, (tool, options, config) in enumerate(injections(machine, canary)):
        found = values(done)[f"d{number}"]
        assert found["deploy_status_code"] != 0 or tool == "ansible", (
            tool,
            options,
            config,
        )
    tried(len(given))


def test_input_that_cannot_be_a_variable_is_named_with_the_reason(
    machine: Machine,
) -> None:
    """A warning names the class of such an input, and the run continues without it."""
    script = '#!/bin/sh\nprintf "%s" "${CLASSPATH-none} $ok"\n'
    done = machine.apply(
        [deployment("d1", script, inputs={"CLASSPATH": "/x.jar", "ok": "fine"})],
        "--json",
    )
    assert done.code == 0
    assert values(done)["d1"]["deploy_stdout"] == "none fine"
    sentence = (
        "d1: the input CLASSPATH is not in the environment, because that variable affects Java; "
        "it is in $HEAT_INPUTS_FILE"
    )
    assert sentence in [each["message"] for each in done.json["warnings"]]
    assert "/x.jar" not in json.dumps(done.json["warnings"])


@pytest.mark.fault(
    4,
    "inputs named like variables by which programs load code or find others (PATH, LD_PRELOAD, BASH_ENV, …)",
    "they do not become variables of the run; the file of inputs has them",
)
@pytest.mark.parametrize(
    "program", ["/bin/sh", "/bin/bash", "/usr/bin/env python3", "/usr/bin/env perl"]
)
def test_inputs_cannot_steer_the_interpreter_of_a_script(
    machine: Machine, canary: Path, program: str, tried: Tried
) -> None:
    """The interpreter of a script is what its author chose, and does what its script says."""
    if not shutil.which(program.rpartition(" ")[2]):
        pytest.skip(f"{program} is not here; install it with apt")
    trap = machine.folder / "trap"
    trap.mkdir()
    for name in ("sitecustomize.py", "usercustomize.py", "os.py"):
        (trap / name).write_text(f"open({str(machine.folder / 'sung')!r}, 'w')\n")
    (trap / "Evil.pm").write_text(
        f"package Evil; open(F, '>', '{machine.folder}/sung'); 1;\n"
    )
    for name in ("true", "env", "sh", "cat"):
        shutil.copy(canary, trap / name)
    given = {
        **dict.fromkeys(
            (
                "PATH",
                "CDPATH",
                "PYTHONPATH",
                "PERL5LIB",
                "PERLLIB",
                "RUBYLIB",
                "LD_LIBRARY_PATH",
            ),
            str(trap),
        ),
        **dict.fromkeys(
            (
                "BASH_ENV",
                "ENV",
                "PYTHONSTARTUP",
                "LD_PRELOAD",
                "LD_AUDIT",
                "PROMPT_COMMAND",
            ),
            str(canary),
        ),
        "IFS": "/",
        "PS4": f"$({canary})",
        "SHELLOPTS": "xtrace",
        "BASHOPTS": "expand_aliases",
        "PYTHONHOME": str(trap),
        "PERL5OPT": "-MEvil",
        "RUBYOPT": "-revil",
        "PYTHONINSPECT": "1",
        "GCONV_PATH": str(trap),
        "HEAT_RUN": "x",
        **{
            f"BASH_FUNC_{name}%%": f"() {{ {canary}; }}"
            for name in ("cat", "true", "echo")
        },
        "BASH_FUNC_true()": f"() {{ {canary}; }}",
        "a=b": "c",
        f"x\n{canary}": "y",
        "a\0PATH": str(trap),
        "HEAT_INPUTS_FILE": "/x",
        "heat_outputs_path": str(machine.folder / "victim"),
        "NODE_OPTIONS": f"--require={canary}",
        "OLDPWD": "/x",
    }
    shown = machine.state / "shown"
    inner = f"env | grep -v planted >{shown}; true; cat /dev/null"
    script = {
        "/bin/sh": inner,
        "/bin/bash": inner,
        "/usr/bin/env python3": f"""
import os
with open('{shown}', 'w') as file:
    file.writelines(f'{{name}}={{value}}\\n' for name, value in os.environ.items() if name != 'planted')
""",
        "/usr/bin/env perl": f"""
open(F, '>', '{shown}');
print F "$_=$ENV{{$_}}\\n" for grep {{$_ ne "planted"}} keys %ENV;
""",
    }[program]
    done = machine.apply([deployment("d1", f"#!{program}\n{script}\n", inputs=given)])
    assert done.code == 0, done.out + done.err
    assert not sung(canary)
    text = shown.read_text()
    assert str(trap) not in text
    assert str(canary) not in text
    assert f"heat_outputs_path={machine.state}" in text
    assert f"HEAT_INPUTS_FILE={machine.state}" in text
    tried(len(given))


FORGED = "\n<0>FORGED\nerror: FORGED\r2026-11-22 FORGED\x1b[2J\x1b]0;FORGED\x07\x9b2J\u2028FORGED\u202e\x08"


def forged(text: str) -> list[str]:
    """Return what is in a text that somebody else has said in our name, or that steers a terminal."""
    lines = text.split("\n")
    return [
        each
        for each in lines
        if re.match(r"(<\d>|error: |\d{4}-\d\d-\d\d |warning: |)FORGED", each)
    ] + re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", text)


def forgers() -> list[dict[str, Any]]:
    """Return deployments that have control characters and whole lines in all that is ever shown of one."""
    plain = deployment(
        f"d1{FORGED}",
        "#!/bin/sh\nprintf 'x\\n<0>FORGED\\033[2J\\n'; exit 3\n",
        name=f"name{FORGED}",
    )
    named = deployment(
        "d2",
        f"#!/bin/sh\nprintf 'a%sb' '{FORGED}' >\"$heat_outputs_path.o\"\n",
        outputs=["o"],
    )
    named["inputs"].append({"name": f"input{FORGED}", "value": f"value{FORGED}"})
    return [
        plain,
        named,
        {**deployment("d3"), "group": f"tool{FORGED}"},
        {**deployment("d4"), "options": {f"option{FORGED}": 1}},
        {**deployment("d5"), "outputs": [{"name": f"a/{FORGED}"}]},
        {**deployment("d6", action=f"ACTION{FORGED}"), "name": f"six{FORGED}"},
        {**deployment("d7", signal=f"ftp://host{FORGED}/x"), "name": f"seven{FORGED}"},
        {**deployment("d7"), "config": FORGED},
        {**deployment("d8", f"#!/no{FORGED}"), "name": "eight"},
        {
            **deployment("d9"),
            "group": "component",
            "config": {"configs": [{"tool": FORGED, "actions": ["CREATE"]}]},
        },
    ]


forging = pytest.mark.fault(
    5,
    "newlines, priorities for the journal, and terminal sequences in all that a document names and a tool prints",
    "what is shown or logged has them replaced: no line is forged, no terminal steered",
)


@forging
def test_no_line_of_the_commands_is_forged(machine: Machine, tried: Tried) -> None:
    """All text of a deployment stays on the line about it."""
    given = machine.write(forgers())
    number = 0
    shown = [machine.apply(given, "--plan"), machine.apply(given), machine.apply(given)]
    shown += [
        machine.agent(*words)
        for words in (("status",), ("status", "--check"), ("tool", "list"))
    ]
    shown += [
        machine.agent("show", each) for each in ("d1", "d2", "d3", "d6", "d8", FORGED)
    ]
    shown += [
        machine.agent("retry", "d1"),
        machine.agent("forget", "--yes", "d2"),
        machine.agent("pause", "--reason", FORGED),
    ]
    shown += [
        machine.agent("status"),
        machine.apply(given),
        machine.apply(machine.folder / f"no{FORGED}"[:20]),
    ]
    for done in shown:
        said = done.out + done.err
        assert "Traceback" not in said
        assert forged(said) == [], said
        number += 1
    printed = machine.agent("log", "d1")  # whose lines are the tool's own
    assert "\x1b" not in printed.out + printed.err
    tried(number + 1)


@forging
@pytest.mark.parametrize("journal", [True, False])
def test_no_line_of_the_log_is_forged(daemon: Daemon, journal: bool) -> None:
    """Each line of the daemon's log begins with our own priority or time, in every kind of log."""
    daemon.put(forgers())
    if journal:
        daemon.start(JOURNAL_STREAM="1:2")
    else:
        daemon.start()
    daemon.wait_said("eight")
    daemon.wait_state("d2", "unasked")
    daemon.stop()
    assert "Traceback" not in daemon.log
    assert forged(daemon.log) == []
    begin = r"<[3-6]>" if journal else r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "
    assert all(re.match(begin, line) for line in daemon.log.splitlines()), daemon.log


@pytest.mark.fault(
    4,
    "signal URLs and verbs of other schemes, with users, without hosts, with newlines",
    "nothing is sent but by HTTP, with POST or PUT, as one request; no file is written, no password shown",
)
def test_signal_urls_reach_nothing_else(
    machine: Machine, heat: SignalServer, canary: Path, tried: Tried
) -> None:
    """A result that nobody can take is refused for good, and that is said."""
    victim = machine.folder / "victim"
    victim.write_text("alive")
    at = heat.origin.removeprefix("http://")
    urls = [
        *(
            f"file://{victim}",
            f"file://localhost{victim}",
            str(victim),
            f"unix:{victim}",
            f"http+unix://{victim}/x",
        ),
        *(
            f"gopher://{at}/_POST",
            f"ftp://{at}/x",
            "javascript:1",
            "data:,x",
            "http://",
            "http:///x",
            "//x",
            "x",
            " ",
        ),
        *(
            f"HTTP+{heat.origin}",
            "http://[::1",
            "http://a:99999/",
            "http://a:b/",
            f"ext::{canary}",
            "http://\0/",
            "-",
        ),
    ]
    lines = [
        f"{heat.origin}/v1/x\r\nX-Evil: 1",
        f"{heat.origin}/v1/x HTTP/1.1\r\nX-Evil: 1\r\n\r\n",
        f"{heat.origin}/v1/\nx",
    ]
    given = [deployment(f"u{number}", signal=url) for number, url in enumerate(urls)]
    given += [deployment(f"l{number}", signal=url) for number, url in enumerate(lines)]
    verbs = [
        "DELETE",
        "GET",
        "POST / HTTP/1.1\r\nX-Evil: 1",
        "",
        "post\r\n",
        "PUT\0",
        "CONNECT",
    ]
    given += [
        deployment(f"v{number}", signal=heat.url("v"), verb=verb)
        for number, verb in enumerate(verbs)
    ]
    given.append(deployment("user", signal=f"http://name:hunter2hunter2@{at}/v1/user"))
    machine.write(given)
    before = beside(machine)
    done = machine.apply(machine.folder / "document.json", "--deliver-for", "1")
    assert done.code == 5, done.out + done.err
    assert "Traceback" not in done.err
    assert beside(machine) == before
    for each in heat.signals:
        assert each.verb in ("POST", "PUT")
        assert "X-Evil" not in each.headers
        assert json.loads(each.body)["deploy_status_code"] == 0
    found = results(machine)
    assert {found[f"u{number}"]["result"] for number in range(len(urls))} == {"refused"}
    shown = (
        done.out
        + done.err
        + machine.agent("status").out
        + machine.agent("show", "user").out
    )
    assert "hunter2hunter2" not in shown
    tried(len(given))


@pytest.mark.fault(
    4,
    "links, folders and pipes that a script leaves where a later deployment's script, outputs, run and record go",
    "they are replaced, not followed: nothing is written, removed or read elsewhere",
)
@pytest.mark.parametrize(
    "what", ["link to a file", "link to a folder", "dangling link", "folder", "pipe"]
)
def test_planted_links_are_not_followed(
    machine: Machine, heat: SignalServer, what: str
) -> None:
    """The later one runs, or fails and says why; the agent is not led anywhere."""
    outside = machine.folder / "outside"
    outside.mkdir()
    (outside / "victim").write_text("alive")
    plant = {
        "link to a file": f"ln -s {outside}/victim",
        "link to a folder": f"ln -s {outside}",
        "dangling link": f"ln -s {outside}/new",
        "folder": "mkdir",
        "pipe": "mkfifo",
    }[what]
    state = machine.state
    places = [
        *(
            f"{state}/heat-config-script/later",
            f"{state}/heat-config-script/.later.new",
        ),
        *(
            f"{state}/run/heat-config-script/later.out",
            f"{state}/runs/later",
            f"{state}/deployed/later.json",
        ),
        *(f"{state}/deployed/.later.json.new", f"{state}/deployed/later.notify.json"),
    ]
    script = "#!/bin/sh\numask 077\nmkdir -p {deployed}\n" + "".join(
        f"{plant} {each}\n" for each in places
    )
    later = deployment(
        "later",
        '#!/bin/sh\necho fine >"$heat_outputs_path.out"\n',
        outputs=["out"],
        signal=heat.url(),
    )
    given = [deployment("earlier", script.format(deployed=state / "deployed")), later]
    done = machine.apply(given)
    assert "Traceback" not in done.err
    assert {each.name: each.read_text() for each in outside.iterdir()} == {
        "victim": "alive"
    }
    [value] = heat.values()
    if value["deploy_status_code"] == 0:
        assert value["out"] == "fine\n"
        assert done.code == 0
    else:
        assert value["deploy_status_code"] == CANNOT_START
        assert str(state) in value["deploy_stderr"]
        assert done.code == 1
    again = machine.apply([{**later, "id": "last", "name": "last"}])
    assert again.code == 0, again.out + again.err


@pytest.mark.fault(
    4,
    "YAML tags that make objects of Python's, JSON keys that some readers take for types or commands",
    "no object is made, no code is run; such keys are data like any other",
)
def test_a_document_makes_no_objects(
    machine: Machine, canary: Path, tried: Tried
) -> None:
    """A document contains only text, numbers, lists and maps.

    A file with other keys of a deployment is refused, and the list of a server may have them.
    """
    texts = [
        f"!!python/object/apply:os.system [{canary}]",
        f"- id: a\n  config: !!python/object/apply:subprocess.check_output [[{canary}]]\n",
        f"!!python/object/new:os.system [{canary}]",
        f"- !!python/module:{canary.stem}\n",
        "!!python/name:os.system\n",
        f"!<tag:yaml.org,2002:python/object/apply:os.system> [{canary}]",
        f"%TAG ! tag:yaml.org,2002:python/\n---\n!object/apply:os.system [{canary}]\n",
        f"- !ruby/object:Gem::Installer\n  i: {canary}\n",
        f"- !include {canary}\n- !ENV x\n",
    ]
    for text in texts:
        document = machine.write(text, "document.yaml")
        done = machine.apply(document)
        assert done.code == 2, done.out + done.err
        first, *others = done.err.splitlines()
        assert re.match(
            rf"{re.escape(str(document))}:\d+:\d+: error: .*the tag .*has no counterpart in JSON",
            first,
        )
        assert all(
            re.match(rf"{re.escape(str(document))}:\d+:\d+: error: ", line)
            for line in others
        )
    odd: Mapping[str, Any] = {
        "__class__": f"os.system('{canary}')",
        "py/object": "os.system",
        "py/reduce": ["os.system", [str(canary)]],
        "$ref": f"file://{canary}",
        "__proto__": {"x": 1},
        "@type": "java.lang.Runtime",
        "__ansible_unsafe": "x",
        "hook": str(canary),
        "argv": [str(canary)],
        "state": "signalled",
        "key": "../../victim",
    }
    given = [{**deployment("d1", "#!/bin/sh\ntrue\n", inputs={"x": dict(odd)}), **odd}]
    done = machine.apply(given)
    assert done.code == 2, done.out + done.err
    assert re.findall(r"error: d1\.\S+: there is no key '(.*?)'", done.err) == list(odd)
    done = machine.apply(
        None, HEAT_SHELL_CONFIG=str(machine.write(given, "of-a-server"))
    )
    assert done.code == 0, done.out + done.err
    assert machine.status()["d1"]["state"] == "unasked"
    assert not sung(canary)
    tried(len(texts) + len(odd))
