"""Resources that are only a value, a delay, or nothing."""

from __future__ import annotations

import random
import secrets
import string
import time
from collections.abc import Iterable, Mapping
from typing import ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Later, Unresolved
from heat_config_stack.records import exception, records
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.constraints import (
    AllowedValues,
    CustomConstraint,
    Range,
)
from heat_config_stack.resource.properties import Properties, Schema
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.snippet import Snippet
from heat_config_stack.resource.support import HIDDEN, SupportStatus
from heat_config_stack.resource.translation import TranslationRule

_TYPES = {
    "string": Schema.STRING,
    "number": Schema.NUMBER,
    "comma_delimited_list": Schema.LIST,
    "json": Schema.MAP,
    "boolean": Schema.BOOLEAN,
}


class Value(Resource):
    """A value with a name."""

    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "type": Schema(
            Schema.STRING,
            "Type of the value; it is checked, not converted.",
            update_allowed=True,
            constraints=[AllowedValues(list(_TYPES))],
        ),
        "value": Schema(Schema.ANY, "The value.", required=True, update_allowed=True),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "value": Attribute("The value.")
    }

    def schema_of_properties(self) -> Mapping[str, Schema]:
        """Return the schemas, with the declared type of the value."""
        type_ = self.definition.properties.get("type")
        if not isinstance(type_, str) or type_ not in _TYPES:
            return self.properties_schema
        value = Schema(_TYPES[type_], "The value.", required=True, update_allowed=True)
        return {**self.properties_schema, "value": value}

    def handle_create(self) -> None:
        """Create an id."""
        self.resource_id_set(self.physical_resource_name())

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> None:
        """Do nothing: the value is that of the properties."""

    def _resolve_attribute(self, name: str) -> Json:
        return self.resolve(self.properties.data["value"])  # not converted


