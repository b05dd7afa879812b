from __future__ import annotations

import base64
import contextlib
import fcntl
import functools
import gzip
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.sources.base import Reach
from heat_config_agent.sources.cloud import config_drive, user_data
from heat_config_agent.sources.cloud.config_drive import ConfigDrive
from support.loopback import wait_until

SAMPLES = Path(__file__).parents[4] / "samples"
METADATA: dict[str, Any] = {
    "os-collect-config": {"heat": {"password": "x"}},
    "deployments": [],
}
UUID = "11111111-2222-3333-4444-555555555555"

IGNITION = {
    "path": "/var/lib/heat-cfntools/cfn-init-data",
    "contents": {
        "source": "data:;base64,"
        + base64.b64encode(json.dumps(METADATA).encode()).decode()
    },
}


def message(*parts: tuple[str, str, str], charset: str = "us-ascii") -> bytes:
    """A message of parts of those types, names and texts."""
    # the names of tests are the same in each process
    whole = MIMEMultipart(boundary="===============1==")
    for subtype, name, text in parts:
        part = MIMEText(text, subtype, charset)
        part.add_header("Content-Disposition", "attachment", filename=name)
        whole.attach(part)
    return whole.as_bytes()


OURS = ("x-cfninitdata", "cfn-init-data", json.dumps(METADATA))


# What is in user data


@pytest.mark.parametrize("kind", ["software-config", "cfntools", "ignition"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_heats_own_user_data_is_understood(kind: str, pack: Any) -> None:
    """In each of the forms in which Heat writes it."""
    data = (SAMPLES / f"user-data-{kind}.txt").read_bytes()
    expected = json.loads((SAMPLES / "metadata-heat.json").read_text())[
        "os-collect-config"
    ]
    found = user_data.content(pack(data), "it")
    assert found == {"os-collect-config": expected, "deployments": []}


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(METADATA).encode(),
        b"\xef\xbb\xbf \n" + json.dumps(METADATA).encode(),
        gzip.compress(json.dumps(METADATA).encode(), mtime=0),
        message(OURS),
        message(OURS, charset="utf-8"),  # that makes it base64
        message(
            ("x-shellscript", "a.sh", "#!/bin/sh\n"),
            OURS,
            ("cloud-config", "b", "#cloud-config\n"),
        ),
        message(
            ("x-cfninitdata", "cfn-init-data", "{}"), OURS
        ),  # as for cloud-init, the last one counts
        message(("x-cfninitdata", "cfn-userdata", "{"), OURS),
        b"From nobody Sat Nov 20 18:26:35 2026\n" + message(OURS),
        message(OURS).replace(b"\n", b"\r\n"),
        json.dumps(
            {
                "ignition": {},
                "storage": {"files": [{"path": 1}, None, {"path": "/x"}, IGNITION]},
            }
        ).encode(),
    ],
)
def test_metadata_is_found_in_it(data: bytes) -> None:
    """Metadata on a config drive is found in every packaging."""
    assert user_data.content(data, "it") == METADATA


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#!/bin/sh\necho '{\"deployments\": []}'\n",
        b"#cloud-config\ndeployments: []\n",
        b"#include\nhttp://127.0.0.1/\n",
        b"{",
        b'{"a": NaN, "deployments": []}',
        b'{"resources": {}}',
        b"[]",
        b"\x00\xff" * 99,
        b"\x1f\x8b\x08 damaged",
        gzip.compress(b"#!/bin/sh\n", mtime=0)[:-4],
        gzip.compress(b" " * (user_data.LARGEST + 1), mtime=0),
        b" " * user_data.LARGEST + b"{}",
        message(("x-shellscript", "a.sh", "#!/bin/sh\n")),
        message(
            ("plain", "cfn-init-data", json.dumps(METADATA))
        ),  # cloud-init would leave it alone as well
        message(
            ("x-cfninitdata", "cfn-init-data", '{"AWS::CloudFormation::Init": {}}')
        ),
        b"Content-Type: multipart/mixed\n\nno boundary\n",
        b"MIME-Version: 1.0\n",
        b'{"ignition": {}}',
        b'{"ignition": {}, "storage": {"files": "none"}}',
        b'{"ignition": {}, "storage": {"files": [{"path": "/x/cfn-init-data", "contents": {"source": "http://h/"}}]}}',
        b"Content-Type: multipart/mixed; boundary=x\n\n"
        + b"--x\nContent-Type: multipart/mixed; boundary=x\n\n" * 3000,
    ],
)
def test_data_for_other_programs_is_ignored(data: bytes) -> None:
    """Data for other programs is not a mistake, nor is damaged data with an unknown recipient."""
    assert user_data.content(data, "it") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"os-collect-config":\n {"password": "secr',
            "line 2, column 15: Unterminated string",
        ),
        ("", "line 1, column 1: Expecting value"),
        ("[1]", "it is not a JSON object"),
        ("[" * 500 + "]" * 500, "nested too deeply"),
        ('{"a": Infinity}', "Infinity is not a number"),
    ],
)
def test_a_part_that_is_for_us_has_to_be_understood(text: str, problem: str) -> None:
    """Else it is said why not, without what is in it."""
    with pytest.raises(
        UsageError, match=f"cannot read cfn-init-data in the user data: .*{problem}"
    ) as caught:
        user_data.content(
            message(("x-cfninitdata", "cfn-init-data", text)), "the user data"
        )
    assert "secr" not in str(caught.value)


