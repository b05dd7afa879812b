from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.masking import MASK
from heat_config_agent.masking.redaction import (
    Concealer,
    beginning,
    concealer,
    is_distinctive,
    is_secret,
    masked,
    name_of,
    redactor,
)
from heat_config_agent.model.deployment import Deployment, Document, Input
from heat_config_hooks.protocol import CREDENTIALS

URL = "http://h:8000/v1/signal/arn%3Aopenstack?Timestamp=2026&SignatureMethod=HmacSHA256&AWSAccessKeyId=0123456789abcdef&Signature=c2ln%2Bbm%2Fk%3D"


def parse(*outputs: str, **inputs: Any) -> Deployment:
    """Return a deployment; an input given as an object says more of itself than its value."""
    items = [
        {"name": name, **(each if isinstance(each, dict) else {"value": each})}
        for name, each in inputs.items()
    ]
    entry = {
        "id": "a",
        "inputs": items,
        "outputs": [{"name": each} for each in outputs],
    }
    return metadata.parse(Document(source="test", content=[entry])).deployments[0]


def redact(text: str, part: str = "deploy_stdout", *outputs: str, **inputs: Any) -> str:
    """Hide the secrets among the inputs in a part of a result."""
    return redactor(parse(*outputs, **inputs))(part, text)


@pytest.mark.parametrize("name", sorted(CREDENTIALS))
def test_credentials_are_hidden_everywhere(name: str) -> None:
    """In what was printed and in declared outputs alike."""
    inputs = {name: "the value"}
    assert redact("is the value.", "deploy_stderr", **inputs) == f"is {MASK}."
    assert redact("is the value.", "out", "out", **inputs) == f"is {MASK}."


@pytest.mark.parametrize("flag", ["hidden", "no_echo"])
def test_inputs_that_the_document_hides_are_hidden_everywhere(flag: str) -> None:
    """Inputs that the document hides are hidden everywhere, whatever their names are."""
    inputs = {"colour": {"value": "ultramarine", flag: True}}
    assert redact("ultramarine", "deploy_stdout", **inputs) == MASK
    assert redact("ultramarine", "out", "out", **inputs) == MASK


@pytest.mark.parametrize(
    "name",
    [
        *(
            "db_password",
            "adminPasswd",
            "API_KEY",
            "auth_key",
            "clientSecret",
            "x_token",
            "PassPhrase",
            "passcode",
        ),
        *("DB_PASS", "pass", "MYSQL_PWD"),
    ],
)
def test_inputs_with_a_secret_name_are_hidden_in_what_was_printed(name: str) -> None:
    """An input with a secret name is masked in output, but not in a declared output, which may be about it."""
    inputs = {name: "hunter22"}
    assert redact("hunter22", "deploy_stdout", **inputs) == MASK
    assert redact("hunter22", "out", "out", **inputs) == "hunter22"


@pytest.mark.parametrize("name", ["deploy_stdout", "deploy_stderr"])
def test_a_declared_stream_is_still_a_stream(name: str) -> None:
    """A template may declare the standard outputs; that does not open them."""
    assert redact("hunter22", name, name, db_password="hunter22") == MASK


@pytest.mark.parametrize(
    "name",
    [
        "port",
        "user",
        "deploy_action",
        "deploy_stack_id",
        "monkey",
        "passenger",
        "compass",
    ],
)
def test_other_inputs_are_shown(name: str) -> None:
    """Masking them would destroy text that people need."""
    assert not is_secret(Input(name=name, value="value"))
    assert redact("a value", **{name: "value"}) == "a value"


@pytest.mark.parametrize(
    "form",
    [
        "plain",
        "json",
        "json in UTF-8",
        "URL",
        "URL path",
        "form",
        "base64",
        "base64 of a line",
    ],
)
def test_a_secret_is_hidden_in_every_form_in_which_programs_write_it(form: str) -> None:
    """Escaped for JSON, for a URL, or in base64."""
    secret = 'pä/s "w\\ör+d\n€&?'
    forms = {
        "plain": secret,
        "json": json.dumps(secret),
        "json in UTF-8": json.dumps(secret, ensure_ascii=False),
        "URL": quote(secret, safe=""),
        "URL path": quote(secret),
        "form": quote_plus(secret),
        "base64": base64.b64encode(secret.encode()).decode(),
        "base64 of a line": base64.b64encode(f"{secret}\n".encode()).decode(),
    }
    written = forms[form].strip('"=')
    assert written not in redact(f"it is {written} indeed", db_password=secret)


