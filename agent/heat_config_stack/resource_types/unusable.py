"""Existing resources whose class cannot be used, because their plug-in is missing or fails: what is on record."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from heat_config_agent.model.positions import Json
from heat_config_stack.records import exception
from heat_config_stack.resource.resource import Resource


class Unusable(Resource):
    """A resource that can be shown, abandoned or forgotten, and nothing else."""

    any_property: ClassVar[bool] = True
    any_attribute: ClassVar[bool] = True

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Refuse: only the class knows the attributes. Raises `Error`."""
        raise exception.Error(f"the attribute {key} of {self.name} is not known without the plug-in of {self.type()}")

    def handle_delete(self) -> NoReturn:
        """Refuse: only the class knows how. Raises `Error`."""
        raise exception.Error(f"{self.name} cannot be deleted without the plug-in of {self.type()}")
