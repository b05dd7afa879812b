"""The content of unit files, and the findings and steps for a machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import heat_config_hooks
from heat_config_agent.migration import (
    OURS,
    Deed,
    Inventory,
    Plan,
    Unit,
    Verdict,
    planning,
    survey,
    units,
)
from heat_config_agent.model.deployment import BUILTIN, Tool
from heat_config_agent.settings import effective, layers
from heat_config_hooks.values import replace

NAME = "os-collect-config.service"
COMPONENT = {
    "configs": [
        {"actions": ["CREATE"], "tool": "kubelet"},
        {"actions": ["DELETE"], "tool": "script"},
    ]
}


def unit(*texts: str) -> Unit:
    """Return what these files of a unit say."""
    return units.parse(NAME, Path("/x"), texts)


def test_a_unit_is_read_as_systemd_reads_it() -> None:
    """Comments, sections, quotes, lines that go on, and what a later file takes back."""
    collector = unit(
        "[Unit]\nDescription=x\nEnvironment=NOT=mine\n[Service]\n# Environment=A=commented\n; B\n"
        'Environment=LC_ALL=C "PATH=/a b:/c" P=100%%\nEnvironment=D=\\\n  d\n'
        "ExecStart=-/bin/first\nNice=5\nKillMode=process\nRestart=always\nEnvironmentFile=-/etc/default/x\n",
        "[Service]\nExecStart=\nExecStart=/opt/bin/os-collect-config --debug\n[Install]\nWantedBy=x\n",
    )

    assert collector.variables == {
        "LC_ALL": "C",
        "PATH": "/a b:/c",
        "P": "100%",
        "D": "",
    }
    assert collector.commands == (("/opt/bin/os-collect-config", "--debug"),)
    assert (collector.kill, collector.rest, collector.variable_files) == (
        "process",
        ("Nice",),
        ("-/etc/default/x",),
    )


def test_unit_without_settings_has_the_defaults_of_systemd() -> None:
    """The defaults of systemd apply: all processes of the unit end with it."""
    assert (
        unit("").kill,
        unit("").commands,
        unit("[Service]\nno directive\n").rest,
    ) == ("control-group", (), ())


@pytest.mark.parametrize(
    ("command", "starts"),
    [
        ("/usr/bin/os-collect-config", True),
        ("/opt/python3 /opt/bin/os-collect-config --debug", True),
        ("/bin/sh -c 'exec os-collect-config 2>&1 | logger -t x'", True),
        ("/bin/cat /etc/os-collect-config.conf", False),
        ("/usr/bin/os-collect-config-extra", False),
    ],
)
def test_which_units_are_theirs(command: str, starts: bool) -> None:
    """Units that start one of their programs in any way are theirs, and units that only name one are not."""
    assert (
        units.runs(unit(f"[Service]\nExecStart={command}\n"), "os-collect-config")
        is starts
    )


def test_variables_are_handed_on_whole(tmp_path: Path) -> None:
    """Values are passed on unchanged, with systemd's quotes, specifiers and line ends."""
    variables = {"A": 'a "b" \\ c', "P": "100%", "S": "$HOME `x`", "E": ""}
    text = units.drop_in({**variables, "N": "one\ntwo\n[Service]\nExecStart=/bin/evil"})
    found = unit(text)
    assert {name: found.variables[name] for name in variables} == variables
    assert found.commands == ()
    assert len(text.splitlines()) == 2 + 5

    (tmp_path / "file").write_text("# no\nF='of a file'\nA=later\n")
    assert (
        units.variables(tmp_path, replace(found, variable_files=("-/file", "/none")))[
            "F"
        ]
        == "of a file"
    )


