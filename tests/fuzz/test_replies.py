"""The result of any reply of a hook is JSON, short enough, truthful, and without secrets."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from fuzz.examples import SHARE, damaged, objects, odd, tries, values
from heat_config_agent.deployments import metadata
from heat_config_agent.masking.redaction import redactor
from heat_config_agent.model.deployment import Deployment, Document
from heat_config_agent.runs import executable_hook, result
from heat_config_hooks import protocol
from heat_config_hooks.protocol import CREDENTIALS, Ended
from heat_config_hooks.reply import BODY_LIMIT, Capture, fit, status_code

pytestmark = [pytest.mark.takes(20), pytest.mark.torture(share=SHARE)]

nonsense = pytest.mark.fault(
    2,
    "a hook that replies anything: other types, no status, numbers as text, bytes, JSON cut off, nesting, NaN",
    "what it says of success counts only if it is whole and a number says so; the exit code wins over it",
)
secret = pytest.mark.fault(
    4,
    "a secret anywhere in a reply: in output, outputs, structures, names of keys, however often",
    "it is masked in the result",
)


def parse(identity: str, **fields: object) -> Deployment:
    """Return a deployment."""
    content = [{"id": identity, "group": "script", **fields}]
    return metadata.parse(Document(source="any", content=content)).deployments[0]


codes = st.sampled_from(
    [
        0,
        1,
        "0",
        "1",
        " 0",
        "0 ",
        "00",
        "+0",
        "-0",
        "٠",
        "0x0",
        "0.0",
        0.0,
        True,
        False,
        None,
        "",
        [0],
    ]
)
replied = objects(
    deploy_status_code=codes,
    deploy_stdout=st.text(),
    deploy_stderr=st.text(),
    out=values,
)
whole = (replied | values).map(lambda each: json.dumps(each).encode())
printed = (
    whole
    | damaged(whole)
    | st.binary(max_size=20)
    | st.sampled_from(
        [
            b"[" * 100_000,
            b'{"a":' * 1000,
            b'{"deploy_status_code": NaN}',
            b'{"deploy_status_code": 1e999}',
        ]
    )
)


@nonsense
@tries(200, printed, st.sampled_from([0, 0, 0, 1, 137, 255]))
def test_any_reply_of_a_hook_is_a_result(content: bytes, code: int) -> None:
    """A success is one that both the exit code and a whole reply say; all else has failed, and it is said why."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stdout").write_bytes(content)
        (folder / "stderr").write_bytes(b"\xffwhy\n")
        reply = executable_hook.finish(
            "hook", Ended(code=code, stdout=folder / "stdout", stderr=folder / "stderr")
        )
        outcome = result.make(reply, parse("a", outputs=[{"name": "out"}]))
    assert len(json.dumps(outcome.values, allow_nan=False).encode()) <= BODY_LIMIT
    said = status_code(outcome.values)
    assert said is not None
    assert str(outcome.values["deploy_status_code"]) == str(said), (
        "what Heat compares is the number"
    )
    if not outcome.failed:
        assert code == 0
        value = json.loads(content)
        assert isinstance(value, dict)
        assert int(value["deploy_status_code"]) == 0
        assert not isinstance(value["deploy_status_code"], bool | float)
    else:
        assert outcome.reason
        assert said


