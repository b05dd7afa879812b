"""Fixtures for the tests of hooks: a real podman, and a stand-in for the kubelet."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.containers import own_podman, podman
from support.driver import Alone, Driver
from support.http import Answer, Request, Stub
from support.kubelet import CRICTL, Kubelet

__all__ = ["own_podman", "podman"]


@pytest.fixture
def kubelet(driver: Driver, tmp_path: Path) -> Iterator[Kubelet]:
    """A stand-in for a kubelet, which answers nothing yet: see `can_be_asked`."""
    kubelet = Kubelet(driver.working("kubelet") / "kubelet-manifests")

    def answer(request: Request) -> Answer:
        with kubelet.lock:
            asked = request.path.startswith("/crictl")
            trouble = kubelet.broken if asked else kubelet.body
            body = (trouble or json.dumps(kubelet.answer(request.path))).encode()
        return Answer(500 if asked and trouble else 200, body=body)

    server = Stub(answer)
    server.start()
    kubelet.address = f"http://127.0.0.1:{server.port}"
    path = tmp_path / "bin/crictl"
    path.parent.mkdir()
    path.write_text(CRICTL.format(python=sys.executable, port=server.port))
    path.chmod(0o755)
    if isinstance(driver, Alone):  # the agent has signals to send
        driver.environment["http_proxy"] = "http://127.0.0.1:9"
    yield kubelet
    server.stop()
