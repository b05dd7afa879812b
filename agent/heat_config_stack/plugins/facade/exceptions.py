"""The exceptions of `heat.common.exception`: ours, and those that only plug-ins raise or catch."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from heat_config_stack.records import exception

_SENTENCES = {
    "ActionInProgress": "Stack %(stack_name)s already has an action (%(action)s) in progress.",
    "ActionNotComplete": "Stack %(stack_name)s has an action (%(action)s) in progress or failed state.",
    "AuthorizationFailure": "Authorization failed.%(failure_reason)s",
    "CircularDependencyException": "Circular Dependency Found: %(cycle)s",
    "DownloadLimitExceeded": "Permissible download limit exceeded: %(message)s",
    "EgressRuleNotAllowed": "Egress rules are only allowed when Neutron is used and the 'VpcId' property is set.",
    "Forbidden": "You are not authorized to use %(action)s.",
    "InterfaceAttachFailed": "Failed to attach interface (%(port)s) to server (%(server)s)",
    "InterfaceDetachFailed": "Failed to detach interface (%(port)s) from server (%(server)s)",
    "Invalid": "Data supplied was not valid: %(reason)s",
    "InvalidContentType": "Invalid content type %(content_type)s",
    "InvalidSchemaError": "%(message)s",
    "InvalidServiceVersion": "Invalid service %(service)s version %(version)s",
    "InvalidTemplateReference": 'The specified reference "%(resource)s" (in %(key)s) is incorrect.',
    "InvalidTemplateSection": "The template section is invalid: %(section)s",
    "InvalidTemplateVersion": "The template version is invalid: %(explanation)s",
    "InvalidTenant": "Searching Tenant %(target)s from Tenant %(actual)s forbidden.",
    "MissingCredentialError": "Missing required credential: %(required)s",
    "NotAuthenticated": "You are not authenticated.",
    "PhysicalResourceExists": "The physical resource for (%(name)s) exists.",
    "PhysicalResourceIDAmbiguity": "Multiple resources were found with the physical ID (%(phys_id)s).",
    "PhysicalResourceNameAmbiguity": "Multiple physical resources were found with name (%(name)s).",
    "RequestLimitExceeded": "Request limit exceeded: %(message)s",
    "ResourceActionNotSupported": "%(action)s is not supported for resource.",
    "ResourceNotAvailable": "The Resource (%(resource_name)s) is not available.",
    "ResourcePropertyValueDependency": (
        "%(prop1)s property should only be specified for %(prop2)s with value %(value)s."
    ),
    "ResourceTypeUnavailable": (
        "HEAT-E99001 Service %(service_name)s is not available for resource type %(resource_type)s, reason: %(reason)s"
    ),
    "StackExists": "The Stack (%(stack_name)s) already exists.",
    "StackResourceLimitExceeded": "Maximum resources per stack exceeded.",
    "UnableToAutoAllocateNetwork": "Unable to automatically allocate a network: %(message)s",
    "UnknownUserParameter": "The Parameter (%(key)s) was not defined in template.",
}


class ResourceFailure(exception.ResourceFailure):
    """The failure of a resource, as plug-ins raise it."""

    def __init__(
        self,
        exception_or_error: object,
        resource: Any = None,
        action: str | None = None,
    ) -> None:
        """Take the failure, and the resource that has failed."""
        error = exception_or_error
        kind, path, text = (
            "Error",
            ["resources", resource.name] if resource is not None else [],
            str(error),
        )
        if isinstance(error, exception.ResourceFailure):
            kind, path, text = error.kind, error.path, error.text
        elif isinstance(error, BaseException):
            kind = type(error).__name__
        super().__init__(kind, path, text)
        self.exc = error if isinstance(error, BaseException) else None
        self.resource, self.action = resource, action


class ResourceNotFound(exception.EntityNotFound):
    """A resource does not exist."""

    msg_fmt = (
        "The Resource (%(resource_name)s) could not be found in Stack %(stack_name)s."
    )


def module() -> ModuleType:
    """Return the module that stands for `heat.common.exception`."""
    module_ = ModuleType("heat.common.exception")
    base = (exception.HeatException,)
    plain = {
        name: type(name, base, {"msg_fmt": sentence})
        for name, sentence in _SENTENCES.items()
    }
    plain["NotAuthorized"] = type("NotAuthorized", (plain["Forbidden"],), {})
    ours = {
        name: each
        for name, each in vars(exception).items()
        if not name.startswith("__")
    }
    own = {"ResourceFailure": ResourceFailure, "ResourceNotFound": ResourceNotFound}
    module_.__dict__.update({**plain, **ours, **own})
    return module_
