from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.deployments.metadata import Parsed
from heat_config_agent.model.deployment import Deployment, Document, Target
from heat_config_agent.sources import document_text
from heat_config_hooks import protocol
from support.machine import deployment

SAMPLES = Path(__file__).parents[3] / "samples"


def parse(content: object) -> Parsed:
    """Read a document."""
    return metadata.parse(Document(source="test", content=content))


def parse_one(**fields: Any) -> Deployment:
    """Read the one deployment of a document."""
    (found,) = parse([{"id": "d1", **fields}]).deployments
    return found


def parse_input(**fields: Any) -> object:
    """Return what the one input of a deployment is taken for."""
    return parse_one(inputs=[{"name": "x", **fields}]).input("x")


def paths(found: Parsed | Deployment) -> list[str]:
    """Return where the mistakes are."""
    return [each.path for each in found.mistakes]


def target(**inputs: object) -> Target:
    """Return where the result of a deployment with these inputs goes."""
    return parse_one(
        inputs=[{"name": name, "value": value} for name, value in inputs.items()]
    ).target


@pytest.mark.parametrize("name", ["heat", "cfn", "tempurl", "zaqar"])
def test_metadata_of_a_real_heat_has_no_mistakes(name: str) -> None:
    """Metadata of a real Heat, with any of its signal transports, is all understood."""
    path = SAMPLES / f"metadata-{name}.json"
    content = document_text.load(path.read_text(), str(path))
    assert isinstance(content, dict)
    found = parse(content)
    assert found.mistakes == ()
    assert [each.id for each in found.deployments] == [
        each["id"] for each in content["deployments"]
    ]
    assert [each.document for each in found.deployments] == content["deployments"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("heat", "heat"), ("cfn", "url"), ("tempurl", "url"), ("zaqar", "zaqar")],
)
def test_the_target_is_the_transport_that_heat_was_told(name: str, kind: str) -> None:
    """Each transport of Heat's leads to the right kind of target."""
    content = json.loads((SAMPLES / f"metadata-{name}.json").read_text())
    assert kind in {each.target.kind for each in parse(content).deployments}


def test_an_object_and_a_bare_list_are_both_documents() -> None:
    """Heat's metadata and heat-agents' file have the same deployments, under paths of their own."""
    entries = [deployment("a"), deployment("b")]
    in_object, in_list = parse({"deployments": entries}), parse(entries)
    assert (
        [each.id for each in in_object.deployments]
        == [each.id for each in in_list.deployments]
        == ["a", "b"]
    )
    assert [each.where for each in in_object.deployments] == [
        "deployments[0]",
        "deployments[1]",
    ]
    assert [each.where for each in in_list.deployments] == ["[0]", "[1]"]


@pytest.mark.parametrize(
    "content",
    [
        {"deployments": []},
        {"deployments": None},
        {"os-collect-config": {"cfn": {}}},
        [],
    ],
    ids=["empty", "null", "os-collect-config", "bare"],
)
def test_a_document_may_have_no_deployments(content: object) -> None:
    """Before the first deployment there is nothing to do."""
    assert parse(content) == Parsed((), (), understood=True)


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (None, "$"),
        ("text", "$"),
        (3.5, "$"),
        (True, "$"),
        ({}, "$"),
        ({"other": 1}, "$"),
        ({"deployments": {}}, "deployments"),
        ({"deployments": "x"}, "deployments"),
        ({"deployments": False}, "deployments"),
        (
            {"heat_template_version": "2018-08-31", "deployments": []},
            "heat_template_version",
        ),
        (
            {"tosca_definitions_version": "tosca_simple_yaml_1_3"},
            "tosca_definitions_version",
        ),
    ],
)
def test_a_document_without_a_list_of_deployments_is_not_understood(
    content: object, path: str
) -> None:
    """Such a document is one mistake; it does not say that there are no deployments."""
    found = parse(content)
    assert (found.deployments, paths(found), found.understood) == ((), [path], False)


def test_a_document_can_be_one_deployment() -> None:
    """An object with `id`, `group` and `config` is a list of one."""
    alone = {"id": "d1", "group": "script", "config": "#!/bin/sh\n"}
    assert parse(alone) == parse([alone])


def test_a_single_deployment_needs_its_group() -> None:
    """An object with `config` alone is a mistake, which names the keys of a single deployment."""
    [mistake] = parse({"id": "d1", "config": "#!/bin/sh\n"}).mistakes
    assert mistake.problem.endswith(
        "a single deployment needs `id`, `group` and `config`"
    )