class Nothing(Resource):
    """A resource that does nothing, and accepts any property."""

    again_after_interruption: ClassVar[bool] = True
    any_property: ClassVar[bool] = True
    any_attribute: ClassVar[bool] = True
    never_updated: ClassVar[bool] = True

    def handle_create(self) -> None:
        """Create an id."""
        self.resource_id_set(records.new_id())

    def frozen(self) -> dict[str, Json]:
        """Return the definition without properties, so that no update changes it."""
        return {**super().frozen(), "properties": {}}

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return None."""
        return None


class RandomString(Resource):
    """A random text that stays the same."""

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
    _MIN = Schema(
        Schema.INTEGER, "Minimum count.", default=1, constraints=[Range(1, 512)]
    )
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "length": Schema(
            Schema.INTEGER,
            "Length of the text.",
            default=32,
            constraints=[Range(1, 512)],
        ),
        "character_classes": Schema(
            Schema.LIST,
            "Character classes.",
            schema=Schema(
                Schema.MAP,
                schema={
                    "class": Schema(
                        Schema.STRING,
                        default="lettersdigits",
                        constraints=[AllowedValues(list(CLASSES))],
                    ),
                    "min": _MIN,
                },
            ),
            default=[{"class": "lettersdigits", "min": 1}],
        ),
        "character_sequences": Schema(
            Schema.LIST,
            "Sets of characters.",
            schema=Schema(
                Schema.MAP,
                schema={"sequence": Schema(Schema.STRING, required=True), "min": _MIN},
            ),
        ),
        "sequence": Schema(
            Schema.STRING,
            "A character class; the older form of character_classes.",
            constraints=[AllowedValues(list(CLASSES))],
            support_status=SupportStatus(HIDDEN, version="5.0.0"),
        ),
        "salt": Schema(Schema.STRING, "A change creates a new text."),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "value": Attribute("The text.", type=Attribute.STRING)
    }

    def translation_rules(self, properties: Properties) -> Iterable[TranslationRule]:
        """Return the rules that make the older property a member of the newer one."""
        try:
            sequence = properties["sequence"] if "sequence" in properties.data else None
        except (ValueError, Unresolved):  # a mistake, which is reported
            return ()
        if not sequence or isinstance(sequence, Later):
            return ()
        added = [{"class": sequence, "min": 1}]
        return (
            TranslationRule(
                properties, TranslationRule.ADD, ["character_classes"], added
            ),
            TranslationRule(properties, TranslationRule.DELETE, ["sequence"]),
        )

    def _kinds(self) -> list[Mapping[str, Json]]:
        """Return the classes and sequences of characters, each with its minimum count."""
        return [
            *(self.properties["character_classes"] or []),
            *(self.properties["character_sequences"] or []),
        ]

    def validate(self) -> None:
        """Check that the length suffices for all minimum counts."""
        if self.properties["length"] < sum(each["min"] for each in self._kinds()):
            raise exception.StackValidationFailed(
                message="Length property cannot be smaller than combined character class and "
                "character sequence minimums"
            )

    def handle_create(self) -> None:
        """Create the text."""
        self.reparse()  # the older property may depend on a resource that was not there before
        kinds = [
            (
                self.CLASSES[each["class"]] if "class" in each else each["sequence"],
                each["min"],
            )
            for each in self._kinds()
        ]
        found = [
            secrets.choice(characters) for characters, of in kinds for _ in range(of)
        ]
        rest = [
            secrets.choice(kinds)[0]
            for _ in range(self.properties["length"] - len(found))
        ]
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
    """A resource for tests of templates, whose properties say what it does."""

    __test__ = False
    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "value": Schema(
            Schema.STRING, "The output.", default="test_string", update_allowed=True
        ),
        "fail": Schema(
            Schema.BOOLEAN, "Whether it fails.", default=False, update_allowed=True
        ),
        "update_replace": Schema(
            Schema.BOOLEAN,
            "Whether an update replaces it.",
            default=False,
            update_allowed=True,
        ),
        "update_replace_value": Schema(Schema.STRING, "A change replaces it."),
        "wait_secs": Schema(
            Schema.NUMBER,
            "Seconds that an action takes.",
            default=0,
            update_allowed=True,
        ),
        "action_wait_secs": Schema(
            Schema.MAP,
            "Seconds that each action takes.",
            update_allowed=True,
            schema={"create": _SECONDS, "update": _SECONDS, "delete": _SECONDS},
        ),
        "client_name": Schema(
            Schema.STRING, "Ignored.", default="", update_allowed=True
        ),
        "entity_name": Schema(
            Schema.STRING, "Ignored.", default="", update_allowed=True
        ),
        "constraint_prop_secs": Schema(
            Schema.NUMBER,
            "Ignored.",
            default=0,
            update_allowed=True,
            constraints=[CustomConstraint("test_constr")],
        ),
        "attr_wait_secs": Schema(
            Schema.NUMBER, "Ignored.", default=0, update_allowed=True
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "output": Attribute("The value.")
    }

    def _seconds(self, action: str) -> float:
        of_action = (self.properties["action_wait_secs"] or {}).get(action)
        return time.monotonic() + float(
            self.properties["wait_secs"] if of_action is None else of_action
        )

    def _fail(self) -> None:
        if self.properties["fail"]:
            raise ValueError(f"Test Resource failed {self.name}")

    def handle_create(self) -> float:
        """Store the value."""
        self._fail()
        self.data_set("value", self.properties["value"])
        self.resource_id_set(self.physical_resource_name())
        return self._seconds("create")

    def needs_replace_with_prop_diff(
        self,
        changed_properties_set: set[str],
        after_props: Properties,
        before_props: Properties,
    ) -> bool:
        """Return whether a new value replaces it."""
        return "value" in changed_properties_set and bool(after_props["update_replace"])

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> float:
        """Store the new value; as in Heat, an empty one leaves the former."""
        self.properties = json_snippet.properties(self.properties_schema)
        self._fail()
        if value := prop_diff.get("value"):
            self.data_set("value", value)
        return self._seconds("update")

    def handle_delete(self) -> float:
        """Start the delay."""
        return self._seconds("delete")

    def handle_check(self) -> None:
        """Fail if the resource was not created."""
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
    """A resource that takes some time."""

    again_after_interruption: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "min_wait": Schema(
            Schema.NUMBER,
            "Minimum of seconds.",
            default=0,
            update_allowed=True,
            constraints=[Range(0)],
        ),
        "max_jitter": Schema(
            Schema.NUMBER,
            "Maximum of additional random seconds.",
            default=0,
            update_allowed=True,
            constraints=[Range(0)],
        ),
        "jitter_multiplier": Schema(
            Schema.NUMBER,
            "Factor for the random seconds.",
            default=1.0,
            update_allowed=True,
            constraints=[Range(0)],
        ),
        "actions": Schema(
            Schema.LIST,
            "Actions that take time.",
            default=["CREATE"],
            update_allowed=True,
            constraints=[AllowedValues(["CREATE", "DELETE", "SUSPEND", "RESUME"])],
        ),
    }

    def _until(self, action: str) -> float:
        if action not in self.properties["actions"]:
            return 0.0
        jitter = random.SystemRandom().uniform(0, float(self.properties["max_jitter"]))
        wait = float(self.properties["min_wait"]) + jitter * float(
            self.properties["jitter_multiplier"]
        )
        return time.monotonic() + wait

    def handle_create(self) -> float:
        """Start the delay. The resource has no id, as in Heat."""
        return self._until("CREATE")

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> None:
        """Apply the new properties from the next action on."""

    def handle_delete(self) -> float:
        """Start the delay."""
        return self._until("DELETE")

    def handle_suspend(self) -> float:
        """Start the delay."""
        return self._until("SUSPEND")

    def handle_resume(self) -> float:
        """Start the delay."""
        return self._until("RESUME")

    def _is_complete(self, until: float) -> bool:
        return time.monotonic() >= until

    check_create_complete = _is_complete
    check_delete_complete = _is_complete
    check_suspend_complete = _is_complete
    check_resume_complete = _is_complete
