"""What can go wrong with a resource, under the names that plug-ins know from `heat.common.exception`.

Each takes what its sentence needs by name. What a handler raises, of whatever class, fails its resource with the name
of the class and the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class HeatException(Exception):
    """What a plug-in raises; a class of its own has its own `msg_fmt`."""

    msg_fmt = "An unknown exception occurred."

    def __init__(self, **values: Any) -> None:
        """Take what the sentence needs."""
        super().__init__(self.msg_fmt % values if values else self.msg_fmt)
        self.message = str(self)


class Error(HeatException):
    """Any other failure."""

    msg_fmt = "%(message)s"

    def __init__(self, msg: str) -> None:
        """Take the whole sentence."""
        super().__init__(message=msg)


class NotFound(HeatException):
    """Something that is asked for is not there."""

    def __init__(self, msg_fmt: str = "Not found") -> None:
        """Take the whole sentence."""
        self.msg_fmt = msg_fmt.replace("%", "%%") % ()
        super().__init__()


class EntityNotFound(HeatException):
    """Something that has a kind and a name is not there."""

    msg_fmt = "The %(entity)s (%(name)s) could not be found."

    def __init__(self, entity: str | None = None, name: str | None = None, **values: Any) -> None:
        """Take its kind and its name."""
        super().__init__(entity=entity, name=name, **values)


class PhysicalResourceNotFound(EntityNotFound):
    """A physical resource is not there."""


class StackValidationFailed(HeatException):
    """A template asks for what cannot be; nothing has been begun."""

    msg_fmt = "%(message)s"

    def __init__(
        self, error: str | None = None, path: Sequence[str | int] | None = None, message: str | Exception = "", **_: Any
    ) -> None:
        """Take what is wrong, in one sentence, and where, counted from the template or from the resource."""
        self.path = list(path or [])
        self.error = error or ""
        super().__init__(message=message)


class InvalidTemplateAttribute(HeatException):
    """A resource has no such attribute."""

    msg_fmt = "The Referenced Attribute (%(resource)s %(key)s) is incorrect."


class NotSupported(HeatException):
    """Something cannot be done with this resource."""

    msg_fmt = "%(feature)s is not supported."


class ResourceInError(HeatException):
    """What the resource stands for is in error."""

    msg_fmt = 'Went to status %(resource_status)s due to "%(status_reason)s"'

    def __init__(self, status_reason: str = "Unknown", **values: Any) -> None:
        """Take the status, and why it has it."""
        super().__init__(status_reason=status_reason, **values)


class ResourceUnknownStatus(HeatException):
    """What the resource stands for is in a status that nobody foresaw."""

    msg_fmt = '%(result)s - Unknown status %(resource_status)s due to "%(status_reason)s"'

    def __init__(self, result: str = "Resource failed", status_reason: str = "Unknown", **values: Any) -> None:
        """Take the status, why it has it, and what was being done."""
        super().__init__(result=result, status_reason=status_reason, **values)


class ResourcePropertyConflict(HeatException):
    """Two properties exclude each other."""

    msg_fmt = "Cannot define the following properties at the same time: %(props)s."

    def __init__(self, *names: str, **values: Any) -> None:
        """Take the names of the properties."""
        super().__init__(**({"props": ", ".join(names)} if names else values))


class ResourcePropertyDependency(HeatException):
    """A property is of use only with another."""

    msg_fmt = "%(prop1)s cannot be specified without %(prop2)s."


class PropertyUnspecifiedError(HeatException):
    """One of several properties has to be given."""

    msg_fmt = "At least one of the following properties must be specified: %(props)s."

    def __init__(self, *names: str, **values: Any) -> None:
        """Take the names of the properties."""
        super().__init__(**({"props": ", ".join(names)} if names else values))


class ResourceActionRestricted(HeatException):
    """The environment forbids it."""

    msg_fmt = "%(action)s is restricted for resource."


class UserParameterMissing(HeatException):
    """A value that is needed was not given."""

    msg_fmt = "The Parameter (%(key)s) was not provided."


class ClientNotAvailable(HeatException):
    """A plug-in asks for a client of a cloud's service, and there is no cloud."""

    msg_fmt = "The client (%(client_name)s) is not available."


class TemplateOutputError(HeatException):
    """An output of a child stack cannot be had."""

    msg_fmt = "Error in %(resource)s output %(attribute)s: %(message)s"


class WaitConditionTimeout(Error):
    """Not all signals came in time."""


class WaitConditionFailure(Error):
    """A signal says that something failed."""


class UpdateReplace(Exception):
    """A resource cannot be changed as it is: it is to be made anew, and the old one removed."""

    def __init__(self, resource_name: object = "Unknown") -> None:
        """Take the resource, or its name."""
        super().__init__(f"The Resource {resource_name} requires replacement.")


class UpdateInProgress(Exception):
    """Somebody else changes the resource."""


class ResourceFailure(HeatException):
    """A step of a resource failed: with which error, and where in the stack and its children."""

    msg_fmt = "%(kind)s: %(where)s: %(message)s"

    def __init__(self, kind: str, path: Sequence[str], message: str) -> None:
        """Take the name of the error's class, the path (`resources`, NAME, …) and what it says."""
        self.kind, self.path, self.text = kind, list(path), message
        super().__init__(kind=kind, where=".".join(path), message=message)