def test_units_are_found_where_systemd_finds_them(tmp_path: Path) -> None:
    """The first folder counts, drop-ins of all, a link to another unit is none, and one to nowhere is masked."""
    for folder, text in (
        ("etc", "[Service]\nExecStart=/first\n"),
        ("usr/lib", "[Service]\nExecStart=/second\n"),
    ):
        path = tmp_path / folder / "systemd/system" / NAME
        path.parent.mkdir(parents=True)
        path.write_text(text)
    etc, lib = tmp_path / "etc/systemd/system", tmp_path / "usr/lib/systemd/system"
    (lib / f"{NAME}.d").mkdir()
    (lib / f"{NAME}.d/x.conf").write_text("[Service]\nEnvironment=X=1\n")
    (etc / "second.service").symlink_to(NAME)
    (etc / "masked.service").symlink_to("/dev/null")
    (etc / "one@.service").write_text("")

    found, masked = units.read(tmp_path, NAME), units.read(tmp_path, "masked.service")

    assert units.names(tmp_path) == ["masked.service", NAME]
    assert found is not None
    assert masked is not None
    assert (found.commands, found.variables, masked.masked) == (
        (("/first",),),
        {"X": "1"},
        True,
    )
    assert units.read(tmp_path, "none.service") is None


# What there is to say and to do.

THEIRS = Unit(
    name=NAME,
    path=Path("/etc/systemd/system", NAME),
    commands=(
        ("/usr/bin/os-collect-config", "--config-file", "/etc/os-collect-config.conf"),
    ),
    active=True,
    enabled=True,
    process=7,
)


def found(**values: Any) -> Inventory:
    """Return what a usual machine has, and what is said of it."""
    given = effective.make({})
    usual: dict[str, Any] = {
        "settings": given,
        "old_units": (THEIRS,),
        "own_unit": Unit(name=OURS, path=Path("/x")),
    }
    return Inventory(**{**usual, "command": "os-refresh-config --timeout 60", **values})


def says(plan: Plan, verdict: Verdict) -> str:
    """Return all findings of a kind, with what to do about them."""
    return "\n".join(
        f"{each.text} → {each.todo}"
        for each in plan.findings
        if each.verdict is verdict
    )


def deeds(plan: Plan) -> list[tuple[Deed, bool]]:
    """Return the steps, and which of them are done."""
    return [(each.deed, each.done) for each in plan.steps]


def test_usual_machine_can_be_migrated() -> None:
    """Nothing stands in the way; ours is enabled before theirs is disabled, and started after theirs has stopped."""
    plan = planning.plan(found(variables={"HEAT_X": "secret"}))

    assert not plan.refused
    order = [
        Deed.WAIT,
        Deed.VARIABLES,
        Deed.ENABLE,
        Deed.DISABLE,
        Deed.STOP,
        Deed.START,
    ]
    assert deeds(plan) == [(each, False) for each in order]
    assert plan.back == (
        f"systemctl disable --now {OURS}",
        f"systemctl enable --now {NAME}",
    )
    assert "secret" not in repr(plan)


def test_migrated_machine_has_nothing_to_do() -> None:
    """All is done, and nothing is waited for."""
    theirs, ours = (
        replace(THEIRS, active=False, enabled=False),
        Unit(name=OURS, path=Path("/"), active=True, enabled=True),
    )
    plan = planning.plan(
        found(
            old_units=(theirs,),
            own_unit=ours,
            variables={"A": ""},
            variables_taken=True,
        )
    )

    assert not plan.refused
    assert deeds(plan) == [
        (each, True)
        for each in (Deed.VARIABLES, Deed.ENABLE, Deed.DISABLE, Deed.STOP, Deed.START)
    ]


def test_migration_without_a_start_starts_nothing() -> None:
    """Nothing is started, in an image or where one does not want it."""
    idle = replace(THEIRS, active=False)
    assert Deed.START not in [
        each.deed for each in planning.plan(found(), start=False).steps
    ]
    assert [
        each.deed
        for each in planning.plan(found(systemd=False, old_units=(idle,))).steps
        if not each.done
    ] == [
        Deed.ENABLE,
        Deed.DISABLE,
    ]


def test_a_masked_unit_is_left_alone() -> None:
    """A masked unit starts nothing, and is not among the units to enable for going back."""
    plan = planning.plan(
        found(old_units=(Unit(name=NAME, path=Path("/x"), masked=True),))
    )
    assert [each.deed for each in plan.steps] == [Deed.ENABLE, Deed.START]
    assert plan.back == (f"systemctl disable --now {OURS}",)


