"""Plug-ins that were written for Heat work unmodified, and where one cannot, nothing else suffers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from heat_config_agent.errors import UsageError
from heat_config_agent.stack import plugins
from heat_config_agent.stack.definition import Invalid
from heat_config_agent.stack.types import Types
from stack.made import made
from stack.working import Working

GUIDE = '''
from heat.common import exception
from heat.common.i18n import _
from heat.engine import attributes
from heat.engine import constraints
from heat.engine import properties
from heat.engine import resource
from heat.engine import support


class Note(resource.Resource):
    """A note on disk, written by the second look at it."""

    support_status = support.SupportStatus(version='5.0.0', status=support.UNSUPPORTED)

    PROPERTIES = (PATH, TEXT, TAGS, KIND) = ('path', 'text', 'tags', 'kind')

    properties_schema = {
        PATH: properties.Schema(properties.Schema.STRING, _('Where.'), required=True),
        TEXT: properties.Schema(
            properties.Schema.STRING,
            _('What.'),
            default='nothing',
            update_allowed=True,
            constraints=[constraints.Length(max=10, description="don't go crazy")],
        ),
        TAGS: properties.Schema(
            properties.Schema.LIST,
            schema=properties.Schema(
                properties.Schema.MAP,
                schema={'key': properties.Schema(properties.Schema.STRING, required=True),
                        'weight': properties.Schema(properties.Schema.INTEGER, default=1)},
            ),
            update_allowed=True,
        ),
        KIND: properties.Schema(properties.Schema.STRING, immutable=True, update_allowed=True),
    }

    attributes_schema = {
        'length': attributes.Schema(_('How long.'), type=attributes.Schema.NUMBER),
        'weights': attributes.Schema(_('How heavy.'), type=attributes.Schema.LIST),
    }

    def validate(self):
        super().validate()
        if self.properties[self.TEXT] == 'bad':
            raise exception.StackValidationFailed(message=_('no bad notes'))

    def handle_create(self):
        self.resource_id_set(self.properties[self.PATH])
        self.data_set('looks', '0')
        return self.properties[self.TEXT]

    def check_create_complete(self, text):
        looks = int(self.data()['looks']) + 1
        self.data_set('looks', str(looks))
        if looks < 2:
            return False
        with open(self.resource_id, 'w') as note:
            note.write(text)
        return True

    def handle_update(self, json_snippet, tmpl_diff, prop_diff):
        if self.TEXT in prop_diff:
            with open(self.resource_id, 'w') as note:
                note.write(prop_diff[self.TEXT])

    def handle_delete(self):
        if self.resource_id is not None:
            import os
            os.unlink(self.resource_id)

    def _resolve_attribute(self, name):
        if name == 'length':
            with open(self.resource_id) as note:
                return len(note.read())
        return [tag['weight'] for tag in self.properties[self.TAGS]]


def resource_mapping():
    return {'My::Note': Note}
'''


@pytest.fixture
def noted(tmp_path: Path) -> Working:
    """Return where a stack with the plug-in can be worked on."""
    folder = tmp_path / "plugins"
    (folder / "tests").mkdir(parents=True)
    (folder / "note.py").write_text(GUIDE)
    (folder / "tests" / "test_note.py").write_text("raise AssertionError('nobody loads tests')")
    found = plugins.load([folder])
    assert not found.disabled
    return Working(tmp_path, Types(found.types))


def note(path: Path, **values: object) -> dict[str, object]:
    """Return a resource of the plug-in's type."""
    return {"type": "My::Note", "properties": {"path": str(path), **values}}


