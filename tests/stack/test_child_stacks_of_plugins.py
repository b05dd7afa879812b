"""Plug-ins that are written for Heat and have child stacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model.errors import StateError
from stack.plugin_stack import PluginStack, plugin

SITE = '''
from heat.common import exception
from heat.engine import attributes, properties
from heat.engine.resources import stack_resource


class Site(stack_resource.StackResource):
    """A site with several pages."""

    properties_schema = {
        'pages': properties.Schema(properties.Schema.LIST, required=True, update_allowed=True),
        'type': properties.Schema(properties.Schema.STRING, default='OS::Heat::Value', update_allowed=True),
        'title': properties.Schema(properties.Schema.STRING, update_allowed=True),
    }
    attributes_schema = {
        'first': attributes.Schema('The first page.'),
        'pages': attributes.Schema('All pages.', type=attributes.Schema.LIST),
        'none': attributes.Schema('No output.'),
    }

    def child_template(self):
        names = self.properties['pages'] or []
        kind = self.properties['type']
        return {
            'heat_template_version': '2015-04-30',
            'parameters': {'title': {'type': 'string', 'default': 'none'}},
            'resources': {
                name: {'type': kind, 'properties': {'value': {'list_join': [' ', [name, {'get_param': 'title'}]]}}}
                for name in names
            },
            'outputs': {
                'first': {'value': {'get_attr': [names[0], 'value']}},
                'pages': {'value': [{'get_attr': [name, 'value']} for name in names]},
            } if names else {},
        }

    def child_params(self):
        title = self.properties['title']
        return {'title': title} if title else {}

    def handle_create(self):
        return self.create_with_template(self.child_template(), self.child_params())

    def handle_update(self, json_snippet, tmpl_diff, prop_diff):
        self.properties = json_snippet.properties(self.properties_schema, self.context)
        return self.update_with_template(self.child_template(), self.child_params())

    def handle_delete(self):
        self.delete_nested()


def resource_mapping():
    return {'My::Site': Site}
'''

TEMPLATE = """
parameters: {pages: {type: json, default: [a, b]}, title: {type: string, default: one}}
resources:
  word: {type: OS::Heat::Value, properties: {value: {get_param: title}}}
  site: {type: My::Site, properties: {pages: {get_param: pages}, title: {get_attr: [word, value]}}}
outputs:
  first: {value: {get_attr: [site, first]}}
  pages: {value: {get_attr: [site, pages]}}
  none: {value: {get_attr: [site, none]}}
"""


@pytest.fixture
def site(tmp_path: Path) -> PluginStack:
    """Return where a stack with the plug-in can be worked on."""
    plugin(tmp_path, SITE)
    made = PluginStack(tmp_path)
    assert made.plugins.disabled == []
    return made


def children(stack: PluginStack) -> dict[str, str]:
    """Return the states of the resources of the child stack."""
    child = stack.root.resources["site"].child
    return (
        {}
        if child is None
        else {each.name: "_".join(each.state) for each in child.records()}  # type: ignore[attr-defined]
    )


def test_child_stack_of_a_plugin_follows_its_parent(site: PluginStack) -> None:
    """The child follows its template, its outputs are attributes, and it is suspended and deleted with its stack."""
    site.create(TEMPLATE)
    assert site.states() == {"word": "CREATE_COMPLETE", "site": "CREATE_COMPLETE"}
    assert (site.output("first"), site.output("pages")) == ("a one", ["a one", "b one"])
    with pytest.raises(
        Exception, match=r"The Referenced Attribute \(site none\) is incorrect"
    ):
        site.output("none")
    site.close()
    site.update(TEMPLATE, pages=["b", "c"], title="two")
    assert site.output("pages") == ["b two", "c two"]
    assert children(site).keys() == {"b", "c"}
    site.session.suspend()
    assert set(children(site).values()) == {"SUSPEND_COMPLETE"}
    site.session.resume()
    site.session.check()
    assert site.state() == ("CHECK", "COMPLETE")
    site.session.delete()
    assert (len(site.session.store.stacks), site.session.store.resources) == (1, {})
    site.close()


@pytest.mark.parametrize(
    ("pages", "kind", "problem"),
    [
        (["a"], "My::Nothing", "The Resource Type (My::Nothing) could not be found."),
        (["a"], "OS::Heat::RandomString", "Unknown Property value"),
        ([{}], "OS::Heat::Value", "TypeError: "),
    ],
)
def test_mistakes_in_the_child_are_found_before_anything_is_done(
    site: PluginStack, pages: object, kind: str, problem: str
) -> None:
    """Those of its template, and those of the code that makes it."""
    with pytest.raises(Invalid) as caught:
        site.create(
            f"resources: {{site: {{type: My::Site, properties: {{pages: {pages}, type: '{kind}'}}}}}}"
        )
    assert problem in str(caught.value)
    site.close()


@pytest.mark.parametrize(
    ("returns", "problem"),
    [
        ("None, {}", "a template must be a map; got None"),
        ("[], {}", "a template must be a map; got []"),
        ("{}, ['a']", "the parameters of a template must be a map; got ['a']"),
        ("'no template', {}", "The template is not a JSON object or YAML mapping."),
        (
            "{'Resources': {}, 'AWSTemplateFormatVersion': 1, 'Outputs': {'o': {'Value': {'Fn::GetAtt': 1}}}}, {}",
            "Fn::Get",
        ),
    ],
)
def test_invalid_child_template_is_a_mistake(
    tmp_path: Path, returns: str, problem: str
) -> None:
    """The sentence says what the class returns."""
    plugin(
        tmp_path,
        "from heat.engine.resources import stack_resource\n"
        "class Odd(stack_resource.StackResource):\n"
        f"    def child_template(self):\n        return ({returns})[0]\n"
        f"    def child_params(self):\n        return ({returns})[1]\n"
        "def resource_mapping():\n    return {'My::Odd': Odd}\n",
    )
    stack = PluginStack(tmp_path)
    with pytest.raises(Invalid) as caught:
        stack.create("resources: {r: {type: My::Odd}}")
    assert problem in str(caught.value)
    stack.close()


def test_a_failure_in_the_child_fails_the_resource(site: PluginStack) -> None:
    """The reason has the path to the failed resource, and the next update continues from there."""
    plugin(site.folder, BROKEN, "broken")
    broken = PluginStack(site.folder)
    broken.create(
        "resources: {site: {type: My::Site, properties: {pages: [a, b], type: 'My::Broken'}}}"
    )
    assert broken.state() == ("CREATE", "FAILED")
    reason = broken.root.record.reason
    assert any(
        f"RuntimeError: resources.site.resources.{name}: broken" in reason
        for name in "ab"
    )
    broken.update("resources: {site: {type: My::Site, properties: {pages: [a, b]}}}")
    assert broken.state() == ("UPDATE", "COMPLETE")
    broken.close()


BROKEN = """
from heat.engine import properties, resource