def test_a_timer_goes_before_what_it_starts() -> None:
    """Else it would start it again."""
    timer = Unit(
        name="os-collect-config.timer", path=Path("/x"), active=True, enabled=True
    )
    stopped = [
        each.about
        for each in planning.plan(found(old_units=(THEIRS, timer))).steps
        if each.deed is Deed.STOP
    ]
    assert stopped == [timer.name, NAME]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"own_unit": None}, f"there is no {OURS}"),
        (
            {"own_unit": Unit(name=OURS, path=Path("/x"), masked=True)},
            f"systemctl unmask {OURS}",
        ),
        ({"program": "agent"}, "starts agent, which does not exist"),
        ({"mistakes": ("a mistake",)}, "a mistake → correct it"),
        ({"strays": (12,)}, "process 12 is an os-collect-config that was not started"),
        (
            {"schedules": (Path("/etc/cron.d/x"),)},
            "/etc/cron.d/x starts os-collect-config",
        ),
        (
            {"more_settings": (Path("/etc/o.conf.d/a.conf"),)},
            "reads /etc/o.conf.d/a.conf, but the agent does not",
        ),
    ],
)
@pytest.mark.parametrize("without_scripts", [False, True])
def test_obstacle_refuses_the_migration(
    values: dict[str, Any], sentence: str, without_scripts: bool
) -> None:
    """An obstacle refuses the migration, whichever options are given."""
    plan = planning.plan(found(**values), without_scripts=without_scripts)
    assert plan.refused
    assert sentence in says(plan, Verdict.REFUSED)


def test_command_line_in_a_shell_is_read() -> None:
    """Words of the shell are not mistaken for options of os-collect-config."""
    line = "/bin/sh -c 'exec os-collect-config --config-file /etc/mine.conf 2>&1 | logger -t x'"
    assert units.arguments(
        unit(f"[Service]\nExecStart={line}\n"), "os-collect-config"
    ) == [
        "--config-file",
        "/etc/mine.conf",
    ]


def test_unreadable_hook_directory_is_reported(tmp_path: Path) -> None:
    """An unreadable hook directory is reported before a deployment needs its hooks."""
    folder = tmp_path / "hooks"
    folder.touch()  # root may read every directory, but a file is none
    settings = effective.make({"HEAT_CONFIG_HOOKS": str(folder)})
    tools, unreadable = survey.installed_tools(settings)
    plan = planning.plan(found(tools=tools, unreadable_hooks=unreadable))
    assert f"cannot read the hook directory {folder}: Not a directory" in says(
        plan, Verdict.WARNING
    )


