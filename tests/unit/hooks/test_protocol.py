from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import options, protocol, reserved
from heat_config_hooks.errors import HookError
from heat_config_hooks.protocol import CREDENTIALS, MAX_VARIABLE, MAX_VARIABLES


def request(
    given: dict[str, object] | None = None, /, **inputs: object
) -> protocol.Request:
    """Return a request with these options and inputs."""
    items = [{"name": name, "value": value} for name, value in inputs.items()]
    return protocol.request(
        {"id": "a", "inputs": items}, key="a", options=options.read(given or {}, {})
    )


def environment(**inputs: object) -> dict[str, str]:
    """Return the environment that these inputs make."""
    return protocol.environment(request(**inputs))


@pytest.mark.parametrize(
    "identity",
    ["1234", "abcdef001", "c282641d-b602-48b9-8e01-cff1a53ee0c8", "A_b-9", "x" * 128],
)
def test_a_safe_id_names_its_files_itself(identity: str) -> None:
    """As in heat-agents."""
    assert protocol.file_key(identity) == identity


@pytest.mark.parametrize(
    "identity",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/",
        "a.b",
        ".a",
        "-a",
        "_a",
        "a b",
        "a\n",
        "\n",
        "a\0",
        "é",
        "\ud800",
        "x" * 129,
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_any_other_id_is_named_by_a_digest(identity: str) -> None:
    """The digest is a safe file name, constant, and different for each id."""
    key = protocol.file_key(identity)
    assert key == protocol.file_key(identity) == protocol.file_key(key)
    assert key != protocol.file_key(f"{identity}.")
    assert key.startswith("sha256-")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-7, "-7"),
        (1.5, "1.5"),
        ([], "[]"),
        ([1, "a", None, True], '[1,"a",null,true]'),
        ({"k": {"x": 1}}, '{"k":{"x":1}}'),
    ],
)
def test_every_value_has_one_text(value: object, text: str) -> None:
    """The text of a value is the same everywhere."""
    assert protocol.as_text(value) == text
    assert environment(x=value) == {"x": text}


def test_a_structure_can_be_read_back_from_its_text() -> None:
    """The text is JSON, which any language can read."""
    value = {"é": ["\n", '"', {"k": 1e100}]}
    assert json.loads(environment(x=value)["x"]) == value


@pytest.mark.parametrize(
    "name", ["x", "_x", "X9", "USER", "deploy_action", "LC_ALL", "PATHS", "LDAP"]
)
def test_an_input_is_a_variable(name: str) -> None:
    """Any name that is valid for a variable works."""
    assert environment(**{name: "v"}) == {name: "v"}