def test_its_life(noted: Working, tmp_path: Path) -> None:
    """It is made when its check says so, changed in place, replaced where it has to be, and removed."""
    one, two = tmp_path / "one", tmp_path / "two"
    tags = [{"key": "a"}, {"key": "b", "weight": "7"}]
    outputs = {"length": {"attr": ["n", "length"]}, "weights": {"attr": ["n", "weights"]}}
    noted.session.create(made({"n": note(one, text="hello", tags=tags)}, outputs))
    assert one.read_text() == "hello"
    assert (noted.root.output("length"), noted.root.output("weights")) == (5, [1, 7])
    first = noted.root.resources["n"].uuid
    noted.session.update(noted.again({"resources": {"n": note(one, text="bye", tags=tags)}, "outputs": outputs}))
    assert (one.read_text(), noted.root.resources["n"].uuid) == ("bye", first)
    noted.session.update(noted.again({"resources": {"n": note(two, text="bye", tags=tags)}, "outputs": outputs}))
    assert noted.root.resources["n"].uuid != first
    assert (one.exists(), two.read_text()) == (False, "bye")
    noted.session.delete()
    assert not two.exists()
    noted.close()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"text": "much too long"}, "don't go crazy"),
        ({"text": "bad"}, "no bad notes"),
        ({"tags": [{"weight": 1}]}, "Property key not assigned"),
        ({"tags": [{"key": "a", "weight": "x"}]}, "is not an integer"),
        ({"colour": "red"}, "Unknown Property colour"),
    ],
)
def test_what_is_wrong_is_found_before_anything_is_done(
    noted: Working, tmp_path: Path, values: dict[str, object], problem: str
) -> None:
    """Its schemas and its own check are asked, and nothing is made."""
    with pytest.raises(Invalid, match=problem):
        noted.session.create(made({"n": note(tmp_path / "one", **values)}))
    assert noted.session.root is None
    noted.close()


def test_an_immutable_property_is_not_changed(noted: Working, tmp_path: Path) -> None:
    """The update fails, and the note is as it was."""
    one = tmp_path / "one"
    noted.session.create(made({"n": note(one, kind="a")}))
    noted.session.update(noted.again({"resources": {"n": note(one, kind="b")}, "outputs": {}}))
    assert noted.state() == ("UPDATE", "FAILED")
    assert "NotSupported" in noted.root.record.reason
    noted.close()


def test_one_that_was_interrupted_is_replaced(noted: Working, tmp_path: Path) -> None:
    """Nobody knows how far it came: so another is made, and what is known of the first is removed."""
    one = tmp_path / "one"
    noted.session.create(made({"n": note(one)}))
    record = noted.root.resources["n"].record
    record.action, record.status, record.passed = "CREATE", "IN_PROGRESS", ""
    noted.root.record.status = "IN_PROGRESS"
    for each in (record, noted.root.record):
        noted.session.store.put(each)
    noted.close()
    noted.session.go_on()
    assert noted.states() == {"n": "CREATE_COMPLETE"}
    assert noted.root.resources["n"].uuid != record.id
    noted.close()


def test_what_it_made_is_known_to_be_its(noted: Working, tmp_path: Path) -> None:
    """Without it nobody can do anything about the stack, and that is said; nothing is lost by it."""
    noted.session.create(made({"n": note(tmp_path / "one")}))
    noted.close()
    with pytest.raises(UsageError, match="nothing here knows My::Note, the type of n"):
        _ = Working(tmp_path).session
    noted.session.delete()
    assert not (tmp_path / "one").exists()
    noted.close()


def test_one_that_lacks_something_is_disabled(tmp_path: Path) -> None:
    """A sentence names it and what it needs; the others are used."""
    (tmp_path / "good.py").write_text(GUIDE)
    (tmp_path / "lacks.py").write_text("import surely_not_installed_anywhere\n")
    (tmp_path / "cloudy.py").write_text("from heat.engine.clients.os import nova\n")
    (tmp_path / "broken.py").write_text("def resource_mapping():\n    return {'A::B': 3}\n")
    found = plugins.load([tmp_path, tmp_path / "nowhere"])
    assert list(found.types) == ["My::Note"]
    assert [each.partition(" is not used: ")[2] for each in found.disabled] == [
        "TypeError: A::B is no class that is derived of heat.engine.resource.Resource",
        "it needs heat.engine.clients, which is not installed",
        "it needs surely_not_installed_anywhere, which is not installed",
    ]


def test_one_that_others_may_write_to_is_disabled(tmp_path: Path) -> None:
    """Else they could have us run what they like."""
    (tmp_path / "note.py").write_text(GUIDE)
    (tmp_path / "note.py").chmod(0o666)
    found = plugins.load([tmp_path])
    assert not found.types
    assert "others may write to it" in found.disabled[0]


def test_nothing_of_it_is_left_behind(tmp_path: Path) -> None:
    """Whoever asks for Heat afterwards finds that it is not installed."""
    (tmp_path / "note.py").write_text(GUIDE)
    code = f"""
    import sys
    from pathlib import Path
    from heat_config_agent.stack import plugins
    assert plugins.load([Path({str(tmp_path)!r})]).types
    assert not [name for name in sys.modules if name.partition(".")[0] in ("heat", "oslo_log")]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