def test_the_package_of_older_tools_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If recorded or given deployments need it, and it is not installed; nothing is installed."""
    for tool in heat_config_hooks.COMPAT:
        monkeypatch.delitem(heat_config_hooks.HOOKS, tool)
    done: dict[str, dict[str, Any]] = {
        "d1": {"group": "hiera"},
        "d2": {"group": "script"},
        "d3": {"group": "component", "config": COMPONENT},
    }
    for name, fields in done.items():
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"id": name, "inputs": [], **fields})
        )
    given = tmp_path / "given"
    given.write_text(json.dumps([{"id": "d4", "group": "cfn-init"}]))
    settings = effective.make({"HEAT_SHELL_CONFIG": str(given)})
    tools, _ = survey.installed_tools(settings)

    absent = survey._absent(settings, tmp_path, done, {tool.name for tool in tools})  # noqa: SLF001
    said = says(planning.plan(found(absent=absent)), Verdict.WARNING)

    assert list(absent) == ["cfn-init", "hiera", "kubelet"]
    for tool in absent:
        assert (
            f"deployments here use {tool}: the hook for the tool {tool!r} is not installed"
            in said
        )
    assert "install the package heat-config-agent-compat" in said


def test_work_of_theirs_is_waited_for_even_where_no_unit_runs() -> None:
    """Running work is waited for without a unit, as os-refresh-config may be started by hand."""
    idle = replace(THEIRS, active=False, enabled=False)
    plan = planning.plan(
        found(old_units=(idle,), busy="os-refresh-config (process 3) is at work")
    )
    assert plan.steps[0].deed is Deed.WAIT


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            "--config-file /etc/os-collect-config.conf --debug -c os-refresh-config --cachedir /var/x",
            "",
        ),
        ("--config-file=/etc/os-collect-config.conf --command=x", ""),
        ("--config-file /etc/mine.conf", "'--config-file /etc/mine.conf'"),
        ("--heat-password secret", "'--heat-password'"),
        ("--heat-password=secret", "'--heat-password'"),
        ("heat cfn", "'heat'"),
    ],
)
def test_unused_option_is_named_without_its_value(words: str, named: str) -> None:
    """An option that the agent does not use is named without its value, which may be a secret."""
    theirs = replace(
        THEIRS, commands=(("/bin/python3", "/bin/os-collect-config", *words.split()),)
    )
    plan = planning.plan(found(old_units=(theirs,)))
    assert named in says(plan, Verdict.REFUSED)
    assert plan.refused is bool(named)
    assert "secret" not in repr(plan)


BASE = Path("/usr/libexec/os-refresh-config")
TEMPLATES = Path("/usr/libexec/os-apply-config/templates")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"scripts": (BASE / "configure.d/50-mine",)},
            "50-mine is a script of your own",
        ),
        (
            {"scripts": (BASE / "migration.d/55-heat-config",)},
            "migration.d/55-heat-config is a script of your own",
        ),
        (
            {"scripts": (BASE / "environment.d/10-x",)},
            "10-x sets variables for the scripts",
        ),
        ({"command": "/usr/local/bin/mine --x"}, "runs a command of your own"),
        ({"command": "os-refresh-config-mine"}, "runs a command of your own"),
        (
            {
                "scripts": (BASE / "configure.d/20-os-apply-config",),
                "templates": (
                    TEMPLATES / "etc/mine.conf",
                    TEMPLATES / "etc/os-collect-config.conf",
                ),
                "template_folders": (TEMPLATES,),
            },
            "/etc/mine.conf will no longer be generated from it",
        ),
    ],
)
def test_lost_work_refuses_the_migration(values: dict[str, Any], sentence: str) -> None:
    """Work that would no longer be done refuses the migration; with the option, it is a warning."""
    plan = planning.plan(found(**values))
    asked = planning.plan(found(**values), without_scripts=True)
    assert plan.refused
    assert sentence in says(plan, Verdict.REFUSED)
    assert len([each for each in plan.findings if each.verdict is Verdict.REFUSED]) == 1
    assert not asked.refused
    assert sentence in says(asked, Verdict.WARNING)


def test_scripts_of_heat_agents_do_not_refuse_the_migration() -> None:
    """The agent does what they do; so they stand in nobody's way."""
    scripts = tuple(BASE / "configure.d" / each for each in sorted(planning.SCRIPTS))
    templates = tuple(TEMPLATES / each for each in planning.TEMPLATES)
    plan = planning.plan(
        found(scripts=scripts, templates=templates, template_folders=(TEMPLATES,))
    )
    assert not plan.refused
    assert says(plan, Verdict.OK).count(
        "is part of heat-agents: the agent replaces it"
    ) == len(scripts)


def test_installed_executables_keep_their_tools() -> None:
    """Executables go on doing so, also in the place of ours; the rest is ours."""
    hooks = Path("/var/lib/heat-config/hooks")
    tools = (
        Tool("mine", str(hooks / "mine")),
        Tool("puppet", BUILTIN + "puppet"),
        Tool("script", str(hooks / "script")),
    )
    said = says(planning.plan(found(tools=tools)), Verdict.OK)
    assert f"hooks in {hooks} stay in use: mine →" in said
    assert (
        f"hooks in {hooks} stay in use, and override the agent's own: script; the agent's own is used when"
        in said
    )
    assert "the agent has its own hooks for puppet →" in said


