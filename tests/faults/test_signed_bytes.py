"""Every byte of what is signed, changed one at a time, is refused, with the real ssh-keygen and git."""

from __future__ import annotations

import random
import shutil
import string
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heat_config_agent.deployments import metadata, plan
from heat_config_agent.deployments.plan import Known, Verb
from heat_config_agent.model import signed
from heat_config_agent.model.deployment import BUILTIN, Document, Tool
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.policy import Policy
from heat_config_agent.signing import gate, ssh
from heat_config_stack.cli import sign
from support.repositories import Repository
from support.shares import FOR
from support.signers import Signer

pytestmark = [
    pytest.mark.takes(20),
    pytest.mark.skipif(
        not (shutil.which("git") and shutil.which("ssh-keygen")),
        reason="needs git and ssh-keygen: install openssh-client",
    ),
    pytest.mark.timeout(
        900
    ),  # in the long form, thousands of starts of ssh-keygen on a busy machine
    pytest.mark.torture,
]

SHORT = 40
"""The bytes of each list or object that the short form changes; the long form changes all of them."""

TEMPLATE = """\
heat_template_version: 2021-04-16
resources:
  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: {get_file: run.sh}}}
  component:
    type: OS::Heat::SoftwareComponent
    properties: {configs: [{tool: script, actions: [CREATE], config: echo}], options: {script: {timeout: 9}}}
"""


@pytest.fixture
def alice(tmp_path: Path) -> Signer:
    """A user with a key."""
    return Signer(tmp_path, "alice")


@pytest.fixture
def chosen() -> random.Random:
    """The same choice each time."""
    return random.Random(20_26)  # noqa: S311


def changes(data: bytes, chosen: random.Random) -> Iterator[bytes]:
    """Yield the data with one byte changed: each byte in the long form, else some, and the first and the last."""
    positions = range(len(data))
    if not FOR:
        positions = sorted(
            {0, len(data) - 1, *chosen.sample(positions, min(SHORT, len(data)))}
        )  # type: ignore[assignment]
    for position in positions:
        yield (
            data[:position]
            + bytes([data[position] ^ chosen.randrange(1, 256)])
            + data[position + 1 :]
        )


def refused(
    accepted: Callable[[bytes], bool], data: bytes, chosen: random.Random
) -> int:
    """Assert that the data counts, and with any byte changed does not; return how many changes were tried."""
    assert accepted(data)
    number = 0
    for number, changed in enumerate(changes(data, chosen), 1):  # noqa: B007
        assert not accepted(changed), changed
    return number


def site(folder: Path) -> tuple[Path, ...]:
    """Write a document, a template with a script, and an archive; return all the files."""
    document, template, archive = (
        folder / "document.json",
        folder / "site.yaml",
        folder / "svc.csar",
    )
    document.write_text(
        '[{"id": "d1", "name": "d1", "group": "script", "config": "#!/bin/sh\\ntrue\\n"}]'
    )
    template.write_text(TEMPLATE)
    (folder / "run.sh").write_text("#!/bin/sh\necho one\n")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(
            "service.yaml", "tosca_definitions_version: tosca_simple_yaml_1_3\n"
        )
        file.writestr("run.sh", "#!/bin/sh\necho two\n")
    return document, template, archive


def test_no_byte_of_a_file_or_its_list_can_be_changed(
    alice: Signer, chosen: random.Random, tmp_path: Path
) -> None:
    """The files are a document, a template with the file that it names, and an archive, with their lists."""
    tried = 0
    for path in site(tmp_path):
        lines = "".join(sign.file_lines(str(path), []))
        listed = path.with_name(f"{path.name}{signed.SUFFIX}")
        whole = ssh.sign(alice.key, signed.FILES, lines).encode()
        listed.write_bytes(whole)
        once = gate.beside(path, alice.line(), required=True)
        assert once is not None
        for name in once.names:
            # the signature was checked once, and each content is compared with the list
            content = (tmp_path / name).read_bytes()
            for position in range(len(content)):
                changed = bytearray(content)
                changed[position] ^= chosen.randrange(1, 256)
                with pytest.raises(UsageError, match="was changed after it was signed"):
                    once.check(tmp_path / name, bytes(changed))
                tried += 1

        def accepted(text: bytes, path: Path = path, listed: Path = listed) -> bool:
            listed.write_bytes(text)
            try:
                opened = gate.beside(path, alice.line(), required=True)
                assert opened is not None
                opened.read(path)
            except UsageError:
                return False
            return True

        tried += refused(accepted, whole, chosen)
    print(f"{tried} changes")  # pytest -rP shows it
    assert tried > 700


