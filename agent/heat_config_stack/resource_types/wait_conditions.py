"""Wait conditions: a stack continues when a handle has been signalled."""

from __future__ import annotations

import json
import secrets
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import requires
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import exception, records, spans
from heat_config_stack.records.records import (
    CHECK,
    COMPLETE,
    CREATE,
    IN_PROGRESS,
    INIT,
    RESUME,
    UPDATE,
)
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.constraints import AllowedValues, Range
from heat_config_stack.resource.properties import Schema
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.snippet import Snippet
from heat_config_stack.resource_types.configs import Config
from heat_config_stack.resource_types.servers import CloudServer, Placeholder
from heat_config_stack.resource_types.values import RandomString, Value

SUCCESS, FAILURE = "SUCCESS", "FAILURE"
SIGNALS = "signals"
NO_SIGNAL = "NO_SIGNAL"


def key(handle: str) -> tuple[str, str]:
    """Return the key that is woken when a handle has been signalled."""
    return ("handle", handle)


class WaitConditionHandle(Resource):
    """A handle that accepts signals."""

    stack: Stack
    of_swift: ClassVar[bool] = False
    """True if only a `SwiftSignal` waits for it."""
    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "signal_transport": Schema(
            Schema.STRING,
            "How it is signalled; here at an address of this machine, except with NO_SIGNAL.",
            default="TOKEN_SIGNAL",
            constraints=[
                AllowedValues(
                    [
                        "CFN_SIGNAL",
                        "TEMP_URL_SIGNAL",
                        "HEAT_SIGNAL",
                        NO_SIGNAL,
                        "ZAQAR_SIGNAL",
                        "TOKEN_SIGNAL",
                    ]
                )
            ],
        )
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "token": Attribute("Token to send with a signal.", type=Attribute.STRING),
        "endpoint": Attribute("URL for signals.", type=Attribute.STRING),
        "curl_cli": Attribute("A command that sends a signal.", type=Attribute.STRING),
        "signal": Attribute(
            "JSON with the values for a signal.", type=Attribute.STRING
        ),
    }

    def handle_create(self) -> None:
        """Create an id and a token."""
        self.data_set("token", secrets.token_hex(16))
        self.resource_id_set(records.new_id())

    def signals(self) -> dict[str, Any]:
        """Return the signals by their ids."""
        return dict(self.data().get(SIGNALS, {}))

    def count(self) -> dict[str, Any]:
        """Return the signals for a condition that counts them; where none will come, one more each time."""
        if self.properties.get("signal_transport") == NO_SIGNAL:
            self.handle_signal(None)
        return self.signals()

    def handle_signal(self, details: Json) -> None:
        """Accept a signal. Raises ValueError if it is not valid."""
        details = details or {}
        signals = self.signals()
        known = {"status", "reason", "data", "id"}
        if not isinstance(details, dict) or set(details) - known:
            raise ValueError(
                f"A signal is a map with some of {', '.join(sorted(known))}"
            )
        if details.get("status", SUCCESS) not in (SUCCESS, FAILURE):
            raise ValueError(f"The status of a signal is {SUCCESS} or {FAILURE}")
        name = str(details.get("id", len(signals) + 1))
        reason = str(details.get("reason") or f"Signal {name} received")
        status = details.get("status", SUCCESS)
        signals[name] = {
            "status": status,
            "reason": reason,
            "data": details.get("data"),
        }
        self.data_set(SIGNALS, signals)
        self.stack.world.scheduler.wake(key(self.resource_id or ""))

    def _resolve_attribute(self, name: str) -> Json:
        token = self.data().get("token")
        if self.properties["signal_transport"] != "TOKEN_SIGNAL" or not token:
            return self._signal_as_json(token) if name == "signal" else None
        address = self.stack.world.expect_signals(self.record.id, token)
        json_ = "-H 'Content-Type: application/json' -H 'Accept: application/json'"
        curl = f"curl -i -X POST -H 'X-Auth-Token: {token}' {json_} {address}"
        return {
            "token": token,
            "endpoint": address,
            "curl_cli": curl,
            "signal": "null",
        }[name]

    def _signal_as_json(self, token: str | None) -> str:
        """Return the values for the other transports, which all use the same address here."""
        if self.properties["signal_transport"] == NO_SIGNAL or not token:
            return "{}"
        return json.dumps(
            {
                "alarm_url": self.stack.world.expect_signals(self.record.id, token),
                "token": token,
            }
        )


