"""The declaration of each setting: one row, in its section.

The reader of the files, the manual page, `docs/settings.md` and `examples/agent.conf` are made from these rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.settings import paths
from heat_config_agent.settings.kinds import (
    CHOICE,
    COMMAND,
    COUNT,
    FLAG,
    LIMIT,
    LINES,
    PATH,
    PATHS,
    SECONDS,
    SIZE,
    TEXT,
    WORDS,
    Kind,
    Setting,
)
from heat_config_hooks import isolation
from heat_config_hooks.values import restore

TRANSPORTS = ("heat", "cfn", "request", "zaqar")
"""The sources of Heat's metadata, in the order in which their documents are applied."""

BOOT = ("config_drive", "ec2", "heat_local")
"""The sources that an instance has from its creation. They say how to reach Heat. Their deployments count until Heat
answers."""

LOCAL = ("local", "file")
"""The sources that people and programs put on the machine."""

COLLECTORS = (*TRANSPORTS, *BOOT, *LOCAL)

MEBI = 1024 * 1024

DAY = 24 * 3600.0

FOLLOW = "follow NAME"
"""The declaration of all sections `[follow …]`, each of which has a name of its own."""

SECTIONS: dict[str, str] = {}
"""The description of each section, for people."""


def _row(
    name: str,
    kind: Kind,
    default: object,
    description: str,
    example: str = "",
    **more: object,
) -> dict[str, object]:
    return {
        "name": name,
        "kind": kind,
        "default": default,
        "description": description,
        "example": example,
        **more,
    }


def _required(
    name: str, kind: Kind, description: str, example: str = "", *, secret: bool = False
) -> dict[str, object]:
    default = () if kind is WORDS else ""
    return _row(name, kind, default, description, example, required=True, secret=secret)


def _section(
    section: str, description: str, *rows: dict[str, object]
) -> tuple[Setting, ...]:
    """Return the settings of a section, in the order of their rows."""
    SECTIONS[section] = description
    return tuple([restore(Setting, {"section": section, **row}) for row in rows])


_KEYSTONE = (
    _required("auth_url", TEXT, "the URL of Keystone", "https://keystone.example/v3"),
    _required(
        "user_id", TEXT, "the id of the user; not with an application credential"
    ),
    _required("password", TEXT, "the password of that user", secret=True),
    _required("project_id", TEXT, "the id of the project"),
    _row("region_name", TEXT, "", "the region; empty for any", "RegionOne"),
    _row(
        "application_credential_id",
        TEXT,
        "",
        "the id of an application credential, in the place of the user",
    ),
    _row(
        "application_credential_secret",
        TEXT,
        "",
        "the secret of that application credential",
        secret=True,
    ),
)
"""The rows of each section whose source uses Keystone."""

_USER = ("user_id", "password")
"""The settings that an application credential replaces."""

