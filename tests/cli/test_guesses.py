"""People type first what another program would take: it does what they mean, or names the command that does.

They know `openstack`, `terraform`, `kubectl`, `docker compose`, `systemctl`, `ansible` or `gh`. The lines after
`version`, and after `-i`, were chosen before any of them was tried.
"""

from __future__ import annotations

import pytest

from support.commands import run
from support.machine import Machine, deployment

AGENT = """
stack create -t greeting.yaml --dry-run g2 |
stack create --template greeting.yaml -e env.yaml g2 | cannot read env.yaml
stack list -f json | --json
stack list --long |
stack list -c Name | --json
stack show greeting -f yaml | --json
stack output show greeting --all -f json | --json
stack resource list -n 5 greeting |
stack event list greeting --follow |
stack failures list failstack |
stack template show greeting |
stack environment show greeting |
stack file list greeting | stack template show
stack cancel greeting | no running action
stack delete -y --wait nosuch | stack list
stack resource metadata greeting server | stack resource show
stack resource mark unhealthy greeting server | retry STACK/RESOURCE
stack hook poll greeting | stack resource signal
software deployment list | deployment list
software deployment show web-config | deployment show
software deployment output show --all web-config | deployment output
software config list | deployment list
deployment list |
orchestration template validate -t greeting.yaml | template validate
orchestration resource type list | stack resource type list
plan greeting.yaml |
apply greeting.yaml |
apply -auto-approve greeting.yaml | asks nothing
destroy greeting | stack delete
output | stack output
show |
state list | stack resource list
validate greeting.yaml | template validate
graph | stack graph
taint greeting | retry
get deployments | deployment list
get stacks -o json | stack list
describe stack greeting | stack show
logs web-config | log NAME
logs -f web-config | log NAME
log --tail 10 web-config |
diff greeting.yaml | plan FILE
delete stack greeting | stack delete
rollout restart web-config | retry NAME
explain OS::Heat::Value | stack resource type show
status -o json | --json
events |
ps | status
up | apply FILE
down | stack delete
ls | status
top | status --watch
config --quiet |
status web-config |
restart web-config | retry NAME
start | systemctl start heat-config-agent
stop long-import | there is no deployment
list-units | status
is-active | status --check
cat web-config | show NAME --print-config
reload | poll
--failed | status --failed
status -n 20 | --tail N or --limit N
status -h |
completion bash |
version |
stack ls | stack list
stack describe greeting | stack show
stack resource show greeting greeting |
stack event list --limit 5 greeting |
stack snapshot create greeting |
stack output list greeting |
stack resource type list --filter name=Heat |
stack update -t greeting.yaml --existing --dry-run greeting |
stack list --deleted | `heat-config-agent stack list --help`
get nodes | stack node list
get all | status
delete deployment web-config | forget
rollout status web-config | wait
rollout undo greeting | stack snapshot restore
apply -f greeting.yaml |
create -f greeting.yaml | apply FILE
kubectl get pods | `heat-config-agent --help` lists all
inspect web-config | show NAME
exec web-config | log NAME
pull | source sync
kill web-config | stop NAME
abort web-config | stop NAME
terminate web-config | stop NAME
images | tool list
enable | systemctl enable
disable | systemctl disable
edit web-config | apply FILE
show web-config |
cat greeting | show NAME --print-config
daemon-reload | poll
install greeting.yaml | apply FILE
uninstall greeting | setup --remove
upgrade greeting | migrate
rollback greeting | stack snapshot restore
history | events
lint greeting.yaml | template validate
init | doctor
refresh | poll
state show greeting | stack resource show
force-unlock | `heat-config-agent --help` lists all
facts | `heat-config-agent --help` lists all
agent --test --noop | run
log --follow --tail 1 web-config |
wait --for-action CREATE web-config |
help apply |
man | help
tool list |
source list |
doctor --all |
"""

APPLY = """
-var name=Ada greeting.yaml | --parameter NAME=VALUE
--var name=Ada greeting.yaml | --parameter NAME=VALUE
-f greeting.yaml |
--dry-run ok.json |
--check ok.json |
--diff ok.json | --plan
-e name=Ada greeting.yaml | --parameter
--limit web-config ok.json | --only
--tags web-config ok.json | --only
--syntax-check ok.json | template validate
--list-tasks ok.json | --plan
-v ok.json | log NAME
--version |
-i inventory ok.json | --hosts FILE names a host
--extra-vars name=Ada greeting.yaml | --parameter NAME=VALUE
--noop ok.json | --plan
-vvv ok.json | log NAME
--become ok.json | user of a run
"""


def lines(text: str) -> list[tuple[str, str]]:
    """Return the words of each line, and what the answer names."""
    pairs = (line.partition("|") for line in text.strip().splitlines())
    return [(words.strip(), named.strip()) for words, _, named in pairs]


def prepared(machine: Machine) -> None:
    """Write what the commands are about."""
    (machine.folder / "greeting.yaml").write_text(
        "heat_template_version: 2018-08-31\n"
        "parameters: {name: {type: string, default: world}}\n"
        "resources:\n"
        "  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: 'true'}}\n"
        "  server: {type: OS::Nova::Server, properties: {image: i, flavor: f}}\n"
        "  greeting:\n"
        "    type: OS::Heat::SoftwareDeployment\n"
        "    properties: {config: {get_resource: config}, server: {get_resource: server}}\n"
        "outputs: {all: {value: {get_attr: [greeting, deploy_stdout]}}}\n"
    )
    template = machine.folder / "greeting.yaml"
    (machine.folder / "failstack.yaml").write_text(
        template.read_text().replace("'true'", "'exit 4'")
    )
    ok = machine.write([deployment("web-config", "#!/bin/sh\necho done\n")])
    (machine.folder / "ok.json").write_text(ok.read_text())
    assert machine.apply(ok).code == 0
    assert machine.apply(template).code == 0
    assert machine.apply(machine.folder / "failstack.yaml").code == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "guesses"),
    [("heat-config-agent", lines(AGENT)), ("heat-config-apply", lines(APPLY))],
    ids=["agent", "apply"],
)
def test_guesses_do_what_is_meant_or_lead_there(
    machine: Machine, program: str, guesses: list[tuple[str, str]]
) -> None:
    """At most a few are not understood, and none leads to a command that deletes or runs something else."""
    prepared(machine)
    missed = []
    for words, named in guesses:
        done = run(
            machine,
            program,
            *(
                str(machine.folder / word)
                if word in ("greeting.yaml", "ok.json")
                else word
                for word in words.split()
            ),
            HEAT_CONFIG_AGENT_STATE=str(machine.state),
        )
        assert "Traceback" not in done.err, words
        understood = named in done.err if named else done.code in (0, 1)
        if named:
            understood = understood and done.code in (2, 8)
        if not understood:
            missed.append(f"{program} {words}: {done.code} {done.out[:90]} {done.err}")
    assert not missed, "\n".join(missed)
