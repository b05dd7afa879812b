"""A process that works on a stack, and ends as by `kill -9` where it is told to: `driver.py FOLDER OPERATION WHERE N`.

WHERE is `before` or `after`: the N-th time that something is put on disk for the stack.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from heat_config_stack.records.store import Store
from stack.made import made
from stack.working import Working


def main(
    folder: Path, operation: dict[str, Any], where: str = "", number: str = "0"
) -> None:
    """Do what the operation says, and print what has become of the stack."""
    armed = int(number)
    passed = 0
    flush = Store.flush

    def dying(self: Store, *, durable: bool = False) -> None:
        nonlocal passed
        passed += bool(self._pending)
        due = passed == armed and bool(self._pending)
        if due and where == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        flush(self, durable=durable)
        if due and where == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    Store.flush = dying  # type: ignore[method-assign]
    working = Working(folder)
    session, op = working.session, operation["op"]
    if op == "create" and session.root is not None and not session.interrupted:
        pass  # it was made, and only nobody was told
    elif op == "create":
        session.create(
            made(operation["resources"], operation["outputs"]),
            rollback=operation["rollback"],
        )
    elif op == "update":
        wanted = {"resources": operation["resources"], "outputs": operation["outputs"]}
        if (
            session.root is None
            or session.root.record.action != "ROLLBACK"
            or session.interrupted
        ):
            # else it is over
            session.update(working.again(wanted), rollback=operation["rollback"])
    elif op == "snapshot" and session.store.snapshots and not session.interrupted:
        pass
    elif op in ("snapshot", "restore"):
        getattr(session, op)("snapshot")
    elif op == "abandon":
        (folder / "abandoned").write_text(json.dumps(session.abandoned()))
        session.abandon()
    elif op == "adopt" and session.root is not None and not session.interrupted:
        pass
    elif op == "adopt":
        there = json.loads((folder / "abandoned").read_text())["resources"]
        session.adopt(made(operation["resources"], operation["outputs"]), there)
    elif session.root is not None:
        getattr(session, op)()
    root = session.root
    told = {
        "passed": passed,
        "state": list(working.state()) if root else None,
        "states": working.states() if root else {},
        "outputs": {name: root.output(name) for name in root.definition.outputs}
        if root and root.defined
        else {},
        "left": sorted(each.name for each in root.records()) if root else [],
        "snapshots": [
            (each.action, each.status, sorted(each.data))
            for each in session.store.snapshots.values()
        ],
    }
    working.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), *sys.argv[3:])