@pytest.mark.parametrize(
    "name", ["a-b", "9a", "a b", "a=b", "é", "a\n", "a\0b", "BASH_FUNC_x%%"]
)
def test_input_without_a_variable_name_is_left_out_of_the_environment(
    name: str,
) -> None:
    """The input is in the file of inputs."""
    assert environment(**{name: "v"}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "IFS",
        "ENV",
        "BASH_ENV",
        "SHELLOPTS",
        "PS4",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "GCONV_PATH",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYOPT",
        "NODE_OPTIONS",
        "PWD",
    ],
)
def test_an_input_never_changes_how_programs_start(name: str) -> None:
    """Inputs cannot configure the shell or the loader."""
    assert environment(**{name: "v"}) == {}


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("PATH", "shells"),
        ("LD_PRELOAD", "the loader and the C library"),
        ("OPENSSL_CONF", "OpenSSL"),
        ("OPENSSL_MODULES", "OpenSSL"),
        ("JDK_JAVA_OPTIONS", "Java"),
        ("_JAVA_OPTIONS", "Java"),
        ("CLASSPATH", "Java"),
        ("GIT_SSH_COMMAND", "Git and other version control"),
        ("GIT_EXEC_PATH", "Git and other version control"),
        ("GIT_CONFIG_COUNT", "Git and other version control"),
        ("GIT_CONFIG_KEY_0", "Git and other version control"),
        ("LUA_INIT", "Lua"),
        ("LUA_INIT_5_4", "Lua"),
        ("LESSOPEN", "less, ssh and sudo, which start other programs"),
        ("GEM_PATH", "Ruby"),
        ("RUBYLIB", "Ruby"),
        ("BUNDLE_GEMFILE", "Ruby"),
        ("NODE_PATH", "Node.js"),
        ("PIP_CONFIG_FILE", "Python"),
        ("PYTHONPATH", "Python"),
        ("PERL5OPT", "Perl"),
        ("R_PROFILE", "R"),
        ("R_LIBS_USER", "R"),
        ("PHPRC", "PHP"),
        ("DOTNET_STARTUP_HOOKS", ".NET"),
        ("CORECLR_PROFILER_PATH", ".NET"),
        ("ANSIBLE_CONFIG", "Ansible"),
        ("ANSIBLE_CALLBACK_PLUGINS", "Ansible"),
        ("MAKEFLAGS", "make and compilers"),
        ("RUSTC_WRAPPER", "Go and Rust"),
        ("GTK_MODULES", "libraries with plug-ins"),
        ("APT_CONFIG", "package managers"),
        ("DPKG_ROOT", "package managers"),
        ("RPM_CONFIGDIR", "package managers"),
        ("ZYPP_CONF", "package managers"),
        ("DEBIAN_FRONTEND", "package managers"),
        ("TAR_OPTIONS", "archivers, and options of small tools"),
        ("RIPGREP_CONFIG_PATH", "archivers, and options of small tools"),
        ("CURL_HOME", "archivers, and options of small tools"),
        ("WGETRC", "archivers, and options of small tools"),
        ("EDITOR", "editors, pagers, browsers and mailers"),
        ("PAGER", "editors, pagers, browsers and mailers"),
        ("OTHER_PAGER", "editors, pagers, browsers and mailers"),
        ("VIMINIT", "editors, pagers, browsers and mailers"),
        ("shell_escape", "editors, pagers, browsers and mailers"),
        ("PGSYSCONFDIR", "clients of databases"),
        ("PSQLRC", "clients of databases"),
        ("MYSQL_HOME", "clients of databases"),
        ("TNS_ADMIN", "clients of databases"),
        ("ODBCSYSINI", "clients of databases"),
        ("AWS_CONFIG_FILE", "clients of clouds"),
        ("CLOUDSDK_CONFIG", "clients of clouds"),
        ("OS_CLIENT_CONFIG_FILE", "clients of clouds"),
        ("KUBECONFIG", "clients of containers"),
        ("DOCKER_CONFIG", "clients of containers"),
        ("HELM_PLUGINS", "clients of containers"),
        ("HOME", "homes and folders of settings"),
        ("XDG_CONFIG_HOME", "homes and folders of settings"),
        ("SHELL", "shells"),
        ("fish_function_path", "shells"),
        ("NPM_CONFIG_NODE_OPTIONS", "Node.js"),
        ("npm_config_node_options", "Node.js"),
        ("Npm_Config_Script_Shell", "Node.js"),
        ("GOCACHEPROG", "Go and Rust"),
        ("CARGO_BUILD_RUSTC_WRAPPER", "Go and Rust"),
        ("GNUPGHOME", "other libraries of cryptography"),
        ("KRB5_CONFIG", "other libraries of cryptography"),
        ("FACTERLIB", "other tools of configuration"),
        ("SALT_MINION_CONFIG", "other tools of configuration"),
        ("TF_CLI_CONFIG_FILE", "other tools of configuration"),
        ("CC", "make and compilers"),
        ("PKG_CONFIG_PATH", "make and compilers"),
        ("BC_ENV_ARGS", "other languages"),
        ("AWKPATH", "other languages"),
        ("OCAMLRUNPARAM", "other languages"),
    ],
)
def test_an_input_never_loads_code_by_its_name(name: str, whose: str) -> None:
    """Such an input is not in the environment, and a note names the program that the variable affects."""
    assert protocol.environment(request(**{name: "v;", "ok": "v"})) == {"ok": "v"}
    [sentence] = protocol.left_out(request(**{name: "v;", "ok": "v"}))
    assert sentence == (
        f"the input {name} is not in the environment, because that variable affects {whose}; it is in $HEAT_INPUTS_FILE"
    )


