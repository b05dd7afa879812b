from __future__ import annotations

from pathlib import Path

import pytest

from heat_config_agent.model.errors import UsageError
from heat_config_agent.settings import kinds, layers, schema
from heat_config_agent.settings.kinds import LONGEST
from heat_config_agent.settings.layers import Layer
from heat_config_agent.settings.schema import SETTINGS


def read(tmp_path: Path, text: str, *, own: bool = False) -> Layer:
    """Return what a file with that text says."""
    path = tmp_path / "some.conf"
    path.write_text(text)
    return layers.file(path, own=own)


def mistake(tmp_path: Path, text: str) -> str:
    """Return the one mistake in a file of the agent's own."""
    [found] = read(tmp_path, text, own=True).mistakes
    return str(found)


def test_the_form_is_oslo_configs(tmp_path: Path) -> None:
    """Comments, quotes, both signs, values that go on, lists said several times, a dash for an underscore, a BOM."""
    layer = read(
        tmp_path,
        '\ufeff# a comment\n[agent]\n; another\nparallel=2\npolling-interval : 5\nstate_dir = "/a b"\n'
        "collectors = heat,\n  cfn\ncollectors = local\nenvironment = A=1, 2\nenvironment = B='x' y 'z'\n[heat]\n"
        "auth_url=http://h:5000/v3?a=b\n",
    )
    assert layer.own
    assert layer.mistakes == ()
    assert layer.sections == {
        "agent": {
            "parallel": 2,
            "polling_interval": 5.0,
            "state_dir": "/a b",
            "collectors": ("heat", "cfn", "local"),
            "environment": ("A=1, 2", "B='x' y 'z'"),
        },
        "heat": {"auth_url": "http://h:5000/v3?a=b"},
    }
    assert layer.origin_of("agent", "collectors") == f"{tmp_path}/some.conf, line 7"
    assert layer.origin_of("agent", "environment").endswith("line 10")
    assert layer.origin_of("heat", "auth_url").endswith("line 13")


def test_of_one_value_the_last_counts(tmp_path: Path) -> None:
    """As everywhere in that form."""
    assert (
        read(tmp_path, "[agent]\nparallel = 2\nparallel = 3\n").get("agent", "parallel")
        == 3
    )


