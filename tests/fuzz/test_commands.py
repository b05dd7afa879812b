"""A sample of what is made up, given to the real commands: each ends with an exit code and words of its own."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzz.examples import SHARE, damaged, entries, tries
from fuzz.test_settings import contents
from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Document
from support.machine import Done, Machine

pytestmark = [pytest.mark.takes(20), pytest.mark.torture(share=SHARE)]

SCRIPT = '#!/bin/sh\necho "$0"\n'


@contextlib.contextmanager
def machine() -> Iterator[Machine]:
    """Yield the installed commands with a state directory of their own."""
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder, "machine")  # a machine has files next to its folder
        inner.mkdir()
        place = Machine(inner)
        yield place
        place.end()


def harmless(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of which no text is run that chance has made."""
    config = entry.get("config")
    if isinstance(config, str):
        with contextlib.suppress(ValueError):
            config = json.loads(config)
    if isinstance(config, dict) and isinstance(config.get("configs"), list):
        configs = [
            {**each, "config": SCRIPT} if isinstance(each, dict) else each
            for each in config["configs"]
        ]
        return {**entry, "config": {**config, "configs": configs}}
    return {**entry, "config": SCRIPT}


made_up = st.lists(entries.map(harmless), min_size=5, max_size=20)


@pytest.mark.fault(
    2,
    "a document with anything in it: odd values, missing and doubled keys, any nesting",
    "an entry with a mistake is never run and never succeeds; the path of each "
    "mistake is shown, and the other entries are applied",
)
@tries(4, made_up)
def test_made_up_deployments_are_applied(given: list[dict[str, Any]]) -> None:
    """Wrong deployments have failed, good ones have run, and a second time there is nothing to do."""
    with machine() as place:
        path = place.write(given)
        written = place.apply(path, "--plan", "--json")
        assert "Traceback" not in written.err, written.err
        assert written.code in (0, 1, 2)
        assert written.code < 2 or all(
            each["line"] and each["problem"]
            for each in written.json["error"]["mistakes"]
        )

        def applied() -> Done:
            """Apply it as a document of a server, of which nothing is refused as a whole."""
            return place.apply(
                None,
                "--json",
                "--deliver-for",
                "0",
                seconds=100,
                HEAT_SHELL_CONFIG=str(path),
            )

        done = applied()
        assert "Traceback" not in done.err, done.err
        results = done.data
        wrong = {
            each.id
            for each in metadata.parse(Document(source="x", content=given)).deployments
            if each.mistakes
        }
        for each in results["deployments"]:
            if each["values"] and not int(each["values"]["deploy_status_code"]):
                assert (
                    each["id"] not in wrong
                    or sum(one["id"] == each["id"] for one in results["deployments"])
                    > 1
                )
                said = (
                    each["values"]["deploy_stdout"] or each["values"]["deploy_stderr"]
                )
                assert "heat-config-script" in said or "nothing was run" in said
        failed = [each for each in results["deployments"] if each["state"] == "failed"]
        assert results["summary"]["failed"] == len(failed)
        assert bool(failed) or not (wrong or results["mistakes"])
        # callers of heat-agents' 55-heat-config expect no other code
        assert done.code == 0
        assert applied().data["summary"]["ok"] == 0


@pytest.mark.fault(
    5,
    "any bytes in agent.conf or os-collect-config.conf: damaged, odd values of every setting, sections, repeated names",
    "one sentence names the line and what is right; what is right in it is used; no secret is repeated",
)
@tries(4, contents | damaged(contents))
def test_the_commands_take_any_file_of_settings(content: bytes) -> None:
    """`config` shows what holds and what is wrong; what is begun with wrong settings ends at once."""
    with machine() as place:
        path = place.folder / "agent.conf"
        path.write_bytes(content)
        for words in (["config"], ["status", "--json"]):
            done = place.agent(*words, "--config", str(path))
            # the state directory is not there
            assert done.code in (0, 2, 8), done.err
            assert "Traceback" not in done.err
            assert "\x1b" not in done.out + done.err
