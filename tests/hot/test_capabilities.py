"""Capabilities: templates say what they can do, environments require it, and one of a list is meant."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_stack.definition import Definition, Identity, MappedType
from heat_config_stack.hot import loader, reader
from heat_config_stack.hot.loader import define as define_source
from hot.made import IDENTITY, VERSION, define, examined
from support import pace
from support.machine import Done, Machine

NOT_HEATS = (
    "Heat refuses this section: it has specified capabilities, and does not have them"
)
PARENT = "resources: {r: {type: My::Type}}\n"
LIST = "resource_registry: {'My::Type': [puppet/c.yaml, docker/c.yaml]}\n"


def template(capabilities: str = "") -> str:
    """Return a template that is capable of something."""
    return VERSION + (f"capabilities: {capabilities}\n" if capabilities else "")


FILES = {
    "puppet/c.yaml": template("{deployment: puppet}"),
    "docker/c.yaml": template("{deployment: docker}"),
}


def first(made: Definition, type_: str = "My::Type", resource: str = "r") -> MappedType:
    """Return what a type stands for."""
    return next(made.environment.candidates(type_, resource))


def chosen(*environments: str, **files: str) -> str:
    """Return the template that is chosen for the type; the files have names with `__` for a slash."""
    sent = {
        f"{name.replace('__', '/')}.yaml": text for name, text in files.items()
    } or FILES
    return first(define(PARENT, *environments, files=sent)).template


def refused(
    *environments: str, files: dict[str, str] | None = None, parent: str = PARENT
) -> list[str]:
    """Return the mistakes."""
    return examined(parent, *environments, files=FILES if files is None else files)[0]


# Which one is meant.


@pytest.mark.parametrize("tool", ["puppet", "docker"])
def test_template_with_the_required_capability_is_chosen(tool: str) -> None:
    """Exactly one template has the required capability, as in the example of the specification."""
    assert chosen(f"requires: {{deployment: {tool}}}\n{LIST}") == f"{tool}/c.yaml"


def test_required_capabilities_may_be_in_another_environment() -> None:
    """Environments are merged first: key by key, and a later one wins, before the list or after it."""
    assert chosen("requires: {deployment: puppet}\n", LIST) == "puppet/c.yaml"
    assert (
        chosen(
            LIST, "requires: {deployment: puppet}\n", "requires: {deployment: docker}\n"
        )
        == "docker/c.yaml"
    )
    two = "requires: {net: a, deployment: puppet}\n"
    files = {
        "puppet__c": template("{deployment: puppet, net: a}"),
        "docker__c": template("{deployment: docker, net: a}"),
    }
    assert (
        chosen(two, "requires: {deployment: docker}\n", LIST, **files)
        == "docker/c.yaml"
    )


def test_a_later_environment_may_name_one_template() -> None:
    """A later environment may replace a list by one template, or one template by a list."""
    one = "resource_registry: {'My::Type': docker/c.yaml}\n"
    assert chosen(LIST, one) == "docker/c.yaml"
    assert chosen(one, LIST, "requires: {deployment: puppet}\n") == "puppet/c.yaml"


def test_additional_capabilities_do_not_matter() -> None:
    """A template may be capable of more."""
    files = {
        "a": template("{deployment: puppet, os: [debian, fedora], size: 3}"),
        "b": template("{deployment: docker}"),
    }
    assert (
        chosen(
            "requires: {deployment: puppet}\nresource_registry: {'My::Type': [a.yaml, b.yaml]}\n",
            **files,
        )
        == "a.yaml"
    )


@pytest.mark.parametrize(
    ("required", "capable", "fits"),
    [
        ("{os: fedora}", "{os: [debian, fedora]}", True),
        ("{os: [fedora, debian]}", "{os: [debian, fedora]}", True),
        ("{os: [fedora, debian]}", "{os: debian}", False),
        ("{cores: 4}", "{cores: '4'}", True),
        ("{ha: true}", "{ha: 'true'}", True),
        ("{ha: yes}", "{ha: true}", True),
        ("{ha: true}", "{ha: 'True'}", False),
        ("{ha: true}", "{ha: false}", False),
        ("{os: debian, ha: true}", "{os: debian}", True),
        ("{os: debian}", "", True),
        (
            "{resource_type: 'My::Type'}",
            "{resource_type: ['My::Type', 'My::Other']}",
            True,
        ),
        ("{}", "{os: debian}", True),
    ],
)
def test_template_with_all_required_capabilities_fits(
    required: str, capable: str, fits: bool
) -> None:
    """All that is required and mentioned, each value of a list of it; one of a list that a template has is enough."""
    environment = f"requires: {required}\nresource_registry: {{'My::Type': [a.yaml]}}\n"
    assert bool(refused(environment, files={"a.yaml": template(capable)})) != fits


def test_a_template_named_twice_counts_once() -> None:
    """A template that is named twice, in any spelling, counts once."""
    assert (
        chosen("resource_registry: {'My::Type': [a.yaml, ./a.yaml]}\n", a=template())
        == "a.yaml"
    )


def test_candidates_are_listed_if_no_template_fits() -> None:
    """Each candidate is named with its different values, and with the word that may have been meant."""
    files = {**FILES, "c.yaml": template("{os: debian}")}
    environment = "requires: {deployment: pupet, os: debian}\n" + LIST.replace(
        "]", ", c.yaml]"
    )
    assert refused(environment, files=files) == [
        (
            "env0.yaml:2:21: resource_registry.My::Type: no template fits what is required (deployment=pupet, "
            "os=debian): puppet/c.yaml has deployment=puppet and no os; docker/c.yaml has deployment=docker and no os; "
            "c.yaml has no deployment (did you mean puppet?)"
        )
    ]


def test_unmentioned_requirement_gives_a_warning() -> None:
    """A requirement that no list mentions decides nothing, and is a warning because it may be misspelt."""
    problem = (
        "no template of a list in the resource_registry has the required capability"
    )
    mistakes, warnings = examined(
        PARENT, "requires: {deploymnet: puppet}\n" + LIST, files=FILES
    )
    assert [mistake.partition(": 2 templates")[0] for mistake in mistakes] == [
        "env0.yaml:2:21: resource_registry.My::Type"
    ]
    assert (
        f"env0.yaml:1:12: requires.deploymnet: {problem} deploymnet (did you mean deployment?)"
        in warnings
    )
    other = "requires: {os: debian}\n"
    mistakes, warnings = examined(
        PARENT, "requires: {deployment: puppet}\n" + LIST, other, files=FILES
    )
    assert mistakes == []
    assert f"env1.yaml:1:12: requires.os: {problem} os" in warnings
    assert problem not in str(examined("resources: {}\n", other)[1])


def test_choices_are_independent() -> None:
    """A requirement decides between the templates of the lists that mention it, and between no others."""
    files = {
        **FILES,
        "nic/one.yaml": template("{nic: single}"),
        "nic/two.yaml": template("{nic: bonded}"),
        "both/a.yaml": template("{deployment: puppet, nic: bonded}"),
        "both/b.yaml": template("{deployment: puppet, nic: single}"),
        "both/c.yaml": template("{deployment: docker}"),
    }
    lists = """\
    resource_registry:
      My::Type: [puppet/c.yaml, docker/c.yaml]
      My::Nic: [nic/one.yaml, nic/two.yaml]
      My::Both: [both/a.yaml, both/b.yaml, both/c.yaml]
    """
    made = define(
        PARENT,
        "requires: {deployment: puppet, nic: bonded}\n",
        dedent(lists),
        files=files,
    )
    found = {
        type_: first(made, type_).template
        for type_ in ("My::Type", "My::Nic", "My::Both")
    }
    assert found == {
        "My::Type": "puppet/c.yaml",
        "My::Nic": "nic/two.yaml",
        "My::Both": "both/a.yaml",
    }
    # The third list mentions both: a template without one of them does not fit.
    [mistake] = refused(
        "requires: {deployment: docker, nic: bonded}\n", dedent(lists), files=files
    )
    assert (
        "no template fits what is required (deployment=docker, nic=bonded)" in mistake
    )
    assert mistake.endswith("both/c.yaml has no nic")


def test_several_fit() -> None:
    """The fitting templates are named, with the capabilities that distinguish them."""
    assert refused(LIST) == [
        (
            "env0.yaml:1:21: resource_registry.My::Type: 2 templates fit, as nothing is required of them: "
            "puppet/c.yaml, "
            "docker/c.yaml (require one deployment of puppet, docker)"
        )
    ]
    files = {
        "a.yaml": template("{x: 1}"),
        "b.yaml": template("{x: 1}"),
        "c.yaml": template("{x: 2}"),
    }
    environment = (
        "requires: {x: 1}\nresource_registry: {'My::Type': [a.yaml, b.yaml, c.yaml]}\n"
    )
    assert refused(environment, files=files) == [
        (
            "env0.yaml:2:21: resource_registry.My::Type: 2 templates fit what is required (x=1): a.yaml, b.yaml; "
            "c.yaml has x=2 (keep only one of them in the list)"
        )
    ]


def test_unused_list_of_an_environment_is_checked() -> None:
    """An environment is right or wrong by itself."""
    assert len(refused(LIST, parent="resources: {}\n")) == 1


# Where lists stand.


def test_wildcards_beside_lists() -> None:
    """A matching wildcard replaces a list, another one is skipped, and null removes a mapping."""
    requires = "requires: {deployment: puppet}\n"
    other = (
        requires
        + "resource_registry: {'My::*': 'OS::Heat::*', 'My::Type': [puppet/c.yaml, docker/c.yaml]}\n"
    )
    assert first(define(PARENT, other, files=FILES)).type == "OS::Heat::Type"
    none = other.replace("'My::*': 'OS::Heat::*'", "'Your::*': 'OS::Heat::*'")
    assert first(define(PARENT, none, files=FILES)).template == "puppet/c.yaml"
    taken = requires + LIST.replace("}", ", 'My::*': null}")
    assert first(define(PARENT, taken, files=FILES)) == MappedType("My::Type")


def test_a_type_that_is_mapped_to_one_with_a_list() -> None:
    """A chain ends in the template that is chosen."""
    environment = "requires: {deployment: docker}\n" + LIST.replace(
        "{", "{'Your::*': 'My::*', ", 1
    )
    made = define(PARENT.replace("My", "Your"), environment, files=FILES)
    assert first(made, "Your::Type").template == "docker/c.yaml"


def test_lists_for_single_resources() -> None:
    """Lists for one resource, and for resources of its child stack, are resolved where they are."""
    environment = """\
    requires: {deployment: docker}
    resource_registry:
      'My::Type': OS::Heat::None
      resources:
        r: {'My::Type': [puppet/c.yaml, docker/c.yaml]}
        child: {inner: {'My::Type': [docker/c.yaml, puppet/c.yaml]}}
    """
    made = define(PARENT, environment, files=FILES)
    assert first(made).template == "docker/c.yaml"
    inner = made.environment.inside("child")
    assert next(inner.candidates("My::Type", "inner")).template == "docker/c.yaml"
    assert first(made, resource="other").type == "OS::Heat::None"
    wrong = refused(environment.replace("docker}\n", "chef}\n", 1))
    assert [each.partition(": no")[0] for each in wrong] == [
        "env0.yaml:5:9: resource_registry.resources.r.My::Type",
        "env0.yaml:6:21: resource_registry.resources.child.inner.My::Type",
    ]


def nested(made: Definition, resource: str, type_: str) -> Definition:
    """Return what the child stack of a resource is to be."""
    return made.environment.nested(
        resource, first(made, type_, resource), Identity(resource, ""), {}
    )


def test_nested_templates_see_the_one_that_is_chosen() -> None:
    """Nested templates see the chosen template at any depth, and may use the type that it replaces."""
    files = {
        "outer.yaml": VERSION + "resources: {mid: {type: My::Mid}}\n",
        "mid/a.yaml": template("{deployment: puppet}")
        + "resources: {r: {type: My::Type}, m: {type: My::Mid}}\n",
        "mid/b.yaml": template("{deployment: docker}"),
        **FILES,
    }
    environment = "requires: {deployment: puppet}\n" + LIST.replace(
        "{", "{'My::Mid': [mid/a.yaml, mid/b.yaml], "
    )
    made = define("resources: {o: {type: outer.yaml}}\n", environment, files=files)
    outer = nested(made, "o", "outer.yaml")
    mid = nested(outer, "mid", "My::Mid")
    assert first(mid).template == "puppet/c.yaml"
    assert first(mid, "My::Mid", "m") == MappedType("My::Mid")


# Mistakes.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "capabilities: puppet\n",
            't.yaml:2:1: capabilities: "capabilities" is a map of keys and values, such as deployment: puppet',
        ),
        (
            "capabilities: [puppet]\n",
            't.yaml:2:1: capabilities: "capabilities" is a map of keys and values, such as deployment: puppet',
        ),
        (
            "capabilities:\n  a: {b: c}\n",
            't.yaml:3:3: capabilities.a: a capability is text, a number or a boolean, not {"b": "c"}',
        ),
        (
            "capabilities: {a: }\n",
            "t.yaml:2:16: capabilities.a: a capability is text, a number or a boolean, not null",
        ),
        (
            "capabilities: {a: [b, [c]]}\n",
            't.yaml:2:23: capabilities.a[1]: a capability is text, a number or a boolean, not ["c"]',
        ),
        (
            "capabilities: {a: []}\n",
            "t.yaml:2:16: capabilities.a: a has no value (remove it)",
        ),
        (
            "capabilites: {a: b}\n",
            "t.yaml:2:1: capabilites: The template section is invalid: capabilites (did you mean capabilities?)",
        ),
    ],
)
def test_mistakes_in_templates_have_positions(text: str, said: str) -> None:
    """Each mistake in a template has its position."""
    assert refused(files={}, parent=VERSION + text) == [said]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "requires: puppet\n",
            '1:1: requires: the section "requires" of an environment is a map',
        ),
        (
            "requires:\n",
            '1:1: requires: environment has empty section "requires" (remove it)',
        ),
        (
            "requires: {a: {b: c}}\n",
            '1:12: requires.a: a capability is text, a number or a boolean, not {"b": "c"}',
        ),
        (
            "require: {a: b}\n",
            '1:1: require: environment has wrong section "require" (did you mean requires?)',
        ),
        (
            "resource_registry: {T: []}\n",
            "1:21: resource_registry.T: a list with no template in it stands for nothing",
        ),
        (
            "resource_registry: {T: [a.yaml, 'OS::Heat::None']}\n",
            (
                "1:33: resource_registry.T[1]: a list has templates, of which one is chosen, not "
                "'OS::Heat::None' (the name of a template ends with .yaml or .template)"
            ),
        ),
        (
            "resource_registry: {'T*': [a.yaml]}\n",
            "1:21: resource_registry.T*: a list of templates belongs to one type, and T* is not a type",
        ),
        (
            "resource_registry: {base_url: [a.yaml]}\n",
            "1:21: resource_registry.base_url: a list of templates belongs to one type, and base_url is not a type",
        ),
        (
            "resource_registry: {T: [a.yaml, b.yaml]}\n",
            "1:33: resource_registry.T[1]: there is no file b.yaml (its path begins at the file that names it)",
        ),
    ],
)
def test_mistakes_in_environments_are_reported_once(text: str, said: str) -> None:
    """Each mistake in an environment has its position, and is reported once."""
    assert refused(text, files={"a.yaml": template()}) == [f"env0.yaml:{said}"]


def test_wrong_capabilities_are_reported_for_all_candidates() -> None:
    """Wrong capabilities are reported for all candidates, other mistakes only for the chosen one."""
    environment = "requires: {deployment: puppet}\n" + LIST
    broken = {**FILES, "docker/c.yaml": template("{deployment: {}}")}
    said = "docker/c.yaml:2:16: capabilities.deployment: a capability is text, a number or a boolean, not {}"
    assert refused(environment, files=broken) == [said]
    assert refused(environment, files={**FILES, "docker/c.yaml": VERSION + "a: ["})[
        0
    ].startswith("docker/c.yaml:3:1: it is not YAML")
    other = FILES["docker/c.yaml"] + "resources: {x: {}}\n"
    assert refused(environment, files={**FILES, "docker/c.yaml": other}) == []
    made = define(
        PARENT,
        environment.replace("puppet}", "docker}"),
        files={**FILES, "docker/c.yaml": other},
    )
    with pytest.raises(Invalid, match="must contain a type key"):
        nested(made, "r", "My::Type")


def test_capabilities_are_reported_as_unknown_to_heat() -> None:
    """Capabilities are reported with a warning that Heat does not know them."""
    _, warnings = examined(template("{a: b}"), "requires: {a: b}\n")
    assert warnings == [
        f"env0.yaml:1:1: requires: {NOT_HEATS}",
        f"t.yaml:2:1: capabilities: {NOT_HEATS}",
    ]


def test_warning_is_given_once() -> None:
    """The warning appears once for all environments, and once for all templates."""
    parent = (
        template("{a: b}")
        + "resources: {p: {type: puppet/c.yaml}, d: {type: docker/c.yaml}}\n"
    )
    _, warnings = examined(
        parent, "requires: {a: b}\n", "requires: {c: d}\n", files=FILES
    )
    assert warnings == [
        f"env0.yaml:1:1: requires: {NOT_HEATS}",
        f"t.yaml:2:1: capabilities: {NOT_HEATS}",
    ]


# From disk.


def put(folder: Path, **files: str) -> None:
    """Write files; `__` in a name is a slash."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))


