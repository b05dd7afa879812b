"""The alert rules and the dashboard: they name metrics that the agent writes, and Prometheus' own tool accepts them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from heat_config_agent.model.entry import State
from heat_config_agent.state import health
from heat_config_agent.state.followed import Followed
from heat_config_agent.state.health import Health
from package.built import ROOT, package
from support import endings, entries, pace, ports
from support.http import Answer, Stub
from support.loopback import wait_until
from support.machine import Machine, deployment
from support.tools import need

FOLDER = ROOT / "packaging/monitoring"

NAME = re.compile(r"heat_config_agent_\w+")

METRICS = health.metrics(
    Health(
        process=1,
        version="1",
        started=1.0,
        blocked=(
            {"cause": "x", "since": 1.0, "next_try": 2.0, "deployments": {"d1": "x"}},
        ),
        sources=({"name": "heat", "working": True, "answered": 2.0, "failures": 0},),
        channels=({"name": "console", "waiting": 0, "lost": 1, "trouble": ""},),
        verifications=(
            {
                "name": "",
                "at": 3.0,
                "drifted": 0,
                "unknown": 0,
                "passes": 1,
                "repairs": 0,
            },
        ),
    ),
    [
        entries.entry(
            "web",
            State.UNASKED,
            at=3.0,
            accepted=1.0,
            started=1.0,
            ended=3.0,
            source="",
            run=None,
            values=None,
        )
    ],
    [Followed(name="site", answered=4.0)],
)
"""The metrics of a machine that has one of everything."""

WRITTEN = dict(re.findall(r"(?m)^# TYPE (\S+) (\w+)$", METRICS))
"""The type of each metric."""


def rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    content = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    return [rule for group in content["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard, without its headings."""
    content = json.loads((FOLDER / "dashboard.json").read_text())
    return [panel for panel in content["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[str]:
    """Yield the expressions of all rules, panels and variables."""
    yield from (rule["expr"] for rule in rules())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])
    content = json.loads((FOLDER / "dashboard.json").read_text())
    for variable in content["templating"]["list"]:
        query = variable["query"]
        yield query["query"] if isinstance(query, dict) else query


def test_agent_writes_every_metric_that_is_named() -> None:
    """A metric that is renamed or removed has to change in the rules and in the dashboard too."""
    named = {name for text in expressions() for name in NAME.findall(text)}
    assert len(named) > 20
    assert named - set(WRITTEN) == set()


def test_labels_are_those_of_the_metric() -> None:
    """A selector names only labels that the agent or Prometheus gives the metric."""
    given = {
        name: set(re.findall(r'(\w+)="', labels))
        for name, labels in re.findall(r"(?m)^(heat_config_agent_\w+)(\S*) ", METRICS)
    }
    for text in expressions():
        for name, selector in re.findall(r"(heat_config_agent_\w+)\{([^}]*)\}", text):
            labels = set(re.findall(r"(\w+)=", selector.replace("=~", "=")))
            assert labels <= given[name] | {"job", "instance"}, text


def test_only_counters_are_counted() -> None:
    """`increase` and `rate` make sense for counters alone."""
    for text in expressions():
        for name in re.findall(r"(?:increase|rate)\((heat_config_agent_\w+)", text):
            assert WRITTEN[name] == "counter", text


def test_every_metric_of_trouble_has_an_alert() -> None:
    """Failures, drift, obstacles, waits and silence are told; all other metrics are for the dashboard."""
    text = " ".join(rule["expr"] for rule in rules())
    shown = " ".join(expressions())
    told = {"failed", "drifted", "blocked", "waiting", "working", "refused", "paused"}
    for name in WRITTEN:
        if (
            name.rpartition("_")[2] in told
            and name != "heat_config_agent_deployments_blocked"
        ):
            assert f"{name} " in f"{text} ", name
    # Each of these says the same as another one, which is shown.
    same = {
        f"heat_config_agent_{name}"
        for name in (
            *("start_time_seconds", "next_try_time_seconds", "follow_current"),
            *("deployment_start_time_seconds", "verified_time_seconds"),
        )
    }
    assert set(WRITTEN) - set(NAME.findall(shown)) == same


def test_every_alert_is_documented_and_says_what_to_do() -> None:
    """The page has a row for each alert, and each says which machine it is about."""
    page = (ROOT / "docs/monitor.md").read_text()
    table = page.partition("| alert | meaning |")[2].partition("\n\n")[0]
    assert re.findall(r"(?m)^\| `(\w+)`", table) == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert "$labels.instance" in rule["annotations"]["summary"], rule["alert"]
        assert rule["annotations"]["description"].endswith("."), rule["alert"]
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}


def test_every_alert_is_tried() -> None:
    """The tests of the rules name each alert as firing."""
    content = (FOLDER / "alerts_test.yaml").read_text()
    firing = content.partition('alertstate="firing"')[2].partition("eval_time: 4m")[0]
    assert re.findall(r'alertname="(\w+)"', firing) == [
        each["alert"] for each in rules()
    ]


def test_dashboard_is_whole() -> None:
    """Ids differ, no panel lies on another, and each asks the source of data that is chosen above."""
    content = json.loads((FOLDER / "dashboard.json").read_text())
    ids = [panel["id"] for panel in content["panels"]]
    assert len(set(ids)) == len(ids)
    places = [
        (x, y)
        for panel in content["panels"]
        for x in range(
            panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"]
        )
        for y in range(
            panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"]
        )
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) == 23
    for panel in panels():
        assert panel["title"]
        assert panel["description"]
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert "__inputs" not in content
    assert not re.findall(r"https?://", json.dumps(content))


