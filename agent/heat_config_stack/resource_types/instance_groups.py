"""Groups of instances, with the names of CloudFormation: their members are all like a launch configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Later, ResourceDefinition, requires
from heat_config_stack.records import exception
from heat_config_stack.records.records import CREATE
from heat_config_stack.resource import rolling
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.constraints import (
    AllowedValues,
    CustomConstraint,
    Range,
)
from heat_config_stack.resource.properties import Properties, Schema
from heat_config_stack.resource.snippet import policy
from heat_config_stack.resource_types.scaling import (
    CHANGE,
    EXACT,
    PERCENT,
    AutoScalingGroup,
    ScalingPolicy,
)
from heat_config_stack.resource_types.servers import Named

SCALED, INSTANCE = "OS::Heat::ScaledResource", "AWS::EC2::Instance"
"""The type of the members if an environment maps it to something, and their type if none does."""
LAUNCH, CONFIGURATION = (
    "LaunchConfigurationName",
    "AWS::AutoScaling::LaunchConfiguration",
)
SIGNED = "metering."
"""The prefix of the tags that group the measurements of members."""
LONGEST_PAUSE = 3600

_PAIRS = Schema(
    Schema.MAP,
    schema={
        "Key": Schema(Schema.STRING, "Name of the tag.", required=True),
        "Value": Schema(Schema.STRING, "Value of the tag.", required=True),
    },
)
_SHARED = {
    "AvailabilityZones": Schema(Schema.LIST, "Not used, as in Heat.", required=True),
    "LoadBalancerNames": Schema(
        Schema.LIST, "Load balancers; not used on this machine."
    ),
    "Tags": Schema(Schema.LIST, "Tags of the members.", schema=_PAIRS),
}
_ROLLING = Schema(
    Schema.MAP,
    "How members are replaced.",
    schema={
        "MinInstancesInService": Schema(
            Schema.INTEGER, "Members that stay in service.", default=0
        ),
        "MaxBatchSize": Schema(Schema.INTEGER, "Members per batch.", default=1),
        "PauseTime": Schema(
            Schema.STRING, "Time between two batches, as PT#H#M#S.", default="PT0S"
        ),
    },
)


class LaunchConfiguration(Named):
    """The configuration that all members of a group share."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "ImageId": Schema(
            Schema.STRING,
            "Image of an instance.",
            constraints=[CustomConstraint("glance.image")],
        ),
        "InstanceType": Schema(
            Schema.STRING,
            "Flavor of an instance.",
            constraints=[CustomConstraint("nova.flavor")],
        ),
        "InstanceId": Schema(
            Schema.STRING,
            "An instance to copy.",
            constraints=[CustomConstraint("nova.server")],
        ),
        "KeyName": Schema(
            Schema.STRING,
            "Key of an instance.",
            constraints=[CustomConstraint("nova.keypair")],
        ),
        "UserData": Schema(Schema.STRING, "User data of an instance."),
        "SecurityGroups": Schema(Schema.LIST, "Security groups of an instance."),
        "KernelId": Schema(
            Schema.STRING, "Not implemented in Heat.", implemented=False
        ),
        "RamDiskId": Schema(
            Schema.STRING, "Not implemented in Heat.", implemented=False
        ),
        "NovaSchedulerHints": Schema(
            Schema.LIST, "Hints for the scheduler.", schema=_PAIRS
        ),
        "BlockDeviceMappings": Schema(
            Schema.LIST,
            "Block devices of an instance.",
            schema=Schema(
                Schema.MAP,
                schema={
                    "DeviceName": Schema(
                        Schema.STRING, "Name of the device.", required=True
                    ),
                    "Ebs": Schema(
                        Schema.MAP,
                        "The volume.",
                        schema={
                            "DeleteOnTermination": Schema(
                                Schema.BOOLEAN, "Whether it is deleted.", default=True
                            ),
                            "Iops": Schema(
                                Schema.NUMBER,
                                "Not implemented in Heat.",
                                implemented=False,
                            ),
                            "SnapshotId": Schema(
                                Schema.STRING,
                                "Snapshot of the volume.",
                                constraints=[CustomConstraint("cinder.snapshot")],
                            ),
                            "VolumeSize": Schema(Schema.STRING, "Size in GB."),
                            "VolumeType": Schema(
                                Schema.STRING,
                                "Not implemented in Heat.",
                                implemented=False,
                            ),
                        },
                    ),
                    "NoDevice": Schema(
                        Schema.MAP, "Not implemented in Heat.", implemented=False
                    ),
                    "VirtualName": Schema(
                        Schema.STRING, "Not implemented in Heat.", implemented=False
                    ),
                },
            ),
        ),
    }

    def validate(self) -> None:
        """Refuse block devices without a snapshot, and a configuration without an image and a flavor."""
        properties = self.known()
        devices = properties["BlockDeviceMappings"]
        for device in devices if isinstance(devices, list) else ():
            if not isinstance(device, Mapping) or isinstance(device["Ebs"], Later):
                continue
            missing = "SnapshotId" if device["Ebs"] else "Ebs"
            if not device["Ebs"] or not device["Ebs"]["SnapshotId"]:
                problem = f"{missing} is missing, this is required when specifying BlockDeviceMappings."
                raise exception.StackValidationFailed(message=problem)
        if not properties["InstanceId"] and not (
            properties["ImageId"] and properties["InstanceType"]
        ):
            problem = "If without InstanceId, ImageId and InstanceType are required."
            raise exception.StackValidationFailed(message=problem)


