"""The processor time of what a command leaves behind counts, and that of servers that go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support import pace

BURN = "import time\nwhile time.process_time() < 0.2: pass\n"

MEASURED = """if True:
    import json, subprocess, sys
    from bench import below
    burn = sys.argv[1]
    python, lasts = [sys.executable, "-I", "-S", "-c"], "print(flush=True); time.sleep(60)"
    server = subprocess.Popen([*python, burn + lasts], stdout=subprocess.PIPE)
    try:
        server.stdout.readline()
        below.adopt()
        known = below.spent([server.pid])
        left = f"'{sys.executable}' -I -S -c '{burn}' & sleep 60 &"
        subprocess.run(["sh", "-c", left], check=True)
        below.settle([server.pid], "sleep")
        print(json.dumps([known, below.spent([server.pid]) - known, server.poll()]))
    finally:
        server.kill()
        server.wait()
"""


def test_processes_left_behind_are_counted() -> None:
    """A server counts while it runs, and so does the orphan of a command; a process that lasts is ended."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, BURN],
        env={"PATH": os.defpath, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=pace.seconds(60),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    known, more, ended = json.loads(done.stdout)
    # the kernel counts in ticks: 10 ms or less
    assert known > 0.15
    assert more > 0.15
    assert ended is None