@pytest.mark.parametrize("section", ["resources", "topology_template"])
def test_template_without_a_version_is_a_mistake(section: str) -> None:
    """The mistake says how a template begins."""
    [mistake] = parse({section: {}}).mistakes
    assert mistake.problem.endswith(
        "; a template has heat_template_version or tosca_definitions_version"
    )


def test_only_the_id_is_needed() -> None:
    """Every key but `id` may be missing, and has a default."""
    parsed = parse_one()
    assert (parsed.id, parsed.key, parsed.name, parsed.group) == (
        "d1",
        "d1",
        "d1",
        "Heat::Ungrouped",
    )
    assert (parsed.config, parsed.inputs, parsed.outputs, parsed.options) == (
        None,
        (),
        (),
        {},
    )
    assert (parsed.creation_time, parsed.target.kind, parsed.mistakes) == (
        "",
        "none",
        (),
    )


def test_null_is_as_good_as_missing() -> None:
    """A key whose value is null has its default."""
    fields = (
        "name",
        "group",
        "config",
        "inputs",
        "outputs",
        "options",
        "creation_time",
    )
    assert parse_one(**dict.fromkeys(fields)).mistakes == ()


def test_unknown_keys_are_kept() -> None:
    """The entry stays as it came, with what we know nothing of."""
    entry = {
        **deployment("a"),
        "x-later": {"deep": [1]},
        "inputs": [{"name": "n", "value": 1, "x-more": 2}],
    }
    assert parse([entry]).deployments[0].document == entry


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"name": 5}, "name"),
        ({"group": ["script"]}, "group"),
        ({"creation_time": 20261120}, "creation_time"),
        ({"options": "timeout=3"}, "options"),
        ({"options": []}, "options"),
        ({"inputs": {"a": 1}}, "inputs"),
        ({"inputs": "a=1"}, "inputs"),
        ({"inputs": ["a"]}, "inputs[0]"),
        ({"inputs": [None]}, "inputs[0]"),
        ({"inputs": [{"value": 1}]}, "inputs[0].name"),
        ({"inputs": [{"name": ""}]}, "inputs[0].name"),
        ({"inputs": [{"name": "ok"}, {"name": 7}]}, "inputs[1].name"),
        ({"inputs": [{"name": "a", "type": 1}]}, "inputs[0].type"),
        ({"outputs": {"name": "a"}}, "outputs"),
        ({"outputs": ["a"]}, "outputs[0]"),
        ({"outputs": [{"type": "String"}]}, "outputs[0].name"),
        ({"outputs": [{"name": "../../etc/passwd"}]}, "outputs[0].name"),
        ({"outputs": [{"name": "a\0b"}]}, "outputs[0].name"),
    ],
)
def test_a_mistake_is_reported_with_its_path(fields: dict[str, Any], path: str) -> None:
    """A mistake in an entry belongs to that deployment, with its path in the document."""
    assert paths(parse_one(**fields)) == [f"[0].{path}"]


def test_every_mistake_is_reported_and_the_others_are_read() -> None:
    """All mistakes of a bad entry are collected, and other entries are parsed."""
    bad = {"name": 1, "inputs": "x", "outputs": [7], "options": 3}
    found = parse({"deployments": [deployment("a"), bad, deployment("b")]})
    expected = [
        f"deployments[1].{each}"
        for each in ("id", "inputs", "outputs[0]", "options", "name")
    ]
    assert sorted(paths(found)) == sorted(expected)
    assert [each.id for each in found.deployments if not each.mistakes] == ["a", "b"]


@pytest.mark.parametrize(
    "entry",
    [None, 1, "text", [], [deployment()], True],
    ids=lambda value: str(value)[:8],
)
def test_entry_of_a_wrong_type_fails_alone(entry: object) -> None:
    """An entry of another type has no id and no target, and fails alone."""
    found = parse({"deployments": [entry, deployment("b")]})
    assert paths(found) == ["deployments[0]"]
    assert [bool(each.mistakes) for each in found.deployments] == [True, False]


@pytest.mark.parametrize(
    ("given", "identity"),
    [("1234", "1234"), (1234, "1234"), ("é", "é"), ("../x", "../x")],
)
def test_an_id_is_text_or_what_yaml_made_of_it(given: object, identity: str) -> None:
    """An unquoted number in YAML is the id of these digits."""
    found = parse_one(id=given)
    assert (found.id, found.mistakes) == (identity, ())