@pytest.mark.parametrize(
    "name",
    [
        *(
            "PIP_INDEX_URL",
            "PIP_EXTRA_INDEX_URL",
            "PIP_PROXY",
            "JAVA_OPTS",
            "JAVA_HOME",
            "NODE_ENV",
            "NODE_NAME",
        ),
        *(
            "PYTHON_VERSION",
            "RUBY_VERSION",
            "PHP_VERSION",
            "GIT_URL",
            "GIT_BRANCH",
            "GIT_REPO",
            "OPENSSL_VERSION",
        ),
        *(
            "ANSIBLE_HOST_KEY_CHECKING",
            "classpath",
            "gem_path",
            "path",
            "SSL_CERT_FILE",
            "R_VALUE",
            "http_proxy",
        ),
        *(
            "PGHOST",
            "PGPASSWORD",
            "MYSQL_HOST",
            "AWS_REGION",
            "DOCKER_IMAGE",
            "STACK_NAME",
            "RELEASE_NAME",
            "REPO_URL",
        ),
        *(
            "NPM_TOKEN",
            "npm_config_registry",
            "RABBITMQ_HOST",
            "SPARK_MASTER",
            "VAULT_ADDR",
            "K3S_TOKEN",
            "ETCD_NAME",
        ),
        *(
            "FILE_NAME",
            "STORAGE_SIZE",
            "CORE_COUNT",
            "BOOT_MODE",
            "NFS_SERVER",
            "S3_BUCKET",
            "FTP_URL",
            "TZ",
            "TMPDIR",
        ),
    ],
)
def test_names_that_say_what_an_application_is_to_do_are_variables(name: str) -> None:
    """Templates use such names for inputs."""
    assert environment(**{name: "v"}) == {name: "v"}
    assert protocol.left_out(request(**{name: "v"})) == ()


@pytest.mark.parametrize(
    ("value", "is_variable"),
    [("noninteractive", True), ("X; BEGIN { die } #", False), ("", False)],
)
def test_frontend_of_debconf_is_a_plain_word(value: str, is_variable: bool) -> None:
    """The program debconf evaluates its name as Perl."""
    assert ("DEBIAN_FRONTEND" in environment(DEBIAN_FRONTEND=value)) is is_variable


@pytest.mark.parametrize(
    "name",
    [
        *(
            "_ANSIBLE_ANSIBALLZ_PYDEVD_CONFIG",
            "PYTHON_EGG_CACHE",
            "PYTHON_KEYRING_BACKEND",
            "UVICORN_APP",
            "RQ_CONFIG",
        ),
        *(
            "ALEMBIC_CONFIG",
            "INVOKE_RUN_SHELL",
            "ROBOT_OPTIONS",
            "VIRTUALENVWRAPPER_HOOK_DIR",
            "PYSPARK_SUBMIT_ARGS",
        ),
        *(
            "bower_scripts__postinstall",
            "CYPRESS_RUN_BINARY",
            "cypress_run_binary",
            "SPRING_APPLICATION_JSON",
        ),
        *(
            "LOADER_PATH",
            "SERVER_JVMFLAGS",
            "LS_JAVA_OPTS",
            "FZF_DEFAULT_COMMAND",
            "NVTX_INJECTION64_PATH",
            "GF_PATHS_PLUGINS",
        ),
        *(
            "fn_ls",
            "WINELOADER",
            "KERNEL_INSTALL_PLUGINS",
            "EASYRSA_VARS_FILE",
            "WG_QUICK_USERSPACE_IMPLEMENTATION",
            "PARALLEL_RSYNC_OPTS",
        ),
        *(
            "FFREPORT",
            "ESBUILD_BINARY_PATH",
            "JENV_ROOT",
            "EM_CONFIG",
            "CONAN_HOME",
            "NCCL_NET_PLUGIN",
            "VCSH_HOOK_D",
        ),
    ],
)
def test_variable_that_names_code_or_settings_is_reserved(name: str) -> None:
    """Although names that begin alike may be variables, as PYTHON_VERSION."""
    assert environment(**{name: "v"}) == {}


def test_every_reserved_name_is_found_and_every_kept_one_is_not() -> None:
    """Also the names in lower case, for which the list is not even loaded where it has none."""
    for names in reserved.RESERVED.values():
        for name in names.split():
            assert protocol.reserved(name.replace("*", "X1"), ";"), name
    for name in reserved.KEPT.split():
        assert not protocol.reserved(name.replace("*", "X1")), name


def test_no_reserved_name_is_listed_twice() -> None:
    """Each belongs to one class."""
    names = [
        name
        for line in (*reserved.RESERVED.values(), reserved.KEPT)
        for name in line.split()
    ]
    assert len(names) == len(set(names)) > 800


