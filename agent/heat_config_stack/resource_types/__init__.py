"""Our own types of resources, each a class like that of a plug-in."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_stack.definition import HOST, NODE, OPERATION
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.types import Types
from heat_config_stack.resource_types.configs import CloudConfig, SoftwareComponent, SoftwareConfig, StructuredConfig
from heat_config_stack.resource_types.deployment import SoftwareDeployment, StructuredDeployment
from heat_config_stack.resource_types.groups import (
    ResourceChain,
    ResourceGroup,
    SoftwareDeploymentGroup,
    StructuredDeploymentGroup,
)
from heat_config_stack.resource_types.instance_groups import (
    CfnAutoScalingGroup,
    CfnScalingPolicy,
    InstanceGroup,
    LaunchConfiguration,
)
from heat_config_stack.resource_types.multipart import MultipartMime
from heat_config_stack.resource_types.nested import TemplateResource
from heat_config_stack.resource_types.operations import Operation
from heat_config_stack.resource_types.scaling import AutoScalingGroup, ScalingPolicy
from heat_config_stack.resource_types.servers import DeployedServer, Placeholder, former_placeholder, placeholder
from heat_config_stack.resource_types.service_nodes import ServiceHost, ServiceNode
from heat_config_stack.resource_types.signal_urls import (
    AccessPolicy,
    CfnWaitCondition,
    CfnWaitConditionHandle,
    SwiftSignal,
    SwiftSignalHandle,
    UpdateWaitConditionHandle,
)
from heat_config_stack.resource_types.stacks import CfnStack, HeatStack
from heat_config_stack.resource_types.unusable import Unusable
from heat_config_stack.resource_types.values import Delay, Nothing, RandomString, TestResource, Value
from heat_config_stack.resource_types.wait_conditions import WaitCondition, WaitConditionHandle

TYPES: dict[str, type[Resource]] = {
    "AWS::AutoScaling::AutoScalingGroup": CfnAutoScalingGroup,
    "AWS::AutoScaling::LaunchConfiguration": LaunchConfiguration,
    "AWS::AutoScaling::ScalingPolicy": CfnScalingPolicy,
    "AWS::CloudFormation::Stack": CfnStack,
    "AWS::CloudFormation::WaitCondition": CfnWaitCondition,
    "AWS::CloudFormation::WaitConditionHandle": CfnWaitConditionHandle,
    "OS::Heat::AccessPolicy": AccessPolicy,
    "OS::Heat::AutoScalingGroup": AutoScalingGroup,
    "OS::Heat::CloudConfig": CloudConfig,
    "OS::Heat::Delay": Delay,
    "OS::Heat::DeployedServer": DeployedServer,
    "OS::Heat::InstanceGroup": InstanceGroup,
    "OS::Heat::MultipartMime": MultipartMime,
    "OS::Heat::None": Nothing,
    "OS::Heat::RandomString": RandomString,
    "OS::Heat::ResourceChain": ResourceChain,
    "OS::Heat::ResourceGroup": ResourceGroup,
    "OS::Heat::ScalingPolicy": ScalingPolicy,
    "OS::Heat::SoftwareComponent": SoftwareComponent,
    "OS::Heat::SoftwareConfig": SoftwareConfig,
    "OS::Heat::SoftwareDeployment": SoftwareDeployment,
    "OS::Heat::SoftwareDeploymentGroup": SoftwareDeploymentGroup,
    "OS::Heat::SoftwareDeployments": SoftwareDeploymentGroup,
    "OS::Heat::Stack": HeatStack,
    "OS::Heat::StructuredConfig": StructuredConfig,
    "OS::Heat::StructuredDeployment": StructuredDeployment,
    "OS::Heat::StructuredDeploymentGroup": StructuredDeploymentGroup,
    "OS::Heat::StructuredDeployments": StructuredDeploymentGroup,
    "OS::Heat::SwiftSignal": SwiftSignal,
    "OS::Heat::SwiftSignalHandle": SwiftSignalHandle,
    "OS::Heat::TestResource": TestResource,
    "OS::Heat::UpdateWaitConditionHandle": UpdateWaitConditionHandle,
    "OS::Heat::Value": Value,
    "OS::Heat::WaitCondition": WaitCondition,
    "OS::Heat::WaitConditionHandle": WaitConditionHandle,
}

SERVICE_TYPES: dict[str, type[Resource]] = {HOST: ServiceHost, NODE: ServiceNode, OPERATION: Operation}
"""The types for services: only the language of services chooses them."""

TEMPLATE = TemplateResource
PLACEHOLDER = Placeholder


def known_types(plugins: Mapping[str, type[Resource]] | None = None) -> Types:
    """Return all known types: our own, and those of plug-ins, which take precedence."""
    return Types(
        TYPES,
        plugins or {},
        SERVICE_TYPES,
        template=TEMPLATE,
        placeholder=PLACEHOLDER,
        unusable=Unusable,
        of_cloud=placeholder,
        former=former_placeholder,
    )