# Where the drive is


@pytest.fixture(autouse=True)
def _no_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the drives of this machine."""
    monkeypatch.setattr(config_drive, "BY_LABEL", tmp_path / "by-label")
    monkeypatch.setattr(config_drive, "PLACES", (tmp_path / "config",))
    (tmp_path / "by-label").mkdir()


def source(path: Path | str = "") -> ConfigDrive:
    """A source that reads what is there, or looks for it."""
    return ConfigDrive({"path": str(path)}, Reach())


def filled(path: Path, data: bytes | None = json.dumps(METADATA).encode()) -> Path:
    """A directory with what is on a config drive."""
    latest = path / "openstack/latest"
    latest.mkdir(parents=True, exist_ok=True)
    (latest / "meta_data.json").write_text(json.dumps({"uuid": UUID, "name": "x"}))
    if data is not None:
        (latest / "user_data").write_bytes(data)
    return path


def test_missing_drive_gives_no_document() -> None:
    """Most instances have none."""
    asked = source()
    assert asked.collect() is None
    assert (asked.name, asked.trouble) == ("config_drive", "")


def test_a_mounted_drive_is_read(tmp_path: Path) -> None:
    """The drive is read at the place in the settings, or at one of the usual places."""
    for asked in (source(filled(tmp_path / "named")), source()):
        filled(tmp_path / "config")
        found = asked.collect()
        assert found is not None
        assert (found.source, found.content, asked.instance) == (
            "config_drive",
            METADATA,
            UUID,
        )
        assert asked.collect() is found
    filled(tmp_path / "config", b'{"deployments": []}')
    changed = asked.collect()
    assert changed is not None
    assert changed.content == {"deployments": []}


@pytest.mark.parametrize("data", [None, b"#!/bin/sh\n"])
def test_drive_without_our_metadata_gives_no_document(
    tmp_path: Path, data: bytes | None
) -> None:
    """User data is for many programs, and need not be there."""
    assert source(filled(tmp_path, data)).collect() is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"uuid": 7}', "{}"])
def test_odd_metadata_about_the_instance_does_no_harm(
    tmp_path: Path, text: str
) -> None:
    """Invalid metadata has no uuid."""
    (filled(tmp_path) / "openstack/latest/meta_data.json").write_text(text)
    asked = source(tmp_path)
    assert asked.collect() is not None
    assert asked.instance == ""


@pytest.mark.parametrize(
    "name", ["openstack", "openstack/latest", "openstack/latest/user_data"]
)
def test_link_that_leads_out_of_a_mounted_drive_is_refused(
    tmp_path: Path, name: str
) -> None:
    """A link within the drive is followed."""
    filled(tmp_path / "elsewhere")
    drive = filled(tmp_path / "drive")
    (drive / name).rename(drive / "moved")
    (drive / name).symlink_to(drive / "moved")
    assert source(drive).collect() is not None
    (drive / name).unlink()
    (drive / name).symlink_to(tmp_path / "elsewhere" / name)
    with pytest.raises(
        SourceError, match="user_data: it is a link that leads out of the drive"
    ):
        source(drive).collect()


def test_a_drive_that_the_settings_name_has_to_be_there(tmp_path: Path) -> None:
    """Else they are wrong."""
    with pytest.raises(
        SourceError, match=r"cannot read the config drive .*missing: No such file"
    ):
        source(tmp_path / "missing").collect()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="it is not a directory, device or image"):
        source(tmp_path / "pipe").collect()
    (filled(tmp_path / "x", None) / "openstack/latest/user_data").mkdir()
    with pytest.raises(SourceError, match="user_data: Is a directory"):
        source(tmp_path / "x").collect()


def test_a_drive_that_is_mounted_anywhere_is_found_by_its_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel says, of the whole disk only, and also where its place has a space in its name."""
    place = filled(tmp_path / "a b")
    device = Path("/dev/null").stat().st_rdev
    (tmp_path / "by-label/CONFIG-2").symlink_to("/dev/null")
    lines = [
        f"30 1 {os.major(device)}:{os.minor(device)} /part /elsewhere ro - iso9660 x ro",
        f"31 1 {os.major(device)}:{os.minor(device)} / {tmp_path}/a\\040b ro - iso9660 x ro",
    ]
    (tmp_path / "mountinfo").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(config_drive, "MOUNTS", tmp_path / "mountinfo")
    assert source().collect() is not None
    shutil.rmtree(place / "openstack")
    assert source().collect() is None


