"""Plug-ins in the ways of older releases of Heat, and of makers who do more than the guide says."""

from __future__ import annotations

from pathlib import Path

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_stack.plugins import plugin_imports
from stack.plugin_stack import PluginStack, plugin

OLD = """
from heat.common import template_format
from heat.engine.resources import stack_resource

TEMPLATE = '''
{"AWSTemplateFormatVersion": "2010-09-09",
 "Parameters": {"Size": {"Type": "String", "Default": "s", "AllowedValues": ["s", "m"]},
                "Key": {"Type": "String", "NoEcho": "true", "MinLength": 2, "ConstraintDescription": "too short"}},
 "Mappings": {"Sizes": {"s": {"mb": "1"}, "m": {"mb": "2"}}},
 "Conditions": {"Large": {"Fn::Equals": [{"Ref": "Size"}, "m"]}},
 "Resources": {
   "a": {"Type": "OS::Heat::Value", "Properties": {"value": {"Fn::FindInMap": ["Sizes", {"Ref": "Size"}, "mb"]}}},
   "b": {"Type": "OS::Heat::Value", "DependsOn": "a", "Properties": {"value": {"Fn::Join": ["-", [
     {"Fn::Base64": {"Fn::GetAtt": ["a", "value"]}}, {"Fn::Select": ["1", ["x", {"Ref": "AWS::Region"}]]},
     {"Fn::If": ["Large", "large", "small"]}, {"Fn::Replace": [{"K": {"Ref": "Key"}}, "K!"]}]]}}},
   "c": {"Type": "OS::Heat::Value", "Condition": "Large", "Properties": {"value": %s}}},
 "Outputs": {"b": {"Value": {"Fn::GetAtt": ["b", "value"]}, "Description": "The second."}}}
'''


class Old(stack_resource.StackResource):
    properties_schema = {'Size': {'Type': 'String', 'UpdateAllowed': True},
                         'Key': {'Type': 'String', 'Default': 'key', 'UpdateAllowed': True}}
    attributes_schema = {'b': 'The second.'}
    last = '1'

    def child_template(self):
        return template_format.parse(TEMPLATE % self.last)

    def child_params(self):
        return {'Size': self.properties['Size'] or 's', 'Key': self.properties['Key']}


class Odd(Old):
    last = '{"Fn::Split": [",", "a,b"]}'


def resource_mapping():
    return {'My::Old': Old, 'My::Odd': Odd}
"""


def test_cloudformation_template_of_a_plugin_is_rewritten(tmp_path: Path) -> None:
    """It is rewritten in HOT; what HOT has no equivalent of is a mistake."""
    plugin(tmp_path, OLD)
    stack = PluginStack(tmp_path)
    template = """
resources: {site: {type: My::Old, properties: {Size: SIZE}}}
outputs: {b: {value: {get_attr: [site, b]}}}
"""
    stack.create(template.replace("SIZE", "s"))
    assert stack.root.record.reason == ""
    assert stack.output("b") == "1-ap-southeast-1-small-key!"
    stack.update(template.replace("SIZE", "m"))
    assert stack.output("b") == "2-ap-southeast-1-large-key!"
    with pytest.raises(
        Invalid, match=r"Fn::Split in a template of a plug-in is not supported"
    ):
        stack.update("resources: {site: {type: My::Odd}}")
    stack.update("resources: {site: {type: My::Old, properties: {Key: k}}}")
    assert "Parameter 'Key' is invalid: too short" in stack.root.record.reason
    stack.close()


MAKER = """
from heat.common import exception
from heat.engine import clients, properties, resource
from heat.engine.clients import client_plugin
from heat.engine.properties import Properties
from heat.openstack.common import log as logging
from oslo.config import cfg
from oslo.utils import excutils

cfg.CONF.register_opts([cfg.StrOpt('the-host', default='h'), cfg.IntOpt('port', default=1)], group=cfg.OptGroup('mine'))
LOG = logging.getLogger(__name__)


class Device(resource.Resource):
    properties_schema = {'name': properties.Schema(properties.Schema.STRING, default=''),
                         'tags': properties.Schema(properties.Schema.LIST, default='')}

    def __init__(self, name, json_snippet, stack):
        super(Device, self).__init__(name, json_snippet, stack)
        self.address = (cfg.CONF.mine.the_host, cfg.CONF.mine.port)

    def handle_create(self):
        LOG.warn('creating %s', self.name)
        self._add_event(self.action, self.status, 'half way')
        more = Properties(self.properties_schema, {'name': 'x'}, lambda value: value, self.name, self.context)
        self.resource_id_set('%s/%s/%s' % (self.context.tenant_id, more['name'], self.properties['tags']))

    def add_dependencies(self, deps):
        super().add_dependencies(deps)

    def device(self):
        return self.address

    def get_attribute(self, key, *path):
        return key.upper()


class Mine(client_plugin.ClientPlugin):
    def _create(self):
        return 'client'


class Pool(resource.Resource):
    properties_schema = {'device': properties.Schema(properties.Schema.STRING, required=True)}
    attributes_schema = {'device': 'Its address.', 'token': 'None.'}

    def handle_create(self):
        for plugin in (self.client_plugin(), Mine(self.context)):
            with plugin.ignore_not_found:
                raise exception.EntityNotFound(entity='pool', name='p')
            plugin.ignore_not_found(exception.NotFound('gone'))
        if clients.has_client('mine') or Mine(None).client() != 'client':
            raise RuntimeError('a client')
        if self.name == 'broken':
            raise exception.ResourceFailure(ValueError('no pool'), None, action='CREATE')
        self.resource_id_set(self.name)

    def _resolve_attribute(self, name):
        if name == 'token':
            return self.context.keystone_session.get_token()
        return list(self.stack.resource_by_refid(self.properties['device']).device())


def resource_mapping():
    return {'My::Device': Device, 'My::Pool': Pool}


def client_mapping():
    return {}
"""