@pytest.mark.parametrize("name", sorted(CREDENTIALS))
def test_credentials_are_only_given_to_those_who_ask_for_them(name: str) -> None:
    """Without the option, credentials are neither in the environment nor in the file of inputs."""
    assert environment(**{name: "secret", "x": "y"}) == {"x": "y"}
    assert protocol.visible_inputs(request(**{name: "secret"})) == {}
    asking = request({"deploy_credentials": True}, **{name: "secret"})
    assert (
        protocol.visible_inputs(asking)
        == protocol.environment(asking)
        == {name: "secret"}
    )


@pytest.mark.parametrize("asked", [None, False, "false", "False"])
def test_not_asking_for_credentials_gives_nothing_away(asked: object) -> None:
    """All forms of a false or missing option withhold them."""
    assert (
        protocol.visible_inputs(
            request({"deploy_credentials": asked}, deploy_password="secret")
        )
        == {}
    )


@pytest.mark.parametrize("asked", ["true", "True", "TRUE"])
def test_credentials_may_be_asked_for_in_text(asked: str) -> None:
    """A parameter of a template turns a truth value into text."""
    asking = request({"deploy_credentials": asked}, deploy_password="secret")
    assert protocol.visible_inputs(asking) == {"deploy_password": "secret"}


@pytest.mark.parametrize("asked", [2, "yes", " ", "on", [True]])
def test_asking_for_credentials_is_done_in_one_way(asked: object) -> None:
    """A wrong value of the option withholds them."""
    with pytest.raises(HookError) as caught:
        request({"deploy_credentials": asked}, deploy_password="secret")
    assert caught.value.path == "options.deploy_credentials"


def test_a_value_too_long_for_the_kernel_is_left_out() -> None:
    """The other inputs are in the environment, and the program can start."""
    longest = "x" * (MAX_VARIABLE - 2)
    found = environment(a=longest, b=f"{longest}x", c="c")
    assert found == {"a": longest, "c": "c"}
    subprocess.run(["true"], env=found, check=True)


def test_values_too_many_for_the_kernel_are_left_out() -> None:
    """The first inputs that fit are in the environment, and the program can start."""
    found = environment(**{f"v{index}": "é" * 30_000 for index in range(100)})
    assert list(found) == [f"v{index}" for index in range(len(found))]
    assert (
        sum(len(name) + 1 + len(value.encode()) for name, value in found.items())
        > MAX_VARIABLES - 61_000
    )
    subprocess.run(["true"], env=found, check=True)


@pytest.mark.parametrize(
    ("value", "text"), [("a\0b", "ab"), ("\ud800", "?"), ("é\x80", "é\x80")]
)
def test_characters_that_a_variable_cannot_have_are_replaced(
    value: str, text: str
) -> None:
    """Characters that a variable cannot have are replaced, so that each input is in the environment."""
    assert environment(x=value) == {"x": text}
    os.fsencode(text)


def test_whatever_may_be_missing_may_be_missing() -> None:
    """A deployment may have only an id, or not even that."""
    found = protocol.request({}, key="k", options={})
    assert (found.id, found.key, found.name, found.action, found.config) == (
        "",
        "k",
        "",
        "",
        None,
    )
    assert (found.inputs, found.outputs, found.options) == ({}, (), {})


def test_a_deployment_is_read_as_a_hook_gets_it() -> None:
    """The last of several inputs with one name counts; an input without a value has its default."""
    inputs = [
        {"name": "a", "value": 1},
        {"name": "a", "value": 2},
        {"name": "b", "default": "d"},
        {"name": "c"},
        {"name": "deploy_action", "value": "UPDATE"},
    ]
    document = {
        "id": 7,
        "name": "n",
        "config": {"k": 1},
        "inputs": inputs,
        "outputs": [{"name": "o"}],
        "options": {},
    }
    found = protocol.request(document, key="7", options={})
    assert (found.id, found.name, found.action, found.config) == (
        "7",
        "n",
        "UPDATE",
        {"k": 1},
    )
    assert found.inputs == {"a": 2, "b": "d", "c": None, "deploy_action": "UPDATE"}
    assert found.outputs == ("o",)


