"""Text is UTF-8 wherever it comes from or goes to, whatever the locale in which the commands are started.

The central promises, once more in each of three alphabets: Latin-1 as some distributions' installers once chose it,
ASCII as Python has it where all that would help is turned off, and UTF-8.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support import pace, tools
from support.daemon import LONG, Daemon
from support.loopback import SignalServer, wait_until
from support.machine import BIN, Machine, deployment

TEXT = "Zürich, 10 €"
"""A letter that Latin-1 has, and a character that it lacks."""

SCRIPT = """\
#!/bin/sh
printf '%s' "$price" | od -An -tx1 | tr -d ' \\n'
printf '%s' "$price" >"$heat_outputs_path.größe €"
"""

HEX = TEXT.encode().hex()


@pytest.fixture(scope="session")
def latin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a compiled locale whose alphabet is Latin-1."""
    folder = tmp_path_factory.mktemp("locales")
    localedef = tools.need("localedef", "libc-bin")
    if not Path("/usr/share/i18n/locales/en_US").exists():
        pytest.skip(
            "the sources of locales are not installed: «apt install locales» (make test-all does it)"
        )
    command = [
        localedef,
        "-i",
        "en_US",
        "-f",
        "ISO-8859-1",
        str(folder / "en_US.ISO-8859-1"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (folder / "en_US.ISO-8859-1").exists(), done.stderr
    return folder


ALPHABETS = ("latin-1", "ascii", "utf-8")


@pytest.fixture(params=ALPHABETS)
def alphabet(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """The variables that set the locale."""
    if request.param == "ascii":
        return {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    if request.param == "utf-8":
        return {"LC_ALL": "C.UTF-8"}
    return {
        "LOCPATH": str(request.getfixturevalue("latin")),
        "LC_ALL": "en_US.ISO-8859-1",
    }


@pytest.fixture
def abroad(machine: Machine, alphabet: Mapping[str, str]) -> Machine:
    """A machine with that locale, whose folders have names that are not ASCII."""
    machine.environment.update(alphabet)
    machine.state = machine.folder / "Zustand für 10 €"
    return machine


def given(heat: SignalServer, identity: str = "d1") -> dict[str, Any]:
    """Return a deployment that has text of other alphabets everywhere."""
    return deployment(
        identity,
        SCRIPT,
        name=f"größe €-{identity}",
        inputs={"price": TEXT, "ключ": "значение"},
        outputs=["größe €"],
        signal=heat.url(identity),
    )


def test_locales_have_the_expected_encodings(latin: Path) -> None:
    """Python goes by them: else nothing here is tested."""
    code = "import sys; print(sys.getfilesystemencoding())"
    environments = (
        {"LOCPATH": str(latin), "LC_ALL": "en_US.ISO-8859-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
    )
    locales = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**each, "PYTHONCOERCECLOCALE": "0"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for each in environments
    ]
    assert locales == ["iso8859-1", "ascii"]


@pytest.mark.slow
@pytest.mark.fault(
    2,
    "locales whose alphabet is Latin-1 or ASCII, and text that they lack in inputs, outputs and names of files",
    "all text is UTF-8 as ever: inputs, outputs, results, and what is shown",
)
def test_command_works_in_every_locale(abroad: Machine, heat: SignalServer) -> None:
    """A deployment is carried out, signalled and shown; a second time there is nothing to do."""
    document = abroad.write([given(heat)], "größe.json")
    done = abroad.apply(document)
    assert done.code == 0, done.out + done.err
    assert f"größe € = {TEXT}" in done.out
    [values] = heat.values("d1")
    assert values["größe €"] == TEXT
    assert values["deploy_stdout"] == HEX
    assert abroad.state.is_dir()
    assert TEXT in abroad.agent("show", "d1").out
    assert HEX in abroad.agent("log", "d1").out
    assert "größe €-d1" in json.dumps(
        abroad.agent("status", "--json").data, ensure_ascii=False
    )
    assert ": nothing to do" in abroad.apply(document).out
    assert "größe €-d1" in abroad.agent("status", LC_ALL="C.UTF-8").out


def test_daemon_works_in_every_locale(
    abroad: Machine, daemon: Daemon, heat: SignalServer
) -> None:
    """Its settings name folders, and add to the environment of runs."""
    daemon.settings["agent"]["state_dir"] = str(abroad.state)
    daemon.local = abroad.folder / "Öffentlich€"
    daemon.local.mkdir()
    daemon.settings["local"]["path"] = str(daemon.local)
    daemon.configure(environment=[f"place={TEXT}"])
    daemon.put(
        [
            given(heat),
            deployment("d2", '#!/bin/sh\nprintf %s "$place"\n', signal=heat.url("d2")),
        ],
        "größe",
    )
    daemon.start()
    heat.wait_for(2, LONG)
    wait_until(lambda: daemon.states() == {"d1": "signalled", "d2": "signalled"}, LONG)
    assert heat.values("d1")[0]["größe €"] == TEXT
    assert heat.values("d2")[0]["deploy_stdout"] == TEXT
    assert "größe €-d1" in daemon.log
    assert daemon.stop() == 0


TEMPLATE = """\
heat_template_version: 2018-08-31
parameters:
  price: {type: string}
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: price}]
      outputs: [{name: größe €}]
      config: {get_file: Größe €.sh}
  greeting:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: here
      input_values: {price: {get_param: price}}
outputs:
  größe: {value: {get_attr: [greeting, größe €]}}
"""


@pytest.mark.slow
def test_a_stack_keeps_its_letters_whatever_the_locale(abroad: Machine) -> None:
    """A template, a file that it names, a parameter on the command line, and what comes out."""
    folder = abroad.folder / "Schön für 10 €"
    folder.mkdir()
    (folder / "Größe €.sh").write_text(SCRIPT)
    template = folder / "template.yaml"
    template.write_text(TEMPLATE)
    done = abroad.apply(template, "--parameter", f"price={TEXT}")
    assert done.code == 0, done.out + done.err
    assert TEXT in done.out
    command = [
        "stack",
        "output",
        "show",
        "--state-dir",
        str(abroad.state),
        "template",
        "größe",
    ]
    out, err = abroad.start("heat-config-agent", *command).communicate(
        timeout=pace.seconds(60)
    )
    assert TEXT in out, err


def test_a_hook_that_writes_files(abroad: Machine) -> None:
    """Their names are UTF-8, in which others look for them."""
    path = abroad.folder / "Größe €" / "ß.json"
    config = {str(path): {"price": TEXT}}
    done = abroad.apply([deployment("d1", config, group="json-file")])
    assert done.code == 0, done.out + done.err
    assert json.loads(path.read_text()) == {"price": TEXT}


def test_hook_by_itself_replies_in_utf_8(abroad: Machine) -> None:
    """As os-refresh-config's scripts call it: its reply is UTF-8 too."""
    folders = {
        f"HEAT_SCRIPT_{each}": str(abroad.folder / f"{each} €")
        for each in ("WORKING", "OUTPUTS")
    }
    document = deployment("d1", SCRIPT, inputs={"price": TEXT}, outputs=["größe €"])
    done = subprocess.run(
        [BIN / "heat-config-hook", "script"],
        input=json.dumps(document, ensure_ascii=False).encode(),
        env={**abroad.environment, **folders},
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout)["größe €"] == TEXT, done.stderr
    assert (abroad.folder / "WORKING €" / "d1").exists()


CALLS = """\
import sys
from heat_config_hooks import alphabet
alphabet.use_utf8()
import glob, os, shutil, subprocess
from pathlib import Path
place = Path(sys.argv[1]) / "größe €"
place.mkdir()
(place / "ü").write_text("€")
assert (place / "ü").read_text() == "€" and (place / "ü").read_bytes() == "€".encode()
assert [each.name for each in place.iterdir()] == os.listdir(place) == ["ü"]
assert [each.name for each in os.scandir(place)] == ["ü"]
assert os.listdir(os.fsencode(place)) == ["ü".encode()] and [*os.walk(place)] == [(str(place), [], ["ü"])]
folder = os.open(place, os.O_RDONLY)
assert os.listdir(folder) == ["ü"] and os.stat("ü", dir_fd=folder).st_size == 3
assert glob.glob(f"{place}/*") == [str(place / "ü")] == [str(each) for each in place.parent.rglob("ü")]
try:
    open(place / "fehlt é")
except OSError as error:
    assert error.filename == f"{place}/fehlt é", error
try:
    os.rename(place / "fehlt é", place / "ß")
except OSError as error:
    assert (error.filename, error.filename2) == (f"{place}/fehlt é", f"{place}/ß"), error
os.chdir(place)
assert os.getcwd() == str(place) == str(Path.cwd()) and Path("x").absolute() == place / "x"
os.symlink("ü", "lünk")
assert os.readlink("lünk") == "ü" and Path("lünk").resolve() == place / "ü"
os.environ["WORT"] = "€"
assert os.environb[b"WORT"] == "€".encode() and os.environ["GIVEN"] == "ö €"
command = ["printf", "%s", "10 €"]
assert subprocess.run(command, capture_output=True, cwd=place, check=True).stdout == "10 €".encode()
shown = subprocess.run(["env"], env={**os.environ, "MORE": "ä €"}, capture_output=True, check=True).stdout.split(b"\\n")
assert "MORE=ä €".encode() in shown and "WORT=€".encode() in shown and "GIVEN=ö €".encode() in shown
os.chdir("/")
shutil.copytree(place, place.with_name("Kopie €"))
shutil.move(place / "ü", place / "ö")
shutil.rmtree(place)
assert [*Path(sys.argv[1]).iterdir()] == [place.with_name("Kopie €")]
print(sys.argv[2])
"""
"""Calls of the standard library with names, arguments and variables."""


@pytest.mark.usefixtures("machine")
def test_whatever_hands_text_to_the_kernel_hands_over_utf_8(
    tmp_path: Path, alphabet: Mapping[str, str]
) -> None:
    """The functions are those of the standard library, in a program that begins with `use_utf8`."""
    place = tmp_path / "plätze"
    place.mkdir()
    program = tmp_path / "calls.py"
    program.write_text(CALLS)
    done = subprocess.run(
        [sys.executable, str(program), str(place), "ä€"],
        env={"PATH": os.environ["PATH"], "GIVEN": "ö €", **alphabet},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout.decode()) == (0, "ä€\n"), done.stderr.decode()
    assert [each.name for each in place.iterdir()] == ["Kopie €"]
