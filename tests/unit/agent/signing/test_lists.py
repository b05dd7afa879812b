"""Signed lists and those who sign them: what counts with an allowed signers file of OpenSSH, and what does not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.model import signed
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.policy import Policy
from heat_config_agent.signing import gate, ssh
from support.signers import Signer

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None,
    reason="needs ssh-keygen: install openssh-client",
)

ONE, TWO = "0" * 64, "1" * 64


def certificate(folder: Path, authority: Signer, *options: str) -> Signer:
    """Return a new user whose key an authority has certified for ops@example.com."""
    user = Signer(folder, f"user-{len(list(folder.iterdir()))}")
    command = [
        "ssh-keygen",
        "-q",
        "-s",
        str(authority.key),
        "-I",
        "a user",
        "-n",
        "ops@example.com",
        *options,
    ]
    subprocess.run([*command, f"{user.key}.pub"], check=True)
    # its private key is next to it
    user.key = user.key.with_name(f"{user.key.name}-cert.pub")
    return user


def verdict(signer: Signer, allowed: str) -> str:
    """Return why a list that a user signs does not count; empty if it does."""
    return ssh.problem(
        signed.evidence(
            signed.FILES, ssh.sign(signer.key, signed.FILES, f"{ONE}  a\n")
        ),
        allowed,
    )


def test_a_list_has_one_form_and_each_name_once(tmp_path: Path) -> None:
    """Also if somebody who is trusted has signed it: no name twice, none that leaves its place, no other line."""
    alice = Signer(tmp_path, "alice")
    (tmp_path / "a").write_text("")
    for text, why in (
        (f"{ONE}  a\n{TWO}  a\n", "it has the name a twice"),
        (f"{ONE}  /etc/passwd\n", "the name /etc/passwd, which is not a plain path"),
        (f"{ONE}  b/../a\n", "the name b/../a, which is not a plain path"),
        (f"{ONE}  ./a\n", "the name ./a, which is not a plain path"),
        (f"{ONE}  a\r\n", "it is not a list of digests and names"),
        (f"{ONE.replace('0', 'A')}  a\n", "it is not a list of digests and names"),
        (f"{ONE}  a\n# a remark\n", "it is not a list of digests and names"),
        (f"{ONE}  a\n\n", "it is not a list of digests and names"),
        (f"{ONE}  a", "it is not a list of digests and names"),
        ("", "it is not a list of digests and names"),
    ):
        (tmp_path / "a.signed").write_bytes(
            ssh.sign(alice.key, signed.FILES, text).encode()
        )
        with pytest.raises(UsageError, match=why):
            gate.beside(tmp_path / "a", alice.line(), required=True)
    (tmp_path / "a.signed").write_text(
        ssh.sign(alice.key, signed.FILES, f"{signed.digest(b'')}  a\n{ONE}  ../b\n")
    )
    opened = gate.beside(tmp_path / "a", alice.line(), required=True)
    assert opened is not None
    assert opened.names == ("a", "../b")
    with pytest.raises(UsageError, match="A is not in the signed list"):
        opened.check(tmp_path / "A", b"")


def test_a_list_of_another_size_or_kind_is_not_read(tmp_path: Path) -> None:
    """One that is too long, a pipe, a folder, and one of bytes are refused, each with its reason."""
    listed = tmp_path / "a.signed"
    listed.write_bytes(f"{ONE}  a\n".encode() * 160_000)
    with pytest.raises(UsageError, match="longer than 1 MiB"):
        gate.beside(tmp_path / "a", "", required=False)
    listed.write_bytes(os.urandom(1000))
    with pytest.raises(UsageError, match="it has no signature"):
        gate.beside(tmp_path / "a", "", required=False)
    listed.unlink()
    os.mkfifo(listed)
    with pytest.raises(UsageError, match="it is not a regular file"):
        gate.beside(tmp_path / "a", "", required=False)
    listed.unlink()
    listed.mkdir()
    with pytest.raises(UsageError, match="it is not a regular file"):
        gate.beside(tmp_path / "a", "", required=False)


def test_a_certificate_counts_by_its_authority(tmp_path: Path) -> None:
    """The signer is a principal of the certificate that the file allows, and the certificate is in force."""
    authority, other = Signer(tmp_path, "authority"), Signer(tmp_path, "other")
    user = certificate(tmp_path, authority)

    def line(name: str, *options: str, of: Signer = authority) -> str:
        key = of.line().partition(" ")[2]
        return f"{name} {','.join(('cert-authority', *options))} {key}"

    assert verdict(user, line("ops@example.com")) == ""
    assert verdict(user, line("*@example.com", f'namespaces="{signed.FILES}"')) == ""
    for allowed in (
        line("dev@example.com"),
        line("ops@example.com", of=other),
        line("ops@example.com", 'namespaces="git"'),
        line("ops@example.com", 'valid-before="20200101"'),
        authority.line(),  # the authority itself may sign, but not those whom it certifies
    ):
        assert verdict(user, allowed) != ""
    for times in ("-2d:-1d", "+1d:+2d"):
        assert (
            verdict(
                certificate(tmp_path, authority, "-V", times), line("ops@example.com")
            )
            != ""
        )
    host = certificate(tmp_path, authority, "-h")
    assert verdict(host, line("ops@example.com")) != ""


def test_the_times_of_a_signer_are_those_of_now_in_utc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signature has no time that counts. Of several lines for one key, any may allow it."""
    alice = Signer(tmp_path, "alice")
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    expired, early = (
        alice.line('valid-before="20200101"'),
        alice.line('valid-after="20990101"'),
    )
    assert verdict(alice, expired).startswith("key has expired")
    assert verdict(alice, early).startswith("key is not yet valid")
    assert (
        verdict(alice, alice.line('valid-after="20200101",valid-before="20990101"'))
        == ""
    )
    assert verdict(alice, expired.replace("alice", "old") + alice.line()) == ""
    assert (
        verdict(alice, Signer(tmp_path, "bob").line())
        == "its signer is not an allowed one"
    )
    assert verdict(alice, "a line that is none\n") != ""


