from __future__ import annotations

import base64
import functools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.driver import Driver
from support.loopback import wait_until
from support.machine import deployment
from support.tools import need

pytestmark = [pytest.mark.slow, pytest.mark.takes(60)]

CHEF = """#!/bin/sh
'''exec' "{python}" -I "$0" "$@"
' '''
# Stands in for chef-client: records how it is called and what it is given, then does what the run list says.
import json, os, signal, stat, sys, time
arguments = sys.argv[1:]
assert arguments[:2] == ["-z", "--config"] and arguments[3] == "-j" and len(arguments) == 5, arguments
config, node = arguments[2], arguments[4]
attributes = json.load(open(node))
kitchen = [line for line in open(config) if line.startswith("cookbook_path")][0].split("'")[1]
recipe = os.path.join(kitchen, "web", "recipes", "default.rb")
with open("{folder}/calls", "a") as calls:
    print(json.dumps({{
        "argv": sys.argv,
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "config": open(config).read(),
        "attributes": attributes,
        "modes": [oct(stat.S_IMODE(os.stat(each).st_mode)) for each in (config, node, os.path.dirname(node))],
        "recipe": open(recipe).read() if os.path.exists(recipe) else None,
    }}), file=calls)
print("Converging 1 resources", flush=True)
for each in attributes["run_list"]:
    if each == "recipe[outputs]":
        for name in ("one", "undeclared"):
            open(os.environ["heat_outputs_path"] + "." + name, "w").write("ü " + name + "\\n")
    if each == "recipe[fails]":
        sys.stdout.buffer.write(b"\\xff\\n")
        sys.stdout.flush()
        print("FATAL: RuntimeError: no cheese", file=sys.stderr)
        sys.exit(3)
    if each == "recipe[dies]":
        os.kill(os.getpid(), signal.SIGKILL)
    if each == "recipe[hangs]":
        print(os.getpid(), file=open("{folder}/pid", "w"), flush=True)
        time.sleep(1000)
"""

INPUTS = {
    "text": "ü 😀 \"double\" 'single' #{1 + 1} \\ $HOME\nsecond line",
    "number": 3,
    "float": 2.5,
    "yes": True,
    "no": False,
    "nothing": None,
    "list": [1, "two", None],
    "map": {"key": {"inner": [True]}},
    "run_list": ["recipe[mine]"],
}


@pytest.fixture(autouse=True)
def chef(driver: Driver, tmp_path: Path) -> Path:
    """Install a stand-in for chef-client in the PATH."""
    path = tmp_path / "bin/chef-client"
    path.parent.mkdir()
    path.write_text(CHEF.format(python=sys.executable, folder=tmp_path))
    path.chmod(0o755)
    driver.environment["PATH"] = f"{path.parent}:{os.environ['PATH']}"
    return path


def calls(tmp_path: Path) -> list[dict[str, Any]]:
    """Return how the stand-in was called."""
    path = tmp_path / "calls"
    return (
        [json.loads(line) for line in path.read_text().splitlines()]
        if path.exists()
        else []
    )


def converge(
    identity: str, config: object = '["recipe[web]"]', **fields: Any
) -> dict[str, Any]:
    """Return a deployment of the tool."""
    return deployment(identity, config, group="chef", **fields)


