"""Clients of services, for plug-ins that use one: the default handlers, and the meaning of exceptions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.records import exception
from heat_config_stack.resource.config_service import ConfigService
from heat_config_stack.resource.host import Host


class ExceptionFilter:
    """Swallows the exceptions for which a function is true: as a context, or called with an exception."""

    def __init__(self, decides: Callable[..., bool]) -> None:
        """Take the function, which may be a method of a class."""
        self._decides = decides

    def __get__(self, of: Any, class_: type) -> ExceptionFilter:
        return self if of is None else ExceptionFilter(partial(self._decides, of))

    def __enter__(self) -> ExceptionFilter:  # noqa: PYI034  # typing has no Self before Python 3.11
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return error is not None and bool(self._decides(error))

    def __call__(self, error: BaseException) -> None:
        """Raise an exception again if the function is false for it."""
        if not self._decides(error):
            raise error


class ClientPlugin:
    """The meaning of a client's exceptions, by their names and status codes."""

    def __init__(self, name: str | None = None) -> None:
        """Take the name of the client."""
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise exception.ClientNotAvailable(client_name=self.__dict__.get("name"))

    def is_not_found(self, error: BaseException) -> bool:
        """Return whether an exception means that something does not exist."""
        return isinstance(error, exception.NotFound | exception.EntityNotFound) or _means(error, 404, "NotFound")

    def is_conflict(self, error: BaseException) -> bool:
        """Return whether an exception means that there is a conflict."""
        return _means(error, 409, "Conflict")

    def is_over_limit(self, error: BaseException) -> bool:
        """Return whether an exception means that there are too many requests."""
        return _means(error, 413, "OverLimit")

    @ExceptionFilter
    def ignore_not_found(self, error: BaseException) -> bool:
        """Ignore that something does not exist."""
        return self.is_not_found(error)

    @ExceptionFilter
    def ignore_conflict_and_not_found(self, error: BaseException) -> bool:
        """Ignore that something does not exist, or that there is a conflict."""
        return self.is_conflict(error) or self.is_not_found(error)


def _means(error: BaseException, status: int, name: str) -> bool:
    codes = (getattr(error, key, None) for key in ("code", "http_status", "status_code"))
    return status in codes or any(name in class_.__name__ for class_ in type(error).__mro__)


class ClientUser:
    """The part of a resource that uses the client of a service. A plug-in overrides `client`."""

    stack: Host
    default_client_name: ClassVar[str | None] = None
    entity: ClassVar[str | None] = None

    @property
    def resource_id(self) -> str | None:
        """Return the physical id."""
        raise NotImplementedError

    def client(self, name: str | None = None, version: str | None = None) -> Any:  # noqa: ARG002
        """Raise ClientNotAvailable: there is no cloud."""
        raise exception.ClientNotAvailable(client_name=name or self.default_client_name)

    def rpc_client(self) -> ConfigService:
        """Return the part of Heat's RPC client that stores configs."""
        return self.stack.config_service

    def client_plugin(self, name: str | None = None) -> Any:
        """Return the plug-in for a client, which knows what the client's exceptions mean."""
        return ClientPlugin(name or self.default_client_name)

    def _show_resource(self) -> Json:
        """Return the value of the attribute `show`: by default, what the client of a cloud service has."""
        if not self.entity or self.resource_id is None:
            return None
        found = getattr(self.client(), self.entity).get(self.resource_id)
        return found.to_dict() if hasattr(found, "to_dict") else found

    def handle_delete(self) -> Any:
        """Delete the physical resource if it belongs to a cloud service."""
        if self.entity and self.resource_id is not None:
            try:
                getattr(self.client(), self.entity).delete(self.resource_id)
            except Exception as error:  # noqa: BLE001  # that of any client
                self.client_plugin().ignore_not_found(error)
                return None
        return self.resource_id