def test_finished_deployments_do_not_run_again_after_the_migration() -> None:
    """Finished deployments do not run again, and interrupted ones are named with the command to run them."""
    names = ("a b", *(f"d{number}" for number in range(8)))
    done = (*names, "d8", "d9", "half")
    plan = planning.plan(
        found(
            deployed=Path("/d"),
            done=done,
            unanswered=names,
            hollow=("half",),
            lasting=("d1",),
        )
    )
    assert "2 deployments are recorded as done in /d, and will not run again" in says(
        plan, Verdict.OK
    )
    warnings = says(plan, Verdict.WARNING)
    assert "for a b, d0, d1, d2, d3 and 4 more" in warnings
    assert "rm '/d/a b.json'" in warnings
    assert "containers of d1 will not be cleaned up" in warnings


def test_deployments_skipped_by_heat_agents_are_named() -> None:
    """Deployments that heat-agents skipped silently are named, because the agent would run them."""
    plan = planning.plan(found(deployed=Path("/d"), undone=("d1", "d2")))
    warnings = says(plan, Verdict.WARNING)
    assert (
        "heat-agents were given d1, d2, but have not begun: the agent runs it"
        in warnings
    )
    assert "touch /d/d1.json" in warnings
    assert not plan.refused


def test_plan_shows_running_work_and_settings(tmp_path: Path) -> None:
    """The plan shows running work, extra lines of their unit, and their settings that apply."""
    path = tmp_path / "os-collect-config.conf"
    path.write_text(
        "[DEFAULT]\ncommand = os-refresh-config\ncollectors = heat\n[heat]\npassword = 5ecret\nuser_idd = x\n"
    )
    other = layers.file(path)
    given = replace(effective.make({}), other=other, warnings=("mistaken",))
    theirs = replace(THEIRS, rest=("Nice", "User"), fixed=True, enabled=False)
    plan = planning.plan(
        found(
            settings=given,
            old_units=(theirs,),
            busy="os-refresh-config (process 3) is at work",
        )
    )

    warnings = says(plan, Verdict.WARNING)
    assert (
        "os-refresh-config (process 3) is at work: the migration waits for it"
        in warnings
    )
    assert "also sets Nice, User" in warnings
    assert f"systemctl mask {NAME}" in warnings
    assert "mistaken →" in warnings
    said = says(plan, Verdict.OK)
    assert "the agent uses it: [heat], collectors" in said
    assert "the agent does not use [DEFAULT] command" in said
    assert "5ecret" not in repr(plan)


def test_a_message_from_zaqar_is_taken_over_after_theirs_has_stopped() -> None:
    """The only copy of the message is taken over, unless our agent runs and asks the queue itself."""
    plan = planning.plan(found(message=Path("/var/x/zaqar.json")))
    assert [each.deed for each in plan.steps][-3:] == [
        Deed.STOP,
        Deed.MESSAGE,
        Deed.START,
    ]
    at_work = Unit(name=OURS, path=Path("/"), active=True, enabled=True)
    assert Deed.MESSAGE not in [
        each.deed
        for each in planning.plan(found(message=Path("/z"), own_unit=at_work)).steps
    ]
    plan = planning.plan(found(message_trouble="cannot read it"))
    assert "cannot be taken over: cannot read it" in says(plan, Verdict.WARNING)


def test_marks_that_are_empty_are_named(tmp_path: Path) -> None:
    """Heat-agents make the mark before they run anything: on a full disk it stays empty, and nothing was run."""
    whole = {
        "whole": '{"id": "whole"}',
        "made": "{}",
        "empty": "",
        "broken": '{"id": "bro',
        "answered": "",
        "ours": "{}",
    }
    for name, text in whole.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "answered.notify.json").write_text("{}")

    done, unanswered, hollow, _ = survey._deployed(tmp_path, {"ours"})  # noqa: SLF001
    shown = planning.plan(
        found(deployed=tmp_path, done=done, unanswered=unanswered, hollow=hollow)
    ).findings

    assert (done, unanswered, hollow) == (
        tuple(sorted(whole)),
        ("made", "whole"),
        ("broken", "empty"),
    )
    [finding] = [each for each in shown if "is empty or truncated" in each.text]
    assert finding.verdict is Verdict.WARNING
    assert finding.text.startswith("the record of broken, empty is empty")
    assert finding.todo.endswith(f"rm {tmp_path}/broken.json {tmp_path}/empty.json")
