"""Real servers on loopback from which stacks are followed: sshd, nginx with git's own program, and docker-registry."""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import io
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import requests

from support import endings, pace, ports
from support.certificates import CERTIFICATE, KEY
from support.loopback import wait_until
from support.repositories import Repository
from support.tools import need

_NGINX = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
events {{}}
http {{
    access_log {folder}/access.log;
    client_max_body_size 0;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {folder}/server.pem;
        ssl_certificate_key {folder}/server.pem;
        location /files/ {{ root {folder}; default_type application/octet-stream; }}
        location /git/ {{
            fastcgi_pass unix:{folder}/cgi;
            fastcgi_param SCRIPT_FILENAME {backend};
            fastcgi_param GIT_PROJECT_ROOT {folder};
            fastcgi_param GIT_HTTP_EXPORT_ALL 1;
            fastcgi_param PATH_INFO $uri;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param HTTP_GIT_PROTOCOL $http_git_protocol;
            fastcgi_param REMOTE_ADDR $remote_addr;
        }}
        location /v2/ {{ proxy_pass http://127.0.0.1:{registry}; proxy_set_header Host $http_host; }}
    }}
}}
"""


def _answers(place: int | Path) -> bool:
    if isinstance(place, Path):
        return place.is_socket()
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", place), 1),
    ):
        return True
    return False


def git_programs() -> str:
    """Return the folder with git's own programs."""
    return subprocess.run(
        ["git", "--exec-path"], capture_output=True, text=True, check=True
    ).stdout.strip()


class Programs:
    """Servers that are started together, and stopped and started again while a test goes on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.commands: list[tuple[list[str], int | Path]] = []
        """Each command line, with the port or the socket on which it answers."""
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start them, and wait until they answer."""
        for words, port in self.commands:
            with (self.folder / "printed").open("ab") as printed:
                done = subprocess.Popen(
                    words,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=printed,
                )
            self._running.append(done)
            wait_until(functools.partial(_answers, port))

    def hang(self) -> None:
        """Have them answer nothing, with their connections open."""
        for process in self._running:
            process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        """End them."""
        for process in reversed(self._running):
            process.send_signal(signal.SIGCONT)
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(pace.seconds(10))
        endings.end(*self._running)
        self._running.clear()


class Published:
    """A place where revisions are published."""

    def __init__(self, folder: Path) -> None:
        self.programs = Programs(folder / "servers")
        self.folder = self.programs.folder
        self.values: dict[str, object] = {"path": "stack.yaml", "timeout": 3}
        """The settings of the section that follows it."""

    def publish(self, files: dict[str, str]) -> None:
        """Make these files the newest revision."""
        raise NotImplementedError

    def turn_back(self, files: dict[str, str]) -> None:
        """Make an earlier revision, which had these files, the newest one."""
        self.publish(files)


class GitRepository(Published):
    """A git repository; a class for each way to serve it has more."""

    def __init__(self, folder: Path, name: str = "repository") -> None:
        super().__init__(folder)
        place = self.folder / name
        place.parent.mkdir(exist_ok=True)
        self.repository = Repository(place)
        self._commits: dict[str, str] = {}

    def publish(self, files: dict[str, str]) -> None:
        self._commits[json.dumps(files)] = self.repository.commit(files)

    def turn_back(self, files: dict[str, str]) -> None:
        """By a force-push."""
        self.repository.git("reset", "-q", "--hard", self._commits[json.dumps(files)])


class GitByDaemon(GitRepository):
    """A git repository, which git's own daemon serves."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        port = ports.reserved()
        words = [
            f"{git_programs()}/git-daemon",
            "--listen=127.0.0.1",
            f"--port={port}",
            "--reuseaddr",
            "--export-all",
        ]
        self.programs.commands = [
            ([*words, f"--base-path={self.folder}", str(self.folder)], port)
        ]
        self.values["url"] = f"git://127.0.0.1:{port}/repository/.git"


class GitBySsh(GitRepository):
    """A git repository, which sshd serves."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        server, keys = need("sshd", "openssh-server"), self.folder
        for name in ("host", "user"):
            words = [
                "ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-f",
                str(keys / name),
            ]
            subprocess.run(words, check=True)
        shutil.copy(keys / "user.pub", keys / "authorized")
        # of sshd itself, whose package makes it at the boot
        Path("/run/sshd").mkdir(exist_ok=True)
        port = ports.reserved()
        settings = keys / "sshd_config"
        lines = [
            f"ListenAddress 127.0.0.1:{port}",
            f"HostKey {keys}/host",
            f"PidFile {keys}/sshd.pid",
        ]
        lines += [
            f"AuthorizedKeysFile {keys}/authorized",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
        ]
        settings.write_text("\n".join([*lines, "PasswordAuthentication no", ""]))
        (keys / "known_hosts").write_text(
            f"[127.0.0.1]:{port} {(keys / 'host.pub').read_text()}"
        )
        client = keys / "ssh config"
        client.write_text(
            f'IdentityFile "{keys}/user"\nIdentitiesOnly yes\nUserKnownHostsFile "{keys}/known_hosts"\n'
            "GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n"
        )
        self.programs.commands = [([server, "-D", "-e", "-f", str(settings)], port)]
        user = pwd.getpwuid(os.getuid()).pw_name
        self.values["url"] = f"ssh://{user}@127.0.0.1:{port}{self.repository.folder}"
        self.values["ssh_config"] = client


