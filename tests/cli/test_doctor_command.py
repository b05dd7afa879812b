"""`heat-config-agent doctor`: what keeps this machine from doing its work is found, said, and not made worse."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from heat_config_agent.doctor import Finding, Verdict, network, reach
from heat_config_agent.doctor import machine as inspection
from heat_config_agent.doctor.sources import Asking
from heat_config_agent.runs import scopes
from heat_config_agent.settings import effective
from heat_config_agent.state import health, lock
from heat_config_agent.state.health import Health
from heat_config_hooks import processes
from support import cloud, endings, http, pace, proxy, proxy_faults
from support.loopback import Answer, SignalServer
from support.machine import Machine, deployment


@pytest.fixture
def openstack(openstack: cloud.Cloud) -> cloud.Cloud:
    """A cloud in which all is well."""
    openstack.service.always = Answer(
        body=json.dumps({"metadata": {"deployments": [deployment()]}}).encode()
    )
    return openstack


def heat(openstack: cloud.Cloud, **values: str) -> dict[str, str]:
    """Return the settings of the transport `heat`."""
    usual = {
        "auth_url": f"{openstack.keystone.origin}/v3",
        "user_id": "u1",
        "password": cloud.PASSWORD,
        "project_id": cloud.PROJECT,
        "stack_id": "s/1",
        "resource_name": "server",
    }
    return {**usual, **values}


def write(
    machine: Machine, sections: dict[str, dict[str, str]], agent: str = ""
) -> Path:
    """Write a file of settings."""
    names = ", ".join(sections) or "local"
    text = f"[agent]\ncollectors = {names}\n{agent}\n"
    for name, values in sections.items():
        text += f"[{name}]\n" + "".join(
            f"{key} = {value}\n" for key, value in values.items()
        )
    path = machine.folder / "agent.conf"
    path.write_text(text)
    return path


def command(machine: Machine, sections: dict[str, dict[str, str]]) -> list[Finding]:
    """Run the command with these settings."""
    done = machine.agent("doctor", "--json", "--config", str(write(machine, sections)))
    assert "Traceback" not in done.err
    assert cloud.PASSWORD not in done.out + done.err
    assert done.code == (1 if done.data["failed"] else 0), done.out
    order = [each["state"] for each in done.data["checks"]]
    assert order == sorted(order, key=["failed", "warning", "ok"].index)
    return [
        Finding(
            Verdict(each["state"]), each["name"], each["message"], each["hint"] or ""
        )
        for each in done.data["checks"]
    ]


def doctor(
    machine: Machine, sections: dict[str, dict[str, str]], *, agent: str = ""
) -> list[Finding]:
    """Return what the command finds with these settings, without the programs of hooks: those take long."""
    wrong: list[str] = []
    environment = {"HOME": str(machine.folder)}
    given = effective.make(
        environment,
        config=write(machine, sections, agent),
        state=machine.state,
        mistakes=wrong,
    )
    found = [
        *inspection.findings(given, wrong, []),
        *Asking(given).findings(lambda _: None),
    ]
    assert cloud.PASSWORD not in str(found)
    return found


def said(found: Iterable[Finding], verdict: Verdict, check: str = "") -> list[str]:
    """Return what was found, with what to do."""
    return [
        f"{each.text} -> {each.todo}"
        for each in found
        if each.verdict is verdict and check in each.check
    ]


def one(found: list[Finding], verdict: Verdict, check: str) -> str:
    """Return the only finding of a verdict about something."""
    matching = said(found, verdict, check)
    assert len(matching) == 1, found
    return matching[0]


def well(found: list[Finding]) -> bool:
    """Return whether nothing has failed."""
    return not said(found, Verdict.FAILED)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests has no say."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in (
            "REQUESTS_CA_BUNDLE",
            "CURL_CA_BUNDLE",
        ):
            monkeypatch.delenv(name)


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return what is in a folder."""
    return {
        str(path): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def certificate(folder: Path, names: str, *, expired: bool = False) -> Path:
    """Return a file with a certificate, its own authority, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: apt-get install openssl")
    key, request, path = (
        folder / "key.pem",
        folder / "request.pem",
        folder / "server.pem",
    )
    (folder / "index").write_text("")
    (folder / "ca.conf").write_text(
        "[req]\ndistinguished_name = dn\n[dn]\n[ca]\ndefault_ca = it\n[it]\n"
        f"database = {folder}/index\nnew_certs_dir = {folder}\nserial = {folder}/serial\nrand_serial = yes\n"
        "default_md = sha256\npolicy = any\nx509_extensions = more\n[any]\ncommonName = supplied\n"
        f"[more]\nsubjectAltName = {names}\n"
    )
    days = f"-startdate 20200101000000Z -enddate {'20200201000000Z' if expired else '20491231000000Z'}"
    for words in (
        f"ecparam -genkey -name prime256v1 -out {key}",
        f"req -new -key {key} -subj /CN=heat -config {folder}/ca.conf -out {request}",
        f"ca -batch -selfsign -notext -keyfile {key} -in {request} -config {folder}/ca.conf -out {path} {days}",
    ):
        subprocess.run(["openssl", *words.split()], check=True, capture_output=True)
    path.write_text(path.read_text() + key.read_text())
    return path


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_healthy_machine_passes_every_check(
    machine: Machine, openstack: cloud.Cloud
) -> None:
    """Each server and each source is asked, and nothing on the machine changes."""
    machine.state.mkdir(mode=0o700)
    first = command(machine, {"heat": heat(openstack)})  # with the real tools
    machine.have_quick_tools()
    before = everything(machine.folder)
    done = command(machine, {"heat": heat(openstack)})
    assert well(first)
    assert well(done)
    assert "it answers: 1 deployment" in " ".join(said(done, Verdict.OK, "heat"))
    assert one(done, Verdict.OK, "clock")
    assert one(done, Verdict.OK, "state")
    assert one(done, Verdict.OK, "scripts")
    if Path("/run/systemd/system").is_dir():
        assert "systemctl start" in one(done, Verdict.WARNING, "agent")
    else:
        assert "no daemon runs" in one(done, Verdict.OK, "agent")
    assert everything(machine.folder) == before

    text = machine.agent("doctor", "--config", str(machine.folder / "agent.conf"))
    assert text.code == 0
    assert text.out.splitlines()[-1].startswith("no check failed")
    assert text.out.splitlines()[0].split() == ["STATE", "CHECK", "DETAILS"]
    assert "it answers: 1 deployment" not in text.out
    [counted] = [line for line in text.out.splitlines() if line.startswith("ok ")]
    assert re.match(
        r"ok +\d+ (more|checks) .*\bstate, .*tools \(\d+ of \d+ ready\)", counted
    )
    assert "\x1b" not in text.out
    text = machine.agent(
        "doctor", "--config", str(machine.folder / "agent.conf"), "--all"
    )
    assert text.code == 0
    assert re.search(r"^ok +heat +it answers: 1 deployment$", text.out, re.MULTILINE)


def test_instance_data_leads_doctor_to_heat(
    machine: Machine, openstack: cloud.Cloud
) -> None:
    """`doctor` follows the instance's own data to Heat as the agent would, and leaves the file readable."""
    given = machine.write(
        {"os-collect-config": {"heat": {**heat(openstack), "region_name": "RegionOne"}}}
    )
    given.chmod(0o644)
    done = doctor(machine, {"heat_local": {"path": str(given)}, "heat": {}})
    assert well(done)
    assert "it answers: 1 deployment" in " ".join(said(done, Verdict.OK, "heat"))
    assert given.stat().st_mode & 0o777 == 0o644


def test_no_message_is_taken_from_a_zaqar_queue(
    machine: Machine, openstack: cloud.Cloud
) -> None:
    """`doctor` leaves the message in the queue for the agent that waits for it."""
    openstack.service.always = Answer(body=b'{"messages": {"free": 1}}')
    values = {
        key: value
        for key, value in heat(openstack).items()
        if key not in ("stack_id", "resource_name")
    }
    done = doctor(machine, {"zaqar": {**values, "queue_id": "q1"}})
    assert well(done)
    assert {each.verb for each in openstack.asked} == {"GET"}
    assert "/v2/queues/q1/stats" in {each.path for each in openstack.asked}
    openstack.service.named["v2"] = Answer(404)
    openstack.service.always = Answer(404)
    done = doctor(machine, {"zaqar": {**values, "queue_id": "q1"}})
    assert "HTTP 404" in one(done, Verdict.FAILED, "zaqar")


def test_a_signed_url_is_no_longer_good(
    machine: Machine, openstack: cloud.Cloud
) -> None:
    """Nothing of what signs it is told."""
    secret = cloud.PASSWORD
    url = f"{openstack.service.origin}/v1/a?temp_url_sig={secret}&temp_url_expires=1"
    assert well(doctor(machine, {"request": {"metadata_url": url}}))
    openstack.service.always = Answer(401)
    done = doctor(machine, {"request": {"metadata_url": url}})
    assert "the URL has expired" in one(done, Verdict.FAILED, "request")
    assert "temp_url" not in str(done)


def test_a_wrong_address_of_the_cloudformation_api_is_reported_with_its_file(
    machine: Machine, openstack: cloud.Cloud, silent_port: int
) -> None:
    """A file may say it; then that is what is to be corrected."""
    hint = machine.folder / "hint"
    hint.write_text(f"http://127.0.0.1:{silent_port}/v1/")
    values = {
        "access_key_id": "a",
        "secret_access_key": cloud.PASSWORD,
        "stack_name": "s",
        "path": "r.Metadata",
    }
    done = doctor(machine, {"cfn": {**values, "metadata_hint": str(hint)}})
    found = one(done, Verdict.FAILED, "cfn")
    assert (
        f"no connection to Heat's CloudFormation API at 127.0.0.1:{silent_port}"
        in found
    )
    assert str(hint) in found
    done = doctor(
        machine, {"cfn": {**values, "metadata_url": openstack.service.origin}}
    )
    assert "Heat's CloudFormation API at 127.0.0.1" in one(done, Verdict.OK, "cfn")


def test_machine_without_a_transport_fails_the_check(machine: Machine) -> None:
    """A machine without a transport is a failure, unless that is set on purpose."""
    done = doctor(machine, {"heat": {}})
    assert "no Heat connection details in the settings" in one(
        done, Verdict.FAILED, "heat"
    )
    assert well(doctor(machine, {"local": {"path": str(machine.folder)}}))


def without_heat(machine: Machine) -> list[Finding]:
    """Return what is found on a machine on which nothing names Heat, and which asks every source."""
    if any(
        Path(path).exists()
        for path in ("/var/lib/cloud/data", "/run/cloud-init", "/etc/heat-config-agent")
    ):
        pytest.skip(
            "this machine has cloud-init or settings of the agent: run it on one without"
        )
    (machine.folder / "agent.conf").write_text(f"[local]\npath = {machine.folder}/no\n")
    settings = effective.make(
        {"HOME": str(machine.folder)},
        config=machine.folder / "agent.conf",
        state=machine.state,
    )
    return [
        each
        for each in Asking(settings).findings(lambda _: None)
        if each.check in ("heat", "source")
    ]


def test_machine_that_applies_documents_needs_no_heat(machine: Machine) -> None:
    """Heat is not expected where nothing names it and documents are applied by hand."""
    assert "nothing tells this machine what to do" in one(
        without_heat(machine), Verdict.WARNING, "source"
    )
    assert machine.apply([deployment()]).code == 0
    assert without_heat(machine) == []


def test_daemon_without_any_source_is_a_failure(machine: Machine) -> None:
    """A daemon that has no source never does anything."""
    assert machine.apply([deployment()]).code == 0
    with lock.held(machine.state, lock.DAEMON):
        found = one(without_heat(machine), Verdict.FAILED, "source")
    assert found == (
        "nothing tells this machine what to do: no Heat, no followed source, no local document -> "
        "name one in /etc/heat-config-agent, or use `heat-config-agent apply`"
    )


def test_missing_settings_are_named(machine: Machine, openstack: cloud.Cloud) -> None:
    """The missing settings are named."""
    values = heat(openstack)
    values.pop("password")
    done = doctor(machine, {"heat": values})
    assert not well(done)
    assert "are incomplete: add password" in " ".join(said(done, Verdict.WARNING))


def test_keystone_refuses_the_user(machine: Machine, openstack: cloud.Cloud) -> None:
    """Keystone's refusal is the only reason that is shown."""
    openstack.keystone.named["v3"] = Answer(401)
    openstack.keystone.always = Answer(401)
    done = doctor(machine, {"heat": heat(openstack)})
    assert "Keystone rejects the login of user u1: Keystone answers HTTP 401" in one(
        done, Verdict.FAILED, "heat"
    )


@pytest.mark.parametrize(
    ("answer", "says", "advice"),
    [
        (Answer(500), "HTTP 500", "-> ask its operator"),
        (Answer(503), "HTTP 503", "-> ask its operator"),
        (Answer(429), "HTTP 429", "-> ask its operator"),
        (Answer(405), "HTTP 405", "-> check that auth_url of [heat] is Keystone's"),
        (
            Answer(201, body=b"{}"),
            "cannot be understood",
            "-> check that auth_url of [heat] is Keystone's",
        ),
    ],
    ids=lambda value: getattr(value, "status", None),
)
def test_trouble_of_keystone_itself_is_for_its_operator(
    machine: Machine, openstack: cloud.Cloud, answer: Answer, says: str, advice: str
) -> None:
    """Only an answer that Keystone does not give points to `auth_url`."""
    openstack.keystone.always = answer
    found = one(doctor(machine, {"heat": heat(openstack)}), Verdict.FAILED, "heat")
    assert "Keystone gives no token: " in found
    assert says in found
    assert found.endswith(advice)


def test_an_application_credential_takes_the_place_of_the_user(
    machine: Machine, openstack: cloud.Cloud
) -> None:
    """`doctor` logs in with it as the agent would, names it, and says what to do about one that is refused."""
    values = {
        name: value
        for name, value in heat(openstack).items()
        if name not in ("user_id", "password")
    }
    held = {
        "application_credential_id": "a1",
        "application_credential_secret": cloud.PASSWORD,
    }
    done = doctor(machine, {"heat": {**values, **held}})
    assert well(done)
    assert "Keystone accepts the login of application credential a1" in " ".join(
        said(done, Verdict.OK, "heat")
    )
    openstack.keystone.always = Answer(401)
    done = doctor(machine, {"heat": {**values, **held}})
    assert (
        "Keystone rejects the login of application credential a1: Keystone answers HTTP 401"
        in (found := one(done, Verdict.FAILED, "heat"))
    )
    assert "make a new application credential" in found
    assert cloud.PASSWORD not in str(done)
    del held["application_credential_secret"]
    done = doctor(machine, {"heat": {**values, **held}})
    assert "are incomplete: add application_credential_secret" in " ".join(
        said(done, Verdict.WARNING)
    )


def test_service_that_the_catalog_lacks_is_reported(
    machine: Machine, openstack: cloud.Cloud
) -> None:
    """A missing service, or region, of the catalog is reported."""
    done = doctor(machine, {"heat": heat(openstack, region_name="Nowhere")})
    found = one(done, Verdict.FAILED, "heat")
    assert "no service of the type orchestration in the region Nowhere" in found
    assert "check region_name of [heat], and that this cloud has" in found


def test_a_stack_that_is_gone_is_reported(
    machine: Machine, openstack: cloud.Cloud
) -> None:
    """The stack is gone."""
    openstack.service.always = Answer(404)
    done = doctor(machine, {"heat": heat(openstack)})
    assert "has the stack, or its server resource, been deleted" in one(
        done, Verdict.FAILED, "heat"
    )


def test_a_port_on_which_nothing_listens_is_reported_with_its_setting(
    machine: Machine, openstack: cloud.Cloud, silent_port: int
) -> None:
    """The report has the address and the setting that it comes from."""
    done = doctor(
        machine,
        {
            "heat": heat(
                openstack,
                auth_url=f"http://u:{cloud.PASSWORD}@127.0.0.1:{silent_port}/v3",
            )
        },
    )
    found = one(done, Verdict.FAILED, "heat")
    assert (
        f"no connection to Keystone at 127.0.0.1:{silent_port}: Connection refused"
        in found
    )
    assert "auth_url of [heat]" in found


def test_unknown_host_name_is_reported(
    machine: Machine, openstack: cloud.Cloud
) -> None:
    """The report has the unknown name."""
    done = doctor(
        machine, {"heat": heat(openstack, auth_url="http://keystone.invalid:5000/v3")}
    )
    found = one(done, Verdict.FAILED, "heat")
    assert "cannot find the address of Keystone: the name 'keystone.invalid'" in found


def test_another_way_works(
    machine: Machine, openstack: cloud.Cloud, silent_port: int
) -> None:
    """If another transport works, one that does not is only a warning."""
    given = machine.write({"os-collect-config": {"heat": heat(openstack)}})
    values = heat(openstack, auth_url=f"http://127.0.0.1:{silent_port}/v3")
    done = doctor(machine, {"heat": values, "heat_local": {"path": str(given)}})
    assert well(done)
    assert "Connection refused" in " ".join(said(done, Verdict.WARNING, "heat (/"))
    assert "it answers" in " ".join(said(done, Verdict.OK, "heat (heat_local)"))


@pytest.mark.parametrize(
    ("names", "expired", "trusted", "says"),
    [
        ("IP:127.0.0.1", False, False, "is signed by an authority that is not in "),
        ("DNS:elsewhere.example", False, True, "is for another name than 127.0.0.1"),
        ("IP:127.0.0.1", True, True, "has expired"),
    ],
)
def test_a_certificate_that_is_not_trusted_is_reported_with_what_to_set(
    machine: Machine,
    openstack: cloud.Cloud,
    names: str,
    *,
    expired: bool,
    trusted: bool,
    says: str,
) -> None:
    """The report has the problem of the certificate and the setting for trusted ones."""
    path = certificate(machine.folder, names, expired=expired)
    openstack.keystone.stop()
    openstack.keystone = SignalServer(certificate=path)
    openstack.keystone.start()
    openstack.keystone.always = openstack.lets_in("token-1")
    trust = f"ca_file = {path}" if trusted else ""
    done = doctor(machine, {"heat": heat(openstack)}, agent=trust)
    found = one(done, Verdict.FAILED, "heat")
    assert (
        f"the certificate of Keystone at {openstack.keystone.origin[8:]} {says}"
        in found
    )
    assert trusted or "ca_file of [agent]" in found


def test_trusted_certificate_passes(machine: Machine, openstack: cloud.Cloud) -> None:
    """A good certificate passes; TLS to a server without TLS and an empty file of certificates do not."""
    path = certificate(machine.folder, "IP:127.0.0.1")
    plain = openstack.keystone.origin
    openstack.keystone.stop()
    openstack.keystone = SignalServer(certificate=path)
    openstack.keystone.start()
    openstack.keystone.always = openstack.lets_in("token-1")
    assert well(doctor(machine, {"heat": heat(openstack)}, agent=f"ca_file = {path}"))
    assert plain.startswith("http:")
    wrong = openstack.service.origin.replace("http:", "https:")
    done = doctor(machine, {"heat": heat(openstack, auth_url=wrong)})
    assert "TLS fails" in one(done, Verdict.FAILED, "heat")
    (machine.folder / "empty.pem").write_text("")
    done = doctor(machine, {}, agent=f"ca_file = {machine.folder}/empty.pem")
    assert "there is no certificate in" in one(done, Verdict.FAILED, "settings")
    wanted = {"heat": heat(openstack)}
    done = doctor(machine, wanted, agent=f"ca_file = {machine.folder}/empty.pem")
    assert "there is no certificate in" in one(done, Verdict.FAILED, "heat")


def test_the_user_of_runs_and_the_folder_of_secrets_are_checked(
    machine: Machine,
) -> None:
    """A user that does not exist, and a folder into which others could put a secret."""
    assert (
        list(reach.check_user(""))
        == list(reach.check_secrets_folder(machine.folder / "none"))
        == []
    )
    assert "there is no such user" in one(
        list(reach.check_user("no-such-user")), Verdict.FAILED, "user"
    )
    readable = all(each.stat().st_mode & 0o001 for each in Path(os.__file__).parents)
    verdict = (
        (Verdict.OK if readable else Verdict.WARNING)
        if os.geteuid() == 0
        else Verdict.FAILED
    )
    assert "nobody" in one(list(reach.check_user("nobody")), verdict, "user")
    place = machine.folder / "secrets"
    place.mkdir()
    for mode, wanted in (
        (0o777, Verdict.FAILED),
        (0o755, Verdict.WARNING),
        (0o700, Verdict.OK),
    ):
        place.chmod(mode)
        assert str(place) in one(
            list(reach.check_secrets_folder(place)), wanted, "secrets"
        )
    key = machine.folder / "age.key"
    key.write_text("an identity\n")
    path = write(
        machine, {}, agent=f"secrets_dir = {machine.folder}/none\nage_identity = {key}"
    )
    given = effective.make({}, config=path, state=machine.state)
    key.chmod(0o644)
    assert f"read or change {key}" in one(
        list(reach.check_secrets(given)), Verdict.WARNING, "secrets"
    )
    key.chmod(0o600)
    assert list(reach.check_secrets(given)) == []


def test_secret_files_that_others_may_read_are_reported(
    machine: Machine, openstack: cloud.Cloud
) -> None:
    """A file of settings with a password, and the files of the state, are named."""
    path = write(machine, {"heat": heat(openstack)})
    given = effective.make({}, config=path, state=machine.state)
    path.chmod(0o644)
    found = one(list(inspection.check_settings(given, [])), Verdict.WARNING, "settings")
    assert (
        found
        == f"other users may read {path}, which contains secrets: password of [heat] -> chmod 600 {path}"
    )
    path.chmod(0o600)
    assert not said(inspection.check_settings(given, []), Verdict.WARNING)
    machine.state.mkdir(exist_ok=True)
    for mode, verdict in ((0o777, Verdict.FAILED), (0o755, Verdict.WARNING)):
        machine.state.chmod(mode)
        assert f"-> chmod 700 {machine.state}" in one(
            list(inspection.check_state(machine.state)), verdict, "state"
        )
    machine.state.chmod(0o700)
    assert {each.verdict for each in inspection.check_state(machine.state)} == {
        Verdict.OK
    }


@pytest.mark.parametrize(
    ("ahead", "verdict", "says"),
    [
        (100, Verdict.WARNING, "s behind the clock of"),
        (-1000, Verdict.FAILED, "min ahead of the clock of"),
        (2, Verdict.OK, "agrees"),
    ],
)
def test_a_clock_that_differs_from_the_servers_is_reported(  # noqa: PLR0917
    machine: Machine,
    openstack: cloud.Cloud,
    monkeypatch: pytest.MonkeyPatch,
    ahead: int,
    verdict: Verdict,
    says: str,
) -> None:
    """Ours is compared with the server's."""
    monkeypatch.setattr(
        http.Handler,
        "date_time_string",
        lambda *_: formatdate(time.time() + ahead, usegmt=True),
    )
    done = doctor(machine, {"heat": heat(openstack)})
    assert says in one(done, verdict, "clock")


def test_a_proxy_that_cannot_be_reached_is_reported_with_its_variable(
    machine: Machine,
    openstack: cloud.Cloud,
    silent_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The report has the proxy and its variable, and says that servers on this machine need no proxy."""
    monkeypatch.setenv(
        "http_proxy", f"http://user:{cloud.PASSWORD}@127.0.0.1:{silent_port}"
    )
    done = doctor(machine, {"heat": heat(openstack)})
    assert f"no connection to the proxy (http_proxy) at 127.0.0.1:{silent_port}" in one(
        done, Verdict.FAILED, "heat"
    )
    assert "add 127.0.0.1 to no_proxy" in one(done, Verdict.WARNING, "heat")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert well(doctor(machine, {"heat": heat(openstack)}))


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("http://[::1", "the URL of the proxy in http_proxy is not valid"),
        (
            "http://user:password@host:port",
            "the URL of the proxy in http_proxy is not valid",
        ),
        ("", "(http_proxy) requires a user and password (HTTP 407)"),
    ],
)
def test_failing_proxy_is_reported_with_its_variable(
    machine: Machine,
    openstack: cloud.Cloud,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
    says: str,
) -> None:
    """The report says that the proxy fails, and names its variable."""
    stands = proxy.Proxy()
    stands.fail(proxy_faults.answers(407))
    monkeypatch.setenv("http_proxy", named or stands.origin)
    assert says in one(
        doctor(machine, {"heat": heat(openstack)}), Verdict.FAILED, "heat"
    )
    stands.close()


def test_silent_server_is_given_up_at_a_deadline(
    openstack: cloud.Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent server is given up at a deadline."""
    monkeypatch.setattr(network, "ANSWER_SECONDS", 0.2)
    openstack.service.always = Answer(delay=3)
    wanted = network.Server(
        check="cfn",
        service="Heat",
        url=openstack.service.origin,
        setting="metadata_url of [cfn]",
    )
    [found] = network.check_server(wanted, network.Clocks())
    assert (
        found.verdict,
        "accepts connections, but does not answer" in found.text,
    ) == (Verdict.FAILED, True)


@pytest.mark.parametrize("silent", [False, True])
def test_https_where_plain_http_is_spoken(
    heat: SignalServer, monkeypatch: pytest.MonkeyPatch, *, silent: bool
) -> None:
    """The server is there; it is the setting with the URL that has to be corrected, which is named."""
    monkeypatch.setattr(network, "ANSWER_SECONDS", 0.2 if silent else 10)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1] if silent else heat.origin.rpartition(":")[2]
        wanted = network.Server(
            check="heat",
            service="Heat",
            url=f"https://127.0.0.1:{port}",
            setting="auth_url",
        )
        [found] = network.check_server(wanted, network.Clocks())
    assert found.verdict is Verdict.FAILED
    why = "but never completes TLS" if silent else "but TLS fails"
    assert f"accepts connections, {why}" in found.text
    assert found.todo.startswith(
        "if the server speaks plain http, correct auth_url, which says https"
    )


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "nonsense",
        "http://[",
        "http://x:99999/",
        "ftp://127.0.0.1/?secret",
    ],
)
def test_invalid_url_is_reported_by_its_setting(url: str) -> None:
    """The report names the setting with the invalid URL, without the URL, which may be a secret."""
    wanted = network.Server(
        check="request",
        service="the server",
        url=url,
        setting="metadata_url of [request]",
    )
    [found] = network.check_server(wanted, network.Clocks())
    assert (found.text, found.todo) == (
        "the URL of the server is not valid",
        "correct metadata_url of [request]",
    )


