"""Code that is not the agent's own, and values that such code cannot cope with, end as the failure of one thing."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from heat_config_agent.model import errors
from support.machine import Done, Machine, deployment

pytestmark = pytest.mark.takes(20)

fault = pytest.mark.fault

PLUGIN = """
import sys
from heat.engine import attributes, constraints, properties, resource


class Odd(BaseException):
    pass


class Unsayable(Exception):
    def __str__(self):
        sys.exit(0)


def deep():
    return deep()


class Bad(resource.Resource):
    properties_schema = {
        'text': properties.Schema(properties.Schema.STRING, update_allowed=True),
    }
    attributes_schema = {'a': attributes.Schema('An attribute.')}

    def handle_create(self):
        self.resource_id_set('made')

    def handle_delete(self):
        pass

PLACE

def resource_mapping():
    return {'My::Bad': Bad}
"""

RAISED = {
    "sys.exit(0)": "it called sys.exit(0)",
    "raise KeyboardInterrupt": "it raised KeyboardInterrupt",
    "bytearray(1 << 60)": "it needs more memory than there is",
    "deep()": "maximum recursion depth exceeded",
    "raise Odd('odd')": "odd",
    "raise Unsayable": "its message cannot be shown",
}
"""Exceptions that foreign code raises, and the message for each."""

TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  good: {type: OS::Heat::Value, properties: {value: 3}}
  bad: {type: My::Bad, properties: {text: TEXT}}
outputs:
  a: {value: {get_attr: [bad, a]}}
"""