class WaitCondition(Resource):
    """A resource that is complete when its handle has been signalled `count` times."""

    stack: Stack
    again_after_interruption: ClassVar[bool] = True
    of_swift: ClassVar[bool] = False
    HANDLE, TIMEOUT, COUNT = "handle", "timeout", "count"
    FAILURE: ClassVar[type[exception.Error]] = exception.WaitConditionFailure
    OVER: ClassVar[type[exception.Error]] = exception.WaitConditionTimeout
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "handle": Schema(Schema.STRING, "The handle.", required=True),
        "timeout": Schema(
            Schema.NUMBER,
            "Seconds to wait at most.",
            required=True,
            constraints=[Range(1, 43200)],
        ),
        "count": Schema(
            Schema.INTEGER,
            "Number of signals to wait for.",
            default=1,
            update_allowed=True,
            constraints=[Range(1)],
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "data": Attribute(
            "JSON with the data of all signals, by id.", type=Attribute.STRING
        )
    }

    def _handle(self) -> WaitConditionHandle | None:
        """Return the handle, which must belong to the same stack and be neither suspended nor broken."""
        named = self.properties[self.HANDLE]
        handles = (
            each
            for each in self.stack.resources.values()
            if isinstance(each, WaitConditionHandle)
        )
        for each in handles if named else ():
            if each.state in _AT_WORK and (
                each.resource_id == named or f"/signal/{each.record.id}?" in named
            ):
                return each
        return None

    def check_handle(self, handle: WaitConditionHandle | None) -> WaitConditionHandle:
        """Return the handle if the condition can wait for it. Raises ValueError."""
        if handle is None or handle.of_swift != self.of_swift:
            name = handle.name if handle else self.properties[self.HANDLE]
            raise ValueError(f"{name} is not a valid wait condition handle.")
        return handle

    def handle_create(self) -> float:
        """Start to wait."""
        handle = self.check_handle(self._handle())
        if servers := _signalled_by_user_data_only(self.stack, handle.name):
            raise exception.Error(
                f"nothing here signals {handle.name}: only the user_data of {', '.join(servers)} does, which is not "
                "carried out (--user-data carries it out)"
            )
        if token := handle.data().get("token"):
            # also if no resource has asked for the address
            self.stack.world.expect_signals(handle.record.id, token)
        return self._begun()

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> float:
        """Wait for the new number of signals; also if only its metadata changes, as in Heat."""
        self.properties = json_snippet.properties(self.properties_schema)
        self.check_handle(self._handle())
        return self._begun()

    def _begun(self) -> float:
        """Start to wait, or continue the wait of an earlier process; return the total seconds."""
        spans.begin(self.record, self.record.attempt)
        self.stack.keep(self.record)
        return float(self.properties[self.TIMEOUT])

    def awaits(self) -> Hashable | None:
        """Poll, because nothing announces the end of the timeout."""
        return None

    def _is_complete(self, timeout: float) -> bool:
        if not timeout:
            return True
        handle = self._handle()
        signals = handle.count() if handle else {}
        failed = [
            signal["reason"]
            for signal in signals.values()
            if signal["status"] == FAILURE
        ]
        if failed:
            raise self.FAILURE(";".join(failed))
        if len(signals) >= self.properties[self.COUNT]:
            return True
        if self._waited() >= timeout and not self.stack.world.catching_up:
            reasons = ";".join(signal["reason"] for signal in signals.values())
            received = f"{len(signals)} of {self.properties[self.COUNT]} received"
            raise self.OVER(f"{received} - {reasons}" if reasons else received)
        return False

    def _waited(self) -> float:
        """Return the seconds that it has waited, and note them from time to time in case the machine goes down."""
        if spans.renew(self.record):
            self.stack.keep(self.record)
        return spans.lasted(self.record)

    check_create_complete = _is_complete
    check_update_complete = _is_complete

    def _resolve_attribute(self, name: str) -> Json:
        if (handle := self._handle()) is None:
            return ""
        return json.dumps(
            {name: each["data"] for name, each in handle.signals().items()}
        )


_PASSES_ON = (Config, Placeholder, RandomString, Value)
"""Resources that signal nothing themselves: others may get a value through them."""


def _signalled_by_user_data_only(stack: Stack, handle: str) -> list[str]:
    """Return the servers whose user data is not carried out, and that alone have what it takes to signal a handle.

    Empty if something else may signal it: a deployment, a child stack, or a person, who finds the address in an output.
    """
    if stack.world.user_data:
        return []
    definition = stack.definition
    needs = {
        name: {need.resource for need in requires(resource.properties)}
        for name, resource in definition.resources.items()
    }
    servers: list[str] = []
    reached = {handle}
    todo = [handle]
    while todo:
        source = todo.pop()
        for name in [
            name
            for name, needed in needs.items()
            if source in needed and name not in reached
        ]:
            resource = stack.as_defined(name)
            if isinstance(resource, WaitCondition):
                continue
            if not isinstance(resource, _PASSES_ON):
                return []
            if isinstance(resource, CloudServer):
                servers.append(name)
            reached.add(name)
            todo.append(name)
    shown = (
        need.resource
        for output in definition.outputs.values()
        for need in requires(output.value)
    )
    return [] if reached.intersection(shown) else sorted(servers)


_AT_WORK = {
    (INIT, COMPLETE),
    *(
        (action, status)
        for action in (CREATE, RESUME, UPDATE)
        for status in (IN_PROGRESS, COMPLETE)
    ),
    (CHECK, COMPLETE),
}
"""The states in which a condition finds its handle, as in Heat: not while it is suspended, and not if it failed."""