class Broken(resource.Resource):
    properties_schema = {'value': properties.Schema(properties.Schema.ANY)}
    attributes_schema = {'value': 'The value.'}

    def handle_create(self):
        raise RuntimeError('broken')


def resource_mapping():
    return {'My::Broken': Broken}
"""

BUILT = """
from heat.engine import environment, output, properties, rsrc_defn, scheduler, template
from heat.engine.resources import stack_resource
from heat.scaling import template as of_groups


class Built(stack_resource.StackResource):
    properties_schema = {'size': properties.Schema(properties.Schema.INTEGER, default=1, update_allowed=True)}
    attributes_schema = {'sizes': 'Sizes while it was created.', 'refs': 'The members.'}

    def build(self, size):
        definitions = [(str(number), rsrc_defn.ResourceDefinition(str(number), 'My::Member', {'value': number}))
                       for number in range(size)]
        made = of_groups.make_template(definitions)
        get = made.functions['get_attr']
        made.add_output(output.OutputDefinition('refs', {name: get(None, 'get_attr', [name, 'value'])
                                                         for name, _ in definitions}))
        return made

    def child_params(self):
        return {'parameters': {}, 'resource_registry': {'My::Member': 'OS::Heat::Value'}}

    def child_template(self):
        return self.build(self.properties['size'])

    def grow(self):
        for size in range(1, self.properties['size'] + 1):
            self.update_with_template(self.build(size), self.child_params())
            while not self.check_update_complete():
                yield
            self.data_set('sizes', self.data().get('sizes', []) + [len(self.nested())])

    def handle_create(self):
        scheduler.TaskRunner(self.grow)(timeout=60)

    def handle_update(self, json_snippet, tmpl_diff, prop_diff):
        self.properties = json_snippet.properties(self.properties_schema, self.context)
        task = scheduler.TaskRunner(self.grow)
        task.start()
        return task

    def check_update_complete(self, task=None):
        return super().check_update_complete() if task is None else task.step()

    def _resolve_attribute(self, name):
        return self.data()['sizes'] if name == 'sizes' else self.get_output(name)


def resource_mapping():
    return {'My::Built': Built}
"""


def test_a_handler_waits_for_its_child(tmp_path: Path) -> None:
    """A template is built of definitions, its types are mapped, and a task in a handler sees the child change."""
    plugin(tmp_path, BUILT)
    stack = PluginStack(tmp_path)
    assert stack.plugins.disabled == []
    template = """