def test_quotes_of_several_words_stay(tmp_path: Path) -> None:
    """Quotes in the middle belong to the command."""
    layer = read(tmp_path, "[agent]\nreboot_command = '/opt/re boot' --why 'a b'\n")
    assert layer.get("agent", "reboot_command") == "'/opt/re boot' --why 'a b'"
    assert (
        read(tmp_path, "[agent]\nreboot_command = 'reboot now'\n").get(
            "agent", "reboot_command"
        )
        == "reboot now"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[agent]\n\nparalel = 2\n",
            "line 3: there is no setting 'paralel' in [agent]; did you mean parallel?",
        ),
        (
            "[agnet]\nparallel = 2\n",
            "line 2: there is no section [agnet]; did you mean [agent]?",
        ),
        (
            "[agent]\n[local]\nfolder = /x\n",
            "line 3: there is no setting 'folder' in [local]; it has path",
        ),
        (
            "[agent]\n[DEFAULT]\nparallel = 1\nsplay = 2\n",
            "line 3: [DEFAULT] is for os-collect-config's file: in a file with [a",
        ),
        (
            "[agent]\ncollectors = local, haet\n",
            "line 2: collectors: there is no source 'haet'; did you mean heat?",
        ),
        (
            "[agent]\ncollectors = foo\n",
            "line 2: collectors: there is no source 'foo'; the sources are heat, cfn, ",
        ),
        (
            "[agent]\ncollect_timeout = 0\n",
            "line 2: collect_timeout: expected a number of seconds, more than 0, not '0'",
        ),
        (
            "[agent]\nparallel = 0\n",
            "line 2: parallel: expected a whole number, 1 or more, not '0'",
        ),
        (
            "[agent]\nparallel = 1.5\n",
            "line 2: parallel: expected a whole number, 1 or more, not '1.5'",
        ),
        (
            "[agent]\nparallel =\n",
            "line 2: parallel: expected a whole number, 1 or more, not ''",
        ),
        (
            "[agent]\nsplay = -1\n",
            "line 2: splay: expected a number of seconds, 0 or more, not '-1'",
        ),
        (
            "[agent]\nsplay = nan\n",
            "line 2: splay: expected a number of seconds, 0 or more, not 'nan'",
        ),
        (
            "[agent]\ngrace = inf\n",
            "line 2: grace: expected a number of seconds, 0 or more, not 'inf'",
        ),
        (
            "[agent]\ngrace = 1e300\n",
            "line 2: grace: expected a number of seconds, 0 or more, not '1e300'",
        ),
        (
            "[agent]\nstate_dir = here\n",
            "line 2: state_dir: expected an absolute path, not 'here'",
        ),
        (
            "[agent]\nreplaced = stop\n",
            "line 2: replaced: expected one of finish, cancel, not 'stop'",
        ),
        (
            "[agent]\n[zaqar]\nuse_websockets = maybe\n",
            "line 3: use_websockets: expected true or false, not 'maybe'",
        ),
        (
            "[agent]\nreboot_command = a 'b\n",
            "line 2: reboot_command: expected a command and its arguments",
        ),
        (
            "[agent]\nreboot_command =\n",
            "line 2: reboot_command: expected a command and its arguments",
        ),
        (
            "[agent]\n[file]\npath = /a, b\n",
            "line 3: path: expected one or more absolute paths, not ['/a, b']",
        ),
    ],
)
def test_mistake_is_reported_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    """A mistake is reported with its line and the expected value."""
    assert mistake(tmp_path, text).startswith(said)


def test_a_secret_is_in_no_mistake(tmp_path: Path) -> None:
    """No mistake repeats a secret, not even a wrong one."""
    assert "geh\0eim" not in mistake(tmp_path, "[agent]\n[heat]\npassword = geh\0eim\n")
    layer = layers.metadata(
        {"os-collect-config": {"heat": {"password": ["geheim"]}}}, "m"
    )
    assert "geheim" not in str(layer.mistakes)
    assert layer.mistakes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[agent\n", "line 1: the ']' at the end of the section is missing"),
        ("[agent]\nparallel\n", "line 2: expected «name = value»"),
        ("[agent]\n= 5\n", "line 2: expected «name = value»"),
        (
            "\ncollectors = local\nsplay = 1\n",
            "line 2: «collectors» is before the first section: begin with [agent]",
        ),
        (
            "auth_url = http://h\n[agent]\n",
            "line 1: «auth_url» is before the first section: begin with [heat]",
        ),
        (
            '{"a":1}\n',
            "line 1: expected a section such as [agent], and below it «name = value»",
        ),
        (
            "<html>\n",
            "line 1: expected a section such as [agent], and below it «name = value»",
        ),
    ],
)
def test_malformed_line_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """With its line."""
    with pytest.raises(UsageError, match=said.replace("[", r"\[").replace("]", r"\]")):
        read(tmp_path, text)


def test_unreadable_file_is_named_with_the_reason(tmp_path: Path) -> None:
    """Is named, with the reason."""
    with pytest.raises(UsageError, match="No such file"):
        layers.file(tmp_path / "missing")
    with pytest.raises(UsageError, match="Is a directory"):
        layers.file(tmp_path)


