"""TOSCA services that follow a branch: a service template, the folder of an archive, and an archive."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.sites import Site
from tosca.archives import packed

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is missing: apt-get install git"
)

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
metadata: {template_name: site, template_version: 1.0.0, template_author: us}
topology_template:
  inputs:
    colour: {type: string, default: red}
  node_templates:
    host: {type: tosca.nodes.Compute}
    app:
      type: tosca.nodes.SoftwareComponent
      requirements: [{host: host}]
      interfaces:
        Standard:
          create: {implementation: scripts/create.sh, inputs: {colour: {get_input: colour}}}
          delete: {implementation: scripts/delete.sh}
"""

META = "TOSCA-Meta-File-Version: 1.1\nCSAR-Version: 1.1\nCreated-By: us\nEntry-Definitions: service.yaml\n"

WRONG = "tosca_definitions_version: tosca_simple_yaml_1_3\ntopology_template: 7\n"

KINDS = {"template": "service.yaml", "folder": ".", "archive": "site.csar"}
"""Kinds of services, with the path of each in its repository."""


class Place:
    """A site that follows a service of one kind."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.site = Site(folder)
        self.site.values["path"] = KINDS[kind]
        self.site.values["parameters"] = "colour=blue"

    def commit(self, line: str, more: str = "", service: str = SERVICE) -> str:
        """Commit a revision whose operation adds a line to a file."""
        log = self.site.log
        files = {
            "service.yaml": service,
            "scripts/create.sh": f'#!/bin/sh\necho "{line} $colour" >>{log}\n{more}\n',
            "scripts/delete.sh": f"#!/bin/sh\necho deleted >>{log}\n",
        }
        if self.kind != "template":
            files["TOSCA-Metadata/TOSCA.meta"] = META
        if self.kind == "archive":
            packed(self.site.repository.folder / "site.csar", files)
            files = {}
        return self.site.repository.commit(files)


@pytest.fixture(
    params=[
        "template",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("folder", "archive")),
    ]
)
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """Return a site that follows a service."""
    return Place(tmp_path, request.param)


def test_the_life_of_a_service_that_follows_a_branch(place: Place) -> None:
    """The service is created and updated, stays when a revision has mistakes, and follows a force-push back."""
    site = place.site
    one = place.commit("one")
    record = site.step()
    assert (record.revision, record.problem, site.ran) == (one, "", ["one blue"])
    assert site.step().revision == one
    assert site.ran == ["one blue"]

    two = place.commit("two")
    record = site.step()
    assert (record.revision, record.problem, site.ran[-1]) == (two, "", "two blue")
    ran = list(site.ran)

    wrong = place.commit("three", service=WRONG)
    record = site.step()
    assert (record.revision, record.refused, site.ran) == (two, wrong, ran)
    assert "topology_template" in record.reason
    assert f"it stays at {two[:12]}" in record.problem

    site.repository.git("reset", "-q", "--hard", one)
    record = site.step()
    assert (record.revision, record.problem, site.ran[-1]) == (one, "", "one blue")


def test_a_revision_of_a_service_that_fails_runs_once(place: Place) -> None:
    """With rollback, the service returns to the revision before."""
    site = place.site
    site.values["rollback"] = "yes"
    one = place.commit("one")
    site.step()
    two = place.commit("two", "exit 3")
    record = site.step()
    assert (record.revision, record.refused, site.status) == (
        one,
        two,
        "ROLLBACK_COMPLETE",
    )
    assert site.step().refused == two
    assert site.ran.count("two blue") == 1
    assert site.ran[-1] == "one blue"