@pytest.mark.parametrize("given", [None, "", 1.5, True, [], {"id": 1}])
def test_an_entry_without_an_id_is_a_mistake(given: object) -> None:
    """An entry without an id has a key made from its content."""
    found = parse_one(id=given)
    assert (found.id, paths(found)) == ("", ["[0].id"])
    assert found.key == protocol.file_key(found.key)


@pytest.mark.parametrize(
    "identity",
    ["../x", "a/b", ".", "..", "x" * 300, "a.b", "-rf", "a b", "é", "a\0b", "a\n"],
    ids=lambda value: ascii(value)[:12],
)
def test_an_unsafe_id_never_names_a_file(identity: str) -> None:
    """Such an id is kept as it is, but a digest stands for it on the disk."""
    found = parse_one(id=identity)
    assert found.id == identity
    assert found.key.startswith("sha256-")
    assert found.mistakes == ()


def test_the_same_entry_twice_is_one_deployment() -> None:
    """Identical duplicates are the same work."""
    found = parse([deployment("a"), deployment("b"), deployment("a")])
    assert [each.id for each in found.deployments] == ["a", "b"]
    assert found.mistakes == ()


def test_of_two_entries_with_one_id_the_second_fails() -> None:
    """The first is applied; the second is answered as failed, under a key of its own."""
    found = parse([deployment("a", "one"), deployment("a", "two")])
    first, second = found.deployments
    assert (first.config, first.mistakes, first.key) == ("one", (), "a")
    assert (second.config, paths(second)) == ("two", ["[1].id"])
    assert second.key not in ("", "a")


def test_of_three_entries_with_one_id_both_others_fail() -> None:
    """An id stands for the first entry that has it, and each different content after that fails once."""
    found = parse(
        [
            deployment("a", "one"),
            deployment("a", "two"),
            deployment("a", "three"),
            deployment("a", "two"),
        ]
    )
    assert [each.config for each in found.deployments] == ["one", "two", "three"]
    assert len({each.key for each in found.deployments}) == 3


@pytest.mark.parametrize(
    ("url", "kind"), [("http://h/other", "url"), ("http://h/same", "none")]
)
def test_a_second_of_its_id_answers_only_its_own_target(url: str, kind: str) -> None:
    """Where the first one's result is waited for, no other may arrive."""
    found = parse(
        [
            deployment("a", "one", signal="http://h/same"),
            deployment("a", "two", signal=url),
        ]
    )
    assert [each.target.kind for each in found.deployments] == ["url", kind]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (7, "7"),
        (0.5, "0.5"),
        (True, "true"),
        (False, "false"),
        (None, ""),
        ([1, "a", None], '[1,"a",null]'),
        ({"k": {"é": []}}, '{"k":{"\\u00e9":[]}}'),
    ],
)
def test_an_input_said_to_be_a_string_is_made_text(value: object, text: str) -> None:
    """By the one conversion, whatever it carries."""
    assert parse_input(type="String", value=value) == text


@pytest.mark.parametrize(
    "kind", ["Number", "Json", "Boolean", "CommaDelimitedList", "Later"]
)
@pytest.mark.parametrize("value", [7, True, None, [1], {"k": 1}, "text"])
def test_an_input_of_another_type_keeps_its_value(kind: str, value: object) -> None:
    """Only `String` is made text."""
    assert parse_input(type=kind, value=value) == value


def test_an_input_without_a_type_keeps_its_value() -> None:
    """An input without a type is not converted to text."""
    assert parse_input(value={"k": 1}) == {"k": 1}


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({}, None),
        ({"type": "String"}, ""),
        ({"type": "Number"}, None),
        ({"default": 3}, 3),
        ({"type": "String", "default": 3}, "3"),
        ({"value": None, "default": 3}, None),
        ({"value": "", "default": "d"}, ""),
        ({"value": 0, "default": 3}, 0),
    ],
)
def test_an_input_without_a_value_has_its_default_or_nothing(
    fields: dict[str, Any], value: object
) -> None:
    """A missing value is accepted; null is a value."""
    found = parse_one(inputs=[{"name": "x", **fields}])
    assert (found.input("x"), found.mistakes) == (value, ())


def test_of_two_inputs_with_one_name_the_last_counts() -> None:
    """As in an environment."""
    found = parse_one(
        inputs=[
            {"name": "deploy_action", "value": each} for each in ("CREATE", "DELETE")
        ]
    )
    assert found.action == "DELETE"


