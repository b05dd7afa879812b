"""Our own types of resources, each a class like that of a plug-in.

In: the properties of a resource. Out: deployments, child stacks, signals waited for, values, and attributes of these.
A type knows the stack that it is in, and neither a template language nor a command.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from heat_config_stack.definition import HOST, NODE, OPERATION
from heat_config_stack.resource.types import Types

if TYPE_CHECKING:
    from heat_config_stack.resource.resource import Resource


class _Classes(Mapping[str, "type[Resource]"]):
    """Classes by type, whose modules are loaded with the first resource of a type: most templates have few types."""

    def __init__(self, places: Mapping[str, tuple[str, str]]) -> None:
        """Take the module and the name of each class."""
        self._places = places

    def __getitem__(self, type_: str) -> type[Resource]:
        module, name = self._places[type_]
        class_: type[Resource] = getattr(
            importlib.import_module(f"{__package__}.{module}"), name
        )
        return class_

    def __contains__(self, type_: object) -> bool:
        return type_ in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


TYPES: Mapping[str, type[Resource]] = _Classes(
    {
        "AWS::AutoScaling::AutoScalingGroup": (
            "instance_groups",
            "CfnAutoScalingGroup",
        ),
        "AWS::AutoScaling::LaunchConfiguration": (
            "instance_groups",
            "LaunchConfiguration",
        ),
        "AWS::AutoScaling::ScalingPolicy": ("instance_groups", "CfnScalingPolicy"),
        "AWS::CloudFormation::Stack": ("stacks", "CfnStack"),
        "AWS::CloudFormation::WaitCondition": ("signal_urls", "CfnWaitCondition"),
        "AWS::CloudFormation::WaitConditionHandle": (
            "signal_urls",
            "CfnWaitConditionHandle",
        ),
        "OS::Heat::AccessPolicy": ("signal_urls", "AccessPolicy"),
        "OS::Heat::AutoScalingGroup": ("scaling", "AutoScalingGroup"),
        "OS::Heat::CloudConfig": ("configs", "CloudConfig"),
        "OS::Heat::Delay": ("values", "Delay"),
        "OS::Heat::DeployedServer": ("servers", "DeployedServer"),
        "OS::Heat::InstanceGroup": ("instance_groups", "InstanceGroup"),
        "OS::Heat::MultipartMime": ("multipart", "MultipartMime"),
        "OS::Heat::None": ("values", "Nothing"),
        "OS::Heat::RandomString": ("values", "RandomString"),
        "OS::Heat::ResourceChain": ("groups", "ResourceChain"),
        "OS::Heat::ResourceGroup": ("groups", "ResourceGroup"),
        "OS::Heat::ScalingPolicy": ("scaling", "ScalingPolicy"),
        "OS::Heat::SoftwareComponent": ("configs", "SoftwareComponent"),
        "OS::Heat::SoftwareConfig": ("configs", "SoftwareConfig"),
        "OS::Heat::SoftwareDeployment": ("deployment", "SoftwareDeployment"),
        "OS::Heat::SoftwareDeploymentGroup": ("groups", "SoftwareDeploymentGroup"),
        "OS::Heat::SoftwareDeployments": ("groups", "SoftwareDeploymentGroup"),
        "OS::Heat::Stack": ("stacks", "HeatStack"),
        "OS::Heat::StructuredConfig": ("configs", "StructuredConfig"),
        "OS::Heat::StructuredDeployment": ("deployment", "StructuredDeployment"),
        "OS::Heat::StructuredDeploymentGroup": ("groups", "StructuredDeploymentGroup"),
        "OS::Heat::StructuredDeployments": ("groups", "StructuredDeploymentGroup"),
        "OS::Heat::SwiftSignal": ("signal_urls", "SwiftSignal"),
        "OS::Heat::SwiftSignalHandle": ("signal_urls", "SwiftSignalHandle"),
        "OS::Heat::TestResource": ("values", "TestResource"),
        "OS::Heat::UpdateWaitConditionHandle": (
            "signal_urls",
            "UpdateWaitConditionHandle",
        ),
        "OS::Heat::Value": ("values", "Value"),
        "OS::Heat::WaitCondition": ("wait_conditions", "WaitCondition"),
        "OS::Heat::WaitConditionHandle": ("wait_conditions", "WaitConditionHandle"),
    }
)

SERVICE_TYPES: Mapping[str, type[Resource]] = _Classes(
    {
        HOST: ("operations", "ServiceHost"),
        NODE: ("operations", "ServiceNode"),
        OPERATION: ("operations", "Operation"),
    }
)
"""The types for services: only the language of services chooses them."""


def known_types(plugins: Mapping[str, type[Resource]] | None = None) -> Types:
    """Return all known types: our own, and types of plug-ins, which take precedence."""
    return Types(
        TYPES,
        plugins or {},
        SERVICE_TYPES,
        template=_template,
        unusable=_unusable,
        of_cloud=_placeholder,
        former=_former_placeholder,
    )


def _template() -> type[Resource]:
    from heat_config_stack.resource_types.nested import TemplateResource  # noqa: PLC0415  # loaded when there is one

    return TemplateResource


def _unusable() -> type[Resource]:
    from heat_config_stack.resource_types.servers import Unusable  # noqa: PLC0415  # loaded when there is one

    return Unusable


def _placeholder(type_: str) -> type[Resource] | None:
    from heat_config_stack.resource_types import servers  # noqa: PLC0415  # loaded when there is one

    return servers.placeholder(type_)


def _former_placeholder(type_: str) -> type[Resource] | None:
    from heat_config_stack.resource_types import servers  # noqa: PLC0415  # loaded when there is one

    return servers.former_placeholder(type_)
