"""Our own modules for `heat.engine` and `heat.rpc`, as far as plug-ins use them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from heat_config_stack.definition import limits
from heat_config_stack.plugins import progress
from heat_config_stack.plugins.facade import absent, scheduler
from heat_config_stack.plugins.facade.libraries import logger, named
from heat_config_stack.records import exception
from heat_config_stack.records.records import COMPLETE, FAILED, IN_PROGRESS
from heat_config_stack.resource import (
    attributes,
    config_service,
    constraints,
    properties,
    resource,
    support,
    translation,
)

_RPC = {
    f"SOFTWARE_CONFIG_{name.upper()}": name
    for name in (
        "id",
        "name",
        "group",
        "config",
        "inputs",
        "outputs",
        "options",
        "creation_time",
        "project",
    )
}
"""The keys of a config, under the names of Heat's RPC."""

_OUTPUTS = {
    "OUTPUT_KEY": "output_key",
    "OUTPUT_VALUE": "output_value",
    "OUTPUT_ERROR": "output_error",
    "OUTPUT_DESCRIPTION": "description",
    "STACK_OUTPUTS": "outputs",
    "STACK_ACTION": "stack_action",
    "STACK_STATUS": "stack_status",
    "STACK_ID": "stack_identity",
    "PARAM_TIMEOUT": "timeout_mins",
    "PARAM_DISABLE_ROLLBACK": "disable_rollback",
}
"""The keys of a stack, under those names."""

_KEYS_OF_INPUTS = (
    "description",
    "type",
    "default",
    "replace_on_change",
    "value",
    "error_output",
)
_TYPES_OF_INPUTS = dict(
    zip(
        ("STRING", "NUMBER", "LIST", "JSON", "BOOLEAN"),
        config_service.DEFAULTS,
        strict=True,
    )
)


def _of_configs() -> ModuleType:
    """Return the module with the schemas of the inputs and outputs of configs."""
    types = {f"{name}_TYPE": type_ for name, type_ in _TYPES_OF_INPUTS.items()}
    keys = {"IO_NAME": "name", **{key.upper(): key for key in _KEYS_OF_INPUTS}}
    return named(
        "heat.engine.software_config_io",
        input_config_schema=config_service.INPUT,
        output_config_schema=config_service.OUTPUT,
        TYPES=tuple(types.values()),
        **types,
        **keys,
    )


def _client_exceptions() -> ModuleType:
    """Return the exceptions with which Heat's clients say that a search has found nothing, or more than one."""
    none = type(
        "EntityMatchNotFound",
        (exception.HeatException,),
        {"msg_fmt": "No %(entity)s matching %(args)s."},
    )
    several = type(
        "EntityUniqueMatchNotFound",
        (none,),
        {"msg_fmt": "No %(entity)s unique match found for %(args)s."},
    )
    members = {"EntityMatchNotFound": none, "EntityUniqueMatchNotFound": several}
    return named("heat.engine.clients.client_exception", **members)


class _Properties(properties.Properties):
    """The values of properties, as plug-ins make them."""

    def __init__(
        self,
        schema: Mapping[str, Any],
        data: Mapping[str, Any],
        resolver: Callable[[Any], Any] = lambda value: value,
        parent_name: str | None = None,  # noqa: ARG002
        *_: object,
        **_more: object,
    ) -> None:
        """Take the schemas, the values, and a function that resolves them."""
        super().__init__(properties.schemata(schema), data, resolver)


class _Function:
    """The base class of functions; none is left when handlers see a value."""


def _resolved(value: Any, nullable: bool = False) -> Any:
    """Return a value of a template; an empty map for null."""
    return value if value is not None or nullable else {}


def _function() -> ModuleType:
    return named(
        "heat.engine.function",
        Function=_Function,
        resolve=_resolved,
        validate=lambda snippet, path=None: None,  # noqa: ARG005
        dependencies=lambda snippet, path="": iter(()),  # noqa: ARG005
        dep_attrs=lambda snippet, resource_name: iter(()),  # noqa: ARG005
        all_dep_attrs=lambda snippet: iter(()),  # noqa: ARG005
        _non_null_value=lambda value: value is not None,
        _non_null_item=lambda item: item[1] is not None,
    )


class _ParameterSchema:
    """The types of parameters, under the names that plug-ins use."""

    TYPES = (STRING, NUMBER, LIST, MAP, BOOLEAN) = (
        "string",
        "number",
        "comma_delimited_list",
        "json",
        "boolean",
    )
    PARAMETER_KEYS = (
        "type",
        "default",
        "description",
        "constraints",
        "hidden",
        "label",
        "immutable",
        "tags",
    )


class ClientPlugin(resource.ClientPlugin):
    """The base class of plug-ins for clients; a client of a module's own works if it reaches its service."""

    exceptions_module: Any = None
    service_types: tuple[str, ...] | list[str] = ()

    def __init__(self, context: object = None) -> None:
        """Take the context, which is always None."""
        super().__init__(type(self).__name__)
        self.context = context
        self._clients: dict[object, Any] = {}

    def client(self, version: object = None) -> Any:
        """Return the client, which `_create` makes once."""
        if version not in self._clients:
            self._clients[version] = (
                self._create() if version is None else self._create(version=version)
            )
        return self._clients[version]

    def _create(self, version: object = None) -> Any:  # noqa: ARG002
        raise exception.ClientNotAvailable(client_name=type(self).__name__)

    def _get_client_option(self, client: str, option: str) -> Any:
        raise exception.NotSupported(
            feature=f"the setting {option} of Heat's clients_{client} on this machine"
        )

    def url_for(self, **_: Any) -> str:
        """Raise ClientNotAvailable: there is no cloud whose catalog names services."""
        raise exception.ClientNotAvailable(client_name=type(self).__name__)

    def is_client_exception(self, error: BaseException) -> bool:
        """Return whether an exception is one of the client's."""
        module = getattr(self.exceptions_module, "__name__", "")
        return bool(module) and type(error).__module__ == module


