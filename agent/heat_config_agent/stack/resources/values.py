"""Resources that stand for nothing but a value, or for nothing at all."""

from __future__ import annotations

import random
import secrets
import string
import time
from collections.abc import Mapping
from typing import ClassVar

from heat_config_agent.stack import exception, records
from heat_config_agent.stack.attributes import Schema as Attribute
from heat_config_agent.stack.constraints import AllowedValues, CustomConstraint, Range
from heat_config_agent.stack.definition import Json
from heat_config_agent.stack.exception import UpdateReplace
from heat_config_agent.stack.properties import Schema
from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.snippet import Snippet

_TYPES = {
    "string": Schema.STRING,
    "number": Schema.NUMBER,
    "comma_delimited_list": Schema.LIST,
    "json": Schema.MAP,
    "boolean": Schema.BOOLEAN,
}


class Value(Resource):
    """A value that has a name."""

    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "type": Schema(
            Schema.STRING,
            "What the value has to be; it is not made that.",
            update_allowed=True,
            constraints=[AllowedValues(list(_TYPES))],
        ),
        "value": Schema(Schema.ANY, "The value.", required=True, update_allowed=True),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {"value": Attribute("The value.")}

    def schema_of_properties(self) -> Mapping[str, Schema]:
        """Return what the value has to be."""
        type_ = self.definition.properties.get("type")
        if not isinstance(type_, str) or type_ not in _TYPES:
            return self.properties_schema
        value = Schema(_TYPES[type_], "The value.", required=True, update_allowed=True)
        return {**self.properties_schema, "value": value}

    def handle_create(self) -> None:
        """Have a name."""
        self.resource_id_set(self.physical_resource_name())

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> None:
        """Have another value: it is that of the properties."""

    def _resolve_attribute(self, name: str) -> Json:
        return self.resolve(self.properties.data["value"])  # as it was given, whatever it has to be


