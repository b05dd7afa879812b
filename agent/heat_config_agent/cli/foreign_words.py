"""The words of other programs, and the commands and options here that do what they do there.

They are looked up after a mistake only. People who know `openstack`, `terraform`, `kubectl`, `docker compose`,
`systemctl`, `ansible` or `git` type them first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heat_config_hooks.words import closest

_AGENT = "heat-config-agent"

COMMANDS = {
    # openstack
    "stack rm": "stack delete STACK",
    "stack ls": "stack list",
    "stack describe": "stack show STACK",
    "stack apply": "apply FILE",
    "stack plan": "plan FILE",
    "stack validate": "template validate FILE",
    "stack logs": "log STACK",
    "stack log": "log STACK",
    "stack status": "status STACK",
    "stack wait": "wait STACK",
    "stack retry": "retry STACK/RESOURCE",
    "stack rollback": "stack cancel STACK --rollback",
    "stack export": "stack abandon STACK",
    "stack import": "stack adopt STACK",
    "stack failures": "stack failures list STACK",
    "stack failure": "stack failures list STACK",
    "stack outputs": "stack output list STACK",
    "stack resources": "stack resource list STACK",
    "stack events": "stack event list STACK",
    "stack snapshots": "stack snapshot list STACK",
    "stack file": "stack template show STACK",
    "stack files": "stack template show STACK",
    "stack hook": "stack resource signal STACK RESOURCE",
    "stack verify": "stack check STACK",
    "stack start": "stack resume STACK",
    "stack stop": "stack cancel STACK",
    "stack pause": "stack suspend STACK",
    "stack restore": "stack snapshot restore STACK SNAPSHOT",
    "stack diff": "stack update STACK --plan",
    "stack resource metadata": "stack resource show STACK RESOURCE",
    "stack resource mark": "retry STACK/RESOURCE",
    "stack output get": "stack output show STACK OUTPUT",
    "stack resource get": "stack resource show STACK RESOURCE",
    "stack resource retry": "retry STACK/RESOURCE",
    "stack resource log": "log STACK/RESOURCE",
    "stack resource events": "stack event list STACK --resource RESOURCE",
    "stack event show": "stack event list STACK",
    "stack type": "stack resource type list",
    "software deployment list": "deployment list",
    "software deployment show": "deployment show NAME",
    "software deployment output": "deployment output NAME",
    "software deployment delete": "forget NAME",
    "software deployment create": "apply FILE",
    "software deployment": "deployment list",
    "software config list": "deployment list",
    "software config show": "show NAME --print-config",
    "software config": "show NAME --print-config",
    "software": "deployment list",
    "orchestration template validate": "template validate FILE",
    "orchestration resource type list": "stack resource type list",
    "orchestration resource type show": "stack resource type show TYPE",
    "orchestration template function list": "template schema",
    "orchestration": "stack list",
    "resource type": "stack resource type list",
    "resource": "stack resource list STACK",
    "resources": "stack resource list STACK",
    "snapshot": "stack snapshot list STACK",
    "event": "events",
    "event list": "events",
    "failures": "status --failed",
    # terraform
    "init": "doctor",
    "destroy": "stack delete STACK",
    "output": "stack output list STACK",
    "outputs": "stack output list STACK",
    "state list": "stack resource list STACK",
    "state show": "stack resource show STACK RESOURCE",
    "state rm": "forget NAME",
    "state": "status",
    "validate": "template validate FILE",
    "lint": "template validate FILE",
    "graph": "stack graph STACK",
    "taint": "retry NAME",
    "untaint": "status NAME",
    "import": "stack adopt STACK",
    "refresh": "poll",
    "providers": "tool list",
    "workspace": "stack list",
    "fmt": "template validate FILE",
    # kubectl
    "get deployments": "deployment list",
    "get deployment": "deployment list",
    "get stacks": "stack list",
    "get stack": "stack list",
    "get events": "events",
    "get sources": "source list",
    "get resources": "stack resource list STACK",
    "get nodes": "stack node list STACK",
    "get all": "status",
    "get": "status",
    "describe stack": "stack show STACK",
    "describe deployment": "show NAME",
    "describe": "show NAME",
    "logs": "log NAME",
    "diff": "plan FILE",
    "delete stack": "stack delete STACK",
    "delete deployment": "forget NAME",
    "delete": "stack delete STACK",
    "remove": "stack delete STACK",
    "rm": "stack delete STACK",
    "create": "apply FILE",
    "update": "apply FILE",
    "edit": "apply FILE",
    "rollout restart": "retry NAME",
    "rollout status": "wait NAME",
    "rollout undo": "stack snapshot restore STACK SNAPSHOT",
    "rollout history": "stack event list STACK",
    "rollout": "status",
    "explain": "stack resource type show TYPE",
    "api-resources": "stack resource type list",
    "top": "status --watch",
    "watch": "status --watch",
    "drain": "pause",
    "cordon": "pause",
    "uncordon": "resume",
    "auth": "policy explain",
    "cluster-info": "doctor",
    # docker compose
    "ps": "status",
    "ls": "status",
    "list": "status",
    "up": "apply FILE",
    "down": "stack delete STACK",
    "inspect": "show NAME",
    "history": "events",
    "exec": "log NAME",
    "build": "template pack FOLDER",
    "pull": "source sync",
    "push": "template pack FOLDER",
    "info": "doctor",
    "images": "tool list",
    "kill": "stop NAME",
    "abort": "stop NAME",
    "terminate": "stop NAME",
    "interrupt": "stop NAME",
    "halt": "stop NAME",
    "end": "stop NAME",
    "rename": "stack update STACK",
    "rollback": "stack snapshot restore STACK SNAPSHOT",
    "unpause": "resume",
    # systemctl
    "start": "!systemctl start heat-config-agent",
    "restart": "retry NAME",
    "reload": "poll",
    "daemon-reload": "poll",
    "enable": "!systemctl enable --now heat-config-agent",
    "disable": "!systemctl disable --now heat-config-agent",
    "list-units": "status",
    "is-active": "status --check",
    "is-failed": "status --failed",
    "cat": "show NAME --print-config",
    "journal": "!journalctl -u heat-config-agent",
    "health": "status --check",
    "healthcheck": "status --check",
    "check": "status --check",
    "ping": "status --check",
    # ansible, puppet, salt, git and others
    "deploy": "apply FILE",
    "install": "apply FILE",
    "execute": "apply FILE",
    "playbook": "apply FILE",
    "agent": "run",
    "daemon": "run",
    "service": "!systemctl status heat-config-agent",
    "dry-run": "plan FILE",
    "preview": "plan FILE",
    "simulate": "plan FILE",
    "test": "plan FILE",
    "noop": "plan FILE",
    "rerun": "retry NAME",
    "redo": "retry NAME",
    "again": "retry NAME",
    "fetch": "source sync",
    "sync": "source sync",
    "follow": "source list",
    "hooks": "tool list",
    "hook": "tool list",
    "modules": "tool list",
    "collections": "tool list",
    "plugins": "stack resource type list",
    "trigger": "poll",
    "poke": "poll",
    "refresh-now": "poll",
    "settings": "config",
    "configure": "config",
    "cleanup": "prune",
    "clean": "prune",
    "gc": "prune",
    "purge": "prune",
    "unlock": "doctor",
    "debug": "doctor",
    "diagnose": "doctor",
    "support": "collect-logs",
    "bundle": "collect-logs",
    "sosreport": "collect-logs",
    "verify-signature": "sign check FILE --signers FILE",
    "upgrade": "migrate --plan",
    "uninstall": "setup --remove",
    "man": "help",
    "about": "version",
    "whoami": "doctor",
}
"""Words of another program → the command here. One that begins with «!» is a command of its own."""

OPTIONS = {
    "-o": "--json prints JSON",
    "--output": "--json prints JSON",
    "--format": "--json prints JSON",
    "-f": "name the FILE without an option; --json prints JSON",
    "--column": "columns cannot be chosen; --json has all values",
    "-c": "columns cannot be chosen; --json has all values",
    "-var": "--parameter NAME=VALUE sets a parameter",
    "--var": "--parameter NAME=VALUE sets a parameter",
    "--set": "--parameter NAME=VALUE sets a parameter",
    "--extra-vars": "--parameter NAME=VALUE sets a parameter",
    "-var-file": "-e FILE is an environment, and --inputs FILE has inputs",
    "--var-file": "-e FILE is an environment, and --inputs FILE has inputs",
    "--values": "-e FILE is an environment, and --inputs FILE has inputs",
    "-auto-approve": "it asks nothing",
    "--auto-approve": "it asks nothing",
    "-target": "--only NAME chooses deployments",
    "--target": "--only NAME chooses deployments",
    "-l": "--only NAME chooses deployments",
    "--limit": "--only NAME chooses deployments",
    "--tags": "--only NAME chooses deployments",
    "-t": "name the FILE without an option",
    "--template": "name the FILE without an option",
    "--check": "--plan shows what would be done",
    "--noop": "--plan shows what would be done",
    "--test": "--plan shows what would be done",
    "--preview": "--plan shows what would be done",
    "--diff": "--plan shows what would be done",
    "-C": "--plan shows what would be done",
    "-D": "--plan shows what would be done",
    "--list-tasks": "--plan lists the steps",
    "--list-hosts": "--plan lists the steps",
    "--syntax-check": "`heat-config-agent template validate FILE` checks a template",
    "-v": "`heat-config-agent log NAME` shows what a run has printed",
    "-vv": "`heat-config-agent log NAME` shows what a run has printed",
    "-vvv": "`heat-config-agent log NAME` shows what a run has printed",
    "--verbose": "`heat-config-agent log NAME` shows what a run has printed",
    "--debug": "`heat-config-agent doctor` looks for causes",
    "-i": "--hosts FILE names a host for each server, or an inventory",
    "--inventory": "--hosts FILE names a host for each server, or an inventory",
    "--failed": "`heat-config-agent status --failed` names what has failed",
    "--detach": "`heat-config-agent run` is the daemon",
    "-d": "`heat-config-agent run` is the daemon",
    "--watch": "`heat-config-agent status --watch` draws it again and again",
    "-w": "`heat-config-agent status --watch` draws it again and again",
    "--since": "`heat-config-agent events --since TIME` shows what happened",
    "--lines": "--tail N shows the last lines",
    "-n": "--tail N or --limit N, where there are many lines",
    "--timeout": "--wait-for TIME is how long a command waits",
    "-A": "--all shows all",
    "-a": "--all shows all",
    "--force": "--yes does it without a question",
    "-u": "the user of a run is in its deployment, and in the settings",
    "--become": "the user of a run is in its deployment, and in the settings",
}
"""Options of other programs → our option or command for the same purpose."""

_CAREFUL = frozenset(
    {
        "forget",
        "retry",
        "prune",
        "delete",
        "abandon",
        "setup",
        "apply",
        "run",
        "stop",
        "sync",
    }
)
"""Commands that delete or run something: they are suggested only for a word that differs in one letter."""


def command_meant(words: Sequence[str]) -> str:
    """Return the command that the words of another program mean, as it is typed; empty if that is not known."""
    plain = [word for word in words if not word.startswith("-")]
    for size in range(min(len(plain), 4), 0, -1):
        command = COMMANDS.get(" ".join(plain[:size]).lower())
        if command:
            return (
                command.removeprefix("!")
                if command.startswith("!")
                else f"{_AGENT} {command}"
            )
    return ""


def option_meant(option: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown option: our option for the same purpose, or the one that is spelt alike."""
    name = option.partition("=")[0]
    options = [each for each in known if each.startswith("--")]
    near = closest(name, options) if name.startswith("--") else ""
    if near and _one_letter(name, near):
        return f"did you mean {near}?"
    return OPTIONS.get(name) or (f"did you mean {near}?" if near else "")


def spelt_alike(word: str, commands: Iterable[str]) -> str:
    """Return the command that a word misspells; empty if there is none, or only one that deletes or runs."""
    names = list(commands)
    near = closest(word, [name for name in names if name not in _CAREFUL])
    careful = closest(word, [name for name in names if name in _CAREFUL])
    return careful if careful and _one_letter(word, careful) else near


def _one_letter(word: str, other: str) -> bool:
    """Return whether two words differ in one letter: one more, one less, another one, or two that are exchanged."""
    if abs(len(word) - len(other)) > 1:
        return False
    begin = 0
    while begin < min(len(word), len(other)) and word[begin] == other[begin]:
        begin += 1
    one, two = word[begin:], other[begin:]
    return (
        one[1:] == two[1:]
        or one == two[1:]
        or one[1:] == two
        or (one[:2] == two[1::-1] and one[2:] == two[2:])
    )