def test_variables_of_the_caller_do_not_choose_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ssh-keygen in a folder of $PATH that says yes to everything is not started."""
    alice, false = Signer(tmp_path, "alice"), tmp_path / "bin/ssh-keygen"
    text = ssh.sign(alice.key, signed.FILES, f"{ONE}  a\n")
    false.parent.mkdir()
    false.write_text("#!/bin/sh\necho mallory@example.com\n")
    false.chmod(0o755)
    monkeypatch.setenv("PATH", f"{false.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_PRELOAD", "/missing.so")  # it would complain
    monkeypatch.chdir(false.parent)
    forged = signed.evidence(signed.FILES, text.replace(ONE, TWO))
    assert (
        ssh.problem(forged, alice.line())
        == "signature verification failed: incorrect signature"
    )
    assert ssh.verdict(signed.evidence(signed.FILES, text), alice.line()) == (
        "",
        "alice@example.com",
    )


def test_a_document_has_so_many_lists_at_most() -> None:
    """Anyone who writes metadata could otherwise have ssh-keygen started without end."""
    lists = [f"list {number}" for number in range(1000)]
    found = Document(
        source="heat", content={"heat-config-signatures": [*lists, 7, None]}
    ).signed_configs
    assert found == tuple(
        signed.evidence(signed.CONFIGS, each) for each in lists[: signed.MOST_LISTS]
    )
    assert (
        Document(
            source="heat", content={"heat-config-signatures": {"a": 1}}
        ).signed_configs
        == ()
    )


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            "echo No user exists for uid 77 >&2; exit 255",
            "no user exists for uid 77 (the user of the agent needs an",
        ),
        ("echo 'cannot load libcrypto' >&2; exit 127", "cannot load libcrypto"),
        ("kill -9 $$", "ssh-keygen ended with exit code -9"),
        ("exec sleep 60", "ssh-keygen has not ended after 0.2 s"),
        (None, "ssh-keygen is missing (install openssh-client)"),
    ],
)
def test_a_machine_that_cannot_check_refuses_nothing_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str | None, why: str
) -> None:
    """A fault of the machine is a mistake of the policy: new work waits until it is gone."""
    alice = Signer(tmp_path, "alice")
    text = ssh.sign(alice.key, signed.CONFIGS, f"{ONE}  a\n")
    entry = {
        "id": "d1",
        "name": "d1",
        "group": "script",
        "config": "true",
        "inputs": [],
        "outputs": [],
    }
    content = {"deployments": [entry], "heat-config-signatures": text}
    deployments = metadata.parse(Document(source="heat", content=content)).deployments
    policy = Policy(file="/policy", signers=alice.line())
    assert ssh.obstacle() is None
    assert ssh.with_verified(policy, deployments).mistake == ""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    if lines is not None:
        (bin_ / "ssh-keygen").write_text(f"#!/bin/sh\n{lines}\n")
        (bin_ / "ssh-keygen").chmod(0o755)
    monkeypatch.setattr(
        ssh, "_PLACES", str(bin_) if lines is None else f"{bin_}:/usr/bin:/bin"
    )
    monkeypatch.setattr(ssh, "SECONDS", 0.2 if lines and "sleep" in lines else 20.0)
    mistake = ssh.with_verified(policy, deployments).mistake
    assert mistake.startswith(
        "cannot use the policy /policy: signers: signatures cannot be checked: "
    )
    assert why in mistake
    assert why in str(ssh.obstacle())


def test_names_that_look_like_inputs_are_read_at_any_depth(tmp_path: Path) -> None:
    """They are from a signer, who may be wrong: too deep or too large a list declares no inputs."""
    alice = Signer(tmp_path, "alice")
    for inputs in ("[" * 5000 + "]" * 5000, f"[{'9' * 5000}]", "[1]", "[", "{}"):
        text = ssh.sign(alice.key, signed.CONFIGS, f"{ONE}  run  {inputs}\n")
        assert signed.configs(text) == {ONE: None}
