"""Services with what they do, step by step: a folder with `case.yaml`, a service template and its scripts.

A script writes lines into the file that the input `log` names. `case.yaml` has `steps`; with `csar`, the folder that
becomes the archive `service.csar`. A step has `do`: `apply`, `delete`, `suspend`, `resume`, or `workflow` with its
name; `service`, another template; `inputs`, in which `{LOG}` is the file for lines and `{DIR}` a folder; and `options`.
What it expects is `exit`, `status`, `reason`, `sequence` (lines in order), `log` (in any order), `order` (pairs),
`nodes` with their states, `outputs`, and `said`, which the command prints.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.machine import Done, Machine

NAME = "case"

PATIENCE = 600.0
"""Seconds that a command may take: on a machine with much else to do, it waits for its turn only."""


def found(*folders: Path) -> list[Path]:
    """Return all cases below some folders."""
    return sorted(
        path.parent for folder in folders for path in folder.rglob("case.yaml")
    )


class Case:
    """One case, carried out on a machine."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = machine
        self.content: dict[str, Any] = yaml.safe_load(
            (folder / "case.yaml").read_text()
        )
        self.files = machine.folder / "files"
        shutil.copytree(folder, self.files)
        self.log = machine.folder / "log"
        self.log.touch()
        if "csar" in self.content:
            pack(self.files / self.content["csar"], self.files / "service.csar")

    def differences(self) -> Iterator[str]:
        """Carry out the steps, and yield what is not as they expect; nothing after the first step with a difference."""
        for number, step in enumerate(self.content["steps"], 1):
            before = len(self.lines())
            done = self.do(step)
            differences = [*self.compare(step, done, self.lines()[before:])]
            yield from (
                f"step {number} ({step['do']}): {difference}"
                for difference in differences
            )
            if differences:
                return

    def lines(self) -> list[str]:
        """Return what the scripts have written."""
        return self.log.read_text().splitlines()

    def do(self, step: dict[str, Any]) -> Done:
        """Run the command of a step."""
        options = []
        for name, value in step.get("inputs", {}).items():
            text = value if isinstance(value, str) else json.dumps(value)
            text = text.replace("{LOG}", str(self.log)).replace(
                "{DIR}", str(self.machine.folder)
            )
            options += ["--input", f"{name}={text}"]
        options += step.get("options", [])
        action = step["do"]
        if action == "apply":
            usual = "service.csar" if "csar" in self.content else "service.yaml"
            service = self.files / (
                step.get("service") or self.content.get("service") or usual
            )
            return self.run("heat-config-apply", str(service), "--name", NAME, *options)
        if action == "workflow":
            return self.stack("workflow", "run", NAME, step["workflow"], *options)
        return self.stack(
            action, NAME, *(["--yes"] if action == "delete" else []), *options
        )

    def run(self, program: str, *words: str) -> Done:
        """Run a command on the state directory of the machine."""
        return self.machine.command(
            program,
            [*words, "--state-dir", str(self.machine.state)],
            {},
            seconds=PATIENCE,
        )

    def stack(self, *words: str) -> Done:
        """Run a command of `heat-config-agent stack`."""
        return self.run("heat-config-agent", "stack", *words)

    def ask(self, *words: str) -> Any:
        """Return what a command prints as JSON."""
        done = self.stack(*words, "--json")
        assert done.code == 0, (
            f"stack {' '.join(words)} ends with {done.code}: {done.out}{done.err}"
        )
        data = json.loads(done.out)["data"]
        return (
            data
            if "show" in words and "--all" not in words
            else next(iter(data.values()))
        )

    def compare(
        self, step: dict[str, Any], done: Done, lines: list[str]
    ) -> Iterator[str]:
        """Yield what is not as a step expects."""
        said = f"{done.out}{done.err}"
        if done.code != step.get("exit", 0):
            yield f"it ends with {done.code}: {said}"
        if "sequence" in step and lines != step["sequence"]:
            yield f"the lines are {lines}, and not {step['sequence']}"
        if "log" in step and Counter(lines) != Counter(step["log"]):
            yield f"the lines are {lines}, and not those of {step['log']}"
        for first, second in step.get("order", ()):
            if (
                first in lines
                and second in lines
                and lines.index(first) > lines.index(second)
            ):
                yield f"{second} comes before {first}"
        for text in step.get("said", ()):
            if text not in said:
                yield f"it does not print {text}: {said}"
        yield from self._compare_stack(step)

    def _compare_stack(self, step: dict[str, Any]) -> Iterator[str]:
        """Yield how the stack differs from the one that a step expects."""
        if "status" in step or "reason" in step:
            shown = self.ask("show", NAME)
            if shown["stack_status"] != step.get("status", shown["stack_status"]):
                yield f"the status is {shown['stack_status']}: {shown['stack_status_reason']}"
            for text in step.get("reason", ()):
                if text not in (shown["stack_status_reason"] or ""):
                    yield f"the reason has no {text}: {shown['stack_status_reason']}"
        if "outputs" in step:
            outputs = {
                output["output_key"]: output["output_value"]
                for output in self.ask("output", "show", NAME, "--all")
            }
            if outputs != step["outputs"]:
                yield f"the outputs are {outputs}, and not {step['outputs']}"
        if "nodes" in step:
            nodes = {
                node["node"]: node["node_state"]
                for node in self.ask("node", "list", NAME)
            }
            if nodes != step["nodes"]:
                yield f"the states are {nodes}, and not {step['nodes']}"


def pack(folder: Path, path: Path) -> None:
    """Make an archive of a folder."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder))