def kitchen(driver: Driver) -> Path:
    """Make a kitchen in its default folder."""
    path = driver.working("chef") / "kitchen"
    (path / "cookbooks").mkdir(parents=True)
    return path


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder."""
    identity = (
        "-c",
        "user.name=me",
        "-c",
        "user.email=me@example.org",
        "-c",
        "init.defaultBranch=main",
    )
    subprocess.run(
        [need("git", "git"), *identity, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def commit(repository: Path, recipe: str) -> None:
    """Commit a recipe to a repository, and make the repository if it does not exist."""
    path = repository / "cookbooks/web/recipes/default.rb"
    if not repository.exists():
        path.parent.mkdir(parents=True)
        git(repository, "init", "-q")
    path.write_text(recipe)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "recipe")


def settings(config: str) -> dict[str, str]:
    """Return the settings of a configuration in which nothing is quoted with a backslash."""
    return dict(line.split(" ", 1) for line in config.splitlines())


def test_chef_converges_the_run_list_at_every_action(
    driver: Driver, chef: Path, tmp_path: Path
) -> None:
    """It runs in local mode on the kitchen; inputs, except Heat's own, are attributes with their types."""
    path = kitchen(driver)
    working = driver.working("chef")
    credentials = {
        "deploy_signal_transport": "CFN_SIGNAL",
        "deploy_server_id": "s",
        "deploy_password": "secret-pw",
    }
    known = {**credentials, "deploy_stack_id": "s", "deploy_resource_name": "r"}
    for identity, action in (("d1", "CREATE"), ("d2", "UPDATE"), ("d3", "DELETE")):
        inputs = {**INPUTS, **known, "environment": "production"}
        values = driver.run(converge(identity, action=action, inputs=inputs))
        assert values == {
            "deploy_stdout": "Converging 1 resources\n",
            "deploy_stderr": "",
            "deploy_status_code": 0,
        }

    for call in calls(tmp_path):
        assert call["argv"][0] == str(chef)
        assert call["attributes"] == {**INPUTS, "run_list": ["recipe[web]"]}
        assert call["modes"] == ["0o600", "0o600", "0o700"]
        assert call["cwd"] == str(working)
        found = settings(call["config"])
        nodes = found.pop("node_path")
        assert found == {
            "log_location": "STDOUT",
            "local_mode": "true",
            "chef_zero.enabled": "true",
            "cookbook_path": f"'{path}/cookbooks'",
            "role_path": f"'{path}/roles'",
            "environment_path": f"'{path}/environments'",
            "cache_path": f"'{working}/local-mode-cache'",
            "environment": "'production'",
        }
        told = " ".join(
            [
                *call["argv"],
                *call["environment"],
                *call["environment"].values(),
                call["config"],
            ]
        )
        assert "double" not in told
        assert "secret-pw" not in told
        for given in (call["argv"][3], call["argv"][5], nodes.strip("'")):
            assert not Path(given).exists(), "what chef was given goes with the run"
    assert len(calls(tmp_path)) == 3
    assert sorted(each.name for each in working.iterdir()) == ["kitchen"]


def test_shorter_deployment_after_a_longer_one_has_complete_files(
    driver: Driver, tmp_path: Path
) -> None:
    """A shorter deployment after a longer one gets complete files of its own."""
    kitchen(driver)
    long = {"attribute": "x" * 5000, "environment": "production"}
    assert (
        driver.run(converge("d1", ["recipe[web]", "role[database]"], inputs=long))[
            "deploy_status_code"
        ]
        == 0
    )
    assert driver.run(converge("d2", []))["deploy_status_code"] == 0
    first, second = calls(tmp_path)
    assert first["attributes"]["run_list"] == ["recipe[web]", "role[database]"]
    assert second["attributes"] == {"run_list": []}
    assert "environment" not in settings(second["config"])
    assert not set(first["argv"][2:]) & set(second["argv"][2:]) - {"--config", "-j"}


def test_recipes_may_leave_declared_outputs(driver: Driver) -> None:
    """They write them to `$heat_outputs_path.NAME`."""
    kitchen(driver)

    values = driver.run(converge("d1", ["recipe[outputs]"], outputs=["one", "two"]))

    assert values["one"] == "ü one\n"
    assert values.keys() - {"one"} == {
        "deploy_stdout",
        "deploy_stderr",
        "deploy_status_code",
    }


def test_credentials_are_attributes_only_where_they_are_asked_for(
    driver: Driver, tmp_path: Path
) -> None:
    """The option `deploy_credentials` requests them."""
    kitchen(driver)

    driver.run(
        converge(
            "d1", inputs={"deploy_user_id": "u"}, options={"deploy_credentials": "true"}
        )
    )

    assert calls(tmp_path)[0]["attributes"]["deploy_user_id"] == "u"