def promtool(*words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run Prometheus' tool for rules, or skip the test, saying how to get it."""
    return subprocess.run(
        [need("promtool", "prometheus"), *words],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(100),
    )


@pytest.mark.slow
def test_prometheus_accepts_rules_metrics_and_queries(tmp_path: Path) -> None:
    """The rules, the text of the metrics, and each query of the dashboard as the expression of a rule."""
    done = promtool("check", "rules", "--lint-fatal", FOLDER / "alerts.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    done = promtool("check", "metrics", given=METRICS)
    assert (done.returncode, done.stderr) == (0, "")
    queries = [
        target["expr"].replace("$job", "node").replace("$instance", "web")
        for panel in panels()
        for target in panel["targets"]
    ]
    recorded = [{"record": f"q{n}", "expr": each} for n, each in enumerate(queries)]
    path = tmp_path / "queries.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    done = promtool("check", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(queries)} rules found" in done.stdout


@pytest.mark.slow
def test_each_trouble_raises_its_alert_and_a_healthy_machine_none(
    tmp_path: Path,
) -> None:
    """Prometheus evaluates the rules over a day of samples; with a threshold changed, its tests fail."""
    for name in ("alerts.yaml", "alerts_test.yaml"):
        shutil.copy(FOLDER / name, tmp_path)
    done = promtool("test", "rules", tmp_path / "alerts_test.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    path = tmp_path / "alerts.yaml"
    path.write_text(path.read_text().replace("_failed > 0", "_failed > 5"))
    done = promtool("test", "rules", tmp_path / "alerts_test.yaml")
    assert done.returncode != 0
    assert "HeatConfigDeploymentsFailed" in done.stdout + done.stderr


class Prometheus:
    """A Prometheus of its own, which asks a file every second as if an exporter had read it."""

    def __init__(self, folder: Path, metrics: Path) -> None:
        headers = {"Content-Type": "text/plain; version=0.0.4"}
        self._exporter = Stub(lambda _: Answer(200, headers, metrics.read_bytes()))
        self._place = f"127.0.0.1:{ports.reserved()}"
        folder.mkdir()
        job = {
            "job_name": "node",
            "static_configs": [{"targets": [f"127.0.0.1:{self._exporter.port}"]}],
        }
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(FOLDER / "alerts.yaml")],
            "scrape_configs": [job],
        }
        (folder / "prometheus.yml").write_text(json.dumps(settings))
        self._words = [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self._place}",
        ]

    @contextmanager
    def runs(self) -> Iterator[None]:
        """Run it meanwhile."""
        self._exporter.start()
        process = subprocess.Popen(self._words, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            endings.end(process)
            self._exporter.stop()

    def result(self, what: str) -> Any:
        """Return the data of an answer; nothing while it does not answer yet."""
        url = f"http://{self._place}/api/v1/{what}"
        try:
            with urllib.request.urlopen(url, timeout=pace.seconds(10)) as answer:
                return json.load(answer)["data"]
        except OSError:
            return {"result": [], "alerts": []}

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples that a query has now."""
        query = urllib.parse.urlencode({"query": expression})
        found: list[dict[str, Any]] = self.result(f"query?{query}")["result"]
        return found


@pytest.mark.slow
@pytest.mark.takes(60)
def test_failure_is_on_the_dashboard(machine: Machine) -> None:
    """A real Prometheus has the file of a real agent: panels name the failed deployment, and its alert is pending."""
    need("prometheus", "prometheus")
    metrics, settings = machine.folder / "metrics", machine.folder / "agent.conf"
    deployments = [
        deployment("d1", "#!/bin/sh\nexit 3\n", name="till"),
        deployment("d2", name="stock"),
    ]
    document = machine.write({"deployments": deployments})
    settings.write_text(
        f"[agent]\ncollectors = file\nmetrics_file = {metrics}\n[file]\npath = {document}\n"
    )
    done = machine.agent("run", "--once", "--config", str(settings))
    assert done.code == 1, done
    server = Prometheus(machine.folder / "prometheus", metrics)
    with server.runs():
        wait_until(lambda: server.query("heat_config_agent_up") != [], 60)
        wait_until(lambda: server.result("alerts")["alerts"] != [], 60)
        alerts = server.result("alerts")["alerts"]
        seen = {
            panel["title"]: [
                sample
                for target in panel["targets"]
                for sample in server.query(
                    target["expr"].replace("$job", ".*").replace("$instance", ".*")
                )
            ]
            for panel in panels()
        }
    assert [each["value"][1] for each in seen["Failed"]] == ["1"]
    assert [each["metric"]["name"] for each in seen["Failed deployments"]] == ["till"]
    assert [each["value"][1] for each in seen["Blocked agents"]] == ["0"]
    assert {each["metric"]["name"] for each in seen["Longest runs"]} == {
        "till",
        "stock",
    }
    assert "HeatConfigDeploymentsFailed" in {
        each["labels"]["alertname"] for each in alerts
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_package_has_the_rules_and_the_dashboard() -> None:
    """The files are among the documents of the package, where the page says they are."""
    words = ["dpkg-deb", "--contents", str(package("deb"))]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    place = "./usr/share/doc/heat-config-agent/packaging/monitoring"
    for path in FOLDER.iterdir():
        assert f" {place}/{path.name}\n" in listed
