"""A hook's working folder as its verification sees it: with the config in it, although nothing is written there."""

from __future__ import annotations

from pathlib import Path

from heat_config_hooks import files, protocol


def view(place: protocol.Workplace, name: str, content: bytes) -> Path:
    """Return a folder in which the file `name` has `content`, beside everything else of the working folder.

    It is the working folder if the last run has left the file there as it has to be.
    Otherwise, it is a folder in the folder of the run, with links.
    """
    try:
        if (place.working / name).read_bytes() == content:
            return place.working
    except OSError:
        pass
    folder = place.run / "view"
    if folder.is_dir():  # of an earlier call for the same run
        return folder
    files.make_directory(folder)
    try:
        others = [path for path in place.working.iterdir() if path.name != name]
    except OSError:
        others = []
    for path in others:
        (folder / path.name).symlink_to(path)
    files.replace(folder / name, content)
    return folder


def outputs(request: protocol.Request, place: protocol.Workplace) -> Path:
    """Return the value of `heat_outputs_path` for a verification: files in the folder of the run, which count nothing.

    The outputs of a run are its results, and are not kept on the machine.
    """
    folder = place.run / "outputs"
    files.make_directory(folder)
    return folder / request.key


def is_output(
    path: object, request: protocol.Request, place: protocol.Workplace
) -> bool:
    """Return whether a path is that of an output of a verification."""
    return isinstance(path, str) and path.startswith(
        f"{place.run}/outputs/{request.key}."
    )
