"""A deployment as a document describes it, the tool that runs it, the work of its run, and its result."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping

from heat_config_hooks import options
from heat_config_hooks.protocol import file_key
from heat_config_hooks.values import dataclass, field

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Literal

    from heat_config_hooks.artifacts import Artifact  # few deployments have any
    from heat_config_hooks.health import Check  # few deployments have it
    from heat_config_hooks.on_failure import OnFailure  # the same
    from heat_config_hooks.retry import Retry  # the same

HOT_KEYS = (
    "heat_template_version",
    "HeatTemplateFormatVersion",
    "AWSTemplateFormatVersion",
)
TOSCA_KEYS = ("tosca_definitions_version", "topology_template")
"""The keys by which templates are known, first the versions of the languages; `diagnostics.kinds` knows more."""

COMPONENT = "component"
"""The group of a deployment that carries one config for each lifecycle action."""

DELETE = "DELETE"
"""The action that removes a deployment."""

CLEANUP = "(left)"
"""The action of a cleanup, as people see it."""

CLEANUP_KEY = ".left"
"""The end of the key of a cleanup. No id has such a key, because the key of an id contains no dot."""

FAILED = "FAILED"
"""The action of a follow-up: the author of a component gives the config that runs after a failure for it."""

FAILED_KEY = ".failed"
"""The end of the key of a follow-up, see `deployments.follow_up`. No id has such a key either."""

FAILURE_INPUTS = frozenset(
    {
        "reason",
        "deploy_failed_action",
        "deploy_action",
        "deploy_stdout",
        "deploy_stderr",
        "deploy_status_code",
    }
)
"""The inputs that every follow-up has from the agent."""

SIGNATURES = "heat-config-signatures"
"""The key of a document with a signed list of its configs, or with several, see `model.signed`."""

STANDARD_OUTPUTS = frozenset({"deploy_stdout", "deploy_stderr", "deploy_status_code"})
"""The outputs that every result has. Declaring them in a template changes nothing."""

WAIT_LIMIT = 3600.0
"""The longest time in seconds for which a server can ask the agent to wait."""

TOOLLESS = frozenset({"Heat::Ungrouped", "os-apply-config"})
"""Groups that name no tool: Heat's default, and metadata for other programs. Nothing is run and nothing is
signalled."""

TRACE = "traceparent"
"""The input that tells where a deployment belongs in a trace, as W3C Trace Context has it."""

_TRACE = "(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"


_REFERENCE = r"[a-z][a-z0-9-]{0,31}:"
"""The beginning of a reference to a secret. Any other object with the one key `secret` is a value like others."""

_REFERENCE_AS_TEXT = (
    r"""\{\s*["']secret["']\s*:\s*["']([a-z][a-z0-9-]{0,31}:[^"'\\]*)["']\s*\}\s*"""
)


def reference_in(value: object) -> str:
    """Return SCHEME:REFERENCE if a value is `{secret: "SCHEME:REFERENCE"}`; empty for any other value.

    It may be text, too: in templates, parameters of the type string turn the object into JSON, or into Python's form.
    """
    if isinstance(value, str):
        match = re.fullmatch(_REFERENCE_AS_TEXT, value) if value[:1] == "{" else None
        return match[1] if match else ""
    text = (
        value.get("secret") if isinstance(value, Mapping) and len(value) == 1 else None
    )
    return text if isinstance(text, str) and re.match(_REFERENCE, text) else ""


def given_name(document: Mapping[str, object], name: str) -> str:
    """Return the name of a deployment in its document; `name` if the document has none, or is gone."""
    given = document.get("name")
    return given if given and isinstance(given, str) else name


EDITION_DIGITS = 20
"""The digits of the digest in the id of an edition."""

_EDITION_NAME = 60
"""The characters of its name that are in the id of an edition."""


def edition_beginning(name: str) -> str:
    """Return how the ids of the editions of a name begin."""
    return (
        "".join(
            sign if sign.isascii() and sign.isalnum() else "-"
            for sign in name[:_EDITION_NAME]
        ).strip("-")
        or "d"
    )


def is_edition(identity: str, name: str) -> bool:
    """Return whether the id of a deployment was made from its name and its content."""
    beginning = re.escape(edition_beginning(name))
    return (
        re.fullmatch(rf"{beginning}-[0-9a-f]{{{EDITION_DIGITS}}}(-[0-9]+)?", identity)
        is not None
    )


def title_of(owner: str, name: str, key: str = "") -> str:
    """Return the name by which people know a deployment: STACK/RESOURCE as in Heat, or its own name.

    `owner` is that of the deployment. Heat names a deployment after its config, which several resources may share.
    With its `key`, a follow-up is told from the deployment that has failed.
    """
    if key.endswith(FAILED_KEY):
        return f"{title_of(owner, name)} on_failure"
    if owner == name or "/" not in owner:
        return name
    stack, _, rest = owner.partition("/")
    return f"{stack}/{rest.rpartition('/')[2]}"


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """Something wrong in a document, with its place."""

    path: str
    """The place in the document, e.g. `deployments[2].inputs[0].name`."""
    problem: str
    """One sentence that says what is wrong and what is expected."""
    place: str = ""
    """The same place in a file, e.g. `site.yaml:7:5: web.inputs[0].name`; empty if no file has it."""

    def __str__(self) -> str:
        return f"{self.place or self.path}: {self.problem}"

    @property
    def position(self) -> str:
        """The place without its path, e.g. `site.yaml:7:5`; empty if no file has it."""
        import re  # noqa: PLC0415  # few documents have mistakes

        found = re.match(r".*?:\d+:\d+(?=:|$)", self.place, re.DOTALL)
        return found[0] if found else ""


@dataclass(frozen=True, kw_only=True)
class Input:
    """One input of a deployment."""

    name: str
    value: object
    """Any JSON value: the default if the document has no value, and null if it has no default."""
    type: str = "String"
    """The declared type: String, Number, Boolean, CommaDelimitedList or Json."""
    hidden: bool = False
    """True if the document marks the value as secret (`hidden` or `no_echo`)."""
    references: tuple[str, ...] = ()
    """The secrets, as SCHEME:REFERENCE, to which the value or the members of an object refer; a provider has them."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """One declared output of a deployment."""

    name: str
    error_output: bool = False
    """True if Heat fails the deployment when this output is produced, even if it is empty."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The selected config of a deployment: a tool, the text or data that it carries out, and its options."""

    tool: str
    config: object
    """The script, playbook, manifest…: text, or an object for structured configs."""
    options: Mapping[str, object] = field(default_factory=dict)
    section: str = "options"
    """The path of the options in the deployment."""
    others: frozenset[str] = frozenset()
    """The other tools of a component that share these options because they have no section of their own."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """The credentials of a user of OpenStack's services, from the metadata or the settings."""

    auth_url: str
    """The URL of Keystone, with or without a version."""
    user_id: str
    password: str = field(repr=False)
    project_id: str
    region_name: str = ""
    application_credential_id: str = ""
    """If there is one, it is used in the place of the user and the password."""
    application_credential_secret: str = field(default="", repr=False)

    @property
    def holder(self) -> str:
        """The name of the user or of the application credential, for people."""
        if self.application_credential_id:
            return f"application credential {self.application_credential_id}"
        return f"user {self.user_id}"

    """The region whose endpoints are used; empty for any."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The address of a deployment's result."""

    kind: str
    """`none`, `url` (CFN and Swift temporary URLs), `heat` or `zaqar`."""
    url: str = ""
    """For `url`: a secret. It is signed, so requests use it unchanged."""
    verb: str = "POST"
    credentials: Credentials | None = None
    """For `heat` and `zaqar`."""
    stack: str = ""
    """For `heat`: `NAME/ID` of the stack."""
    resource: str = ""
    """For `heat`: the name of the deployment's resource in it."""
    queue: str = ""
    """For `zaqar`."""
    addressee: str = ""
    """Names the receiver of the result: the same for every action of one deployment resource."""

    @property
    def wanted(self) -> bool:
        """True if a server waits for the result."""
        return self.kind != "none"

    @property
    def is_temporary_url(self) -> bool:
        """True for a temporary URL of Swift, whose object Heat reads."""
        return (
            self.kind == "url"
            and self.verb == "PUT"
            and "temp_url_sig=" in self.url.partition("?")[2]
        )

    @property
    def described(self) -> str:
        """A description of the target for people, without secrets."""
        if self.kind == "url":
            return f"{self.verb} to {self.url.partition('?')[0].split('@')[-1]}"
        return {
            "none": "nowhere: no signal is asked for",
            "heat": "to Heat's API",
            "zaqar": "to a Zaqar queue",
        }[self.kind]


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One software deployment, as a document describes it."""

    id: str
    """Heat's id of the derived config. It changes with every action: a new id is new work, and a known one is work that
    was already accepted."""
    key: str
    """The id if it is a safe file name, else a digest. It names all files that the agent keeps for the deployment."""
    name: str
    """The name, with the secrets in it masked."""
    group: str
    """The tool; `component` if the config contains one config for each action; or one of `TOOLLESS`."""
    config: object
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    options: Mapping[str, object]
    creation_time: str
    target: Target
    document: Mapping[str, object]
    """The entry unchanged, including unknown keys."""
    source: str = ""
    """The source whose document contains the entry."""
    where: str = ""
    """The path of the entry in that document."""
    signatures: tuple[str, ...] = ()
    """The signatures of the document, see `Document.signatures`."""
    signed_configs: tuple[str, ...] = ()
    """The evidence for configs that the document carries, see `signed.lists_in`. Anybody may have written it."""
    located: Callable[[Mistake], Mistake] | None = field(
        default=None, compare=False, repr=False
    )
    """See `Document.located`."""
    mistakes: tuple[Mistake, ...] = ()
    """The mistakes in the entry. A deployment with mistakes is answered as failed and never run."""

    def input(self, name: str) -> object:
        """Return the value of an input, or None.

        The last of several inputs with one name counts, as in the environment of the tools.
        """
        for item in reversed(self.inputs):
            if item.name == name:
                return item.value
        return None

    @functools.cached_property
    def action(self) -> str:
        """The lifecycle action, e.g. CREATE; empty if the document names none. Only the agent makes a `CLEANUP`."""
        value = self.input("deploy_action")
        if not isinstance(value, str) or (
            value == CLEANUP and not self.key.endswith(CLEANUP_KEY)
        ):
            return ""
        return value

    @functools.cached_property
    def resource(self) -> str:
        """The deployment resource, as STACK/NAME: the same for all its actions; empty if the inputs do not name it."""
        stack, name = self.input("deploy_stack_id"), self.input("deploy_resource_name")
        return f"{stack}/{name}" if stack and name else ""

    @functools.cached_property
    def place(self) -> str:
        """The place of which at most one deployment runs at a time: its resource, or its name if that is its identity.

        Empty for a deployment that has a place of its own.
        """
        if self.resource or not is_edition(self.id, self.given_name):
            return self.resource
        return f"name {self.given_name}"

    @functools.cached_property
    def references(self) -> tuple[str, ...]:
        """The secrets that the inputs refer to, as SCHEME:REFERENCE, each once."""
        return tuple(
            dict.fromkeys(
                reference for item in self.inputs for reference in item.references
            )
        )

    @property
    def trace(self) -> str:
        """The input `traceparent`: where the deployment belongs in a trace; empty if it has no valid one."""
        value = self.input(TRACE)
        return value if isinstance(value, str) and re.fullmatch(_TRACE, value) else ""

    @property
    def title(self) -> str:
        """The name by which people know the deployment, see `title_of`."""
        return title_of(self.owner, self.name, self.key)

    @property
    def is_follow_up(self) -> bool:
        """True if the agent has made it because another deployment has failed."""
        return self.key.endswith(FAILED_KEY)

    @property
    def owner(self) -> str:
        """The owner of everything that the deployment creates: its resource if that is known, else its name."""
        return self.resource or (
            self.name
            if self.name == self.given_name
            else file_key(f"name {self.given_name}")
        )

    @property
    def given_name(self) -> str:
        """The name as the document has it, which may contain a secret: for comparisons, and never shown."""
        return given_name(self.document, self.name)

    @property
    def status(self) -> str:
        """The status of the action; empty if the document has none, as with today's Heat."""
        value = self.input("deploy_status")
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, kw_only=True)
class Document:
    """The answer of a source."""

    source: str
    """The name of the source, the same in every run, so that deployments which leave its document are noticed. An
    example is `file:/srv/site.yaml`."""
    content: object
    """The parsed document."""
    signatures: tuple[str, ...] = ()
    """The evidence (`signed.evidence`) that was compared with the content when it was read; all of it has to count."""
    is_part: bool = False
    """True if it has only some of the source's deployments: the others have not left it."""
    located: Callable[[Mistake], Mistake] | None = field(
        default=None, compare=False, repr=False
    )
    """Returns a mistake with its place, for a file that a person has written; None for a document of a server."""

    @property
    def signed_configs(self) -> tuple[str, ...]:
        """The evidence for configs that the document carries, see `signed.lists_in`."""
        if not isinstance(self.content, Mapping) or SIGNATURES not in self.content:
            return ()
        from heat_config_agent.model import signed  # noqa: PLC0415  # few documents have signatures

        return signed.lists_in(self.content[SIGNATURES])


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a deployment, exactly as its target receives it."""

    values: Mapping[str, object]
    """`deploy_stdout`, `deploy_stderr`, `deploy_status_code`, and each declared output that was produced."""
    failed: bool
    """True if the target will take the values for a failure, by Heat's rules: see `runs.result.judge`."""
    reason: str = ""
    """For people: why the deployment failed, or a note about its success."""


BUILTIN = "builtin:"


@dataclass(frozen=True)
class Tool:
    """A tool that can be run."""

    name: str
    hook: str
    """`builtin:NAME` for a built-in hook, else the path of an executable."""

    @property
    def builtin(self) -> bool:
        """True if the hook is built in, so that it needs no process of its own."""
        return self.hook.startswith(BUILTIN)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A deployment with its selected config.

    It is made once: by the plan for a new run, or from the journal for a run that an earlier agent started.
    """

    deployment: Deployment
    config: Config
    tool: Tool
    request: Mapping[str, object]
    """The deployment as its hook receives it: the entry of the document with the selected config."""
    limit: float | None = None
    """The timeout that the deployment sets, in seconds; None if it sets none."""
    user: str = ""
    """The user that it runs as; empty for the agent's own."""
    isolation: Mapping[str, str] = field(default_factory=dict)
    """The levels of `isolation.LEVELS` by which it is isolated."""
    artifacts: tuple[Artifact, ...] = ()
    """The files that are fetched before it begins."""
    retry: Retry | None = None
    """The limits within which its command is run again after certain exit codes; None if it is not."""
    verify: Check | None = None
    """The script that says whether it works; its run succeeds only then."""
    on_failure: OnFailure | None = None
    """The script that runs once after it has failed."""
    verifies: Literal["", "tool", "script"] = ""
    """The part of a verification that the job is: it changes nothing. `tool` asks the hook of the tool, and `script` is
    the script of `verify`. Empty for the job of a run."""
    bounds: Mapping[str, int] = field(default_factory=dict)
    """The other limits that the deployment sets: its options that are in `options.BOUNDS`."""

    @property
    def idempotent(self) -> bool:
        """True if an interrupted run may simply be run again, as the deployment's options say."""
        return options.common(self.config.options, "idempotent") is True