def _swift() -> ModuleType:
    return absent.module(
        "heat.engine.clients.os.swift", IN_PROGRESS="in progress", MAX_EPOCH=2147483647
    )


class _Service:
    """The engines of Heat."""

    @staticmethod
    def active_service_count(context: object) -> int:  # noqa: ARG004
        """Return a number that does not limit how many members of a chain are created at once."""
        return limits.MOST_RESOURCES


def _member(module: ModuleType, name: str) -> Any:
    return module.Template if name.startswith("HOTemplate") else getattr(module, name)


def _late(name: str, *names: str) -> Callable[[], ModuleType]:
    """Return a function that makes a module from one of ours, with all its names or with some."""

    def make() -> ModuleType:
        module = importlib.import_module(f"heat_config_stack.plugins.facade.{name}")
        return (
            named(name, **{each: _member(module, each) for each in names})
            if names
            else module
        )

    return make


_ADJUSTMENTS = (
    *(
        "ADJUSTMENT_TYPES",
        "CFN_ADJUSTMENT_TYPES",
        "EXACT_CAPACITY",
        "CHANGE_IN_CAPACITY",
    ),
    *(
        "PERCENT_CHANGE_IN_CAPACITY",
        "CFN_EXACT_CAPACITY",
        "CFN_CHANGE_IN_CAPACITY",
        "CFN_PERCENT_CHANGE_IN_CAPACITY",
    ),
    "calculate_new_capacity",
)

_HOT = (
    *("20130523", "20141016", "20150430", "20151015", "20160408", "20161014"),
    *("20170224", "20170901", "20180302", "20180831", "20210416"),
)
"""The versions of HOT, as the classes of their templates are named."""


def _clients() -> ModuleType:
    module = absent.module("heat.engine.clients", __path__=[], initialise=lambda: None)
    module.__dict__["has_client"] = lambda name: False  # noqa: ARG005  # there is no cloud
    return module


MODULES: dict[str, Callable[[], ModuleType]] = {
    "heat.common.grouputils": _late("groups"),
    "heat.engine.attributes": lambda: named(
        "heat.engine.attributes",
        **{
            **vars(attributes),
            "SHOW_ATTR": attributes.SHOW,
            "BASE_ATTRIBUTES": (attributes.SHOW,),
        },
    ),
    "heat.engine.clients": _clients,
    "heat.engine.clients.client_exception": _client_exceptions,
    "heat.engine.clients.client_plugin": lambda: named(
        "heat.engine.clients.client_plugin",
        ClientPlugin=ClientPlugin,
        ExceptionFilter=resource.ExceptionFilter,
    ),
    "heat.engine.clients.os.swift": _swift,
    "heat.engine.clients.progress": lambda: progress,
    "heat.engine.constraints": lambda: named(
        "heat.engine.constraints", **{**vars(constraints), "Schema": properties.Schema}
    ),
    "heat.engine.environment": _late(
        "template", "Environment", "get_child_environment"
    ),
    "heat.engine.function": _function,
    "heat.engine.hot.parameters": lambda: named(
        "heat.engine.hot.parameters", HOTParamSchema=_ParameterSchema
    ),
    "heat.engine.hot.template": _late(
        "template", *(f"HOTemplate{date}" for date in _HOT)
    ),
    "heat.engine.notification.autoscaling": lambda: named(
        "heat.engine.notification.autoscaling", send=lambda **_values: None
    ),
    "heat.engine.output": _late("template", "OutputDefinition"),
    "heat.engine.properties": lambda: named(
        "heat.engine.properties", **{**vars(properties), "Properties": _Properties}
    ),
    "heat.engine.resource": _late("resource"),
    "heat.engine.resources.signal_responder": _late("signal_responder"),
    "heat.engine.resources.stack_resource": _late("stack_resource"),
    "heat.engine.resources.stack_user": _late("signal_responder", "StackUser"),
    "heat.engine.rsrc_defn": _late("template", "ResourceDefinition"),
    "heat.engine.scheduler": lambda: scheduler,
    "heat.engine.software_config_io": _of_configs,
    "heat.engine.status": lambda: named(
        "heat.engine.status",
        ResourceStatus=type(
            "ResourceStatus",
            (),
            {"IN_PROGRESS": IN_PROGRESS, "FAILED": FAILED, "COMPLETE": COMPLETE},
        ),
    ),
    "heat.engine.support": lambda: support,
    "heat.engine.template": _late("template", "Template"),
    "heat.engine.translation": lambda: translation,
    "heat.objects.service": lambda: named("heat.objects.service", Service=_Service),
    "heat.rpc.api": lambda: named("heat.rpc.api", **_RPC, **_OUTPUTS),
    "heat.scaling.cooldown": _late("groups", "CooldownMixin"),
    "heat.scaling.rolling_update": _late("groups", "needs_update", "next_batch"),
    "heat.scaling.scalingutil": _late("groups", *_ADJUSTMENTS),
    "heat.scaling.template": _late("template", "member_definitions", "make_template"),
    # Names of older releases of Heat.
    "heat.engine.signal_responder": _late("signal_responder"),
    "heat.engine.stack_resource": _late("stack_resource"),
    "heat.openstack.common.gettextutils": lambda: named(
        "heat.openstack.common.gettextutils", _=lambda text: text
    ),
    "heat.openstack.common.log": lambda: named(
        "heat.openstack.common.log", getLogger=logger
    ),
}
"""The functions that make the modules, by the names of these."""