def test_every_mistake_in_the_settings_is_reported_with_its_line(
    machine: Machine,
) -> None:
    """With its line; all else is looked at nevertheless."""
    done = doctor(
        machine, {}, agent=f"paralel = 2\nsplay = x\nenvironment = {cloud.PASSWORD}"
    )
    found = " ".join(said(done, Verdict.FAILED, "settings"))
    assert len(said(done, Verdict.FAILED, "settings")) == 3
    assert "line 3: there is no setting 'paralel'" in found
    assert "line 4: splay" in found
    assert one(done, Verdict.OK, "scripts")


def test_an_agent_that_is_stuck_is_reported(machine: Machine) -> None:
    """A running agent whose last sign of life is old is reported as stuck."""
    machine.state.mkdir(mode=0o700)
    source = {
        "name": "heat",
        "from": "x",
        "working": False,
        "since": 1.0,
        "trouble": "HTTP 500",
    }
    usual = {"process": os.getpid(), "version": "1", "started": 1.0}
    assert machine.agent("pause", "--reason", "for the test").code == 0
    with lock.held(machine.state, lock.DAEMON):
        health.write(
            machine.state,
            Health(**usual, doing="running a", sources=(source,)),  # type: ignore[arg-type]
        )
        done = doctor(machine, {})
        assert f"it is running (process {os.getpid()}): running a" in one(
            done, Verdict.OK, "agent"
        )
        warnings = " ".join(said(done, Verdict.WARNING, "agent"))
        assert "no answer from heat" in warnings
        assert "HTTP 500" in warnings
        assert "for the test -> heat-config-agent resume" in warnings
        health.write(
            machine.state,
            Health(**usual, boot=processes.boot_id(), up=processes.since_boot() - 3600),  # type: ignore[arg-type]
        )
        assert "has reported nothing for 60 minutes" in one(
            doctor(machine, {}), Verdict.FAILED, "agent"
        )