def test_options_are_those_that_were_read() -> None:
    """The options of the document are not used, because they may be those of a component."""
    found = protocol.request(
        {"options": {"script": {"a": 1}}}, key="k", options={"a": 1}
    )
    assert found.options == {"a": 1}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"inputs": {"a": 1}}, "inputs"),
        ({"inputs": [1]}, "inputs"),
        ({"inputs": [{}]}, "inputs"),
        ({"outputs": [{"name": 7}]}, "outputs"),
        ({"outputs": "o"}, "outputs"),
    ],
)
def test_a_deployment_of_another_shape_is_a_mistake(
    fields: dict[str, Any], path: str
) -> None:
    """The message has its path."""
    with pytest.raises(HookError) as caught:
        protocol.request(fields, key="k", options={})
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: ")


def test_a_hook_works_in_heat_agents_own_places() -> None:
    """The folders are below a root if there is one, and variables override them."""
    run, root = Path("/run/x"), Path("/state")
    usual = protocol.workplace("docker-cmd", run, None, {})
    assert usual.working == Path("/var/lib/heat-config/heat-config-docker-cmd")
    assert usual.outputs == Path("/var/run/heat-config/heat-config-docker-cmd")
    below = protocol.workplace("script", run, root, {})
    assert (below.run, below.working) == (run, root / "heat-config-script")
    assert below.outputs == root / "run" / "heat-config-script"
    named = {"HEAT_DOCKER_CMD_WORKING": "/w", "HEAT_DOCKER_CMD_OUTPUTS": "/o"}
    given = protocol.workplace("docker-cmd", run, root, named)
    assert (given.working, given.outputs) == (Path("/w"), Path("/o"))


def test_a_hook_knows_the_environment_of_its_commands() -> None:
    """A hook finds its program and variables in the environment of its commands."""
    given = {"PATH": "/bin", "HEAT_PUPPET_CMD": "puppet"}
    assert (
        protocol.workplace("puppet", Path("/run/x"), None, given).environment == given
    )


def test_relative_path_in_a_variable_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path in a variable becomes absolute, because commands run in other folders."""
    monkeypatch.chdir(tmp_path)
    assert (
        protocol.workplace(
            "script", tmp_path, None, {"HEAT_SCRIPT_WORKING": "w"}
        ).working
        == tmp_path / "w"
    )


def test_a_clean_up_is_read_as_one() -> None:
    """A cleanup has no config, only the id of the deployment that has left."""
    found = protocol.request(
        {"id": "a-left", "name": "web", protocol.LEAVES: "a"}, key="a-left", options={}
    )
    assert (found.leaves, found.name, found.config) == ("a", "web", None)
    assert protocol.request({"id": "a"}, key="a", options={}).leaves == ""


@pytest.mark.parametrize(
    ("fields", "removes"),
    [
        ({}, False),
        ({"action": "UPDATE"}, False),
        ({"action": "DELETE"}, True),
        ({"leaves": "d0"}, True),
    ],
)
def test_a_delete_and_a_cleanup_only_remove(
    fields: dict[str, str], removes: bool
) -> None:
    """A hook has one condition for both."""
    values: dict[str, Any] = {
        "id": "d1",
        "key": "d1",
        "name": "n",
        "action": "CREATE",
        "config": None,
        "inputs": {},
    }
    assert (
        protocol.Request(**{**values, "outputs": (), "options": {}, **fields}).removes
        == removes
    )


def test_config_is_read_as_text() -> None:
    """A byte order mark is removed, no config is empty, and a structure is a mistake."""
    assert [protocol.text_of(config, "text") for config in ("a", "\ufeffb", None)] == [
        "a",
        "b",
        "",
    ]
    with pytest.raises(HookError, match="config: expected the text of a script"):
        protocol.text_of({"a": 1}, "the text of a script")


def test_only_named_inputs_may_be_variables_where_the_caller_says_so() -> None:
    """Those of Heat always may; a note names the others."""
    inputs = [{"name": name, "value": "v"} for name in ("a", "b", "deploy_action")]
    document = {"inputs": inputs, protocol.VARIABLES: ["a"]}
    made = protocol.request(document, key="d1", options={})
    assert protocol.environment(made) == {"a": "v", "deploy_action": "v"}
    [sentence] = protocol.left_out(made)
    assert sentence.startswith(
        "the input b is not in the environment, because the signed config does not declare it;"
    )