def test_candidates_are_beside_the_environment(tmp_path: Path) -> None:
    """Candidates are found next to the environment or below its base_url, and all are kept for later updates."""
    put(
        tmp_path,
        t=VERSION + PARENT,
        env__e="requires: {deployment: puppet}\nresource_registry: {base_url: ../lib, 'My::Type': [a.yaml, b.yaml]}\n",
        lib__a=template("{deployment: puppet}")
        + "resources: {x: {type: sub/x.yaml}}\n",
        lib__b=template("{deployment: docker}"),
        lib__sub__x=VERSION,
        docker="requires: {deployment: docker}\n",
    )
    names = [str(tmp_path / name) for name in ("t.yaml", "env/e.yaml", "docker.yaml")]
    source, missing = reader.read(names[0], names[1:2], {})
    assert not missing
    made = define_source(source, IDENTITY)
    assert first(made).template == str(tmp_path / "lib/a.yaml")
    assert first(nested(made, "r", "My::Type"), "sub/x.yaml", "x").template == str(
        tmp_path / "lib/sub/x.yaml"
    )
    later = source.changed(
        None, reader.read(names[0], names[2:], {})[0].environments, {}, {}
    )
    assert first(define_source(later, IDENTITY)).template == str(
        tmp_path / "lib/b.yaml"
    )