@pytest.mark.parametrize(
    ("fields", "hidden"),
    [
        ({}, False),
        ({"hidden": True}, True),
        ({"no_echo": True}, True),
        ({"hidden": False}, False),
        ({"hidden": 1}, False),
    ],
)
def test_the_document_says_which_inputs_nobody_may_see(
    fields: dict[str, Any], hidden: bool
) -> None:
    """`hidden` and `no_echo` both do."""
    assert parse_one(inputs=[{"name": "x", **fields}]).inputs[0].hidden is hidden


def test_an_error_output_is_one_by_its_flag() -> None:
    """Only the value true makes it one."""
    flags = [
        {"name": "a"},
        {"name": "b", "error_output": True},
        {"name": "c", "error_output": "yes"},
    ]
    found = parse_one(outputs=flags)
    assert [each.error_output for each in found.outputs] == [False, True, False]


def test_an_output_whose_name_begins_like_a_standard_one_is_an_output_like_others() -> (
    None
):
    """Only `deploy_stdout`, `deploy_stderr` and `deploy_status_code` are the standard ones."""
    found = parse_one(outputs=[{"name": "deploy_strategy_error", "error_output": True}])
    assert found.outputs[0].error_output is True


def test_no_signal_is_wanted_where_the_transport_says_so() -> None:
    """NO_SIGNAL wins over any address that the metadata carries too."""
    assert (
        target(deploy_signal_transport="NO_SIGNAL", deploy_signal_id="http://h/").kind
        == "none"
    )


@pytest.mark.parametrize(
    ("verb", "sent"), [(None, "POST"), ("", "POST"), ("PUT", "PUT"), ("put", "PUT")]
)
def test_a_signal_url_is_kept_exactly_and_posted_to_by_default(
    verb: str | None, sent: str
) -> None:
    """The URL is signed, so nothing about it may change."""
    url = "http://h/a%2fb?Signature=x%2B&x=é y"
    found = target(
        deploy_signal_id=url, **({} if verb is None else {"deploy_signal_verb": verb})
    )
    assert (found.kind, found.url, found.verb) == ("url", url, sent)


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        ({}, "none"),
        ({"deploy_auth_url": "http://k/v3"}, "heat"),
        ({"deploy_auth_url": "http://k/v3", "deploy_queue_id": "q"}, "zaqar"),
        (
            {
                "deploy_auth_url": "http://k/v3",
                "deploy_queue_id": "q",
                "deploy_signal_id": "http://h/",
            },
            "url",
        ),
        ({"deploy_signal_id": 5}, "none"),
    ],
)
def test_the_most_particular_address_is_the_target(
    inputs: dict[str, object], kind: str
) -> None:
    """A URL before a queue, a queue before Heat's API."""
    assert target(**inputs).kind == kind


def test_the_addressee_is_the_same_for_every_action_of_a_resource() -> None:
    """The addressee is the resource in its stack, whatever the signature of the URL."""
    common = {"deploy_stack_id": "s/1", "deploy_resource_name": "web"}
    assert target(deploy_signal_id="http://h/1", **common).addressee == "s/1/web"
    assert target(deploy_auth_url="http://k", **common).addressee == "s/1/web"
    one, same, other = (
        target(deploy_signal_id=url).addressee
        for url in ("http://h/1", "http://h/1", "http://h/2")
    )
    assert one == same != other
    assert "//h" not in one  # a signed URL is secret


def test_a_target_is_described_without_what_is_secret() -> None:
    """The description of a target has neither the signature nor a password of its URL."""
    described = target(
        deploy_signal_id="http://user:pass@h:80/v1/signal?Signature=abc"
    ).described
    assert described == "POST to h:80/v1/signal"


def test_the_deepest_document_that_can_be_loaded_can_be_parsed() -> None:
    """Too deep an entry is at most a mistake of that entry."""
    for depth in range(1000, 0, -1):
        try:
            content = document_text.load("[" * depth + "]" * depth, "x")
        except Exception:  # noqa: BLE001, S112  # the reader has its own test
            continue
        assert parse(content).mistakes
        assert parse(
            [
                {
                    "id": "a",
                    "inputs": [{"name": "n", "type": "String", "value": content}],
                },
                content,
            ]
        ).deployments
        break


def test_same_document_object_is_parsed_once() -> None:
    """An equal document that is another object is parsed again."""
    reader = metadata.Reader()
    one, two = (
        Document(source="heat", content=[{"id": "d1", "config": "x"}]) for _ in range(2)
    )
    parsed = reader.parse(one)
    assert reader.parse(one) is parsed
    assert reader.parse(Document(source="cfn", content=[])).deployments == ()
    assert reader.parse(one) is parsed
    assert reader.parse(two) is not parsed
    assert reader.parse(two) == parsed