def test_plugins_may_use_settings_context_events_and_attributes(tmp_path: Path) -> None:
    """They have settings, read the context, ask other resources, record events, and have attributes of their own."""
    plugin(tmp_path, MAKER)
    plugin(
        tmp_path,
        "def resource_mapping():\n    return {'A::B': 1}\ndef available_resource_mapping():\n    return {}",
        "b",
    )
    stack = PluginStack(tmp_path)
    assert stack.plugins.disabled == []
    assert [each.rpartition(".py")[2] for each in stack.plugins.remarks] == [
        " provides none of its types here; a library that it needs may be missing",
        ": add_dependencies() of My::Device is not called: write depends_on in templates",
        ": client_mapping() is not called: a plug-in provides resource types and constraints",
    ]
    stack.create(
        """
resources:
  device: {type: My::Device}
  pool: {type: My::Pool, properties: {device: {get_resource: device}}}
  broken: {type: My::Pool, properties: {device: {get_resource: device}}, depends_on: pool}
outputs:
  id: {value: {get_resource: device}}
  own: {value: {get_attr: [device, anything]}}
  device: {value: {get_attr: [pool, device]}}
  token: {value: {get_attr: [pool, token]}}
"""
    )
    assert (
        stack.root.record.reason
        == "Resource CREATE failed: ValueError: resources.broken: no pool"
    )
    assert (stack.output("id"), stack.output("own"), stack.output("device")) == (
        "/x/[]",
        "ANYTHING",
        ["h", 1],
    )
    with pytest.raises(
        Exception, match=r"The client \(context.keystone_session\) is not available"
    ):
        stack.output("token")
    assert [each["path"] for each in stack.events if each["reason"] == "half way"] == [
        "device"
    ]
    stack.close()


SIGNALLED = """
from heat.engine import attributes
from heat.engine.resources import signal_responder, stack_user


class Hook(signal_responder.SignalResponder):
    attributes_schema = {'url': attributes.Schema('Where.'), 'last': attributes.Schema('The last signal.')}

    def handle_create(self):
        super().handle_create()
        self.password = 'secret'
        self._create_user()
        self.resource_id_set(self.physical_resource_name())

    def handle_signal(self, details=None):
        self.data_set('last', details)

    def _resolve_attribute(self, name):
        return self._get_ec2_signed_url() if name == 'url' else self.data().get('last')


class Token(stack_user.StackUser):
    def handle_create(self):
        self._user_token()


def resource_mapping():
    return {'My::Hook': Hook, 'My::Token': Token}
"""


def test_a_plugin_that_takes_signals(tmp_path: Path) -> None:
    """A command signals it; there is no URL, and no user of its own."""
    plugin(tmp_path, SIGNALLED)
    stack = PluginStack(tmp_path)
    assert stack.plugins.disabled == []
    outputs = "outputs: {url: {value: {get_attr: [hook, url]}}, last: {value: {get_attr: [hook, last]}}}"
    stack.create("resources: {hook: {type: My::Hook}}\n" + outputs)
    stack.session.signal("hook", {"alarm": 1})
    assert (stack.output("url"), stack.output("last")) == ("", {"alarm": 1})
    stack.update("resources: {hook: {type: My::Hook}, token: {type: My::Token}}")
    assert (
        "resources.token: The client (keystone) is not available"
        in stack.root.record.reason
    )
    stack.session.delete()
    stack.close()


INSTALLED = """
from heat.engine import properties, resource


class NeutronResource(resource.Resource):
    properties_schema = {'name': properties.Schema(properties.Schema.STRING)}

    def handle_create(self):
        self.resource_id_set(self.made())
"""

OF_INSTALLED = """
from heat.engine.resources.neutron import neutron


class Net(neutron.NeutronResource):
    def made(self):
        return 'net ' + self.properties['name']


def resource_mapping():
    return {'My::Net': Net}
"""


def test_class_can_derive_from_an_installed_heat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heat's own resources are found there, also where older releases had them, and no type of theirs is added."""
    place = (
        tmp_path / "site" / "heat" / "engine" / "resources" / "openstack" / "neutron"
    )
    place.mkdir(parents=True)
    for folder in (place, *list(place.parents)[:4]):
        (folder / "__init__.py").touch()
    (place / "neutron.py").write_text(
        INSTALLED + "\n\ndef resource_mapping():\n    return {'OS::Neutron::X': X}\n"
    )
    plugin(tmp_path, OF_INSTALLED)
    monkeypatch.syspath_prepend(tmp_path / "site")
    plugin_imports.installed_heat.cache_clear()
    try:
        stack = PluginStack(tmp_path)
    finally:
        plugin_imports.installed_heat.cache_clear()
    assert (stack.plugins.disabled, list(stack.plugins.types)) == ([], ["My::Net"])
    stack.create(
        "resources: {net: {type: My::Net, properties: {name: a}}}\noutputs: {id: {value: {get_resource: net}}}"
    )
    assert stack.output("id") == "net a"
    stack.close()