def test_a_failure_is_the_deployments(driver: Driver) -> None:
    """The result has the exit code of chef and all its output, whatever bytes that is."""
    kitchen(driver)
    values = driver.run(converge("d1", ["recipe[fails]"]))
    assert values["deploy_status_code"] == 3
    assert values["deploy_stdout"] == "Converging 1 resources\n\ufffd\n"
    assert values["deploy_stderr"] == "FATAL: RuntimeError: no cheese\n"

    assert driver.run(converge("d2", ["recipe[dies]"]))["deploy_status_code"] == 128 + 9


def test_an_empty_config_runs_nothing(driver: Driver, tmp_path: Path) -> None:
    """It is a success, and the result says that nothing was run."""
    for number, config in enumerate(("", " \n", None)):
        values = driver.run(converge(f"d{number}", config))
        assert values["deploy_status_code"] == 0
        assert values["deploy_stderr"] == "the config is empty: nothing was run\n"
    assert not calls(tmp_path)


@pytest.mark.parametrize(
    ("config", "environment", "says"),
    [
        (
            "recipe[web]",
            None,
            'config: expected a run list as JSON, e.g. ["recipe[apache]"]: ',
        ),
        ('{"run_list": []}', None, "config: expected a run list: a list of texts"),
        ([["recipe[web]"]], None, "config: expected a run list: a list of texts"),
        (
            [],
            "x'; system('touch /tmp/x'); '",
            "inputs.environment: expected the name of a chef environment",
        ),
        (
            [],
            ["production"],
            "inputs.environment: expected the name of a chef environment",
        ),
    ],
)
def test_invalid_value_for_chef_is_a_mistake(
    driver: Driver, tmp_path: Path, config: object, environment: object, says: str
) -> None:
    """The message has its path, and nothing is run."""
    kitchen(driver)

    values = driver.run(converge("d1", config, inputs={"environment": environment}))

    assert values["deploy_status_code"] == 125
    assert says in values["deploy_stderr"]
    assert not calls(tmp_path)


def test_options_are_checked(driver: Driver, tmp_path: Path) -> None:
    """Unknown and mistyped options are reported before anything runs."""
    values = driver.run(converge("d1", options={"kichen": "x", "kitchen_path": ["/k"]}))
    assert values["deploy_status_code"] == 125
    assert (
        "options.kichen: chef has no such option; did you mean kitchen?"
        in values["deploy_stderr"]
    )
    assert "options.kitchen_path: expected text, not ['/k']" in values["deploy_stderr"]

    values = driver.run(
        converge("d2", options={"kitchen_path": str(tmp_path / "none")})
    )
    assert values["deploy_status_code"] == 125
    assert f"there is no kitchen at {tmp_path}/none" in values["deploy_stderr"]
    assert not calls(tmp_path)


def test_a_program_that_is_missing_is_a_failure_that_says_how_to_get_it(
    driver: Driver, chef: Path, tmp_path: Path
) -> None:
    """A missing chef is reported before the kitchen is cloned, and git only if it is needed."""
    repository = tmp_path / "repository"
    commit(repository, "one")
    values = driver.run(
        converge(
            "d0",
            options={
                "kitchen": str(repository),
                "kitchen_path": str(tmp_path / "kept"),
            },
        )
    )
    assert values["deploy_status_code"] == 0

    empty = tmp_path / "empty"
    empty.mkdir()
    driver.environment = {"PATH": str(empty)}
    values = driver.run(converge("d1", options={"kitchen": str(repository)}))
    assert values["deploy_status_code"] == 127
    assert values["deploy_stderr"].startswith(
        "chef-client or cinc-client is not installed; install Chef"
    )
    assert not (driver.working("chef") / "kitchen").exists()

    driver.environment["HEAT_CHEF_CMD"] = (
        f"/usr/bin/env CHEF_LICENSE=accept-silent {chef}"
    )
    values = driver.run(converge("d2", options={"kitchen": str(repository)}))
    assert values["deploy_status_code"] == 127
    assert (
        "git is not installed; the option kitchen needs it: install it with «apt install git»"
        in str(values)
    )

    values = driver.run(
        converge("d3", options={"kitchen_path": str(tmp_path / "kept")})
    )
    assert values["deploy_status_code"] == 0
    assert calls(tmp_path)[-1]["environment"]["CHEF_LICENSE"] == "accept-silent"


