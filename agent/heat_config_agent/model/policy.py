"""The policy of the machine: which jobs may run. Pure: a policy looks at a job, and at nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import heat_config_hooks
from heat_config_agent.model import signed
from heat_config_agent.model.deployment import (
    BUILTIN,
    CLEANUP,
    COMPONENT,
    DELETE,
    FAILURE_INPUTS,
    Job,
)
from heat_config_agent.model.entry import Entry
from heat_config_hooks import isolation, options
from heat_config_hooks.values import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The rules of one file. A rule that is None allows everything."""

    file: str
    """The path of the file."""
    tools: tuple[str, ...] | None = None
    """Names of built-in hooks, and absolute paths of executable hooks."""
    sources: tuple[str, ...] | None = None
    """Names of sources: the full name, or the part of it before the colon."""
    actions: tuple[str, ...] | None = None
    """Actions, as documents write them. A cleanup counts as DELETE."""
    users: tuple[str, ...] | None = None
    """Names of users; `root` also stands for the agent's own."""
    own: str = "root"
    """The name of the agent's own user."""
    secrets: tuple[str, ...] | None = None
    """The references to secrets that inputs may have: a scheme, SCHEME:REFERENCE, or the beginning of it before `*`."""
    isolate: Mapping[str, str] | None = None
    """The least levels of `isolation.LEVELS` by which each run is isolated."""
    trusted_inputs: tuple[str, ...] | None = None
    """The tools that may take inputs for more than values, by their option `trusted_inputs`."""
    repair: tuple[str, ...] | None = None
    """The deployments that may be repaired: words of `tools` and `sources`, and `name:NAME`; `none` for none."""
    max_timeout: float | None = None
    """Seconds."""
    signers: str | None = None
    """The content of the allowed signers file of OpenSSH that the rule names."""
    network: tuple[str, ...] | None = None
    """The hosts that following, artifacts, signals and Barbican may reach: names, `*.DOMAIN`, each perhaps with a port,
    and addresses or networks."""
    verified: Mapping[str, str] = field(default_factory=dict)
    """The reason why each signature does not count, by its evidence; empty if it does.

    See `signing.ssh.with_verified`.
    """
    lines: Mapping[str, str] = field(default_factory=dict)
    """The text of each rule as the file has it, by name."""
    mistake: str = ""
    """The reason why the policy cannot be used, as one sentence; empty if it can.

    Nothing new may run until it is corrected.
    """

    def refusal(self, job: Job) -> str:
        """Return the sentence that refuses a job, with the rule and the file; empty if every rule allows the job."""
        hook, source = job.tool.hook, job.deployment.source
        action = DELETE if job.deployment.action == CLEANUP else job.deployment.action
        if job.deployment.is_follow_up:  # it belongs to the action that has failed
            action = str(job.deployment.input("deploy_failed_action") or "")
        if why := self._other_tool(job):
            return self._sentence("tools", why)
        if self.sources is not None and not {
            source,
            source.partition(":")[0],
        }.intersection(self.sources):
            return self._sentence("sources", f"the source {source} is not in it")
        if self.actions is not None and action not in self.actions:
            return self._sentence(
                "actions",
                f"the action {action!r} is not in it"
                if action
                else "there is no action",
            )
        users = {job.user} if job.user else {self.own, "root"}
        if self.users is not None and not users.intersection(self.users):
            other = _never(job, "user", "can run as no other")
            return self._sentence(
                "users", f"the user {job.user or self.own!r} is not in it{other}"
            )
        for reference in job.deployment.references if self.secrets is not None else ():
            if not any(_covers(allowed, reference) for allowed in self.secrets or ()):
                return self._sentence(
                    "secrets", f"the reference {reference} is not in it"
                )
        if self.isolate is not None and (
            lacking := isolation.missing(job.isolation, self.isolate)
        ):
            other = _never(job, "isolate", "cannot be isolated")
            return self._sentence(
                "isolate",
                f"the run is not isolated by {isolation.described(lacking)}{other}",
            )
        trusting = self.trusted_inputs is not None and options.is_set(
            job.config.options, "trusted_inputs"
        )
        if trusting and hook.removeprefix(BUILTIN) not in (self.trusted_inputs or ()):
            return self._sentence(
                "trusted_inputs",
                f"the tool {job.tool.name!r} is not in it, and its option is set",
            )
        if (
            self.max_timeout is not None
            and job.limit is not None
            and job.limit > self.max_timeout
        ):
            return self._sentence(
                "max_timeout",
                f"the timeout of {job.limit:g} s is longer than {self.max_timeout:g} s",
            )
        for url in _urls(job):
            if sentence := self.unreachable(url):
                return sentence
        if self.signers is not None and (why := self._unsigned(job)):
            return self._sentence("signers", why)
        return ""

    def _other_tool(self, job: Job) -> str:
        """Return why the rule `tools` refuses a job; empty if it does not."""
        if self.tools is None:
            return ""
        hook = job.tool.hook
        if hook.removeprefix(BUILTIN) not in self.tools:
            builtin = hook.startswith(BUILTIN)
            name = f"the tool {job.tool.name!r}" if builtin else f"the hook {hook}"
            return f"{name} is not in it"
        if job.verify is not None and "script" not in self.tools:
            return "the option verify is a script, and the tool 'script' is not in it"
        if job.on_failure is not None and "script" not in self.tools:
            return (
                "the option on_failure is a script, and the tool 'script' is not in it"
            )
        return ""

    def _unsigned(self, job: Job) -> str:
        """Return why a job does not count as signed; empty if its document or its config is signed.

        A cleanup carries out nothing new: the built-in hook removes what it has made.
        """
        deployment = job.deployment
        if deployment.action == CLEANUP or (
            # the option is signed with the deployment that has run
            deployment.is_follow_up and deployment.group != COMPONENT
        ):
            return ""
        if deployment.signatures:
            bad = (
                why
                for signature in deployment.signatures
                if (why := self.verified.get(signature, "it was not checked"))
            )
            return next(
                (f"the signature of the document does not count: {why}" for why in bad),
                "",
            )
        if isinstance(names := self._declared(job), str):
            return names
        others = [
            each.name for each in deployment.inputs if not each.name.startswith(_HEATS)
        ]
        if names is None and others:
            return f"the signed list does not name the inputs of the config, and there is {others[0]}: sign it again"
        return ""

    def repair_refusal(self, entry: Entry) -> str:
        """Return the sentence that refuses to repair a deployment; empty if it may be repaired."""
        if self.mistake or self.repair is None:
            return self.mistake
        names = (entry.title, entry.name, entry.id)
        words = {
            entry.run.hook.removeprefix(BUILTIN) if entry.run else entry.tool,
            entry.source,
            entry.source.partition(":")[0],
            *(f"name:{name}" for name in names if name),
        }
        if words.intersection(self.repair):
            return ""
        return self._sentence("repair", f"the deployment {entry.title} is not in it")

    def variables(self, job: Job) -> frozenset[str] | None:
        """Return the inputs that may become environment variables of a job; None for all.

        The signature of a config does not cover the inputs, which are those that the author of the metadata chose.
        """
        deployment = job.deployment
        if (
            self.signers is None
            or deployment.action == CLEANUP
            or deployment.signatures
        ):
            return None
        names = self._declared(job)
        declared = names if isinstance(names, frozenset) else frozenset()
        return declared | FAILURE_INPUTS if deployment.is_follow_up else declared

    def _declared(self, job: Job) -> frozenset[str] | str | None:
        """Return the inputs that the signed lists declare for the config of a job; None if they have no such names.

        Returns the reason as text if no list counts that has the config.
        """
        digest = signed.config_digest(
            job.config.tool, job.config.config, job.config.options
        )
        reason = "neither the document nor the config is signed"
        is_listed, names = False, None
        for signature in job.deployment.signed_configs:
            why = self.verified.get(signature, "it was not checked")
            try:
                listed = {} if why else signed.configs(signature.partition("\n")[2])
            except ValueError as error:
                why, listed = str(error), {}
            if digest in listed:
                is_listed, more = True, listed[digest]
                names = more if names is None else names | (more or frozenset())
            reason = (
                f"the signed list does not count: {why}"
                if why
                else "the config is not in the signed list"
            )
        return names if is_listed else reason

    def unreachable(self, url: str) -> str:
        """Return the sentence that refuses to reach a URL; empty if it may be reached. Names are not resolved."""
        if self.mistake or self.network is None:
            return self.mistake
        try:
            parts = urlsplit(url)
            host, port = (
                (parts.hostname or "").rstrip("."),
                parts.port or _PORTS.get(parts.scheme, 0),
            )
        except ValueError:
            host, port = "", 0
        plain = host and "\\" not in url and url.isprintable() and " " not in url
        if plain and any(_is_host(allowed, host, port) for allowed in self.network):
            return ""
        return self._sentence(
            "network", f"the host {host or 'of the URL'} is not in it"
        )

    def limit(self, usual: float | None) -> float | None:
        """Return the timeout in seconds of a job that sets none, from the usual one; None for no timeout."""
        if self.max_timeout is None:
            return usual
        return min(usual or self.max_timeout, self.max_timeout)

    def _sentence(self, rule: str, why: str) -> str:
        return f"refused by the rule {rule} of {self.file}: {why}"