parameters: {{size: {{type: number, default: 2}}}}
resources: {{site: {{type: My::Built, properties: {{size: {{get_param: size}}}}}}}}
outputs: {{sizes: {{value: {{get_attr: [site, sizes]}}}}, refs: {{value: {{get_attr: [site, refs]}}}}}}
""".format()
    stack.create(template)
    assert stack.root.record.reason == ""
    assert (stack.output("sizes"), stack.output("refs")) == ([1, 2], {"0": 0, "1": 1})
    stack.update(template, size=3)
    assert (stack.output("sizes"), stack.output("refs")) == (
        [1, 2, 1, 2, 3],
        {"0": 0, "1": 1, "2": 2},
    )
    assert set(children(stack)) == {"0", "1", "2"}
    stack.close()


OF_ENGINE = """
from heat.common import template_format
from heat.engine import stack as parser
from heat.engine.resources import stack_resource
from heat.objects import raw_template


class Uses(stack_resource.StackResource):
    def child_template(self):
        return template_format.parse('heat_template_version: 2015-04-30')

    def child_params(self):
        return None

    def handle_create(self):
        raw_template.RawTemplate.delete(self.context, 1)


def resource_mapping():
    return {'My::Uses': Uses}
"""


def test_a_part_of_heats_engine_can_be_imported_and_not_used(tmp_path: Path) -> None:
    """Its use fails the resource with a sentence; a class that derives from it makes the module unusable."""
    plugin(tmp_path, OF_ENGINE)
    plugin(
        tmp_path,
        "from heat.engine import stack\nclass Mine(stack.Stack):\n    pass\n",
        "derived",
    )
    stack = PluginStack(tmp_path)
    part = "heat.engine.stack.Stack, a part of Heat's own engine, which plug-ins cannot use here"
    assert [each.partition(" is not used: ")[2] for each in stack.plugins.disabled] == [
        f"it needs {part}"
    ]
    stack.create("resources: {r: {type: My::Uses}}")
    assert (
        "heat.objects.raw_template.RawTemplate needs Heat's engine or a cloud"
        in stack.root.record.reason
    )
    stack.close()


def test_a_class_without_handlers_and_one_that_makes_no_child(tmp_path: Path) -> None:
    """The handlers of the base class create and update the child; a handler that makes none fails."""
    text = (
        SITE[: SITE.index("    def handle_create")]
        + SITE[SITE.index("\n\ndef resource_mapping") :]
    )
    lazy = "class Lazy(Site):\n    def handle_create(self):\n        pass\n\n\ndef resource_mapping"
    text = text.replace("def resource_mapping", lazy).replace(
        "'My::Site': Site", "'My::Site': Site, 'My::Lazy': Lazy"
    )
    plugin(tmp_path, text)
    stack = PluginStack(tmp_path)
    stack.create("resources: {site: {type: My::Site, properties: {pages: [a]}}}")
    stack.update("resources: {site: {type: My::Site, properties: {pages: [a, b]}}}")
    assert children(stack) == {"a": "CREATE_COMPLETE", "b": "CREATE_COMPLETE"}
    stack.update("resources: {lazy: {type: My::Lazy, properties: {pages: [a]}}}")
    assert (
        "the handler has created no child stack: Lazy has to do that"
        in stack.root.record.reason
    )
    stack.close()


ENDING = """
import os
from heat.engine import properties, resource
from heat_config_agent.model.errors import StateError


class Ending(resource.Resource):
    properties_schema = {'value': properties.Schema(properties.Schema.STRING, update_allowed=True)}
    attributes_schema = {'value': 'The value.'}

    def handle_create(self):
        self.resource_id_set(self.uuid)
        if self.name == 'b' and not os.path.exists('FLAG'):
            open('FLAG', 'w').close()
            raise StateError('the process ends')

    def _resolve_attribute(self, name):
        return self.resource_id


def resource_mapping():
    return {'My::Ending': Ending}
"""


def test_another_process_continues_with_the_child(
    site: PluginStack, tmp_path: Path
) -> None:
    """The child stays, with what is complete in it; only the interrupted member is replaced."""
    plugin(tmp_path, ENDING.replace("FLAG", str(tmp_path / "flag")), "ending")
    template = "resources: {site: {type: My::Site, properties: {pages: [a, b], type: 'My::Ending'}}}"
    first = PluginStack(site.folder)
    with pytest.raises(StateError, match="the process ends"):
        first.create(template)
    before = {each.name: each.id for each in first.session.store.resources.values()}
    first.close()
    second = PluginStack(site.folder)
    assert second.session.interrupted
    second.session.go_on()
    assert second.state() == ("CREATE", "COMPLETE")
    after = {each.name: each.id for each in second.session.store.resources.values()}
    assert [name for name in ("site", "a", "b") if after[name] != before[name]] == ["b"]
    assert len(second.session.store.stacks) == 2
    second.close()
