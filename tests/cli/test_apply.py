"""`heat-config-apply`, from a document to a signalled result."""

from __future__ import annotations

from support.loopback import SignalServer
from support.machine import Machine, deployment


def test_a_deployment_is_run_and_its_result_signalled(
    machine: Machine, heat: SignalServer
) -> None:
    """The script gets its inputs, and its streams, its exit code and its outputs reach the server byte for byte."""
    script = "#!/bin/sh\necho out $who\necho err >&2\nprintf 'hi \\r\\n%s' \"$who\" >$heat_outputs_path.greeting\n"
    given = deployment(
        config=script,
        inputs={"who": "wörld"},
        outputs=["greeting", "other"],
        signal=heat.url(),
    )

    done = machine.apply([given])

    assert done.code == 0, done.err
    assert heat.values() == [
        {
            "deploy_stdout": "out wörld\n",
            "deploy_stderr": "err\n",
            "deploy_status_code": 0,
            "greeting": "hi \r\nwörld",
        }
    ]
    assert heat.signals[0].verb == "POST"
    assert heat.signals[0].headers["Content-Type"] == "application/json"


def test_a_second_run_does_nothing_twice(machine: Machine, heat: SignalServer) -> None:
    """Applied again, a deployment is neither run nor signalled a second time."""
    given = deployment(
        config=f"#!/bin/sh\necho ran >>{machine.folder}/runs\n", signal=heat.url()
    )

    first, second = machine.apply([given]), machine.apply([given])

    assert (first.code, second.code) == (0, 0)
    assert (machine.folder / "runs").read_text() == "ran\n"
    assert len(heat.signals) == 1
