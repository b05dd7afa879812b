"""Plug-ins that were written for Heat work unmodified, and where one cannot, nothing else suffers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model.errors import UsageError
from heat_config_stack.plugins import plugins
from heat_config_stack.resource_types import known_types
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
    (folder / "tests" / "test_note.py").write_text(
        "raise AssertionError('nobody loads tests')"
    )
    found = plugins.load([folder])
    assert not found.disabled
    return Working(tmp_path, known_types(found.types))


def note(path: Path, **values: object) -> dict[str, object]:
    """Return a resource of the plug-in's type."""
    return {"type": "My::Note", "properties": {"path": str(path), **values}}


def test_resource_of_a_plugin_is_created_updated_and_deleted(
    noted: Working, tmp_path: Path
) -> None:
    """A resource of a plug-in is created, checked, updated in place or replaced, and deleted."""
    one, two = tmp_path / "one", tmp_path / "two"
    tags = [{"key": "a"}, {"key": "b", "weight": "7"}]
    outputs = {
        "length": {"attr": ["n", "length"]},
        "weights": {"attr": ["n", "weights"]},
    }
    noted.session.create(made({"n": note(one, text="hello", tags=tags)}, outputs))
    assert one.read_text() == "hello"
    assert (noted.root.output("length"), noted.root.output("weights")) == (5, [1, 7])
    first = noted.root.resources["n"].uuid
    noted.session.update(
        noted.again(
            {"resources": {"n": note(one, text="bye", tags=tags)}, "outputs": outputs}
        )
    )
    assert (one.read_text(), noted.root.resources["n"].uuid) == ("bye", first)
    noted.session.update(
        noted.again(
            {"resources": {"n": note(two, text="bye", tags=tags)}, "outputs": outputs}
        )
    )
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
def test_mistakes_are_found_before_anything_is_created(
    noted: Working, tmp_path: Path, values: dict[str, object], problem: str
) -> None:
    """The schemas and the check of a plug-in find mistakes before anything is created."""
    with pytest.raises(Invalid, match=problem):
        noted.session.create(made({"n": note(tmp_path / "one", **values)}))
    assert noted.session.root is None
    noted.close()


def test_an_immutable_property_is_not_changed(noted: Working, tmp_path: Path) -> None:
    """The update fails, and the note is as it was."""
    one = tmp_path / "one"
    noted.session.create(made({"n": note(one, kind="a")}))
    noted.session.update(
        noted.again({"resources": {"n": note(one, kind="b")}, "outputs": {}})
    )
    assert noted.state() == ("UPDATE", "FAILED")
    assert "NotSupported" in noted.root.record.reason
    noted.close()


def test_interrupted_resource_is_replaced(noted: Working, tmp_path: Path) -> None:
    """An interrupted resource is replaced, because its state is unknown, and what it has left is removed."""
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


def test_missing_plugin_of_a_stack_is_reported(noted: Working, tmp_path: Path) -> None:
    """Without it nobody can do anything about the stack, and that is said; nothing is lost by it."""
    noted.session.create(made({"n": note(tmp_path / "one")}))
    noted.close()
    with pytest.raises(
        UsageError, match="n has the type My::Note, which does not exist"
    ):
        _ = Working(tmp_path).session
    noted.session.delete()
    assert not (tmp_path / "one").exists()
    noted.close()


def test_plugin_with_missing_modules_is_disabled(tmp_path: Path) -> None:
    """A sentence names it and what it needs; the others are used."""
    (tmp_path / "good.py").write_text(GUIDE)
    (tmp_path / "lacks.py").write_text("import surely_not_installed_anywhere\n")
    (tmp_path / "cloudy.py").write_text(
        "from heat.engine.clients.os import nova\nclass A(nova.Plugin): pass\n"
    )
    (tmp_path / "broken.py").write_text(
        "def resource_mapping():\n    return {'A::B': 3}\n"
    )
    found = plugins.load([tmp_path, tmp_path / "nowhere"])
    assert list(found.types) == ["My::Note"]
    assert (
        found.disabled.pop()
        == f"{tmp_path}/nowhere of plugin_dirs is not a folder: no plug-in is loaded from it"
    )
    install = "install surely-not-installed-anywhere"
    part = "a part of Heat's own engine, which plug-ins cannot use here"
    assert [each.partition(" is not used: ")[2] for each in found.disabled] == [
        "TypeError: A::B is not a class derived from heat.engine.resource.Resource",
        f"it needs heat.engine.clients.os.nova.Plugin, {part}",
        f"it needs surely_not_installed_anywhere, which is not installed: {install} for {sys.executable}",
    ]