_HEATS = "deploy_"
"""The beginning of the inputs that Heat adds, which no program takes for a setting."""


def _never(job: Job, option: str, why: str) -> str:
    """Return the end of a message for a tool without an option; empty if the tool may have it."""
    tool = job.tool
    if not tool.builtin:
        return f"; the hook {tool.hook} {why}" if option == "user" else ""
    if (
        heat_config_hooks.absent(tool.name)
        or option in heat_config_hooks.load(tool.name).ABOUT.options
    ):
        return ""
    return f"; the tool {tool.name!r} {why}"


def _urls(job: Job) -> Iterator[str]:
    """Yield the URLs that the agent itself requests for a job.

    The result of a stack's deployment stays on the machine, also if it has a target.
    """
    target = job.deployment.target
    signal = target.url or (target.credentials.auth_url if target.credentials else "")
    if signal and job.deployment.source.partition(":")[0] != "stack":
        yield signal
    if any(
        reference.startswith("barbican:") for reference in job.deployment.references
    ):
        yield str(job.deployment.input("deploy_auth_url") or "")
    for artifact in job.artifacts:
        yield artifact.url


_PORTS = {
    "http": 80,
    "ws": 80,
    "oci+http": 80,
    "https": 443,
    "wss": 443,
    "oci": 443,
    "ssh": 22,
    "git": 9418,
}


def _is_host(allowed: str, host: str, port: int) -> bool:
    """Return whether a word of the rule `network` allows a host and a port."""
    import ipaddress  # noqa: PLC0415  # few machines have the rule

    if allowed == "none":
        return False
    try:
        network = ipaddress.ip_network(allowed)
    except ValueError:
        name, colon, number = allowed.lower().partition(":")
        if colon and number != str(port):
            return False
        return (
            host.endswith(name[1:]) and len(host) >= len(name)
            if name.startswith("*.")
            else host == name
        )
    try:
        return ipaddress.ip_address(host) in network
    except ValueError:
        return False


def _covers(allowed: str, reference: str) -> bool:
    """Return whether a word of the rule `secrets` allows a reference. A beginning allows none that leads upwards."""
    if allowed.endswith("*") and ":" in allowed:
        return reference.startswith(allowed[:-1]) and ".." not in reference.partition(
            ":"
        )[2].split("/")
    return allowed in (reference, reference.partition(":")[0])
