"""The base classes of plug-ins that take signals, under the names of Heat's own resources.

A command signals such a resource: `heat-config-agent stack resource signal`. No server listens for its signals, so its
URLs are empty, as those of scaling policies are here. It needs no user of its own, because there is only one.
"""

from __future__ import annotations

from typing import Any

from heat_config_stack.plugins.facade.resource import Resource
from heat_config_stack.records import exception

WAITCONDITION, SIGNAL = SIGNAL_TYPES = ("/waitcondition", "/signal")
SIGNAL_VERB = {WAITCONDITION: "PUT", SIGNAL: "POST"}


class StackUser(Resource):
    """A resource that has a user of its own in Heat."""

    def handle_create(self) -> Any:
        """Do nothing: there is only one user."""

    def _create_user(self) -> None:
        """Do nothing: there is only one user."""

    _delete_user = _create_keypair = _delete_keypair = _register_access_key = (
        _create_user
    )

    def _get_user_id(self) -> None:
        """Return None: there is only one user."""

    def _user_token(self) -> str:
        raise exception.ClientNotAvailable(client_name="keystone")


class SignalResponder(StackUser):
    """A resource that takes signals."""

    PROPERTIES = (SIGNAL_TRANSPORT,) = ("signal_transport",)
    ATTRIBUTES = (SIGNAL_ATTR,) = ("signal",)
    requires_deferred_auth = True

    @property
    def password(self) -> Any:
        """Return the stored password."""
        return self.data().get("password")

    @password.setter
    def password(self, password: str | None) -> None:
        if password is None:
            self.data_delete("password")
        else:
            self.data_set("password", password, redact=True)

    def _no_url(self, *_: Any, **_more: Any) -> str:
        """Return an empty URL: a command signals the resource."""
        return ""

    _get_ec2_signed_url = _get_heat_signal_url = _get_swift_signal_url = (
        _get_zaqar_signal_queue_id
    ) = _no_url

    def _get_signal(self, *_: Any, **_more: Any) -> dict[str, str]:
        """Return the address for signals."""
        return {"alarm_url": self._no_url()}

    def _nothing(self, *_: Any, **_more: Any) -> None:
        """Do nothing: there is no address."""

    _delete_signals = _delete_ec2_signed_url = _delete_heat_signal_url = _nothing
    _delete_swift_signal_url = _delete_zaqar_signal_queue = _service_signal = _nothing