def test_file_of_os_collect_config_is_read(tmp_path: Path) -> None:
    """Options for os-collect-config alone are skipped, and wrong ones are reported and ignored."""
    layer = read(
        tmp_path,
        "[DEFAULT]\ncommand = os-refresh-config\npolling_interval = 20\ncollectors = ec2\ncollectors = of_theirs\n"
        "parallel = 4\nsplay = x\n[cfn]\nmetadata_url = http://h/v1/\npath = a.Metadata\npath = b.Metadata\n"
        "[keystone]\nx=1\n",
    )
    assert not layer.own
    assert layer.sections == {
        "agent": {"polling_interval": 20.0, "collectors": ("ec2", "of_theirs")},
        "cfn": {"metadata_url": "http://h/v1/", "path": ("a.Metadata", "b.Metadata")},
    }
    assert [str(each) for each in layer.mistakes] == [
        f"line 4: collectors: there is no source 'of_theirs'; the sources are {', '.join(schema.COLLECTORS)}",
        "line 6: 'parallel' is a setting of [agent], not of [DEFAULT]",
        "line 7: splay: expected a number of seconds, 0 or more, not 'x'",
    ]
    assert layer.ignored == ("[DEFAULT] command", "[keystone] x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[heat]\npasswrod = geheim\n",
            "line 2: there is no setting 'passwrod' in [heat]; did you mean password?",
        ),
        (
            "[hea]\npassword = geheim\n",
            "line 2: there is no section [hea]; did you mean [heat]?",
        ),
        (
            "[agnet]\nparallel = 2\n",
            "line 2: there is no section [agnet]; did you mean [agent]?",
        ),
        (
            "[DEFAULT]\npoling_interval=1\n",
            "line 2: there is no setting 'poling_interval' in [DEFAULT]; did you mean pol",
        ),
    ],
)
def test_misspelt_option_of_os_collect_config_is_reported(
    tmp_path: Path, text: str, said: str
) -> None:
    """With what was perhaps meant, and without the value."""
    layer = read(tmp_path, text)
    [found] = layer.mistakes
    assert str(found).startswith(said)
    assert (layer.own, layer.ignored) == (False, ())
    assert "geheim" not in str(found)


def test_options_of_os_collect_config_are_accepted(tmp_path: Path) -> None:
    """Options of os-collect-config itself and of its logging are not mistakes."""
    names = (
        "command",
        "cachedir",
        "one_time",
        "log_file",
        "log_config_append",
        "debug",
        "use_syslog",
        "print",
    )
    layer = read(
        tmp_path,
        "[DEFAULT]\n"
        + "".join(f"{name} = x\n" for name in names)
        + "[cfn]\ntimeout = 5\n",
    )
    assert layer.mistakes == ()
    assert len(layer.ignored) == len(names) + 1


def test_lines_without_the_form_may_be_passed_over(tmp_path: Path) -> None:
    """Lines in no known form may be skipped, and the rest is used."""
    path = tmp_path / "some.conf"
    path.write_text("[agent]\nnonsense\nparallel = 2\n")
    refused: list[str] = []
    layer = layers.file(path, refused=refused)
    assert (layer.get("agent", "parallel"), len(refused)) == (2, 1)
    assert "line 2: expected" in refused[0]


def test_metadata_may_give_numbers_as_text_and_null_for_nothing() -> None:
    """Null says nothing, numbers may be text, what the metadata has no say in is passed over."""
    said = {
        "collectors": ["heat", "local"],
        "polling_interval": "7",
        "splay": None,
        "parallel": 9,
        "state_dir": "/etc",
        "reboot_command": "rm -rf /",
        "heat": {
            "auth_url": "http://h",
            "password": "p",
            "stack_id": None,
            "of_theirs": 1,
        },
        "agent": {"state_dir": "/x"},
        "file": {"path": ["/etc/passwd"]},
    }
    layer = layers.metadata({"os-collect-config": said, "deployments": []}, "m")
    assert layer.sections == {
        "agent": {"collectors": ("heat", "local"), "polling_interval": 7.0},
        "heat": {"auth_url": "http://h", "password": "p"},
    }
    assert layer.mistakes == ()