def test_cinc_is_chef_too(driver: Driver, chef: Path, tmp_path: Path) -> None:
    """cinc-client is used if there is no chef-client."""
    kitchen(driver)
    chef.rename(chef.with_name("cinc-client"))

    assert driver.run(converge("d1"))["deploy_status_code"] == 0
    assert calls(tmp_path)[0]["argv"][0] == str(chef.with_name("cinc-client"))


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_the_kitchen_is_cloned_anew_for_each_run(
    driver: Driver, tmp_path: Path
) -> None:
    """Each action replaces the previous clone, with changes that a run has made in it."""
    repository = tmp_path / "repository"
    path = driver.working("chef") / "kitchen"
    for number, action in enumerate(("CREATE", "CREATE", "UPDATE", "DELETE")):
        commit(repository, f"version {number}")
        for url in (str(repository), f"file://{repository}"):
            values = driver.run(
                converge(f"d{number}-{url[0]}", action=action, options={"kitchen": url})
            )
            assert values["deploy_status_code"] == 0, values
            assert calls(tmp_path)[-1]["recipe"] == f"version {number}"
            assert not (path / "left").exists()
            (path / "left").touch()
    assert sorted(each.name for each in path.parent.iterdir()) == ["kitchen"]


def test_a_clone_that_fails_leaves_the_kitchen_that_was_there(
    driver: Driver, tmp_path: Path
) -> None:
    """The deployment fails with the message of git, and chef is not run."""
    repository, path = tmp_path / "repository", tmp_path / "my kitchen's"
    commit(repository, "good")
    options = {"kitchen": str(repository), "kitchen_path": str(path)}
    assert driver.run(converge("d1", options=options))["deploy_status_code"] == 0
    (path.with_name(f".{path.name}.new")).mkdir()  # as one that was killed leaves it

    repository.rename(tmp_path / "elsewhere")
    values = driver.run(converge("d2", options=options))
    assert values["deploy_status_code"] == 128
    assert "does not exist" in values["deploy_stderr"]
    assert (
        f"the kitchen cannot be cloned; {path} was not changed\n"
        in values["deploy_stderr"]
    )
    assert (path / "cookbooks/web/recipes/default.rb").read_text() == "good"
    assert len(calls(tmp_path)) == 1

    del options["kitchen"]
    assert driver.run(converge("d3", options=options))["deploy_status_code"] == 0


def test_folder_without_a_clone_is_not_replaced(driver: Driver, tmp_path: Path) -> None:
    """A folder without a clone may contain anything; an empty folder is replaced."""
    repository = tmp_path / "repository"
    commit(repository, "good")
    path = kitchen(driver)
    values = driver.run(converge("d1", options={"kitchen": str(repository)}))
    assert values["deploy_status_code"] == 125
    assert f"options.kitchen_path: {path} is not a git clone" in values["deploy_stderr"]
    assert (path / "cookbooks").is_dir()
    assert not calls(tmp_path)

    (path / "cookbooks").rmdir()
    assert (
        driver.run(converge("d2", options={"kitchen": str(repository)}))[
            "deploy_status_code"
        ]
        == 0
    )


@pytest.mark.parametrize(
    "url",
    ["--upload-pack=touch {0}/done", "ext::touch {0}/done", "ext://touch {0}/done"],
)
def test_a_url_runs_nothing(driver: Driver, tmp_path: Path, url: str) -> None:
    """Git would read some URLs as options, and, if its configuration allows it, others as commands."""
    (tmp_path / ".gitconfig").write_text('[protocol "ext"]\nallow = always\n')
    values = driver.run(converge("d1", options={"kitchen": url.format(tmp_path)}))

    assert values["deploy_status_code"] in (125, 128)
    assert re.search(
        "options.kitchen: expected the URL|transport 'ext' not allowed",
        values["deploy_stderr"],
    )
    assert not (tmp_path / "done").exists()
    assert not calls(tmp_path)