def test_missing_candidate_is_reported_once(tmp_path: Path) -> None:
    """A missing candidate is reported once, where it is named."""
    put(
        tmp_path,
        t=VERSION + PARENT,
        e="resource_registry: {'My::Type': [a.yaml, lost.yaml]}\n",
        a=template(),
    )
    found = loader.check(str(tmp_path / "t.yaml"), [str(tmp_path / "e.yaml")], {})
    (mistake,) = found.mistakes
    assert mistake.place is not None
    assert (mistake.place.line, mistake.place.column) == (1, 42)
    assert (
        mistake.problem
        == f"cannot read {tmp_path}/lost.yaml: No such file or directory"
    )


# The commands.


def run(machine: Machine, *arguments: str) -> Done:
    """Run a command of `heat-config-agent template` to its end."""
    return machine.command("heat-config-agent", ["template", *arguments], {})


@pytest.fixture
def controllers(machine: Machine) -> Path:
    """The templates of the specification, and what else lies in folders."""
    put(
        machine.folder,
        puppet__controller=template(
            "{deployment: puppet, resource_type: 'My::Controller'}"
        ),
        docker__controller=template(
            "{deployment: docker, resource_type: ['My::Controller', 'My::Compute']}"
        ),
        env="resource_registry: {'My::Controller': [puppet/controller.yaml, docker/controller.yaml]}\n",
        plain=VERSION,
        odd="heat_template_version: [\n",
        no="- a list, and no template: heat_template_version\n",
    )
    (machine.folder / "README").write_text(
        "heat_template_version: 2018-08-31\ncapabilities: {deployment: puppet}\n"
    )
    (machine.folder / "odd.yaml").rename(machine.folder / "odd.txt")
    return machine.folder