def test_plugin_writable_by_others_is_disabled(tmp_path: Path) -> None:
    """Else they could have us run what they like."""
    (tmp_path / "note.py").write_text(GUIDE)
    (tmp_path / "note.py").chmod(0o666)
    found = plugins.load([tmp_path])
    assert not found.types
    assert "other users can write to it" in found.disabled[0]


def test_plugin_leaves_no_modules_of_heat_behind(tmp_path: Path) -> None:
    """Importing Heat afterwards fails, because it is not installed."""
    (tmp_path / "note.py").write_text(GUIDE)
    code = f"""
    import sys
    from pathlib import Path
    from heat_config_stack.plugins import plugins
    assert plugins.load([Path({str(tmp_path)!r})]).types
    assert not [name for name in sys.modules if name.partition(".")[0] in ("heat", "oslo_log")]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


RICH = """
import logging

import beside
from heat.common import password_gen
from heat.common.i18n import _
from heat.engine import attributes, constraints, properties, resource, translation
from oslo_log import log as logging_
from oslo_utils import timeutils, uuidutils

from . import names
from .inner import deep

LOG = logging_.getLogger(__name__)


class Even(constraints.BaseCustomConstraint):
    expected_exceptions = (ValueError,)

    def validate_with_client(self, client, value):
        if int(value) % 2:
            raise ValueError('it is odd')


class Things:
    gone = False

    def delete(self, of):
        if self.gone:
            raise NotFound(of)
        if of == 'stuck':
            raise RuntimeError('stuck')

    def get(self, of):
        return {'id': of}


class NotFound(Exception):
    pass


class Client:
    things = Things()


class Rich(resource.Resource):
    entity = 'things'
    properties_schema = {
        'size': properties.Schema(properties.Schema.INTEGER, constraints=[constraints.CustomConstraint('my.even')]),
        'id': properties.Schema(properties.Schema.STRING, default='thing'),
        'old': properties.Schema(properties.Schema.STRING),
        'new': properties.Schema(properties.Schema.STRING, required=True),
        'nets': properties.Schema(properties.Schema.LIST, schema=properties.Schema(properties.Schema.MAP, schema={
            'net': properties.Schema(properties.Schema.STRING), 'uuid': properties.Schema(properties.Schema.STRING)})),
    }
    attributes_schema = {'signals': attributes.Schema(type=attributes.Schema.LIST), 'new': attributes.Schema()}

    def client(self, name=None, version=None):
        return Client()

    def translation_rules(self, properties):
        rule = translation.TranslationRule
        return [
            rule(properties, rule.REPLACE, ['new'], value_path=['old']),
            rule(properties, rule.REPLACE, ['nets', 'net'], value_name='uuid'),
        ]

    def handle_create(self):
        from heat.engine import resource as again
        assert again is resource
        assert len(password_gen.generate_password(9, [password_gen.named_char_class('digits', 3)])) == 9
        self.data_set('signals', [])
        self.data_set('nets', [net['net'] for net in self.properties['nets'] or []])
        self.resource_id_set(self.properties['id'])

    def check_create_complete(self, _):
        if not self.data().get('asked'):
            self.data_set('asked', timeutils.utcnow_ts(microsecond=True))
            raise resource.PollDelay(0.4)
        self.data_set('took', timeutils.utcnow_ts(microsecond=True) - self.data()['asked'])
        return True

    def handle_signal(self, details=None):
        self.data_set('signals', self.data()['signals'] + [details])

    def _resolve_attribute(self, name):
        return self.data()['signals'] if name == 'signals' else self.properties['new']


def resource_mapping():
    return {names.NAME: Rich, beside.NAME: Rich, deep.NAME: Rich}


def constraint_mapping():
    return {'my.even': Even}
