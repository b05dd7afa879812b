"""Handles that are signalled at a URL which needs no header, and the wait conditions of these handles.

Such a URL has the token in it, as the pre-signed URLs of Heat do. The types are those of CloudFormation, and those that
use Swift's temporary URLs in a cloud; here all of them use an address of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.records import exception
from heat_config_stack.records.exception import UpdateReplace
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.constraints import Range
from heat_config_stack.resource.properties import Schema
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.snippet import Snippet
from heat_config_stack.resource_types.wait_conditions import (
    WaitCondition,
    WaitConditionHandle,
)


class UrlHandle(WaitConditionHandle):
    """A handle whose reference is the URL for its signals."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {}
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {}

    def get_reference_id(self) -> Json:
        """Return the URL for signals; the name as long as there is none."""
        token = self.data().get("token")
        address = (
            self.stack.world.expect_signals(self.record.id, token) if token else ""
        )
        return f"{address}?Signature={token}" if address else self.name


class CfnWaitConditionHandle(UrlHandle):
    """A handle of CloudFormation: each signal has Status, Reason, Data and UniqueId."""

    KEYS: ClassVar[Mapping[str, str]] = {
        "Status": "status",
        "Reason": "reason",
        "Data": "data",
        "UniqueId": "id",
    }

    def handle_signal(self, details: Json) -> None:
        """Accept a signal; ignore an empty one. Raises ValueError if it has not exactly the four keys."""
        if details is None:
            return
        if not isinstance(details, dict) or set(details) != set(self.KEYS):
            raise ValueError(f"A signal must be a map with {', '.join(self.KEYS)}")
        super().handle_signal({self.KEYS[key]: value for key, value in details.items()})


class UpdateWaitConditionHandle(CfnWaitConditionHandle):
    """A handle that every update replaces."""

    def always_update(self) -> bool:
        """Return True: every update replaces the handle."""
        return True

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> None:
        """Ask for a replacement."""
        raise UpdateReplace(self.name)


class CfnWaitCondition(WaitCondition):
    """A wait condition with the names of CloudFormation."""

    HANDLE, TIMEOUT, COUNT = "Handle", "Timeout", "Count"
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        HANDLE: Schema(Schema.STRING, "The handle.", required=True),
        TIMEOUT: Schema(
            Schema.INTEGER,
            "Seconds to wait at most.",
            required=True,
            constraints=[Range(1, 43200)],
        ),
        COUNT: Schema(
            Schema.INTEGER,
            "Number of signals to wait for.",
            default=1,
            update_allowed=True,
            constraints=[Range(1)],
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "Data": Attribute(
            "JSON with the data of all signals, by id.", type=Attribute.STRING
        )
    }

    def check_handle(self, handle: WaitConditionHandle | None) -> WaitConditionHandle:
        """Return the handle if it is one of CloudFormation, whose reference is a URL. Raises ValueError."""
        if not isinstance(handle, CfnWaitConditionHandle):
            raise ValueError(f'"{self.properties[self.HANDLE]}" is not a valid URL')  # noqa: TRY004
        return handle


class SwiftSignalHandle(UrlHandle):
    """A handle that Heat implements with a temporary URL of Swift."""

    of_swift: ClassVar[bool] = True
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "token": Attribute("Token for signals: none is needed.", type=Attribute.STRING),
        "endpoint": Attribute("URL for signals.", type=Attribute.STRING),
        "curl_cli": Attribute("A command that sends a signal.", type=Attribute.STRING),
    }

    def _resolve_attribute(self, name: str) -> Json:
        url = self.get_reference_id()
        return {"token": "", "endpoint": url, "curl_cli": f"curl -i -X PUT '{url}'"}[
            name
        ]


class SwiftSignal(WaitCondition):
    """A wait condition for a `SwiftSignalHandle`."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "handle": Schema(Schema.STRING, "The reference of the handle.", required=True),
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
            constraints=[Range(1, 1000)],
        ),
    }
    of_swift: ClassVar[bool] = True
    FAILURE: ClassVar[type[exception.Error]] = exception.SwiftSignalFailure
    OVER: ClassVar[type[exception.Error]] = exception.SwiftSignalTimeout

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> float:
        """Wait for nothing: no property can change in place."""
        return 0.0


class AccessPolicy(Resource):
    """A list of the resources that a user may see. It has no effect on this machine, which has no such users."""

    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "AllowedResources": Schema(Schema.LIST, "Names of resources.", required=True)
    }

    def validate(self) -> None:
        """Refuse a name that the stack does not have."""
        for name in self.properties["AllowedResources"]:
            if name not in self.stack.definition.resources:
                raise exception.StackValidationFailed(
                    message=f"AccessPolicy resource {name} not in stack"
                )
