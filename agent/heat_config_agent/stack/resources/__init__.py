"""The types of resources that a stack on this machine has, each a class as a plug-in has it."""

from __future__ import annotations

from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.resources.configs import CloudConfig, SoftwareComponent, SoftwareConfig, StructuredConfig
from heat_config_agent.stack.resources.deployment import SoftwareDeployment, StructuredDeployment
from heat_config_agent.stack.resources.groups import (
    ResourceChain,
    ResourceGroup,
    SoftwareDeploymentGroup,
    StructuredDeploymentGroup,
)
from heat_config_agent.stack.resources.multipart import MultipartMime
from heat_config_agent.stack.resources.nested import TemplateResource
from heat_config_agent.stack.resources.servers import DeployedServer, Placeholder
from heat_config_agent.stack.resources.values import Delay, Nothing, RandomString, TestResource, Value
from heat_config_agent.stack.resources.waiting import UpdateWaitConditionHandle, WaitCondition, WaitConditionHandle

TYPES: dict[str, type[Resource]] = {
    "OS::Heat::CloudConfig": CloudConfig,
    "OS::Heat::Delay": Delay,
    "OS::Heat::DeployedServer": DeployedServer,
    "OS::Heat::MultipartMime": MultipartMime,
    "OS::Heat::None": Nothing,
    "OS::Heat::RandomString": RandomString,
    "OS::Heat::ResourceChain": ResourceChain,
    "OS::Heat::ResourceGroup": ResourceGroup,
    "OS::Heat::SoftwareComponent": SoftwareComponent,
    "OS::Heat::SoftwareConfig": SoftwareConfig,
    "OS::Heat::SoftwareDeployment": SoftwareDeployment,
    "OS::Heat::SoftwareDeploymentGroup": SoftwareDeploymentGroup,
    "OS::Heat::SoftwareDeployments": SoftwareDeploymentGroup,
    "OS::Heat::StructuredConfig": StructuredConfig,
    "OS::Heat::StructuredDeployment": StructuredDeployment,
    "OS::Heat::StructuredDeploymentGroup": StructuredDeploymentGroup,
    "OS::Heat::StructuredDeployments": StructuredDeploymentGroup,
    "OS::Heat::TestResource": TestResource,
    "OS::Heat::UpdateWaitConditionHandle": UpdateWaitConditionHandle,
    "OS::Heat::Value": Value,
    "OS::Heat::WaitCondition": WaitCondition,
    "OS::Heat::WaitConditionHandle": WaitConditionHandle,
}

TEMPLATE = TemplateResource
PLACEHOLDER = Placeholder