def test_a_stack_is_made_of_the_one_that_is_chosen(machine: Machine) -> None:
    """An update that requires something else puts another one in its place; one that fits nothing begins nothing."""
    put(
        machine.folder,
        t=VERSION + PARENT + "outputs: {who: {value: {get_attr: [r, who]}}}\n",
        puppet__c=FILES["puppet/c.yaml"] + "outputs: {who: {value: puppet}}\n",
        docker__c=FILES["docker/c.yaml"] + "outputs: {who: {value: docker}}\n",
        list=LIST,
        **{
            tool: f"requires: {{deployment: {tool}}}\n"
            for tool in ("puppet", "docker", "chef")
        },
    )
    for tool, code in (("puppet", 0), ("docker", 0), ("chef", 2)):
        process = machine.start(
            "heat-config-apply",
            "--state-dir",
            str(machine.state),
            "t.yaml",
            "-e",
            "list.yaml",
            "-e",
            f"{tool}.yaml",
        )
        out, err = process.communicate(timeout=pace.seconds(60))
        assert process.returncode == code, out + err
        assert (f"who = {tool}" in out) == (code == 0)
    assert "no template fits what is required (deployment=chef)" in err


def test_warnings_about_capabilities_pass_a_strict_validation(machine: Machine) -> None:
    """The warnings about them stay; any other one still counts."""
    put(
        machine.folder,
        t=VERSION + PARENT,
        puppet__c=FILES["puppet/c.yaml"],
        docker__c=FILES["docker/c.yaml"],
        env="requires: {deployment: puppet}\n" + LIST,
    )
    done = run(machine, "validate", "--strict", "t.yaml", "-e", "env.yaml")
    assert (done.code, done.err.count(NOT_HEATS)) == (0, 2)
    (machine.folder / "t.yaml").write_text(
        VERSION + PARENT + "outputs: {o: {value: 1, odd: 2}}\n"
    )
    assert run(machine, "validate", "--strict", "t.yaml", "-e", "env.yaml").code == 1


