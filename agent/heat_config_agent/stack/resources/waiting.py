"""Wait conditions: a stack goes on when somebody says so, to a handle."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from heat_config_agent.stack import exception, records
from heat_config_agent.stack.attributes import Schema as Attribute
from heat_config_agent.stack.constraints import AllowedValues, Range
from heat_config_agent.stack.definition import Json
from heat_config_agent.stack.exception import UpdateReplace
from heat_config_agent.stack.properties import Schema
from heat_config_agent.stack.records import ResourceRecord
from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.snippet import Snippet

SUCCESS, FAILURE = "SUCCESS", "FAILURE"
SIGNALS = "signals"
NO_SIGNAL = "NO_SIGNAL"


def key(handle: str) -> tuple[str, str]:
    """Return what is woken when a handle has been signalled."""
    return ("handle", handle)


class WaitConditionHandle(Resource):
    """Takes signals."""

    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "signal_transport": Schema(
            Schema.STRING,
            "How it is signalled. Here, with any but NO_SIGNAL, at an address of this machine.",
            default="TOKEN_SIGNAL",
            constraints=[
                AllowedValues(
                    ["CFN_SIGNAL", "TEMP_URL_SIGNAL", "HEAT_SIGNAL", NO_SIGNAL, "ZAQAR_SIGNAL", "TOKEN_SIGNAL"]
                )
            ],
        )
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "token": Attribute("What has to be sent with a signal.", type=Attribute.STRING),
        "endpoint": Attribute("Where to send a signal.", type=Attribute.STRING),
        "curl_cli": Attribute("A command that sends a signal.", type=Attribute.STRING),
        "signal": Attribute("JSON of all that is needed to signal it.", type=Attribute.STRING),
    }

    def handle_create(self) -> None:
        """Have an id."""
        self.data_set("token", secrets.token_hex(16))
        self.resource_id_set(records.new_id())
        if self.properties.get("signal_transport") == NO_SIGNAL:  # nobody is going to signal it
            self.handle_signal(None)

    def handle_signal(self, details: Json) -> None:
        """Take a signal. Raises ValueError where it is none."""
        details = {} if details is None else details
        signals = dict(self.data().get(SIGNALS, {}))
        known = {"status", "reason", "data", "id"}
        if not isinstance(details, dict) or set(details) - known:
            raise ValueError(f"A signal is a map with some of {', '.join(sorted(known))}")
        if details.get("status", SUCCESS) not in (SUCCESS, FAILURE):
            raise ValueError(f"The status of a signal is {SUCCESS} or {FAILURE}")
        name = str(details.get("id", len(signals) + 1))
        reason = details.get("reason") or f"Signal {name} received"
        status = details.get("status", SUCCESS)
        signals[name] = {"status": status, "reason": reason, "data": details.get("data")}
        self.data_set(SIGNALS, signals)
        self.stack.world.scheduler.wake(key(self.resource_id or ""))

    def _resolve_attribute(self, name: str) -> Json:
        token = self.data().get("token")
        if self.properties["signal_transport"] != "TOKEN_SIGNAL" or not token:
            return self._signal_as_json(token) if name == "signal" else None
        address = self.stack.world.expect_signals(self.record.id, token)
        json_ = "-H 'Content-Type: application/json' -H 'Accept: application/json'"
        curl = f"curl -i -X POST -H 'X-Auth-Token: {token}' {json_} {address}"
        return {"token": token, "endpoint": address, "curl_cli": curl, "signal": "null"}[name]

    def _signal_as_json(self, token: str | None) -> str:
        """Return what the other transports tell: here they all come to the same address."""
        if self.properties["signal_transport"] == NO_SIGNAL or not token:
            return "{}"
        return json.dumps({"alarm_url": self.stack.world.expect_signals(self.record.id, token), "token": token})


class UpdateWaitConditionHandle(WaitConditionHandle):
    """Takes signals; another one in each update."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {}
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {}

    def always_update(self) -> bool:
        """Be replaced whenever the stack is updated."""
        return True

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> None:
        """Be replaced."""
        raise UpdateReplace(self.name)


class WaitCondition(Resource):
    """Is complete when its handle has been signalled as often as it says."""

    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "handle": Schema(Schema.STRING, "The handle.", required=True),
        "timeout": Schema(Schema.NUMBER, "Seconds to wait.", required=True, constraints=[Range(1, 43200)]),
        "count": Schema(
            Schema.INTEGER, "How many signals it takes.", default=1, update_allowed=True, constraints=[Range(1)]
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "data": Attribute("JSON of the data of all signals by id.", type=Attribute.STRING)
    }

    def _handle(self) -> ResourceRecord | None:
        wanted = self.properties["handle"]
        for each in self.stack.world.store.resources.values():
            if each.physical == wanted and wanted and each.type in HANDLES:
                return each
        return None

    def _signals(self) -> dict[str, Any]:
        handle = self._handle()
        return handle.data.get(SIGNALS, {}) if handle else {}

    def handle_create(self) -> float:
        """Begin to wait."""
        handle = self._handle()
        if handle is None:
            raise ValueError(f"{self.properties['handle']} is not a valid wait condition handle.")
        began = self.data().get("began", time.time())
        self.data_set("began", began)
        return float(began) + float(self.properties["timeout"])

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> float:
        """Wait for as many signals as it takes now."""
        self.properties = json_snippet.properties(self.properties_schema)
        return time.time() + float(self.properties["timeout"]) if prop_diff else 0.0

    def awaits(self) -> Hashable | None:
        """Look now and then: a time limit runs, which nobody announces."""
        return None

    def _is_complete(self, until: float) -> bool:
        if not until:
            return True
        signals = self._signals()
        failed = [each["reason"] for each in signals.values() if each["status"] == FAILURE]
        if failed:
            raise exception.WaitConditionFailure(";".join(failed))
        if len(signals) >= self.properties["count"]:
            return True
        if time.time() >= until:
            reasons = ";".join(each["reason"] for each in signals.values())
            received = f"{len(signals)} of {self.properties['count']} received"
            raise exception.WaitConditionTimeout(f"{received} - {reasons}" if reasons else received)
        return False

    check_create_complete = _is_complete
    check_update_complete = _is_complete

    def _resolve_attribute(self, name: str) -> Json:
        data = {name: each["data"] for name, each in self._signals().items()}
        return json.dumps(data) if data else ""


HANDLES = {"OS::Heat::WaitConditionHandle", "OS::Heat::UpdateWaitConditionHandle"}