class Web(Published):
    """The files that nginx serves over TLS, with a certificate of its own authority."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.folder / "server.pem").write_text(CERTIFICATE + KEY)
        self.authority = self.folder / "ca.pem"
        self.authority.write_text(CERTIFICATE)
        self.port, self.registry = ports.reserved(), ports.reserved()
        self.base = f"https://127.0.0.1:{self.port}"
        (self.folder / "files").mkdir()
        values = {"folder": self.folder, "port": self.port, "registry": self.registry}
        (self.folder / "nginx.conf").write_text(
            _NGINX.format(**values, backend=f"{git_programs()}/git-http-backend")
        )
        words = [
            need("nginx", "nginx-light"),
            "-p",
            str(self.folder),
            "-c",
            str(self.folder / "nginx.conf"),
        ]
        self.programs.commands = [(words, self.port)]


class GitByTls(GitRepository, Web):
    """A git repository over https."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "git/site.git")
        words = [
            "sh",
            "-c",
            f"rm -f cgi; exec {need('fcgiwrap', 'fcgiwrap')} -f -s unix:{self.folder}/cgi",
        ]
        self.programs.commands.insert(0, (words, self.folder / "cgi"))
        self.values["url"] = f"{self.base}/git/site.git"


class Archive(Web):
    """A tar archive over https."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.values["url"] = f"{self.base}/files/site.tar.gz"

    def publish(self, files: dict[str, str]) -> None:
        replaced(self.folder / "files/site.tar.gz", packed(files))


class Csar(Web):
    """An archive with a TOSCA service over https."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.values.update(url=f"{self.base}/files/site.csar", path="")

    def publish(self, files: dict[str, str]) -> None:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as members:
            for name, text in files.items():
                members.writestr(zipfile.ZipInfo(name), text)  # without the time
        replaced(self.folder / "files/site.csar", made.getvalue())


class Oci(Web):
    """An artifact in docker-registry, behind nginx."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        settings = {
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "registry")}},
            "http": {"addr": f"127.0.0.1:{self.registry}"},
        }
        (self.folder / "registry.yml").write_text(json.dumps(settings))
        words = [
            need("docker-registry", "docker-registry"),
            "serve",
            str(self.folder / "registry.yml"),
        ]
        self.programs.commands.insert(0, (words, self.registry))
        self.values.update(url=f"oci://127.0.0.1:{self.port}/team/site", ref="stable")

    def publish(self, files: dict[str, str]) -> None:
        """By the calls of the OCI distribution specification that push an artifact."""
        place = f"http://127.0.0.1:{self.registry}/v2/team/site"

        def blob(body: bytes, kind: str) -> dict[str, object]:
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            target = requests.post(
                f"{place}/blobs/uploads/", timeout=pace.seconds(10)
            ).headers["Location"]
            sign = "&" if "?" in target else "?"
            octets = {"Content-Type": "application/octet-stream"}
            done = requests.put(
                f"{target}{sign}digest={digest}",
                data=body,
                headers=octets,
                timeout=pace.seconds(10),
            )
            assert done.status_code == 201, done.text
            return {"mediaType": kind, "digest": digest, "size": len(body)}

        kind = "application/vnd.oci.image.manifest.v1+json"
        manifest = {
            "schemaVersion": 2,
            "mediaType": kind,
            "config": blob(b"{}", "application/vnd.oci.empty.v1+json"),
            "layers": [
                blob(packed(files), "application/vnd.oci.image.layer.v1.tar+gzip")
            ],
        }
        body = json.dumps(manifest).encode()
        done = requests.put(
            f"{place}/manifests/stable",
            data=body,
            headers={"Content-Type": kind},
            timeout=pace.seconds(10),
        )
        assert done.status_code == 201, done.text


def packed(files: dict[str, str]) -> bytes:
    """Return a tar archive with files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as members:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            members.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(made.getvalue(), mtime=0)


def replaced(path: Path, content: bytes) -> None:
    """Put a file in the place of another one, as whoever publishes files should."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


KINDS = {
    "git-daemon": GitByDaemon,
    "git-ssh": GitBySsh,
    "git-https": GitByTls,
    "archive": Archive,
    "csar": Csar,
    "oci": Oci,
}
"""The kinds of places."""


@contextlib.contextmanager
def serving(kind: str, folder: Path) -> Iterator[Published]:
    """Serve a place of a kind, until the context ends."""
    place = KINDS[kind](folder)
    try:
        place.programs.start()
        yield place
    finally:
        place.programs.stop()