"""


@pytest.fixture
def rich(tmp_path: Path) -> Working:
    """Return where a stack with a plug-in of several modules can be worked on."""
    folder = tmp_path / "plugins"
    (folder / "inner").mkdir(parents=True)
    (folder / "rich.py").write_text(RICH)
    (folder / "names.py").write_text("NAME = 'My::Rich'\n")
    (folder / "beside.py").write_text("NAME = 'My::Beside'\n")
    (folder / "inner" / "deep.py").write_text(
        "from ..names import NAME as OTHER\nNAME = OTHER + '::Deep'\n"
    )
    found = plugins.load([folder])
    assert not found.disabled
    assert list(found.types) == ["My::Rich", "My::Beside", "My::Rich::Deep"]
    return Working(tmp_path, known_types(found.types))


def thing(**properties: object) -> dict[str, object]:
    """Return a resource of the plug-in's type."""
    return {"type": "My::Rich", "properties": {"new": "n", **properties}}


def test_modules_import_one_another_and_heat_in_handlers(rich: Working) -> None:
    """With a dot or without, from folders above and below; and the interval of its poll counts."""
    rich.session.create(made({"r": thing()}))
    assert rich.state() == ("CREATE", "COMPLETE")
    assert rich.root.resources["r"].data()["took"] >= 0.4
    rich.close()


def test_an_older_property_is_translated(rich: Working) -> None:
    """A deprecated property is translated, also in members of a list, and meets a requirement."""
    resource = {
        "type": "My::Rich",
        "properties": {"old": "o", "nets": [{"uuid": "u"}, {"net": "n"}]},
    }
    rich.session.create(made({"r": resource}, {"new": {"attr": ["r", "new"]}}))
    assert rich.root.output("new") == "o"
    assert rich.root.resources["r"].data()["nets"] == ["u", "n"]
    rich.close()


def test_a_plugin_has_constraints_of_its_own(rich: Working) -> None:
    """With its own sentence."""
    with pytest.raises(Invalid, match="Error validating value 3: it is odd"):
        rich.session.create(made({"r": thing(size=3)}))
    rich.session.create(made({"r": thing(size=4)}))
    assert rich.state() == ("CREATE", "COMPLETE")
    rich.close()


def test_a_plugin_is_signalled(rich: Working) -> None:
    """The handler of a plug-in gets the details of a signal."""
    rich.session.create(made({"r": thing()}, {"signals": {"attr": ["r", "signals"]}}))
    rich.session.signal("r", {"a": 1})
    rich.session.signal("r", None)
    assert rich.root.output("signals") == [{"a": 1}, None]
    rich.close()


def test_a_thing_that_is_gone_already_is_deleted(
    rich: Working, caplog: pytest.LogCaptureFixture
) -> None:
    """By the default handler; any other exception fails the resource, with its traceback in the log."""
    rich.session.create(made({"r": thing(), "s": thing(id="stuck")}))
    assert rich.root.resources["r"].FnGetAtt("show") == {"id": "thing"}
    module = sys.modules[type(rich.root.resources["r"]).__module__]
    rich.session.delete()
    assert rich.state() == ("DELETE", "FAILED")
    assert "raise RuntimeError('stuck')" in caplog.text
    module.Things.gone = True
    rich.session.delete()
    assert rich.session.root is None
    rich.close()


BASE = """
from heat.engine import constraints, function, properties, resource
from heat.engine.hot import parameters
from oslo_utils import excutils, netutils


class Base(resource.Resource):
    KINDS = parameters.HOTParamSchema.TYPES
    properties_schema = {
        'size': properties.Schema(constraints.Schema.INTEGER),
        'at': properties.Schema(properties.Schema.STRING),
    }

    def validate(self):
        super().validate()
        if not netutils.is_valid_ipv4(function.resolve(self.properties['at'])):
            raise ValueError('no address')

    def handle_create(self):
        try:
            raise KeyError('first')
        except KeyError:
            with excutils.save_and_reraise_exception() as context:
                context.reraise = False
        self.resource_id_set('made')
"""