@nonsense
@tries(
    60,
    st.dictionaries(
        st.text(max_size=8),
        values | st.text(min_size=500).map(lambda each: each * 5),
        max_size=8,
    ),
    st.binary(max_size=2000),
    st.integers(1, 50),
    st.integers(900, 5000),
)
def test_any_reply_fits(
    reply: dict[str, object], content: bytes, times: int, limit: int
) -> None:
    """The result is JSON within its limit, keeps the outcome, and short values are whole."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content * times)
        file.flush()
        given_reply = {
            **reply,
            "deploy_stdout": Capture(Path(file.name)),
            "deploy_status_code": 1,
        }
        fitted = fit(given_reply, limit)
    assert len(json.dumps(fitted, allow_nan=False).encode()) <= limit
    assert fitted.keys() == given_reply.keys()
    assert fitted["deploy_status_code"] == 1
    text = (content * times).decode("utf-8", "replace")
    complete = {**reply, "deploy_stdout": text, "deploy_status_code": 1}
    if len(json.dumps(complete)) <= limit - 2 * len(complete):
        assert fitted == complete


@nonsense
@tries(
    150,
    objects(
        deploy_status_code=odd, deploy_stdout=odd, deploy_stderr=odd, out=odd, more=odd
    ),
)
def test_any_values_of_our_own_hooks_are_a_result(reply: dict[str, object]) -> None:
    """Any value that the python or salt hook passes on becomes a result."""
    found = result.make(
        reply, parse("a", outputs=[{"name": "out", "error_output": True}])
    )
    assert len(json.dumps(found.values, allow_nan=False).encode()) <= BODY_LIMIT
    assert status_code(found.values) is not None
    assert found.failed == (bool(status_code(found.values)) or "out" in reply)


# Names.

safe = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)


@pytest.mark.fault(
    4,
    "an id of any characters",
    "it names one file of its own, in the folder where that belongs",
)
@tries(150, st.text() | odd.filter(lambda each: isinstance(each, str)))
def test_any_id_has_a_safe_file_name(identity: str) -> None:
    """Any id has a file name of its own, which is not hidden and leads nowhere else."""
    key = protocol.file_key(identity)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", key)
    assert Path(key).name == key
    assert protocol.file_key(key) == key


@pytest.mark.fault(
    4,
    "an id of any characters",
    "it names one file of its own, in the folder where that belongs",
)
@tries(150, safe | st.text(), safe | st.text())
def test_two_ids_never_share_a_file_name(one: str, other: str) -> None:
    """Two deployments never share a file."""
    assume(one != other)
    assert protocol.file_key(one) != protocol.file_key(other)


variables = st.sampled_from(
    [
        *(
            "PATH",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "IFS",
            "BASH_ENV",
            "ENV",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "PERL5OPT",
        ),
        *(
            "BASH_FUNC_ls%%",
            "BASH_FUNC_ls()",
            "PS4",
            "SHELLOPTS",
            "BASHOPTS",
            "HEAT_RUN",
            "HEAT_RUN_WORD",
            "HEAT_RUN_SUPERVISOR",
            "RUBYOPT",
        ),
        *(
            "a=b",
            "a\0b",
            "a\nb",
            "",
            "1a",
            "a b",
            "ä",
            "HEAT_HOOK_RUN",
            "GCONV_PATH",
            "PROMPT_COMMAND",
            "NODE_OPTIONS",
        ),
    ]
)
FORBIDDEN = re.compile(
    r"PATH|LD_.*|IFS|(BASH_)?ENV|(PYTHON|PERL5?|RUBY)[A-Z]+|PS4|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|HEAT_(HOOK_)?RUN.*"
    r"|GCONV_PATH|NODE_OPTIONS|BASH_FUNC_.*"
)


@pytest.mark.fault(
    4,
    "an input with any name and value in the environment of a tool",
    "a variable of that name, unless the name decides what programs load or how they start, or cannot be a variable's",
)
@tries(
    150, st.dictionaries(variables | st.text(max_size=12), st.text() | odd, max_size=5)
)
def test_any_inputs_make_an_environment_that_can_be_used(given: dict[str, Any]) -> None:
    """The kernel takes it, and nothing in it changes which program runs."""
    asked = protocol.request(
        {
            "inputs": [
                {"name": name, "value": value} for name, value in given.items() if name
            ]
        },
        key="a",
        options={},
    )
    for name, value in protocol.environment(asked).items():
        assert re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name)
        assert not FORBIDDEN.fullmatch(name)
        assert "\0" not in value
        assert len(f"{name}={value}".encode()) <= protocol.MAX_VARIABLE


# Secrets.

secrets = st.text(
    st.characters(exclude_characters="*", exclude_categories=["Cs"]),
    min_size=4,
    max_size=40,
)
"""The mask is written with stars, so a secret of stars cannot be told from it."""


@secret
@tries(
    150,
    secrets,
    st.lists(st.text(max_size=20), min_size=2, max_size=5),
    st.sampled_from(sorted(CREDENTIALS)),
    st.sampled_from(["deploy_stdout", "deploy_stderr", "out", "other"]),
)
def test_credentials_are_masked_in_any_text(
    hidden: str, around: list[str], name: str, part: str
) -> None:
    """No credential is left in any text, however often it occurs and whatever is around it."""
    hide = redactor(
        parse("a", inputs=[{"name": name, "value": hidden}], outputs=[{"name": "out"}])
    )
    assert hidden not in hide(part, hidden.join(around))


@secret
@tries(
    150,
    secrets,
    st.lists(st.text(max_size=20), min_size=2, max_size=3),
    values,
    st.integers(0, 3),
)
def test_no_credential_is_left_in_any_result(
    hidden: str, around: list[str], value: object, depth: int
) -> None:
    """No credential is left in a text or a structure, and the result can be sent with its status."""
    text = hidden.join(around)
    nested: object = [text, value, {text: text}]
    for _ in range(depth):
        nested = {"k": [nested]}
    asked = parse(
        "a",
        inputs=[{"name": "deploy_password", "value": hidden}],
        outputs=[{"name": "out"}],
    )
    found = result.make(
        {"deploy_stdout": text, "deploy_status_code": 0, "out": nested}, asked
    )
    json.dumps(found.values, allow_nan=False)
    assert found.values["deploy_status_code"] == 0
    assert hidden not in str(found.values["deploy_stdout"])
    assert not any(hidden in each for each in texts(found.values["out"]))


def texts(value: object) -> list[str]:
    """Return all texts in a JSON value."""
    if isinstance(value, dict):
        return [*value, *(text for each in value.values() for text in texts(each))]
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("stars", ["****", "*****", "a***"])
def test_a_secret_of_stars_breaks_nothing(stars: str) -> None:
    """A secret of stars looks like the mask, and the rest of the text is unchanged."""
    hide = redactor(parse("a", inputs=[{"name": "deploy_password", "value": stars}]))
    assert hide("deploy_stdout", f"before {stars} after") == "before *** after"
