"""A stack that follows real servers on loopback, through everything that they and the machine do to it."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from heat_config_agent.state import followed
from support import origins
from support.loopback import wait_until
from support.machine import Machine, small_disk
from support.repositories import template
from support.sites import Site

pytestmark = [
    pytest.mark.takes(20),
    pytest.mark.skipif(
        shutil.which("git") is None, reason="git is missing: apt-get install git"
    ),
]

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
metadata: {template_name: site, template_version: 1.0.0, template_author: us}
topology_template:
  node_templates:
    host: {type: tosca.nodes.Compute}
    app:
      type: tosca.nodes.SoftwareComponent
      requirements: [{host: host}]
      interfaces: {Standard: {create: {implementation: create.sh}}}
"""


def revision(kind: str, log: Path, line: str, more: str = "") -> dict[str, str]:
    """Return the files of a revision whose script adds a line to a file."""
    if kind != "csar":
        return {"stack.yaml": template(log, line, more)}
    script = f"#!/bin/sh\necho {line} red >> {log}\n{more}\n"
    return {"service.yaml": SERVICE, "create.sh": script}


@pytest.mark.parametrize("kind", [*origins.KINDS])
@pytest.mark.fault(
    1,
    "a followed server (git by sshd and over TLS, nginx, docker-registry) that hangs, is away, changes, or goes back",
    "the last good revision stays in force, a sentence says why, and each revision runs once",
)
def test_followed_source_survives_mistakes_and_outages_of_its_server(
    kind: str, tmp_path: Path
) -> None:
    """Created, updated, kept through mistakes and outages, and taken back."""
    site = Site(tmp_path)
    with origins.serving(kind, tmp_path) as place:
        site.values = dict(place.values)
        if isinstance(place, origins.Web):
            site.ca_file = place.authority
        one = revision(kind, site.log, "one")
        place.publish(one)
        record = site.step()
        assert (record.problem, site.ran) == ("", ["one red"])
        first = record.revision
        assert site.step().revision == first

        go = tmp_path / "go"
        place.publish(
            revision(kind, site.log, "two", f"until [ -e {go} ]; do sleep 0.02; done")
        )
        with ThreadPoolExecutor() as pool:  # and another one while it is carried out
            stepping = pool.submit(site.step)
            wait_until(lambda: site.ran[-1] == "two red")
            place.publish(revision(kind, site.log, "three"))
            go.touch()
            record = stepping.result()
        assert (record.problem, site.ran) == ("", ["one red", "two red"])
        assert record.revision != first
        record = site.step()
        assert (record.problem, site.ran) == ("", ["one red", "two red", "three red"])
        third = record.revision

        place.publish(dict.fromkeys(one, "heat_template_version: 7"))
        record = site.step()
        assert (record.revision, record.refused != "", record.reason != "") == (
            third,
            True,
            True,
        )
        assert f"it stays at {followed.short(third)}" in record.problem

        place.programs.hang()
        record = site.step()
        assert record.revision == third
        assert record.trouble
        place.programs.stop()
        record = site.step()
        assert record.revision == third
        assert record.trouble
        place.programs.start()
        assert len(site.ran) == 3

        place.turn_back(one)
        record = site.step()
        assert (record.problem, record.revision, site.ran) == (
            "",
            first,
            ["one red", "two red", "three red", "one red"],
        )
        assert len([*(site.state / "follow/web/trees").iterdir()]) == 1


@pytest.mark.parametrize("kind", ["archive", "oci"])
@pytest.mark.fault(
    1,
    "a full disk while a followed revision is fetched",
    "the stack stays at its revision; the next poll with room goes on",
)
def test_full_disk_leaves_nothing_of_a_revision(
    kind: str, tmp_path: Path, machine: Machine
) -> None:
    """Nothing of the revision for which there is no room is left."""
    site = Site(tmp_path)
    with origins.serving(kind, tmp_path) as place, small_disk(machine, "3M") as state:
        assert isinstance(place, origins.Web)
        site.state, site.values, site.ca_file = (
            state,
            dict(place.values),
            place.authority,
        )
        place.publish(revision(kind, site.log, "one"))
        one = site.step().revision
        place.publish({**revision(kind, site.log, "two"), "large": "x" * 5_000_000})
        record = site.step()
        assert (record.revision, site.ran) == (one, ["one red"])
        assert "No space left on device" in record.problem
        assert len([*(state / "follow/web/trees").iterdir()]) == 1
        place.publish(revision(kind, site.log, "three"))
        assert (site.step().problem, site.ran) == ("", ["one red", "three red"])
