"""The verdict about containers, from recorded answers of docker and podman, and the services of compose files."""

from __future__ import annotations

from typing import Any

import pytest

from heat_config_hooks.tools import compose_state, container_state
from heat_config_hooks.tools.compose_state import Service
from heat_config_hooks.verdict import Standing


def container(
    name: str = "/web", policy: str = "always", labels: object = None, **state: Any
) -> dict[str, Any]:
    """Return what docker reports of a container that runs, with another state."""
    return {
        "Id": "0f" * 32,
        "Name": name,
        "Created": "2026-11-28T18:00:00.000000000Z",
        "Image": "sha256:" + "ab" * 32,
        "State": {
            "Status": "running",
            "Running": True,
            "Paused": False,
            "Restarting": False,
            "ExitCode": 0,
            **state,
        },
        "HostConfig": {"RestartPolicy": {"Name": policy, "MaximumRetryCount": 0}},
        "Config": {"Labels": labels, "Image": "nginx:1"},
    }


def ended(code: int, status: str = "exited") -> dict[str, Any]:
    """Return the state of a container that has ended."""
    return {"Status": status, "Running": False, "ExitCode": code}


FAILS = {"Status": "unhealthy", "Log": [{"Output": "a"}, {"Output": "no  answer\n"}]}

STATES = {
    "running": ({}, {}, ""),
    "paused": ({"Status": "paused", "Paused": True}, {}, "it is paused"),
    "started again": (
        {"Status": "restarting", "Running": True, "Restarting": True, "ExitCode": 1},
        {},
        "it does not stay up: it is about to be started again after exit code 1",
    ),
    "created only": (ended(0, "created"), {}, "it was never started"),
    "configured only, as podman says": (
        ended(0, "configured"),
        {},
        "it was never started",
    ),
    "ended badly": (ended(137), {}, "it does not run: it has ended with exit code 137"),
    "ended well": (ended(0), {}, "it does not run: it has ended with exit code 0"),
    "ended well, as it should": (ended(0), {"ends": True}, ""),
    "ended as expected": (ended(7), {"ends": True, "codes": (7,)}, ""),
    "ended well, but not as expected": (
        ended(0),
        {"ends": True, "codes": (7,)},
        "it does not run: it has ended with exit code 0",
    ),
    "healthy": ({"Health": {"Status": "healthy"}}, {}, ""),
    "without a health check, as docker says": ({"Health": {"Status": "none"}}, {}, ""),
    "without a health check, as podman says": (
        {"Health": {"Status": "", "FailingStreak": 0, "Log": None}},
        {},
        "",
    ),
    "unhealthy": ({"Health": FAILS}, {}, "its health check fails: no answer"),
    "unhealthy, as an older podman says": (
        {"Healthcheck": FAILS},
        {},
        "its health check fails: no answer",
    ),
}


@pytest.mark.parametrize(("state", "words", "how"), STATES.values(), ids=STATES)
def test_state_of_a_container_is_named(
    state: dict[str, Any], words: dict[str, Any], how: str
) -> None:
    """One sentence for each way in which a container is not as the deployment says."""
    found = container_state.running(container(**state), **words)

    assert [(change.what, change.how) for change in found.changes] == (
        [("web", how)] if how else []
    )
    assert (found.standing is Standing.DRIFTED) is bool(how)


def test_health_check_that_has_not_succeeded_yet_is_unknown() -> None:
    """It may still fail."""
    found = container_state.running(container(Health={"Status": "starting"}))

    assert found.standing is Standing.UNKNOWN
    assert found.reason == "the health check of web has not succeeded yet"


@pytest.mark.parametrize("policy", ["", "no", "on-failure"])
def test_end_without_a_policy_that_says_otherwise_is_unknown(policy: str) -> None:
    """The container may be one that ends, or someone may have stopped it."""
    found = container_state.running(container(policy=policy, **ended(0)))

    assert found.standing is Standing.UNKNOWN


PROJECT = """\
x-job: &job
  profiles: [jobs]
services:
  web:
    image: nginx:1
    environment: !reset []
    depends_on:
      migrate: {condition: service_completed_successfully}
      db: {condition: service_started}
  db: {image: postgres}
  migrate: {image: app}
  job:
    <<: *job
    image: app
  none:
    image: app
    deploy: {replicas: 0}
  off: {image: app, scale: 0}
  listed:
    image: app
    depends_on: [db]
"""


def test_services_of_a_compose_file_that_are_started_and_that_end() -> None:
    """Tags, merged maps and lists are read as compose does."""
    assert compose_state.services(PROJECT) == {
        "web": Service(),
        "db": Service(),
        "migrate": Service(ends=True),
        "job": Service(starts=False),
        "none": Service(starts=False),
        "off": Service(starts=False),
        "listed": Service(),
    }


@pytest.mark.parametrize("text", ["a: 1", "services:\n", "services: []", "- x", ""])
def test_compose_file_without_services_has_none(text: str) -> None:
    """The tool has checked the rest."""
    assert compose_state.services(text) == {}


def test_service_is_verified_by_all_its_containers() -> None:
    """Those of docker and of podman; those of `docker compose run` do not count."""
    docker, podman = "com.docker.compose.service", "io.podman.compose.service"
    items = [
        container("/site-web-1", labels={docker: "web"}),
        container("/site-web-2", labels={docker: "web"}, **ended(1)),
        container("site_db_1", labels={podman: "db"}),
        container(
            "/site-db-run",
            labels={docker: "db", "com.docker.compose.oneoff": "True"},
            **ended(1),
        ),
        container("/site-old-1", labels={docker: "old"}, **ended(1)),
        container("/else", labels=None, **ended(1)),
        container(
            "/site-migrate-1", policy="no", labels={docker: "migrate"}, **ended(0)
        ),
    ]
    wanted = {
        "web": Service(),
        "db": Service(),
        "migrate": Service(ends=True),
        "gone": Service(),
        "job": Service(starts=False),
    }

    verdicts = compose_state.of_services(wanted, items)

    assert [
        (change.what, change.how) for found in verdicts for change in found.changes
    ] == [
        ("site-web-2", "it does not run: it has ended with exit code 1"),
        ("gone", "the service has no container"),
    ]