@pytest.mark.parametrize("length", range(4, 12))
def test_base64_is_hidden_whatever_the_length(length: int) -> None:
    """With and without its padding, and with a newline behind the secret."""
    secret = "s3cret-value"[:length]
    for text in (secret, f"{secret}\n"):
        encoded = base64.b64encode(text.encode()).decode()
        assert encoded.rstrip("=") not in redact(encoded, db_password=secret)
        assert encoded[: length * 4 // 3] not in redact(encoded, db_password=secret)


@pytest.mark.parametrize(
    "part", ["c2ln%2Bbm%2Fk%3D", "c2ln+bm/k=", "0123456789abcdef", URL]
)
def test_redaction_of_a_signed_url_hides_only_the_signature(part: str) -> None:
    """Signature and key are hidden both as written in the URL and decoded."""
    assert redact(f"<{part}>", deploy_signal_id=URL) == f"<{MASK}>"


def test_a_temporary_url_is_signed_too() -> None:
    """Swift's has its signature under a name of its own."""
    url = "http://h/v1/AUTH_x/c/o?temp_url_sig=0011223344aabbcc&temp_url_expires=2147483586"
    assert redact("sig 0011223344aabbcc", deploy_signal_id=url) == f"sig {MASK}"


def test_every_text_and_number_in_a_hidden_structure_is_hidden() -> None:
    """Lists and maps of secrets are as secret as these."""
    value = {
        "a": ["first secret", {"b": "second secret"}],
        "pin": 123456,
        "on": True,
        "none": None,
    }
    text = redact(
        "first secret, second secret, 123456, true, null",
        x={"value": value, "hidden": True},
    )
    assert text == f"{MASK}, {MASK}, {MASK}, true, null"


def test_a_secret_within_another_leaves_nothing_of_it() -> None:
    """The longer one is hidden whole."""
    assert (
        redact("abcdefgh abcd", x_token="abcd", y_token="abcdefgh") == f"{MASK} {MASK}"
    )


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("it is hun", 3),
        ("it is hunter2", 7),
        ("it is hunter22", 0),
        ("it is h", 1),
        ("", 0),
        ("one\ntwo", 0),
        ("the first\nli", 12),
        ("the first\nline, the sec", 23),
    ],
)
def test_beginning_of_a_secret_is_recognised(text: str, length: int) -> None:
    """At the end of what was printed so far; of a secret of several lines, also the lines that are there."""
    found = parse(
        db_password="hunter22",
        key={"value": "the first\nline, the second\nline", "hidden": True},
    )
    assert beginning(found)(text) == length


@pytest.mark.parametrize("end", ["\n", "\r\n", " ", "\n\n"])
@pytest.mark.parametrize("secret", ["pass", "hunter2"])
def test_white_space_at_the_end_of_a_secret_does_not_count(
    secret: str, end: str
) -> None:
    """A secret is masked without the newline at its end too, also a short one."""
    assert redact(f"it is {secret}.", db_password=f"{secret}{end}") == f"it is {MASK}."
    assert (
        redact(f"it is {secret}.", db_password=f"\n{secret}{end}") == f"it is {MASK}."
    )


def test_white_space_is_not_masked() -> None:
    """A text without its spaces is none."""
    assert redact("a       b", db_password="      ") == "a       b"


def test_secret_declared_by_a_stack_is_hidden() -> None:
    """In what was printed and in what people are shown; a declared output keeps it, as another resource may need it."""
    entry = {
        "id": "a",
        "inputs": [{"name": "x", "value": "db://hunter22@h"}],
        "outputs": [{"name": "out"}],
    }
    for secrets in (["hunter22"], [{"a": ["hunter22"]}]):
        found = metadata.parse(
            Document(source="test", content=[{**entry, "secrets": secrets}])
        ).deployments[0]
        assert redactor(found)("deploy_stdout", "db://hunter22@h") == f"db://{MASK}@h"
        assert redactor(found)("out", "db://hunter22@h") == "db://hunter22@h"
        assert concealer(found)({"out": "hunter22"}) == {"out": MASK}
        assert beginning(found)("db://hunt") == 4


@pytest.mark.parametrize("secret", ["demo", "swordfish", "18080"])
def test_common_secret_of_a_stack_is_masked_for_people_alone(secret: str) -> None:
    """Names and values that contain it by chance stay exact, because other resources get them."""
    entry = {
        "id": "a",
        "name": f"{secret}-host",
        "outputs": [{"name": "out"}],
        "secrets": [secret],
    }
    found = metadata.parse(Document(source="test", content=[entry])).deployments[0]
    assert concealer(found).text(f"{secret}-host") == f"{MASK}-host"
    assert redactor(found)("deploy_stdout", f"{secret}-host") == f"{secret}-host"
    assert found.name == f"{secret}-host"
    assert name_of(found, f"tool {secret}") == f"tool {MASK}"
    assert name_of(found, secret, only_distinctive=True) == MASK
    assert masked(found.document)["name"] == f"{secret}-host"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hunter2", True),
        ("a1b2", False),
        ("swordfish", False),
        ("1234567", False),
        ("x-y-z!", False),
    ],
)
def test_secret_of_letters_and_digits_is_distinctive(
    text: str, *, expected: bool
) -> None:
    """It is masked inside other values too, from six characters on."""
    assert is_distinctive(text) is expected


@pytest.mark.parametrize("secrets", ["hunter22", {"a": "hunter22"}, None, 7])
def test_only_a_list_of_secrets_counts(secrets: object) -> None:
    """Only a list does: Heat itself has no such key."""
    found = metadata.parse(
        Document(source="test", content=[{"id": "a", "secrets": secrets}])
    ).deployments[0]
    assert redactor(found)("deploy_stdout", "hunter22") == "hunter22"


def test_a_concealer_knows_which_secrets_are_in_a_value() -> None:
    """In keys, texts and numbers, and in whatever form."""
    prepared = Concealer(
        [
            Input(name=name, value=value)
            for name, value in (("a", "it's one"), ("b", 123456), ("c", "three"))
        ]
    )
    assert prepared.within(
        {"x": [f"{json.dumps({'it': 'it'})} it'\\''s one", 123456]}
    ) == ["it's one", 123456]
    assert prepared.finds({"three": 1})
    assert not prepared.finds(["one", 12345])
    assert prepared.also(prepared) is prepared
    assert (
        prepared.also(Concealer([Input(name="d", value="four")])).text("four three")
        == f"{MASK} {MASK}"
    )


@pytest.mark.parametrize("secret", ["", "a", "abc"])
def test_short_secret_is_not_masked(secret: str) -> None:
    """To mask every «a» would destroy the text and hide nothing."""
    assert redact("abc a", db_password=secret) == "abc a"
