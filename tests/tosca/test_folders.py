"""Folders among the files of operations: the roles of a playbook, the pages of a site."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from heat_config_stack.tosca.checks.checker import Checker
from support.machine import Machine

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  node_templates:
    vm: { type: tosca.nodes.Compute }
    site:
      type: tosca.nodes.SoftwareComponent
      requirements: [ host: vm ]
      artifacts:
        pages: { file: pages, type: tosca.artifacts.File, deploy_path: "@PLACE@" }
      interfaces:
        Standard:
          operations:
            create:
              implementation: { primary: create.sh, dependencies: [ parts ] }
              inputs: { pages: { get_artifact: [ SELF, pages ] } }
"""
FILES = {
    "create.sh": '. parts/names.sh; cat parts/more/words "$pages/index.html" > "@SEEN@"\n',
    "parts/names.sh": "true\n",
    "parts/more/words": "words\n",
    "parts/.hidden": "no\n",
    "pages/index.html": "index\n",
    "pages/css/style.css": "style\n",
}


@pytest.mark.parametrize("is_packed", [False, True])
def test_folder_goes_along_with_an_operation(
    is_packed: bool, machine: Machine, tmp_path: Path
) -> None:
    """All its files stand next to the script, and a folder that is an artifact is copied to its place."""
    folder, place, seen = tmp_path / "service", tmp_path / "place", tmp_path / "seen"
    texts = {"service.yaml": SERVICE.replace("@PLACE@", str(place)), **FILES}
    texts["create.sh"] = texts["create.sh"].replace("@SEEN@", str(seen))
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    path = folder / "service.yaml"
    if is_packed:
        path = tmp_path / "site.csar"
        with zipfile.ZipFile(path, "w") as file:
            for name in texts:
                file.write(folder / name, name)
            file.writestr(
                "TOSCA-Metadata/TOSCA.meta",
                "TOSCA-Meta-File-Version: 1.1\nCSAR-Version: 1.1\nCreated-By: x\nEntry-Definitions: service.yaml\n",
            )
    done = machine.apply(None, str(path))
    assert done.code == 0, done.err
    assert seen.read_text() == "words\nindex\n"
    assert (place / "index.html").read_text() == "index\n"
    assert (place / "css" / "style.css").read_text() == "style\n"


def test_folder_is_not_run(tmp_path: Path) -> None:
    """A folder in the place of a script is named as what it is."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "x").write_text("x")
    (tmp_path / "service.yaml").write_text(
        SERVICE.replace("create.sh, dependencies: [ parts ]", "parts").replace(
            "@PLACE@", str(tmp_path / "place")
        )
    )
    [point] = [
        point
        for point in Checker().check(str(tmp_path / "service.yaml")).open
        if point.path[-1] == "primary"
    ]
    assert (point.problem, point.hint) == ("parts is a folder", "name the file to run")


def test_folder_without_files_is_missing(tmp_path: Path) -> None:
    """Nothing of an empty folder could go along."""
    (tmp_path / "create.sh").write_text("true\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "service.yaml").write_text(
        SERVICE.replace("@PLACE@", str(tmp_path / "place"))
    )
    points = [
        point.problem for point in Checker().check(str(tmp_path / "service.yaml")).open
    ]
    assert points == ["there is no file pages", "there is no file parts"]