@pytest.mark.usefixtures("controllers")
def test_templates_are_found(machine: Machine) -> None:
    """Templates with all requested capabilities are found in subfolders, and no others."""
    both = "docker/controller.yaml\npuppet/controller.yaml\n"
    asked = ("find", "--recursive", "--capability", "resource_type=My::Controller")
    assert run(machine, *asked, ".") == Done(0, both, "")
    assert run(machine, *asked, "./puppet", "docker", "puppet/controller.yaml") == Done(
        0, "puppet/controller.yaml\ndocker/controller.yaml\n", ""
    )
    assert (
        run(machine, *asked, "--capability", "deployment=docker", ".").out
        == "docker/controller.yaml\n"
    )
    assert (
        run(machine, *asked, "--capability", "resource_type=My::Compute", ".").out
        == "docker/controller.yaml\n"
    )
    done = run(machine, *asked, "--capability", "deployment=chef", ".")
    assert (done.code, done.out) == (8, "")
    assert done.err == (
        "error: no template has resource_type=My::Controller and deployment=chef "
        "(heat-config-agent template find --all FILE shows all capabilities)\n"
    )


@pytest.mark.usefixtures("controllers")
def test_without_r_only_the_files_of_a_folder_are_looked_at(machine: Machine) -> None:
    """A file that is named is looked at, whatever its name."""
    asked = ("find", "--capability", "deployment=puppet")
    assert (done := run(machine, *asked, ".")).code == 8
    assert done.out == ""
    assert run(machine, *asked, "puppet", "README") == Done(
        0, "puppet/controller.yaml\nREADME\n", ""
    )