def test_copied_modules_of_heat_import_one_another(tmp_path: Path) -> None:
    """They import one another by Heat's names; a missing one is named in full, with the place where a copy belongs."""
    folder = tmp_path / "resources"
    inner = folder / "openstack" / "base"
    inner.mkdir(parents=True)
    (inner / "base.py").write_text(BASE)
    (folder / "one.py").write_text(
        "from heat.engine.resources.openstack.base import base\n"
        "class One(base.Base):\n    pass\n"
        "def resource_mapping():\n    return {'My::One': One}\n"
    )
    (folder / "two.py").write_text(
        "from heat.engine.resources.openstack.base import other\n"
    )
    (folder / "three.py").write_text(
        "import base64, nowhere_one\nfrom . import seven\n"
    )
    (folder / "seven.py").write_text(
        "import nowhere_two\ntry:\n    import nowhere_three\nexcept ImportError:\n    pass\n"
    )
    (folder / "four.py").write_text("from heat.engine.resources.aws import ec2\n")
    (folder / "five.py").write_text("from heat.common import surely_none\n")
    (folder / "six.py").write_text("from oslo_utils import surely_none\n")
    loaded = plugins.load([folder])
    assert set(loaded.types) == {"My::One"}
    part = "a part of Heat's own engine, which plug-ins cannot use here"
    resource = "one of Heat's own resources: copy it from Heat to"
    install = f"or install openstack-heat for {sys.executable}"
    nowhere = f"not installed: install nowhere-one and nowhere-two for {sys.executable}"
    assert {each.partition(" is not used: ")[2] for each in loaded.disabled} == {
        f"it needs heat.engine.resources.openstack.base.other, {resource} {inner}/other, {install}",
        f"it needs heat.engine.resources.aws, {resource} {folder}/aws, {install}",
        f"it needs heat.common.surely_none, {part}",
        f"it needs oslo_utils.surely_none, and oslo_utils is not installed: install oslo.utils for {sys.executable}",
        f"it needs nowhere_one and nowhere_two, which are {nowhere}",
        f"it needs nowhere_two, which is not installed: install nowhere-two for {sys.executable}",
    }
    working = Working(tmp_path, known_types(loaded.types))
    working.session.create(
        made({"r": {"type": "My::One", "properties": {"size": "3", "at": "10.0.0.1"}}})
    )
    assert working.states() == {"r": "CREATE_COMPLETE"}
    with pytest.raises(Invalid, match="no address"):
        working.session.update(
            working.again(
                {"resources": {"r": {"type": "My::One", "properties": {"at": "x"}}}}
            )
        )
    working.close()


SMALL_PARTS = """
from oslo_config import cfg
from heat.common import netutils
from heat.engine import resource, rsrc_defn
from heat.engine.clients import client_exception, progress

extra = {'handler_extra': {'args': ('big',)}, 'checker_extra': {'kwargs': {'a': 1}}}
step = progress.ServerUpdateProgress('s', 'resize', **extra)
assert (step.handler_args, step.handler_kwargs, step.checker) == (('s', 'big'), {}, 'check_resize')
assert (step.checker_args, step.checker_kwargs, step.server_id, step.called) == (('s',), {'a': 1}, 's', False)
assert rsrc_defn.ResourceDefinition.SNAPSHOT == 'Snapshot'
cfg.CONF.import_opt('max_server_name_length', 'heat.common.config')
within = netutils.is_prefix_subset
assert within(['10.0.0.0/25', '10.0.0.128/25'], ['10.0.0.0/24'])
assert within(['10.0.0.0/24'], ['10.0.0.128/25', '10.0.0.0/25'])
assert not within(['10.0.0.0/24'], ['10.0.0.0/25'])
assert not within(['10.0.0.0/24'], ['::/0'])


class Small(resource.Resource):
    physical_resource_name_limit = cfg.CONF.max_server_name_length

    def handle_create(self):
        raise client_exception.EntityUniqueMatchNotFound(entity='port', args='a')


def resource_mapping():
    return {'My::Small': Small}
"""


def test_small_parts_of_heat_work_as_there(tmp_path: Path) -> None:
    """Settings with Heat's defaults, sets of networks, the exceptions of clients, and the progress of an update."""
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "small.py").write_text(SMALL_PARTS)
    found = plugins.load([tmp_path / "p"])
    assert found.disabled == []
    working = Working(tmp_path, known_types(found.types))
    working.session.create(made({"r": {"type": "My::Small"}}))
    assert (
        "resources.r: No port unique match found for a." in working.root.record.reason
    )
    working.close()