def test_no_byte_of_a_config_or_its_list_can_be_changed(
    alice: Signer, chosen: random.Random, tmp_path: Path
) -> None:
    """A plan runs a config only as the list has it, and with the list as it was signed."""
    site(tmp_path)
    lines = sorted(
        sign.config_lines(str(tmp_path / "site.yaml"), str(tmp_path / "list"))
    )
    assert len(lines) == 2
    whole = ssh.sign(alice.key, signed.CONFIGS, "".join(lines)).encode()
    config = "#!/bin/sh\necho one\n"
    tools = {"script": Tool("script", f"{BUILTIN}script")}

    def accepted(text: bytes, config: str = config) -> bool:
        entry = {
            "id": "d1",
            "name": "d1",
            "group": "script",
            "config": config,
            "inputs": [],
            "outputs": [],
        }
        content = {
            "deployments": [entry],
            "heat-config-signatures": text.decode("utf-8", "surrogateescape"),
        }
        parsed = metadata.parse(Document(source="heat", content=content))
        policy = ssh.with_verified(
            Policy(file="/policy", signers=alice.line()), parsed.deployments
        )
        step = plan.renewed(
            parsed.deployments[0],
            Known(entries={}, tools=tools, now=0.0, policy=policy),
        )
        return step.verb is Verb.RUN

    tried = refused(accepted, whole, chosen)
    for changed in changes(config.encode(), chosen):
        assert not accepted(whole, changed.decode("utf-8", "surrogateescape"))
        tried += 1
    print(f"{tried} changes")  # pytest -rP shows it
    assert tried >= SHORT


def test_no_byte_of_a_commit_or_a_tag_can_be_changed(
    alice: Signer, chosen: random.Random, tmp_path: Path
) -> None:
    """The object is changed as git has it: its headers, its message and its signature."""
    repository = Repository(tmp_path / "repository")
    revision = repository.commit({"a": "1"}, *alice.git)
    repository.git(*alice.git, "tag", "-s", "-m", "first", "v1")

    def counts(evidence: str) -> bool:
        return bool(evidence) and ssh.problem(evidence, alice.line()) == ""

    def commit(content: bytes) -> bool:
        return counts(ssh.of_commit(content.decode("utf-8", "surrogateescape")))

    def tag(content: bytes) -> bool:
        return counts(ssh.of_tag(content.decode("utf-8", "surrogateescape"), "v1"))

    tried = refused(
        commit, (repository.git("cat-file", "commit", revision) + "\n").encode(), chosen
    )
    tried += refused(
        tag, (repository.git("cat-file", "tag", "v1") + "\n").encode(), chosen
    )
    print(f"{tried} changes")  # pytest -rP shows it
    assert tried >= SHORT


def test_a_signature_has_one_form(alice: Signer) -> None:
    """Another way to write the very same bytes does not count, so that every change of a list is refused."""
    text = ssh.sign(alice.key, signed.FILES, f"{'0' * 64}  a\n")
    halves = signed.halves(text)
    assert (
        ssh.problem(signed.evidence(signed.FILES, text.rstrip("\n")), alice.line())
        == ""
    )
    last = halves[1].splitlines()[-2].rstrip("=")
    digits = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    # its lowest bits do not belong to any byte
    padded = digits[digits.index(last[-1]) ^ 1]
    assert f"{last}=" in text
    for other in (
        text + "more\n",
        text + text,
        text + halves[1],
        text.replace(halves[1], halves[1].replace("\n", "\r\n")),
        text.replace("U1NIU0", "U1 NIU0"),
        text.replace(f"{last}=", f"{last[:-1]}{padded}="),
        text.replace(signed.END, ""),
    ):
        assert ssh.problem(signed.evidence(signed.FILES, other), alice.line()) != ""