@pytest.mark.usefixtures("controllers")
def test_for_machines_files_have_their_capabilities(machine: Machine) -> None:
    """The answer for programs has each file with its capabilities."""
    done = run(
        machine,
        "find",
        "--recursive",
        "--capability",
        "deployment=docker",
        "--json",
        ".",
    )
    [found] = done.data["templates"]
    assert found == {
        "file": "docker/controller.yaml",
        "capabilities": {
            "deployment": ["docker"],
            "resource_type": ["My::Controller", "My::Compute"],
        },
    }


def test_unreadable_template_is_reported(machine: Machine, controllers: Path) -> None:
    """The others are printed all the same, and the exit code tells."""
    done = run(
        machine, "find", "--capability", "deployment=puppet", "odd.txt", "puppet"
    )
    assert (done.code, done.out) == (1, "puppet/controller.yaml\n")
    assert done.err.startswith("odd.txt:2:1: error: it is not YAML")
    put(controllers, bad=template("{deployment: [puppet, null]}"))
    done = run(machine, "find", "--capability", "deployment=puppet", ".")
    said = "bad.yaml:2:37: error: capabilities.deployment[1]: a capability is text, a number or a boolean, not null\n"
    assert done == Done(1, "", said)


@pytest.mark.usefixtures("controllers")
def test_capabilities_are_summed_up(machine: Machine) -> None:
    """The summary covers named templates and those of environments, as a table or in the specification's form."""
    table = [
        "CAPABILITY     VALUE           TEMPLATES",
        "deployment     puppet          puppet/controller.yaml",
        "deployment     docker          docker/controller.yaml",
        "resource_type  My::Controller  puppet/controller.yaml, docker/controller.yaml",
        "resource_type  My::Compute     docker/controller.yaml",
    ]
    named = ("puppet/controller.yaml", "docker/controller.yaml")
    for files in (named, ("env.yaml",), ("plain.yaml", "env.yaml")):
        done = run(machine, "find", "--all", *files)
        assert (done.code, done.out.splitlines(), done.err) == (0, table, "")
    both = ["puppet/controller.yaml", "docker/controller.yaml"]
    assert run(machine, "find", "--all", *named, "--json").data["capabilities"] == [
        {"name": "deployment", "value": "puppet", "files": both[:1]},
        {"name": "deployment", "value": "docker", "files": both[1:]},
        {"name": "resource_type", "value": "My::Controller", "files": both},
        {"name": "resource_type", "value": "My::Compute", "files": both[1:]},
    ]
    assert run(machine, "find", "--all", "plain.yaml", "--json").data == {
        "templates": [{"file": "plain.yaml", "capabilities": {}}],
        "capabilities": [],
    }
    done = run(machine, "find", "--all", "plain.yaml")
    assert done == Done(0, "no template declares capabilities\n", "")