def test_missing_tool_of_a_deployment_is_a_failure(machine: Machine) -> None:
    """A missing tool that a deployment needs is a failure; the others are named in one line."""
    machine.have_quick_tools()
    folder = machine.folder / "local"
    folder.mkdir()
    (folder / "a.json").write_text(
        json.dumps({"deployments": [deployment(group="no-such-tool")]})
    )
    done = command(machine, {"local": {"path": str(folder)}})
    assert well(done)
    assert "needs the tool 'no-such-tool', which has no hook" in " ".join(
        said(done, Verdict.WARNING, "tools")
    )
    assert " ready" in one(done, Verdict.OK, "tools")


def mounted(machine: Machine, how: str, first: str) -> list[Finding]:
    """Return what is found of the machine where a small file system of its own is mounted as the state directory."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system: run the tests as root")
    machine.state.mkdir(mode=0o700)
    given = f"effective.make({{}}, state=pathlib.Path({str(machine.state)!r}))"
    code = (
        "import json, pathlib; from heat_config_agent.settings import effective;"
        "from heat_config_agent.doctor import machine;"
        f"given = {given}; found = [*machine.check_state(given.state), *machine.check_scripts(given)];"
        "print(json.dumps([[*vars(each).values()] for each in found]))"
    )
    script = f'mount -t tmpfs -o {how} tmpfs {machine.state} && {first} && exec {sys.executable} -c "$0"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, code],
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(60),
    )
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip(f"tmpfs cannot be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return [
        Finding(Verdict(verdict), *rest) for verdict, *rest in json.loads(done.stdout)
    ]


def test_scripts_cannot_be_run(machine: Machine) -> None:
    """The report has the folder where scripts cannot run, and a hint."""
    done = mounted(machine, "size=200m,noexec", "true")
    found = one(done, Verdict.FAILED, "scripts")
    assert f"{machine.state} is mounted with noexec" in found
    assert f"mount -o remount,exec {machine.state}" in found
    assert one(done, Verdict.OK, "state")


@pytest.mark.parametrize(
    ("how", "first", "verdict", "says"),
    [
        ("mode=700,size=1m", "true", Verdict.WARNING, "are free"),
        (
            "mode=700,size=256k",
            "{ dd if=/dev/zero of=STATE/x bs=4k 2>/dev/null; true; }",
            Verdict.FAILED,
            "No space left on device",
        ),
        (
            "mode=700,size=200m,nr_inodes=50",
            "true",
            Verdict.WARNING,
            "has room for only",
        ),
        ("mode=700,size=200m,ro", "true", Verdict.FAILED, "Read-only file system"),
    ],
)
def test_little_room_for_the_state_is_a_warning(
    machine: Machine, how: str, first: str, verdict: Verdict, says: str
) -> None:
    """Little room is a warning, none a failure."""
    done = mounted(machine, how, first.replace("STATE", str(machine.state)))
    assert says in one(done, verdict, "state")


def test_help_explains_the_exit_codes(machine: Machine) -> None:
    """Help says what the exit codes mean."""
    assert machine.agent("doctor", "--no-such-option").code == 2
    assert "1  a check failed" in machine.agent("doctor", "--help").out


def test_a_running_os_collect_config_is_named(machine: Machine) -> None:
    """Starting the agent's unit would stop it in the middle of a script; `migrate` waits for that."""
    program = machine.folder / "os-collect-config"
    program.write_text("import time\ntime.sleep(600)\n")
    with endings.ended(subprocess.Popen([sys.executable, program])) as process:
        shown = [
            text
            for text in said(doctor(machine, {}), Verdict.WARNING, "agent")
            if str(process.pid) in text
        ]
    assert "heat-config-agent migrate" in shown[0]
    assert "systemctl start" not in " ".join(shown)


def test_limits_that_cannot_be_held_are_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deployments with them fail; where runs are not to be scopes, somebody has chosen that."""
    given = effective.make({})
    monkeypatch.setattr(scopes, "missing", lambda: "")
    monkeypatch.setattr(scopes, "enforceable", lambda: ("cpu_quota", "tasks_max"))
    found = inspection.check_runs(given)
    assert found.verdict is Verdict.WARNING
    assert "memory_max is unavailable" in found.text
    monkeypatch.setattr(scopes, "enforceable", lambda: tuple(scopes.LIMITS))
    assert inspection.check_runs(given).verdict is Verdict.OK
    monkeypatch.setattr(scopes, "missing", lambda: "systemd does not run here")
    assert inspection.check_runs(given).verdict is Verdict.OK