SETTINGS: tuple[Setting, ...] = (
    *_section(
        "agent",
        "How the agent works. In os-collect-config's file, collectors, polling_interval and splay may be in "
        "[DEFAULT]. Heat's metadata can set these three too.",
        _row(
            "state_dir",
            PATH,
            "",
            "where the agent keeps the journal, runs and everything else; empty for /var/lib/heat-config-agent, or for "
            "~/.local/state/heat-config-agent of a user who is not root",
            "/srv/agent",
        ),
        _row(
            "min_polling_interval",
            SECONDS,
            1.0,
            "the shortest time between two polls, while there are changes",
        ),
        _row(
            "parallel",
            COUNT,
            1,
            "the number of deployments that may run at once; with 1 they run in the order of their names",
        ),
        _row(
            "time_limit",
            SECONDS,
            3600.0,
            "the timeout of a deployment that has none of its own; 0 for no timeout",
        ),
        _row(
            "grace", SECONDS, 10.0, "the time between TERM and KILL when a run is ended"
        ),
        _row("collect_timeout", LIMIT, 60.0, "the timeout of a source"),
        _row(
            "ca_file",
            PATH,
            "",
            "a file with trusted certificates; empty for those of the system",
            "/etc/ssl/example.pem",
        ),
        _row(
            "hooks_dir",
            PATHS,
            (),
            "hook directories that are searched first",
            "/opt/hooks",
        ),
        _row(
            "plugin_dirs",
            PATHS,
            (),
            "directories with resource types for stacks, written to Heat's guide for plug-ins",
            "/opt/heat-plugins",
        ),
        _row(
            "user",
            TEXT,
            "",
            "the user for tools that have the option `user`; empty for the user of the agent",
            "deploy",
        ),
        _row(
            "user_dir",
            PATH,
            paths.USERS,
            "the folder with the files of runs of other users, which they can reach",
        ),
        _row(
            "isolate",
            WORDS,
            (),
            "the parts of the machine that runs are isolated from, if their tools have the option `isolate`",
            "network, home, tmp, system=strict",
            choices=isolation.WORDS,
        ),
        _row(
            "secrets_dir",
            PATH,
            paths.SECRETS,
            "the folder from which inputs may refer to secrets",
        ),
        _row(
            "age_identity",
            PATH,
            paths.AGE_IDENTITY,
            "the identity of this machine for secrets that are encrypted with age",
        ),
        _row(
            "vault_url",
            TEXT,
            "",
            "the server of Vault's API from which inputs may refer to secrets",
            "https://vault.example:8200",
        ),
        _row(
            "vault_credentials",
            PATH,
            paths.VAULT_CREDENTIALS,
            "a file with the credentials for that server: a JSON object with token, or with role_id and secret_id",
        ),
        _row(
            "provider_dirs",
            PATHS,
            (),
            "directories with providers of secrets that are searched first",
            "/opt/providers",
        ),
        _row(
            "environment",
            LINES,
            (),
            "variables for the environment of every run, each NAME=VALUE",
            "LANG=C.UTF-8",
        ),
        _row(
            "reboot_command",
            COMMAND,
            "systemctl reboot",
            "the command that reboots the machine when a hook asks for it (exit code 194)",
        ),
        _row(
            "may_reboot",
            FLAG,
            True,
            "whether the machine is rebooted when a hook asks for it; if not, its deployment waits until people do it",
        ),
        _row(
            "keep_for",
            SECONDS,
            30 * DAY,
            "how long output stays, and results of deployments that have left the metadata; inputs and configs stay as "
            "long, but at most a day",
        ),
        _row(
            "keep_size", SIZE, 256 * MEBI, "the largest size of everything that is kept"
        ),
        _row(
            "keep_secrets",
            SECONDS,
            DAY,
            "how long inputs and configs stay on disk after the result is delivered; without it, as long as keep_for "
            "says, but at most a day",
            replaced_by="keep_for",
        ),
        _row(
            "keep_count",
            COUNT,
            1000,
            "the most deployments that are kept after they have left the metadata",
            replaced_by="keep_size",
        ),
        _row(
            "keep_files",
            COUNT,
            20_000,
            "the most files that are kept",
            replaced_by="keep_size",
        ),
        _row(
            "output_limit",
            SIZE,
            64 * MEBI,
            "the largest size of a run's output on disk, at least 4M; the middle of longer output is dropped; "
            "0 for no limit",
        ),
        _row(
            "scopes",
            FLAG,
            True,
            "whether each run is a systemd scope in heat.slice; requires systemd and root",
        ),
        _row(
            "verify_interval",
            SECONDS,
            0.0,
            "the time between two verifications of all deployments, which begin up to a tenth of it earlier or later; "
            "0 for none",
            "1800",
        ),
        _row(
            "repair",
            FLAG,
            False,
            "whether a deployment that has drifted by such a verification is run again",
        ),
        _row(
            "metrics_file",
            PATH,
            "",
            "a file with metrics for the textfile collector of Prometheus; empty for none",
            "/var/lib/prometheus/node-exporter/heat.prom",
        ),
        _row(
            "console",
            PATH,
            "",
            "a console to which a line goes when a deployment begins, ends or has drifted; empty for none",
            "/dev/console",
        ),
        _row(
            "report_url",
            TEXT,
            "",
            "the URL of a server to which each change of a deployment is posted as a CloudEvent; empty for none",
            "https://events.example/heat",
        ),
        _row(
            "trace_url",
            TEXT,
            "",
            "the URL of an OpenTelemetry collector (OTLP over HTTP) that gets a span for each run; empty for none",
            "http://127.0.0.1:4318/v1/traces",
        ),
        _row(
            "replaced",
            CHOICE,
            "finish",
            "what happens to a run whose deployment is replaced: it may finish, or it is cancelled",
            choices=("finish", "cancel"),
        ),
        _row(
            "collectors",
            WORDS,
            (),
            "the sources to use; empty for all that have settings",
            "heat, local",
            choices=COLLECTORS,
            shared=True,
        ),
        _row(
            "polling_interval",
            SECONDS,
            30.0,
            "the longest time between two polls, while there are no changes",
            shared=True,
        ),
        _row(
            "splay",
            SECONDS,
            1.0,
            "the longest random delay of the first poll, so that many machines do not poll at once",
            shared=True,
        ),
    ),
    *_section(
        "heat",
        "Heat's metadata from Heat's own API.",
        *_KEYSTONE,
        _required(
            "stack_id",
            TEXT,
            "the stack, as NAME/ID",
            "web/3f0c7d52-8c1e-4b8e-9a53-0d3f6a1c2b47",
        ),
        _required(
            "resource_name",
            TEXT,
            "the name of the server resource in the stack",
            "server",
        ),
    ),
    *_section(
        "cfn",
        "Heat's metadata from Heat's CloudFormation API.",
        _required("access_key_id", TEXT, "the EC2 access key"),
        _required(
            "secret_access_key", TEXT, "the secret of the EC2 access key", secret=True
        ),
        _required("stack_name", TEXT, "the name of the stack"),
        _required(
            "path",
            WORDS,
            "the path of the metadata: RESOURCE.Metadata, and keys below it",
            "server.Metadata",
        ),
        _row(
            "metadata_url",
            TEXT,
            "",
            "the URL of Heat's CloudFormation API; empty to read it from metadata_hint",
            "https://heat.example:8000/v1",
        ),
        _row(
            "metadata_hint",
            PATH,
            "/var/lib/heat-cfntools/cfn-metadata-server",
            "a file that contains that URL",
        ),
        _row(
            "ca_certificate",
            PATH,
            "",
            "a file with trusted certificates for that URL",
            "/etc/ssl/example.pem",
        ),
    ),
    *_section(
        "request",
        "Heat's metadata at a signed URL.",
        _required("metadata_url", TEXT, "the signed URL of the metadata", secret=True),
    ),
    *_section(
        "zaqar",
        "Heat's metadata in a Zaqar queue.",
        *_KEYSTONE,
        _required("queue_id", TEXT, "the queue with the metadata"),
        _row(
            "use_websockets",
            FLAG,
            False,
            "whether to be notified of new messages, if Zaqar offers websockets",
        ),
    ),
    *_section(
        "heat_local",
        "Heat's first metadata, which cloud-init writes to files.",
        _row(
            "path",
            PATHS,
            (
                "/var/lib/heat-cfntools/cfn-init-data",
                "/var/lib/cloud/data/cfn-init-data",
            ),
            "the files that cloud-init writes",
        ),
    ),
    *_section(
        "ec2",
        "The user data from the EC2 metadata service. Unless collectors names it, it is used only on machines that "
        "look like instances of a cloud.",
        _row(
            "metadata_url",
            TEXT,
            "http://169.254.169.254/latest",
            "the URL of the EC2 metadata service",
        ),
        _row("timeout", LIMIT, 10.0, "the timeout of each request to it"),
    ),
    *_section(
        "config_drive",
        "The user data on the config drive of the instance.",
        _row(
            "path",
            PATH,
            "",
            "the drive, or its mount point; empty to search for it",
            "/dev/sr0",
        ),
    ),
    *_section(
        "local",
        "Directories with documents on this machine.",
        _row(
            "path",
            PATHS,
            ("/var/lib/os-collect-config/local-data",),
            "directories with documents (*.json, *.yaml, *.yml)",
        ),
    ),
    *_section(
        "file",
        "Documents on this machine.",
        _row("path", PATHS, (), "files with documents", "/etc/heat/site.json"),
    ),
    *_section(
        FOLLOW,
        "A stack that the daemon keeps at the newest revision of a source; one section for each stack, with its name.",
        _required(
            "url",
            TEXT,
            "a git repository (URL of ssh, git or file, or one that ends with .git), another URL of https, an OCI "
            "artifact (oci://HOST/NAME), or a path",
            "https://git.example/site.git",
        ),
        _row(
            "ref",
            TEXT,
            "",
            "the branch, tag or commit of a repository, or the tag or digest of an artifact; empty for the default "
            "branch, or the tag latest",
            "main",
        ),
        _row(
            "path",
            TEXT,
            "",
            "the template or document in the source; empty for a source that is one file",
            "web/stack.yaml",
        ),
        _row(
            "parameters",
            LINES,
            (),
            "parameters or inputs of the template, each NAME=VALUE",
            "colour=blue",
        ),
        _row(
            "environments",
            WORDS,
            (),
            "environment files in the source",
            "web/production.yaml",
        ),
        _row("interval", LIMIT, 300.0, "the time between two polls of the source"),
        _row("timeout", LIMIT, 60.0, "the timeout of each request to the source"),
        _row(
            "size_limit",
            SIZE,
            256 * MEBI,
            "the largest size of a revision; at most 64M for one file of https",
        ),
        _row("user", TEXT, "", "the user for https and oci", "deploy"),
        _row("token", TEXT, "", "the token or password of that user", secret=True),
        _row(
            "ssh_config",
            PATH,
            "",
            "the configuration of ssh for a repository, with its key and known hosts; empty for that of the agent's "
            "user",
            "/etc/heat-config-agent/ssh_config",
        ),
        _row(
            "rollback",
            FLAG,
            False,
            "whether the stack returns to the state before if a revision fails",
        ),
        _row(
            "delete",
            FLAG,
            False,
            "whether the stack is deleted when the section is removed",
        ),
        _row(
            "verify_interval",
            SECONDS,
            0.0,
            "the time between two verifications of the deployments of its document or stack; 0 for none",
            "1800",
        ),
        _row(
            "repair",
            FLAG,
            False,
            "whether a deployment that has drifted by such a verification is run again, and the whole revision if its "
            "stack or its deployments were changed or removed by hand",
        ),
    ),
)

KNOWN: Mapping[tuple[str, str], Setting] = {
    (row.section, row.name): row for row in SETTINGS
}
"""The declarations by section and name."""


def declared(section: str) -> str:
    """Return the section under which the settings of a section are declared."""
    return FOLLOW if section.startswith("follow ") else section


def defaults(section: str) -> dict[str, object]:
    """Return the defaults of a section."""
    return {
        row.name: row.default for row in SETTINGS if row.section == declared(section)
    }


def incomplete(section: str, values: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of a transport's settings that are missing."""
    required = [row.name for row in SETTINGS if row.section == section and row.required]
    if values.get("application_credential_id"):
        required = [
            *(name for name in required if name not in _USER),
            "application_credential_secret",
        ]
    return tuple(name for name in required if not values.get(name))


def setting(section: str, name: str) -> Setting:
    """Return the declaration of a setting."""
    return KNOWN[declared(section), name]


def number(name: str) -> float:
    """Return the default of a setting of `[agent]` that is a number."""
    default = setting("agent", name).default
    if not isinstance(default, int | float):
        raise TypeError(f"{name} is not a number")
    return default
