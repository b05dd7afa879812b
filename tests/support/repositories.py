"""Git repositories and templates that tests follow."""

from __future__ import annotations

import subprocess
from pathlib import Path

_TEMPLATE = """\
heat_template_version: 2018-08-31
parameters:
  colour: {{type: string, default: red}}
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      config:
        str_replace:
          template: |
            echo {line} COLOUR >> {log}
            {more}
          params: {{COLOUR: {{get_param: colour}}}}
  server: {{type: OS::Nova::Server, properties: {{flavor: f, image: i}}}}
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties: {{config: {{get_resource: config}}, server: {{get_resource: server}}}}
"""


def template(log: Path, line: str, more: str = "") -> str:
    """Return a template whose script adds a line to a file."""
    return _TEMPLATE.format(log=log, line=line, more=more)


class Repository:
    """A git repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main", str(folder), where=folder.parent)

    @property
    def url(self) -> str:
        """Its URL on this machine."""
        return f"file://{self.folder}"

    def git(
        self, *words: str, where: Path | None = None, text: str | None = None
    ) -> str:
        """Run git in it, and return what it prints."""
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "HOME": "/",
        }
        person = [
            "-c",
            "user.name=T",
            "-c",
            "user.email=t@example.org",
            "-c",
            "protocol.file.allow=always",
        ]
        done = subprocess.run(
            ["git", *person, *words],
            cwd=where or self.folder,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, files: dict[str, str], *signing: str) -> str:
        """Write files, commit everything, and return the commit; `signing` are options of git that sign it."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.git("add", "-A")
        self.git(*signing, "commit", "-q", "--allow-empty", "-m", "a change")
        return self.git("rev-parse", "HEAD")