class _Guarded(SimpleHTTPRequestHandler):
    """Serves files to clients with the password."""

    def do_GET(self) -> None:
        known = (b"me:pass word", b"token 4711:")
        if self.headers.get("Authorization") in [
            "Basic " + base64.b64encode(each).decode() for each in known
        ]:
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    """A git server that requires a user and a password; return its address without them."""
    commit(tmp_path / "work", "guarded")
    git(tmp_path, "clone", "-q", "--bare", "work", "served.git")
    git(tmp_path / "served.git", "update-server-info")
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Guarded, directory=str(tmp_path))
    )
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}/served.git"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("secret", ["me:pass%20word", "token%204711:", "token%204711"])
def test_the_secret_in_a_url_is_nowhere_to_be_seen(
    driver: Driver, chef: Path, tmp_path: Path, guarded: str, secret: str
) -> None:
    """It is on no command line, not in the clone, and in no message. A token is a secret, too."""
    wrapper = chef.with_name("git")
    wrapper.write_text(
        f'#!/bin/sh\nexport GIT_TRACE={tmp_path}/trace\nexec {need("git", "git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    driver.environment["no_proxy"] = "127.0.0.1"

    values = driver.run(
        converge("d1", options={"kitchen": f"http://{secret}@{guarded}"})
    )

    assert values["deploy_status_code"] == 0, values
    assert calls(tmp_path)[0]["recipe"] == "guarded"
    trace = (tmp_path / "trace").read_text()
    assert "remote-http" in trace, "the helper's command line is seen"
    config = (driver.working("chef") / "kitchen/.git/config").read_text()
    assert f"http://{guarded}" in config
    for text in (trace, config, json.dumps(values)):
        for word in ("pass%20word", "pass word", "token%204711", "token 4711"):
            assert word not in text

    wrong = secret.replace("%20", "wrong")
    values = driver.run(
        converge("d2", options={"kitchen": f"http://{wrong}@{guarded}"}), seconds=30
    )
    assert values["deploy_status_code"] == 128
    assert "wrong" not in values["deploy_stderr"]


def test_a_run_that_hangs_is_ended_with_all_that_it_started(
    driver: Driver, tmp_path: Path
) -> None:
    """The timeout ends all processes of the run."""
    kitchen(driver)

    for limit in (3, 10, 40):  # a busy machine takes longer until the recipe has begun
        values = driver.run(
            converge(f"d{limit}", ["recipe[hangs]"], options={"timeout": limit})
        )
        assert values["deploy_status_code"] == 124
        if (tmp_path / "pid").exists():
            break

    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(pid))


def test_configuration_is_read_by_the_library_of_chef(
    driver: Driver, tmp_path: Path
) -> None:
    """The name of a folder is not evaluated as Ruby."""
    ruby = need("ruby", "ruby-chef-config")
    evaluate = "require 'chef-config/config'; require 'json'; c = ChefConfig::Config; c.from_file(ARGV[0]);"
    if subprocess.run(
        [ruby, "-e", "require 'chef-config/config'"], capture_output=True, check=False
    ).returncode:
        pytest.skip(
            "chef-config is not installed: «apt install ruby-chef-config» (make test-all does it, as root on Debian)"
        )
    path = tmp_path / 'it\'s a \\ "#{exit 1}" ü'
    (path / "cookbooks").mkdir(parents=True)
    assert driver.run(
        converge("d1", inputs={"environment": "e"}, options={"kitchen_path": str(path)})
    )

    (tmp_path / "client.rb").write_text(calls(tmp_path)[0]["config"])
    names = "[c.cookbook_path, c.role_path, c.data_bag_path, c.environment, c.file_backup_path, c.local_mode]"
    done = subprocess.run(
        [
            ruby,
            "-e",
            f"{evaluate} print JSON.generate({names})",
            str(tmp_path / "client.rb"),
        ],
        capture_output=True,
        check=True,
        env={**os.environ, "LANG": "C.UTF-8"},
    )

    backup = str(driver.working("chef") / "local-mode-cache/backup")
    folders = [f"{path}/cookbooks", f"{path}/roles", f"{path}/data_bags"]
    assert json.loads(done.stdout) == [*folders, "e", backup, True]