class Nothing(Resource):
    """Whatever it is said to be, it is nothing."""

    again_after_interruption: ClassVar[bool] = True
    any_property: ClassVar[bool] = True
    any_attribute: ClassVar[bool] = True

    def handle_create(self) -> None:
        """Have an id."""
        self.resource_id_set(records.new_id())

    def frozen(self) -> dict[str, Json]:
        """Return a definition that no update changes."""
        return {**super().frozen(), "properties": {}}

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return nothing."""
        return None


class RandomString(Resource):
    """A text that nobody can guess, and that stays."""

    again_after_interruption: ClassVar[bool] = True
    CLASSES: ClassVar[Mapping[str, str]] = {
        "lettersdigits": string.ascii_letters + string.digits,
        "letters": string.ascii_letters,
        "lowercase": string.ascii_lowercase,
        "uppercase": string.ascii_uppercase,
        "digits": string.digits,
        "hexdigits": string.digits + "ABCDEF",
        "octdigits": string.octdigits,
    }
    _MIN = Schema(Schema.INTEGER, "How many at least.", default=1, constraints=[Range(1, 512)])
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "length": Schema(Schema.INTEGER, "Length of the text.", default=32, constraints=[Range(1, 512)]),
        "character_classes": Schema(
            Schema.LIST,
            "Kinds of characters.",
            schema=Schema(
                Schema.MAP,
                schema={
                    "class": Schema(Schema.STRING, default="lettersdigits", constraints=[AllowedValues(list(CLASSES))]),
                    "min": _MIN,
                },
            ),
            default=[{"class": "lettersdigits", "min": 1}],
        ),
        "character_sequences": Schema(
            Schema.LIST,
            "Characters.",
            schema=Schema(Schema.MAP, schema={"sequence": Schema(Schema.STRING, required=True), "min": _MIN}),
        ),
        "salt": Schema(Schema.STRING, "Another one means another text."),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {"value": Attribute("The text.", type=Attribute.STRING)}

    def _kinds(self) -> list[tuple[str, int]]:
        """Return characters, and how many of them there have to be."""
        sequences = self.properties["character_sequences"] or []
        classes = self.properties["character_classes"] if "character_classes" in self.properties.data else []
        if not sequences and not classes:
            classes = self.properties["character_classes"]
        return [(self.CLASSES[each["class"]], each["min"]) for each in classes] + [
            (each["sequence"], each["min"]) for each in sequences
        ]

    def validate(self) -> None:
        """The text must be long enough for all that has to be in it."""
        least = sum(of for _, of in self._kinds())
        if self.properties["length"] < least:
            raise exception.StackValidationFailed(
                message="Length property cannot be smaller than combined character class and "
                "character sequence minimums"
            )

    def handle_create(self) -> None:
        """Make the text."""
        kinds = self._kinds()
        found = [secrets.choice(characters) for characters, of in kinds for _ in range(of)]
        rest = [secrets.choice(kinds)[0] for _ in range(self.properties["length"] - len(found))]
        found += [secrets.choice(each) for each in rest]
        random.SystemRandom().shuffle(found)
        self.data_set("value", "".join(found), redact=True)
        self.resource_id_set(self.physical_resource_name())

    def get_reference_id(self) -> Json:
        """Return the text."""
        return self.data().get("value") or self.name

    def _resolve_attribute(self, name: str) -> Json:
        return self.data().get("value")


_SECONDS = Schema(Schema.NUMBER, "Seconds.", update_allowed=True)


class TestResource(Resource):
    """Does as it is told, to try out templates."""

    __test__ = False
    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "value": Schema(Schema.STRING, "The output.", default="test_string", update_allowed=True),
        "fail": Schema(Schema.BOOLEAN, "Whether it fails.", default=False, update_allowed=True),
        "update_replace": Schema(Schema.BOOLEAN, "Whether it is replaced.", default=False, update_allowed=True),
        "update_replace_value": Schema(Schema.STRING, "Another one means that it is replaced."),
        "wait_secs": Schema(Schema.NUMBER, "Seconds that an action takes.", default=0, update_allowed=True),
        "action_wait_secs": Schema(
            Schema.MAP,
            "Seconds that each action takes.",
            update_allowed=True,
            schema={"create": _SECONDS, "update": _SECONDS, "delete": _SECONDS},
        ),
        "client_name": Schema(Schema.STRING, "Ignored.", default="", update_allowed=True),
        "entity_name": Schema(Schema.STRING, "Ignored.", default="", update_allowed=True),
        "constraint_prop_secs": Schema(
            Schema.NUMBER, "Ignored.", default=0, update_allowed=True, constraints=[CustomConstraint("test_constr")]
        ),
        "attr_wait_secs": Schema(Schema.NUMBER, "Ignored.", default=0, update_allowed=True),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {"output": Attribute("The value.")}

    def _seconds(self, action: str) -> float:
        of_action = (self.properties["action_wait_secs"] or {}).get(action)
        return time.monotonic() + float(self.properties["wait_secs"] if of_action is None else of_action)

    def _fail(self) -> None:
        if self.properties["fail"]:
            raise ValueError(f"Test Resource failed {self.name}")

    def handle_create(self) -> float:
        """Take the value."""
        self._fail()
        self.data_set("value", self.properties["value"])
        self.resource_id_set(self.physical_resource_name())
        return self._seconds("create")

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> float:
        """Take the new value."""
        self.properties = json_snippet.properties(self.properties_schema)
        if self.properties["update_replace"]:
            raise UpdateReplace(self.name)
        self._fail()
        if "value" in prop_diff:
            self.data_set("value", self.properties["value"])
        return self._seconds("update")

    def handle_delete(self) -> float:
        """Take as long as it is said to take."""
        return self._seconds("delete")

    def handle_check(self) -> None:
        """Be there."""
        if self.resource_id is None:
            raise Exception("Resource not created")  # noqa: TRY002  # Heat's own has this class

    def _is_complete(self, until: float) -> bool:
        return time.monotonic() >= until

    check_create_complete = _is_complete
    check_update_complete = _is_complete
    check_delete_complete = _is_complete

    def _resolve_attribute(self, name: str) -> Json:
        return self.data().get("value")


class Delay(Resource):
    """Takes some time."""

    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "min_wait": Schema(Schema.NUMBER, "Seconds at least.", default=0, update_allowed=True, constraints=[Range(0)]),
        "max_jitter": Schema(
            Schema.NUMBER, "Random seconds more at most.", default=0, update_allowed=True, constraints=[Range(0)]
        ),
        "jitter_multiplier": Schema(
            Schema.NUMBER, "By how much these are multiplied.", default=1.0, update_allowed=True, constraints=[Range(0)]
        ),
        "actions": Schema(
            Schema.LIST,
            "The actions that take time.",
            default=["CREATE"],
            update_allowed=True,
            constraints=[AllowedValues(["CREATE", "DELETE", "SUSPEND", "RESUME"])],
        ),
    }

    def _until(self, action: str) -> float:
        if action not in self.properties["actions"]:
            return 0.0
        jitter = random.SystemRandom().uniform(0, float(self.properties["max_jitter"]))
        wait = float(self.properties["min_wait"]) + jitter * float(self.properties["jitter_multiplier"])
        return time.monotonic() + wait

    def handle_create(self) -> float:
        """Begin to wait."""
        self.resource_id_set(self.physical_resource_name())
        return self._until("CREATE")

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> None:
        """Wait differently from the next action on."""

    def handle_delete(self) -> float:
        """Begin to wait."""
        return self._until("DELETE")

    def handle_suspend(self) -> float:
        """Begin to wait."""
        return self._until("SUSPEND")

    def handle_resume(self) -> float:
        """Begin to wait."""
        return self._until("RESUME")

    def _is_complete(self, until: float) -> bool:
        return time.monotonic() >= until

    check_create_complete = _is_complete
    check_delete_complete = _is_complete
    check_suspend_complete = _is_complete
    check_resume_complete = _is_complete