class Plugin:
    """A plug-in, and templates that use it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.folder = machine.folder / "plugins"
        self.folder.mkdir()
        self.settings = machine.folder / "agent.conf"
        self.settings.write_text(f"[agent]\nplugin_dirs = {self.folder}\n")

    def write(self, place: str, body: str) -> None:
        """Write the plug-in, with a method or a line of its own."""
        what = place.replace("BODY", body)
        (self.folder / "bad.py").write_text(
            PLUGIN.replace("PLACE", textwrap.indent(what, "    "))
        )

    def apply(self, text: str = "t", template: str = TEMPLATE) -> Done:
        """Apply the template with that text as the property."""
        path = self.machine.write(template.replace("TEXT", text), "t.yaml")
        done = self.machine.apply(path, "--config", str(self.settings))
        before, _, log = done.err.partition(
            " of bad, of the plug-in's type My::Bad, failed:\n"
        )
        # the log has that of the plug-in, for its author
        assert "Traceback" not in before, done.err
        assert not log or log.startswith("Traceback"), done.err
        return done


@pytest.fixture
def plugin(machine: Machine) -> Plugin:
    """A plug-in that does what it may not."""
    return Plugin(machine)


BEFORE = {
    "while it is made": "def __init__(self, *arguments):\n    BODY",
    "when it is validated": "def validate(self):\n    BODY",
    "in a translation": "def known(self):\n    BODY",
    "where its attributes are asked for": "def has_attribute(self, name):\n    BODY",
}


@fault(
    3,
    "a plug-in that calls sys.exit, raises KeyboardInterrupt or an exception of its own kind, takes all memory or "
    "recurses without end, while it is loaded or a template is checked",
    "a sentence that names it; nothing is begun",
)
@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("place", BEFORE)
def test_a_plugin_cannot_end_the_agent_before_anything_is_begun(
    plugin: Plugin, place: str, raised: str
) -> None:
    """A plug-in that ends the process is a mistake of the template that uses it."""
    plugin.write(BEFORE[place], raised)
    done = plugin.apply()
    assert done.code == 2
    assert RAISED[raised] in done.err


STEPS = {
    "handle_create": "def handle_create(self):\n    BODY",
    "check_create_complete": "def check_create_complete(self, token):\n    BODY",
}


@fault(
    2,
    "a handler of a plug-in that calls sys.exit, raises KeyboardInterrupt or an exception of its own kind, takes all "
    "memory or recurses without end",
    "its resource has failed, with the reason",
)
@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("place", STEPS)
def test_a_handler_that_ends_the_process_is_a_failure_of_its_resource(
    plugin: Plugin, place: str, raised: str
) -> None:
    """The exit code says so, and the rest of the stack is made."""
    plugin.write(STEPS[place], raised)
    done = plugin.apply()
    assert done.code == 1
    assert RAISED[raised] in done.out
    assert "error: stack t: CREATE failed after" in done.err
    assert "good" in done.out


@pytest.mark.parametrize("raised", RAISED)
def test_exception_outside_handlers_of_a_plugin_fails_its_resource(
    plugin: Plugin, raised: str
) -> None:
    """Here, where it is asked whether it has to be made anew."""
    plugin.write(
        "def needs_replace_with_prop_diff(self, *arguments):\n    BODY", raised
    )
    assert plugin.apply("one").code == 0
    done = plugin.apply("two")
    assert done.code == 1
    assert RAISED[raised] in done.out


@pytest.mark.parametrize("raised", RAISED)
def test_an_attribute_that_ends_the_process_is_a_value_that_is_not_there(
    plugin: Plugin, raised: str
) -> None:
    """The stack is made, and says why the output has no value."""
    plugin.write("def _resolve_attribute(self, name):\n    BODY", raised)
    done = plugin.apply()
    assert done.code == 0
    assert RAISED[raised] in done.out


@pytest.mark.parametrize("raised", RAISED)
def test_a_plugin_that_ends_the_process_while_it_is_loaded_is_not_used(
    plugin: Plugin, raised: str
) -> None:
    """A template that does not need it is made; one that does is refused."""
    plugin.write(raised, "")
    plain = (
        TEMPLATE.replace("My::Bad", "OS::Heat::Value")
        .replace("{text: TEXT}", "{value: 3}")
        .replace(", a]", ", value]")
    )
    done = plugin.apply(template=plain)
    assert done.code == 0
    assert "bad.py is not used: " in done.err
    assert RAISED[raised] in done.err
    assert "stack t: ok (CREATE_COMPLETE)" in done.out
    needed = plugin.apply(template=TEMPLATE.replace("good", "better"))
    assert needed.code == 2
    assert "My::Bad" in needed.err


@fault(
    3,
    "an input of 6,000 signs or brackets, which Python's own parser takes all its memory for",
    "that deployment has failed, and the next one runs",
)
@pytest.mark.parametrize(
    "text", ["-" * 6000 + "1", "(" * 6000, "{" * 200 + "1", "[" * 100000]
)
def test_an_input_that_takes_too_much_is_that_deployments_failure(
    machine: Machine, text: str
) -> None:
    """Others have their turn."""
    bad = deployment(
        "bad",
        "services: {}",
        group="docker-compose",
        inputs=[{"name": "env_files", "value": text}],
    )
    done = machine.apply([bad, deployment("good", "#!/bin/sh\necho fine")])
    assert done.code == 1, done.err
    assert "this text is not valid JSON" in done.out
    assert "s: 1 ok, 1 failed\n" in done.out


def test_lack_of_memory_is_not_blamed_on_foreign_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where nothing can be had at all, whoever asked for some is not to blame."""
    monkeypatch.setattr(errors, "_MEMORY", 1 << 60)
    with pytest.raises(MemoryError):
        errors.blame(MemoryError())


def test_signal_to_the_agent_fails_no_deployment() -> None:
    """A signal ends the agent during any work, and fails no deployment."""
    with pytest.raises(errors.Interrupted):
        errors.blame(errors.Interrupted())


def test_memory_that_a_failed_attempt_still_holds_does_not_count(
    tmp_path: Path,
) -> None:
    """Memory of a failed attempt is released before the free memory is checked."""
    code = """
    import resource
    from heat_config_agent.model import errors
    resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
    def takes(held):
        held = [held, bytearray(100 << 20)]
        return takes(held)
    try:
        takes(None)
    except MemoryError as error:
        print(errors.blame(error))
    """
    path = tmp_path / "takes.py"
    path.write_text(textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "it needs more memory than there is\n"