# A real drive


@functools.cache
def unmountable(kind: str) -> str:
    """Why a drive of a kind cannot be made and mounted here; empty where it can."""
    program = {"iso9660": "genisoimage", "ext2": "mkfs.ext2"}[kind]
    if os.geteuid() != 0:
        return "only root can mount"
    if not shutil.which(program):
        return f"{program} is not installed (apt-get install genisoimage e2fsprogs)"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    if kind not in Path("/proc/filesystems").read_text().split():
        loaded = (
            subprocess.run(["modprobe", kind], capture_output=True, check=False)
            if shutil.which("modprobe")
            else None
        )
        if loaded is None or loaded.returncode:
            return f"the kernel has no {kind}"
    tried = subprocess.run(
        ["unshare", "--mount", "true"], capture_output=True, check=False
    )
    return "no mount namespaces can be made here" if tried.returncode else ""


@pytest.fixture
def loops() -> Iterator[None]:
    """The loop devices with config drives, of one test at a time: another run of the tests has drives, too.

    blkid names the first device with a label, whoever has made it.
    """
    with open("/dev/loop-control") as file:  # its lock, as long as it is open
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(params=["iso9660", "ext2"])
def image(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A real image of a config drive, in a folder in which it is mounted, too."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    if why := unmountable(request.param):
        pytest.skip(why)
    request.getfixturevalue("loops")
    tree, path = filled(tmp_path / "tree"), tmp_path / "drive.img"
    if request.param == "iso9660":
        command = [
            "genisoimage",
            "-quiet",
            "-R",
            "-J",
            "-V",
            "config-2",
            "-o",
            str(path),
            str(tree),
        ]
    else:
        with path.open("wb") as file:
            file.truncate(1024 * 1024)
        command = ["mkfs.ext2", "-q", "-L", "config-2", "-d", str(tree), str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


def packed(tree: Path, path: Path) -> Path:
    """Return an image with the content of a folder."""
    with path.open("wb") as file:
        file.truncate(4 * 1024 * 1024)
    subprocess.run(
        ["mkfs.ext2", "-q", "-L", "config-2", "-d", str(tree), str(path)],
        check=True,
        capture_output=True,
    )
    return path


@pytest.mark.skipif(bool(unmountable("ext2")), reason=unmountable("ext2") or "-")
@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("name", ["openstack/latest", "openstack/latest/user_data"])
def test_link_that_leads_out_of_an_image_is_refused(tmp_path: Path, name: str) -> None:
    """A file of the machine is not taken for user data."""
    filled(tmp_path / "elsewhere")
    tree = filled(tmp_path / "tree")
    (tree / name).rename(tmp_path / "moved")
    (tree / name).symlink_to(tmp_path / "elsewhere" / name)
    with pytest.raises(SourceError, match="the link user_data leads out of the drive"):
        source(packed(tree, tmp_path / "drive.img")).collect()


@pytest.mark.skipif(bool(unmountable("ext2")), reason=unmountable("ext2") or "-")
@pytest.mark.usefixtures("loops")
def test_user_data_of_an_image_is_limited(tmp_path: Path) -> None:
    """A sparse file of many gigabytes in a small image is not read into memory."""
    tree = filled(tmp_path / "tree")
    os.truncate(tree / "openstack/latest/user_data", 12 * 1024**3)
    path = packed(tree, tmp_path / "drive.img")
    data, meta_data = config_drive._mounted(path, image=True)  # noqa: SLF001  # no document is that large
    assert len(data) == user_data.LARGEST + 1
    assert UUID.encode() in meta_data


_LOOP_CHANGE_FD = 0x4C06
"""The request to give a read-only loop device another image of the same size: nobody else gets the device meanwhile."""


@contextlib.contextmanager
def attached(image: Path) -> Iterator[str]:
    """Yield the loop device of an image."""
    loop = subprocess.run(
        ["losetup", "--read-only", "--find", "--show", str(image)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    try:
        yield loop
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)


def ended(process: str) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        return (
            Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            == "Z"
        )
    except (FileNotFoundError, ProcessLookupError):
        return True


def assert_left(folder: Path, before: object) -> None:
    """Hold that nothing else is left than before; a program that looks at all loops may hold one for a moment."""
    with contextlib.suppress(AssertionError):
        wait_until(lambda: left(folder) == before)
    assert left(folder) == before


def left(folder: Path) -> tuple[list[str], list[str]]:
    """Return what is left of the drives in a folder: mounts and loops, and folders for mounts."""
    loops = subprocess.run(
        ["losetup", "--list", "--noheadings"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [
        *Path("/proc/self/mountinfo").read_text().splitlines(),
        *loops.splitlines(),
    ]
    return [line for line in lines if str(folder) in line], os.listdir(folder / "tmp")


def test_an_image_is_mounted_and_nothing_is_left_of_that(image: Path) -> None:
    """An image is mounted and read once, and nothing of the mount is left."""
    before = left(image.parent)
    asked = source(image)
    found = asked.collect()
    assert found is not None
    assert (found.content, asked.instance) == (METADATA, UUID)
    assert asked.collect() is found
    assert_left(image.parent, before)


def test_a_device_is_found_by_its_label_and_mounted(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the links that udev makes, and by blkid where there is no udev."""
    with attached(image) as loop:
        (config_drive.BY_LABEL / "config-2").symlink_to(loop)
        before = left(image.parent)
        assert source().collect() is not None
        assert_left(image.parent, before)
        if shutil.which("blkid"):
            monkeypatch.setattr(config_drive, "BY_LABEL", image.parent / "no udev")
            found = source().collect()
            assert found is not None
            assert found.content == METADATA


@pytest.mark.skipif(bool(unmountable("ext2")), reason=unmountable("ext2") or "-")
@pytest.mark.usefixtures("loops")
def test_drive_is_found_at_a_device_that_blkid_has_just_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of blkid names the device by the label of the disk that was there before."""
    if not shutil.which("blkid"):
        pytest.skip("blkid is not installed (apt-get install util-linux)")
    monkeypatch.setattr(config_drive, "BY_LABEL", tmp_path / "no udev")
    path = packed(filled(tmp_path / "tree"), tmp_path / "drive.img")
    other = packed(filled(tmp_path / "tree"), tmp_path / "other.img")
    subprocess.run(
        ["tune2fs", "-L", "other", str(other)], check=True, capture_output=True
    )
    with attached(other) as loop:
        subprocess.run(["blkid", loop], check=True, capture_output=True)
        with open(loop) as device, path.open() as drive:
            fcntl.ioctl(device, _LOOP_CHANGE_FD, drive.fileno())
        found = source().collect()
    assert found is not None
    assert found.content == METADATA


@pytest.mark.skipif(bool(unmountable("ext2")), reason=unmountable("ext2") or "-")
@pytest.mark.usefixtures("loops")
def test_device_without_a_drive_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In mount's words."""
    path = tmp_path / "drive.img"
    path.write_bytes(b"\0" * 1024 * 1024)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    before = left(tmp_path)
    with pytest.raises(
        SourceError, match=f"cannot read the config drive {path}: mount: "
    ):
        source(path).collect()
    assert_left(tmp_path, before)


@pytest.mark.skipif(bool(unmountable("ext2")), reason=unmountable("ext2") or "-")
@pytest.mark.usefixtures("loops")
def test_a_drive_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that reads the drive is ended."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mount").write_text(
        f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 60\n"
    )
    (programs / "mount").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(config_drive, "SECONDS", 0.5)
    (tmp_path / "drive.img").write_bytes(b"\0" * 4096)
    with pytest.raises(SourceError, match=r"it takes longer than 0\.5 s"):
        source(tmp_path / "drive.img").collect()
    process = (tmp_path / "pid").read_text().strip()
    wait_until(lambda: ended(process))


def test_only_root_can_mount_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are told what to do."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (tmp_path / "drive.img").write_bytes(b"\0" * 4096)
    with pytest.raises(
        SourceError, match=r"only root can \(mount it, or run as root\)"
    ):
        source(tmp_path / "drive.img").collect()