@pytest.mark.parametrize(
    "content", [None, [], "text", 5, {}, {"os-collect-config": None}]
)
def test_metadata_without_settings_is_empty(content: object) -> None:
    """Metadata of any form without settings is empty."""
    assert layers.metadata(content, "m") == Layer("m", {})


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ([], "os-collect-config"),
        ("text", "os-collect-config"),
        ({"polling_interval": "often"}, "os-collect-config.polling_interval"),
        ({"polling_interval": True}, "os-collect-config.polling_interval"),
        ({"polling_interval": [1]}, "os-collect-config.polling_interval"),
        ({"collectors": [1]}, "os-collect-config.collectors"),
        ({"heat": {"auth_url": {}}}, "os-collect-config.heat.auth_url"),
        ({"cfn": {"path": 5}}, "os-collect-config.cfn.path"),
    ],
)
def test_mistake_in_metadata_is_named_and_the_rest_counts(
    said: object, path: str
) -> None:
    """By its path."""
    if isinstance(said, dict):
        said["splay"] = 3
    layer = layers.metadata({"os-collect-config": said}, "m")
    assert [each.path for each in layer.mistakes] == [path]
    assert layer.get("agent", "splay") == (3.0 if isinstance(said, dict) else None)


def test_no_number_of_seconds_is_longer_than_can_be_waited_for(tmp_path: Path) -> None:
    """A year, and a day more."""
    assert read(tmp_path, f"[agent]\ngrace = {LONGEST:g}\n").mistakes == ()
    assert mistake(tmp_path, f"[agent]\ngrace = {LONGEST * 2:g}\n")


def test_every_default_is_what_its_setting_may_be() -> None:
    """Every default is a valid value of its setting, or empty."""
    for each in SETTINGS:
        given = list(each.default) if isinstance(each.default, tuple) else each.default
        if each.default not in ("", ()):
            assert layers._read(each, given) == each.default, each.name  # noqa: SLF001  # no file needed for it
        assert each.description, each.name
        assert each.kind is not kinds.CHOICE or each.default in each.choices


def test_of_several_layers_the_first_wins() -> None:
    """The first layer that sets an option wins, option by option."""
    one, two = (
        Layer("1", {"heat": {"auth_url": "a"}}),
        Layer("2", {"heat": {"auth_url": "b", "user_id": "u"}}),
    )
    assert layers.merged([one, two], "both").sections == {
        "heat": {"auth_url": "a", "user_id": "u"}
    }


def test_shown_values_can_be_written_to_a_file(tmp_path: Path) -> None:
    """A value is shown in a form that means the same in a file, and that people can read."""
    shown = {each: kinds.written(each.kind, each.default) for each in SETTINGS}
    lines: dict[str, list[str]] = {}
    for each, text in shown.items():
        lines.setdefault(each.section, []).extend(
            [f"{each.name} = {text}"] if text else []
        )
    path = tmp_path / "agent.conf"
    path.write_text(
        "".join(
            f"[{section}]\n" + "\n".join(found) + "\n"
            for section, found in lines.items()
        )
    )
    layer = layers.file(path, own=True)
    assert layer.mistakes == ()
    for each, text in shown.items():
        assert layer.get(each.section, each.name) == (each.default if text else None), (
            each.name
        )
    assert {text for each, text in shown.items() if each.name.startswith("keep_")} == {
        "86400",
        "2592000",
        "1000",
        "256M",
        "20000",
    }
    assert kinds.written(kinds.SIZE, 1536 * 1024) == "1536K"
    assert kinds.written(kinds.SECONDS, 0.5) == "0.5"


@pytest.mark.parametrize(
    "text",
    [
        "[{}]\na = 1\n",
        "[agent]\n{} = 1\n",
        "[agent]\ncollectors = {}\n",
        "[agent]\nsplay = {}\n",
    ],
    ids=["section", "name", "source", "value"],
)
def test_a_mistake_repeats_only_the_beginning_of_a_long_name(
    tmp_path: Path, text: str
) -> None:
    """Only the beginning of a long name is repeated, so that a damaged line does not fill the log."""
    path = tmp_path / "agent.conf"
    path.write_text(text.format("x" * 5000))
    (mistake,) = layers.file(path, own=True).mistakes
    assert "xxx…" in str(mistake)
    assert len(str(mistake)) < 1000