class InstanceGroup(AutoScalingGroup):
    """A group of instances like a launch configuration, at its size."""

    POLICY: ClassVar[str] = "RollingUpdate"
    COOLDOWN: ClassVar[str] = ""
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        **_SHARED,
        LAUNCH: Schema(
            Schema.STRING,
            "The reference of the configuration.",
            required=True,
            update_allowed=True,
        ),
        "Size": Schema(
            Schema.INTEGER, "Number of members.", required=True, update_allowed=True
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "InstanceList": Attribute(
            "The addresses of the members, with commas between them.",
            type=Attribute.STRING,
        ),
    }
    update_policy_schema: ClassVar[Mapping[str, Schema]] = {POLICY: _ROLLING}

    def validate(self) -> None:
        """Refuse a launch configuration that is not referred to, and a pause that is too long."""
        self._check_configuration()
        rules = policy(
            self.update_policy_schema, self.definition.update_policy, self.resolve
        )[self.POLICY]
        if rules and rolling.pause_seconds(rules["PauseTime"]) > LONGEST_PAUSE:
            raise exception.StackValidationFailed(
                message="Maximum PauseTime is 1 hour."
            )

    def _check_configuration(self) -> None:
        name = self.definition.properties.get(LAUNCH)
        if not isinstance(name, str) or any(requires(name)):
            return
        others = self.stack.definition.resources
        if name not in others:
            problem = f"{LAUNCH} ({name}) reference can not be found."
        elif name not in self.definition.requirements():
            problem = f"{LAUNCH} ({name}) requires a reference to the configuration not just the name of the resource."
        else:
            return
        raise exception.StackValidationFailed(
            path=["properties", LAUNCH], message=problem
        )

    def sizes(self, properties: Properties) -> tuple[Any, Any, Any]:
        """Return the least, the desired and the largest size."""
        size = properties["Size"]
        return size, size, size

    def is_rolled(self) -> bool:
        """Return whether an update changes the members, and not only their number."""
        return LAUNCH in self.changes

    def rules(self, action: str) -> rolling.Policy | None:
        """Return the rules of a rolling update; None if all members are created or updated at once."""
        rules = policy(
            self.update_policy_schema, self.definition.update_policy, self.resolve
        )[self.POLICY]
        if not rules or action == CREATE or not self.is_rolled():
            return None
        pause = float(rolling.pause_seconds(rules["PauseTime"]))
        return rolling.Policy(
            max(rules["MaxBatchSize"], 1), pause, rules["MinInstancesInService"]
        )

    def named(
        self, properties: Properties, names: Iterable[str]
    ) -> Iterator[ResourceDefinition]:
        """Yield members with given names."""
        shared = self._shared(properties)
        if shared is None:
            return
        values, metadata = shared
        for name in names:
            mapped = next(
                self.stack.environment.inside(self.name).candidates(SCALED, name)
            )
            type_ = SCALED if mapped.template or mapped.type != SCALED else INSTANCE
            yield ResourceDefinition(
                name=name, type=type_, properties=values, metadata=metadata
            )

    def _shared(
        self, properties: Properties
    ) -> tuple[dict[str, Json], dict[str, Json]] | None:
        """Return the properties and the metadata of all members; None as long as they are not known."""
        name = properties[LAUNCH]
        if isinstance(name, Later):
            return None
        resources = self.stack.resources.values()
        launch = next(
            (
                resource
                for resource in resources
                if name in (resource.FnGetRefId(), resource.name)
            ),
            None,
        )
        if launch is None or not launch.has_interface(CONFIGURATION):
            raise exception.Error(f"{LAUNCH} ({name}) reference can not be found.")
        given = {
            key: launch.properties[key]
            for key in launch.properties.data
            if key != "InstanceId"
        }
        tags = [dict(tag) for tag in properties["Tags"] or ()]
        return {**given, "Tags": [*tags, *self._tags(tags)]}, launch.metadata_get()

    def _tags(self, tags: list[dict[str, Json]]) -> list[dict[str, Json]]:
        """Return the tags that group the measurements of the members."""
        if any(str(tag["Key"]).startswith(SIGNED) for tag in tags):
            return []
        return [{"Key": f"{SIGNED}groupname", "Value": self.FnGetRefId()}]

    def adjust(
        self,
        adjustment: float,
        kind: str,
        least_step: int | None,
        cooldown: float | None = None,
    ) -> None:
        """Raise ValueError: only an update changes the size."""
        raise ValueError(f"{self.name} has the size of its template")

    def get_reference_id(self) -> Json:
        """Return the name of the group."""
        return (
            self.physical_resource_name() if self.resource_id is not None else self.name
        )

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return the addresses of the members, or one of their attributes."""
        if key == "InstanceList":
            addresses = [
                str(each.FnGetAtt("PublicIp") or "0.0.0.0")  # noqa: S104
                for each in self._members().values()
            ]
            return ",".join(addresses) or None
        return super().get_attribute(key, *path)


class CfnAutoScalingGroup(InstanceGroup):
    """A group of instances like a launch configuration, at its desired size, which policies change."""

    POLICY: ClassVar[str] = "AutoScalingRollingUpdate"
    COOLDOWN: ClassVar[str] = "Cooldown"
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        **_SHARED,
        LAUNCH: Schema(
            Schema.STRING, "The reference of the configuration.", update_allowed=True
        ),
        "InstanceId": Schema(
            Schema.STRING,
            "An instance to copy.",
            constraints=[CustomConstraint("nova.server")],
        ),
        "MinSize": Schema(
            Schema.INTEGER, "Minimum of members.", required=True, update_allowed=True
        ),
        "MaxSize": Schema(
            Schema.INTEGER, "Maximum of members.", required=True, update_allowed=True
        ),
        "DesiredCapacity": Schema(
            Schema.INTEGER, "Number of members.", update_allowed=True
        ),
        "Cooldown": Schema(
            Schema.INTEGER, "Seconds between two adjustments.", update_allowed=True
        ),
        "HealthCheckGracePeriod": Schema(
            Schema.INTEGER, "Not implemented in Heat.", implemented=False
        ),
        "HealthCheckType": Schema(
            Schema.STRING,
            "Not implemented in Heat.",
            implemented=False,
            constraints=[AllowedValues(["EC2", "ELB"])],
        ),
        "VPCZoneIdentifier": Schema(
            Schema.LIST, "Subnet of the members.", schema=Schema(Schema.STRING)
        ),
    }
    update_policy_schema: ClassVar[Mapping[str, Schema]] = {POLICY: _ROLLING}

    def validate(self) -> None:
        """Refuse sizes that do not fit together, and several subnets or origins."""
        properties = self.known()
        least, desired, most = self.sizes(properties)
        if isinstance(least, int) and least < 0:
            raise exception.StackValidationFailed(
                message="The size of AutoScalingGroup can not be less than zero"
            )
        self.check_sizes(least, desired, most)
        subnets = properties["VPCZoneIdentifier"]
        if isinstance(subnets, list) and len(subnets) > 1:
            raise exception.NotSupported(
                feature="Anything other than one VPCZoneIdentifier"
            )
        if bool(properties["InstanceId"]) == bool(properties[LAUNCH]):
            problem = (
                "Either 'InstanceId' or 'LaunchConfigurationName' must be provided."
            )
            raise exception.StackValidationFailed(message=problem)
        super().validate()

    def sizes(self, properties: Properties) -> tuple[Any, Any, Any]:
        """Return the least, the desired and the largest size."""
        desired = (
            properties["DesiredCapacity"]
            if "DesiredCapacity" in properties.data
            else None
        )
        return properties["MinSize"], desired, properties["MaxSize"]

    def _shared(
        self, properties: Properties
    ) -> tuple[dict[str, Json], dict[str, Json]] | None:
        if properties["InstanceId"] and not isinstance(properties["InstanceId"], Later):
            raise ValueError(
                "an instance of a cloud cannot be copied on this machine: use a LaunchConfiguration"
            )
        shared = super()._shared(properties)
        subnets = properties["VPCZoneIdentifier"]
        if shared is None or not subnets or isinstance(subnets, Later):
            return shared
        return {**shared[0], "SubnetId": subnets[0]}, shared[1]

    def _tags(self, tags: list[dict[str, Json]]) -> list[dict[str, Json]]:
        return [
            *super()._tags(tags),
            {"Key": f"{SIGNED}AutoScalingGroupName", "Value": self.FnGetRefId()},
        ]

    def adjust(
        self,
        adjustment: float,
        kind: str,
        least_step: int | None,
        cooldown: float | None = None,
    ) -> None:
        """Change the size."""
        AutoScalingGroup.adjust(self, adjustment, kind, least_step, cooldown)


class CfnScalingPolicy(ScalingPolicy):
    """A change of a group's size, made when the policy is signalled, with the names of CloudFormation."""

    GROUP, KIND, CHANGE_BY, STEP, COOLDOWN = (
        *("AutoScalingGroupName", "AdjustmentType", "ScalingAdjustment"),
        *("MinAdjustmentStep", "Cooldown"),
    )
    KINDS: ClassVar[Mapping[str, str]] = {
        "ChangeInCapacity": CHANGE,
        "ExactCapacity": EXACT,
        "PercentChangeInCapacity": PERCENT,
    }
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "AutoScalingGroupName": Schema(
            Schema.STRING, "The reference of the group.", required=True
        ),
        "AdjustmentType": Schema(
            Schema.STRING,
            "Kind of the change.",
            required=True,
            update_allowed=True,
            constraints=[AllowedValues(list(KINDS))],
        ),
        "ScalingAdjustment": Schema(
            Schema.INTEGER, "Size of the change.", required=True, update_allowed=True
        ),
        "Cooldown": Schema(
            Schema.INTEGER, "Seconds between two changes.", update_allowed=True
        ),
        "MinAdjustmentStep": Schema(
            Schema.INTEGER,
            "Minimum of a change in percent.",
            update_allowed=True,
            constraints=[Range(0)],
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "AlarmUrl": Attribute(
            "URL for signals; a command signals the policy here.", type=Attribute.STRING
        ),
    }

    def refuse_step(self) -> None:
        """Raise the exception for a minimum step without a percentage."""
        problem = f"{self.STEP} property should only be specified for {self.KIND} with value PercentChangeInCapacity."
        raise exception.StackValidationFailed(message=problem)