def test_missing_file_of_an_environment_is_reported_where_it_is_named(
    machine: Machine, controllers: Path
) -> None:
    """A file that an environment lacks is reported where it is named, and the rest is shown."""
    put(
        controllers,
        env="resource_registry: {'My::T': [lost.yaml, puppet/controller.yaml]}\n",
    )
    done = run(machine, "find", "--all", "env.yaml", "--json")
    assert done.code == 1
    assert [each["file"] for each in done.data["templates"]] == [
        "puppet/controller.yaml"
    ]
    assert done.json["error"]["code"] == "template"
    [mistake] = done.json["error"]["mistakes"]
    assert (mistake["file"], mistake["line"]) == ("env.yaml", 1)
    done = run(machine, "find", "--all", "env.yaml")
    assert done.err == (
        "env.yaml:1:31: error: resource_registry.My::T[0]: cannot read lost.yaml: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["find", "--capability", "a=b", "lost"],
            "error: cannot read lost: No such file or directory",
        ),
        (
            ["find", "."],
            "error: no capability is required (name it with --capability KEY=VALUE, or have all shown with --all)",
        ),
        (
            ["find", "--all", "--capability", "a=b", "."],
            "error: --all and --capability exclude each other",
        ),
        (
            ["find", "--capability", "ab", "."],
            "error: --capability takes KEY=VALUE, not 'ab'",
        ),
        (
            ["find", "--capability", "=b", "."],
            "error: --capability takes KEY=VALUE, not '=b'",
        ),
        (
            ["find", "--all", "no.yaml"],
            "error: no.yaml is neither a template nor an environment",
        ),
        (
            ["find", "--all", "lost"],
            "error: cannot read lost: No such file or directory",
        ),
    ],
)
@pytest.mark.usefixtures("controllers")
def test_wrong_usage_is_an_error(
    machine: Machine, arguments: list[str], said: str
) -> None:
    """Wrong usage is one sentence with its exit code."""
    assert run(machine, *arguments) == Done(2, "", f"{said}\n")
