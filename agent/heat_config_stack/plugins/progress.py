"""The progress of steps that handlers of cloud resources take one after the other: Heat's `engine.clients.progress`.

A handler returns such values, and its `check_…_complete` reads and changes them at each poll.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Extra: TypeAlias = Mapping[str, Any] | None
"""Further arguments of a call: a tuple under `args`, and a map under `kwargs`."""


def _arguments(subject: str, extra: Extra) -> tuple[tuple[Any, ...], dict[str, Any]]:
    extra = extra or {}
    return (subject, *(extra.get("args") or ())), dict(extra.get("kwargs") or {})


class UpdateProgressBase:
    """A call to a method of a client plug-in; the method with `check_` before its name tells when it is done."""

    def __init__(
        self,
        resource_id: str,
        handler: str,
        complete: bool = False,
        called: bool = False,
        **extra: Extra,
    ) -> None:
        """Take the id that is the first argument of both methods, and the name of the method to call.

        `handler_extra` and `checker_extra` are further arguments of the two.
        """
        self.complete, self.called = complete, called
        self.handler, self.checker = handler, f"check_{handler}"
        self.handler_args, self.handler_kwargs = _arguments(
            resource_id, extra.get("handler_extra")
        )
        self.checker_args, self.checker_kwargs = _arguments(
            resource_id, extra.get("checker_extra")
        )


class ServerUpdateProgress(UpdateProgressBase):
    """One step of the update of a server."""

    def __init__(self, server_id: str, handler: str, *flags: bool, **rest: Any) -> None:
        """Take the id of the server, and the arguments of the base class."""
        super().__init__(server_id, handler, *flags, **rest)
        self.server_id = server_id


class ContainerUpdateProgress(UpdateProgressBase):
    """One step of the update of a container."""

    def __init__(
        self, container_id: str, handler: str, *flags: bool, **rest: Any
    ) -> None:
        """Take the id of the container, and the arguments of the base class."""
        super().__init__(container_id, handler, *flags, **rest)
        self.container_id = container_id


class ServerCreateProgress:
    """The creation of a server."""

    def __init__(self, server_id: str, complete: bool = False) -> None:
        """Take the id of the server."""
        self.server_id, self.complete = server_id, complete


class ServerDeleteProgress:
    """The deletion of a server, after an image is made of it if the snapshot asks for that."""

    def __init__(
        self, server_id: str, image_id: str | None = None, image_complete: bool = True
    ) -> None:
        """Take the ids of the server and of its image."""
        self.server_id, self.image_id, self.image_complete = (
            server_id,
            image_id,
            image_complete,
        )


class VolumeDetachProgress:
    """The detachment of a volume from a server, in which both services take part."""

    def __init__(
        self, srv_id: str, vol_id: str, attach_id: str, task_complete: bool = False
    ) -> None:
        """Take the ids of the server, the volume and the attachment."""
        self.srv_id, self.vol_id, self.attach_id = srv_id, vol_id, attach_id
        self.called = self.cinder_complete = self.nova_complete = task_complete


class VolumeAttachProgress:
    """The attachment of a volume to a server."""

    def __init__(
        self, srv_id: str, vol_id: str, device: str | None, task_complete: bool = False
    ) -> None:
        """Take the ids of the server and the volume, and the name of the device."""
        self.srv_id, self.vol_id, self.device = srv_id, vol_id, device
        self.called = self.complete = task_complete


class VolumeDeleteProgress:
    """The deletion of a volume, perhaps after a backup of it is made."""

    def __init__(self, task_complete: bool = False) -> None:
        """Take whether both steps are done."""
        self.backup = {"called": task_complete, "complete": task_complete}
        self.delete = {"called": task_complete, "complete": task_complete}
        self.backup_id: str | None = None


class VolumeResizeProgress:
    """The extension of a volume."""

    def __init__(
        self,
        task_complete: bool = False,
        size: int | None = None,
        pre_check: bool = False,
    ) -> None:
        """Take the new size."""
        self.called = self.complete = task_complete
        self.size, self.pre_check = size, pre_check


class VolumeUpdateAccessModeProgress:
    """The change of a volume's access mode."""

    def __init__(
        self, task_complete: bool = False, read_only: bool | None = None
    ) -> None:
        """Take the new mode."""
        self.called, self.read_only = task_complete, read_only


class VolumeBackupRestoreProgress:
    """The restoration of a volume from a backup."""

    def __init__(self, vol_id: str, backup_id: str) -> None:
        """Take the ids of the volume and the backup."""
        self.vol_id, self.backup_id = vol_id, backup_id
        self.called = self.complete = False


class PoolDeleteProgress:
    """The deletion of a load balancer's pool, and of its address."""

    def __init__(self, task_complete: bool = False) -> None:
        """Take whether both steps are done."""
        self.pool = {"delete_called": task_complete, "deleted": task_complete}
        self.vip = {"delete_called": task_complete, "deleted": task_complete}
