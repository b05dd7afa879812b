"""The exceptions of resources, under the names that plug-ins import from `heat.common.exception`.

Each takes the values of its sentence by name. Any exception of a handler fails the resource, with the name of its class
and its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class HeatException(Exception):
    """The base class; a subclass has its own `msg_fmt`."""

    msg_fmt = "An unknown exception occurred."

    def __init__(self, **values: Any) -> None:
        """Take the values of the sentence."""
        try:
            text = self.msg_fmt % values if values else self.msg_fmt
        except (KeyError, TypeError, ValueError):
            # of a plug-in that gives other values
            text = self.msg_fmt
        super().__init__(text)
        self.message = str(self)


class Error(HeatException):
    """Any other failure."""

    msg_fmt = "%(message)s"

    def __init__(self, msg: str) -> None:
        """Take the whole sentence."""
        super().__init__(message=msg)


class NotFound(HeatException):
    """Something does not exist."""

    def __init__(self, msg_fmt: str = "Not found") -> None:
        """Take the whole sentence."""
        self.msg_fmt = msg_fmt.replace("%", "%%") % ()
        super().__init__()


class EntityNotFound(HeatException):
    """Something with a kind and a name does not exist."""

    msg_fmt = "The %(entity)s (%(name)s) could not be found."

    def __init__(
        self, entity: str | None = None, name: str | None = None, **values: Any
    ) -> None:
        """Take the kind and the name."""
        super().__init__(entity=entity, name=name, **values)


class PhysicalResourceNotFound(EntityNotFound):
    """A physical resource does not exist."""


class StackValidationFailed(HeatException):
    """A template is not valid; nothing was begun."""

    msg_fmt = "%(message)s"

    def __init__(
        self,
        error: str | None = None,
        path: Sequence[str | int] | None = None,
        message: str | Exception = "",
        **_: Any,
    ) -> None:
        """Take the problem in one sentence, and its path from the template or from the resource."""
        self.path = list(path or [])
        self.error = error or ""
        super().__init__(message=message)


class InvalidTemplateAttribute(HeatException):
    """A resource has no such attribute."""

    msg_fmt = "The Referenced Attribute (%(resource)s %(key)s) is incorrect."


class ImmutableParameterModified(HeatException):
    """An update changes parameters that may not be changed."""

    msg_fmt = "The following parameters are immutable and may not be updated: %(keys)s"

    def __init__(self, *names: str) -> None:
        """Take the names of the parameters."""
        super().__init__(keys=", ".join(names))


class NotSupported(HeatException):
    """The resource does not support something."""

    msg_fmt = "%(feature)s is not supported."


class ResourceInError(HeatException):
    """The physical resource is in error."""

    msg_fmt = 'Went to status %(resource_status)s due to "%(status_reason)s"'

    def __init__(self, status_reason: str = "Unknown", **values: Any) -> None:
        """Take the status and the reason."""
        super().__init__(status_reason=status_reason, **values)


class ResourceUnknownStatus(HeatException):
    """The physical resource is in an unknown status."""

    msg_fmt = (
        '%(result)s - Unknown status %(resource_status)s due to "%(status_reason)s"'
    )

    def __init__(
        self,
        result: str = "Resource failed",
        status_reason: str = "Unknown",
        **values: Any,
    ) -> None:
        """Take the status, the reason, and the action."""
        super().__init__(result=result, status_reason=status_reason, **values)


class ResourcePropertyConflict(HeatException):
    """Two properties exclude each other."""

    msg_fmt = "Cannot define the following properties at the same time: %(props)s."

    def __init__(self, *names: str, **values: Any) -> None:
        """Take the names of the properties."""
        super().__init__(**({"props": ", ".join(names)} if names else values))


class ResourcePropertyDependency(HeatException):
    """A property requires another one."""

    msg_fmt = "%(prop1)s cannot be specified without %(prop2)s."


class PropertyUnspecifiedError(HeatException):
    """At least one of several properties is required."""

    msg_fmt = "At least one of the following properties must be specified: %(props)s."

    def __init__(self, *names: str, **values: Any) -> None:
        """Take the names of the properties."""
        super().__init__(**({"props": ", ".join(names)} if names else values))


class ResourceActionRestricted(HeatException):
    """The environment forbids the action."""

    msg_fmt = "%(action)s is restricted for resource."


class UserParameterMissing(HeatException):
    """A required value is missing."""

    msg_fmt = "The Parameter (%(key)s) was not provided."


class ClientNotAvailable(HeatException):
    """A plug-in asks for the client of a cloud service, and there is no cloud."""

    msg_fmt = "The client (%(client_name)s) is not available."


class TemplateOutputError(HeatException):
    """An output of a child stack has no value."""

    msg_fmt = "Error in %(resource)s output %(attribute)s: %(message)s"


class WaitConditionTimeout(Error):
    """Not all signals arrived in time."""


class WaitConditionFailure(Error):
    """A signal reports a failure."""


class SwiftSignalTimeout(Error):
    """Not all signals arrived in time."""


class SwiftSignalFailure(Error):
    """A signal reports a failure."""


class UpdateReplace(Exception):
    """The resource cannot be updated in place: it has to be replaced."""

    def __init__(self, resource_name: object = "Unknown") -> None:
        """Take the resource, or its name."""
        super().__init__(f"The Resource {resource_name} requires replacement.")


class UpdateInProgress(Exception):
    """Another program is updating the resource."""


class ResourceFailure(HeatException):
    """An action of a resource failed; has the class of the error, and the path through the stack and its children."""

    msg_fmt = "%(kind)s: %(where)s: %(message)s"

    def __init__(self, kind: str, path: Sequence[str], message: str) -> None:
        """Take the name of the error's class, the path (`resources`, NAME, …) and the message."""
        self.kind, self.path, self.text = kind, list(path), message
        super().__init__(kind=kind, where=".".join(path), message=message)
