"""The secrets that the inputs of one run refer to, in the folder of the run until nothing is left to mask.

`runs.resolution` writes the file before the command starts. It is removed with the inputs of the run, once the result
is on record and the secrets in what the run has printed are overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from heat_config_agent.masking import redaction
from heat_config_agent.model.deployment import Deployment, Input
from heat_config_agent.runs import streams
from heat_config_hooks import files
from heat_config_hooks.values import replace

FILE = "resolved.json"


def keep(folder: Path, secrets: Mapping[str, str]) -> None:
    """Write the secrets by reference. They are on disk when it returns. Raises OSError."""
    files.replace(folder / FILE, json.dumps(secrets).encode(), durable=True)


def _read(folder: Path) -> dict[str, str] | None:
    """Return the secrets of a run by reference; None if they are not known, or not yet."""
    try:
        kept = json.loads(files.read(folder / FILE))
    except (OSError, ValueError, RecursionError):
        return None
    return (
        kept
        if isinstance(kept, dict)
        and all(isinstance(text, str) for text in kept.values())
        else None
    )


def revealed(deployment: Deployment, folder: Path) -> Deployment | None:
    """Return a deployment with its secrets as further inputs, which are hidden, so that they can be masked.

    Returns None if not all of them are known: no command was given them yet, or their file
    is gone.
    """
    if not deployment.references:
        return deployment
    secrets = _read(folder)
    if secrets is None or not secrets.keys() >= set(deployment.references):
        return None
    return replace(
        deployment,
        inputs=(
            *deployment.inputs,
            *(
                Input(
                    name=item.name,
                    value=[secrets[reference] for reference in item.references],
                    hidden=True,
                )
                for item in deployment.inputs
                if item.references
            ),
        ),
    )


def conceal(folder: Path, names: Iterable[str]) -> None:
    """Overwrite the secrets in the output of a run: the files of these names. Raises OSError.

    Processes that the run has left behind cannot add to them any more. A file in which that cannot be done is removed.
    """
    known = _read(folder)
    hidden = [
        Input(name=reference, value=text, hidden=True)
        for reference, text in (known or {}).items()
    ]
    secrets = redaction.search(hidden)
    for name in names:
        try:
            if known is None:
                files.remove(folder / name)
            else:
                streams.detach(folder / name)
                for _ in streams.mask(folder / name, secrets):
                    pass
        except FileNotFoundError:
            continue
        except OSError:  # it is no longer a file, or there is no space for a copy
            files.remove(folder / name)
