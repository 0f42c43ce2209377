"""What the bed reads from its host, and what it says: sources, settings, cgroups, reports."""

import json
import tarfile
from pathlib import Path

import pytest
from bed.addresses import node_addresses
from bed.baseimage import Distribution, distribution, listed, source_lines
from bed.buildhost import BuildHost, pip_settings
from bed.cgroups import Hierarchy, hierarchies
from bed.claim import Claim, Record, Standing, read_record, standing, write_record
from bed.controlplane import Places
from bed.diagnostics import conditions, event, pod
from bed.errors import BedError
from bed.node import Node
from bed.oci import one_file_layer, write_archive
from bed.processes import Member

DEBIAN = Distribution("Debian", "trixie", "bookworm")
SOMEONE = Member(1, 1, Path("/state"), "etcd")


def test_the_base_comes_from_the_hosts_own_mirror_and_nowhere_else() -> None:
    targets = """\
Debian|http://mirror.test/debian/|trixie|main
Debian|http://mirror.test/debian/|trixie|contrib
Debian|http://mirror.test/security/|trixie-security|main
Somebody|http://third.test/apt/|trixie|main
Debian|http://mirror.test/debian/|sid|main
"""
    lines = [
        line.replace(f"[signed-by={DEBIAN.keyring}] ", "") for line in source_lines(targets, DEBIAN)
    ]
    assert lines == [
        "deb http://mirror.test/debian/ bookworm main contrib",
        "deb http://mirror.test/security/ bookworm-security main",
    ]


def test_every_host_gives_bookworm_whose_python_the_locks_are_for() -> None:
    assert distribution({"ID": "debian", "VERSION_CODENAME": "trixie"}).suite == "bookworm"
    assert distribution({"ID": "ubuntu", "VERSION_CODENAME": "noble"}).suite == "bookworm"
    with pytest.raises(BedError, match="ID=fedora"):
        distribution({"ID": "fedora"})


def test_comments_define_nothing() -> None:
    assert listed("# why\npython3  # the interpreter\n\nlibnuma1\n") == ["python3", "libnuma1"]


def test_a_build_takes_over_pips_indexes_and_the_environment_wins() -> None:
    files = ["[global]\nindex-url = http://a.test/\ncert = /x.pem\n", "[install]\nuser = true\n"]
    assert pip_settings(files, {}) == {"index-url": "http://a.test/"}
    found = pip_settings(files, {"PIP_INDEX_URL": "http://b.test/", "PIP_FIND_LINKS": "/wheels"})
    assert found == {"index-url": "http://b.test/"}


def test_a_build_trusts_whom_the_host_trusts(tmp_path: Path) -> None:
    authorities = tmp_path / "authorities.pem"
    options = BuildHost(authorities, {"index-url": "http://a.test/"}).volumes(tmp_path)
    assert f"--volume={authorities}:/etc/ssl/certs/ca-certificates.crt:ro" in options
    assert "cert = /etc/ssl/certs/ca-certificates.crt" in (tmp_path / "pip.conf").read_text()
    assert 'index-url = "http://a.test/"' in (tmp_path / "uv.toml").read_text()


def test_cgroup_hierarchies_are_read_from_the_mount_table() -> None:
    table = """\
22 27 0:21 / /proc rw - proc proc rw
30 28 0:26 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory
31 28 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
    assert hierarchies(table) == [
        Hierarchy(Path("/sys/fs/cgroup/memory"), 1),
        Hierarchy(Path("/sys/fs/cgroup/unified"), 2),
    ]


@pytest.mark.parametrize(
    ("record", "living", "found"),
    [
        (None, [], Standing.FREE),
        (None, [SOMEONE], Standing.WRECKED),
        (Record(1, "pytest"), [], Standing.WRECKED),
        (Record(1, "pytest"), [SOMEONE], Standing.WRECKED),
        (Record(1, "bed up", stays=True), [SOMEONE], Standing.STAYS),
        # After a reboot.
        (Record(1, "bed up", stays=True), [], Standing.WRECKED),
    ],
)
def test_a_free_lock_tells_what_its_last_holder_left(
    record: Record | None, living: list[Member], found: Standing
) -> None:
    assert standing(record, living) is found


def test_a_record_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read_record(tmp_path) is None
    write_record(tmp_path, Record(7, "pytest", stays=True))
    assert read_record(tmp_path) == Record(7, "pytest", stays=True)
    (tmp_path / "bed.json").write_text('{"pid": 7}')
    assert read_record(tmp_path) is None


def test_an_archive_is_read_by_its_hashes(tmp_path: Path) -> None:
    write_archive(tmp_path / "a.tar", "localhost/x:1", one_file_layer("pause", b"p"), ["/pause"])
    with tarfile.open(tmp_path / "a.tar") as archive:

        def read(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file is not None
            return file.read()

        index = json.loads(read("index.json"))["manifests"][0]
        assert index["annotations"]["io.containerd.image.name"] == "localhost/x:1"
        manifest = json.loads(read(f"blobs/sha256/{index['digest'].removeprefix('sha256:')}"))
        config = json.loads(read(f"blobs/{manifest['config']['digest'].replace(':', '/')}"))
        layer = manifest["layers"][0]["digest"]
        assert config["rootfs"]["diff_ids"] == [layer]
        assert config["config"]["Entrypoint"] == ["/pause"]
        assert len(read(f"blobs/{layer.replace(':', '/')}")) == manifest["layers"][0]["size"]


def test_a_report_says_why_a_pod_does_not_run() -> None:
    lines = pod(
        {
            "metadata": {"name": "p", "deletionTimestamp": "now"},
            "spec": {"nodeName": "node0"},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
                    {"type": "PodScheduled", "status": "True"},
                ],
                "containerStatuses": [
                    {"name": "c", "state": {"terminated": {"reason": "Error", "exitCode": 137}}}
                ],
            },
        }
    )
    assert lines[0] == "p: Running on node0, being deleted"
    assert [line.strip() for line in lines[1:]] == [
        "not Ready: ContainersNotReady",
        "c: not ready, terminated Error 137, 0 restarts",
    ]


def test_a_report_says_what_a_deployment_says_of_itself() -> None:
    condition = {"type": "Ready", "status": "False", "reason": "NoPair", "message": "none proved"}
    deployment = {"metadata": {"name": "d"}, "status": {"conditions": [condition]}}
    assert conditions(deployment) == ["d: Ready=False NoPair: none proved"]
    assert conditions({"metadata": {"name": "d"}}) == ["d: no conditions"]


def test_an_event_is_one_line_that_begins_with_its_time() -> None:
    told = event(
        {
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "type": "Warning",
            "reason": "Failed",
            "message": "no image",
            "count": 3,
            "involvedObject": {"kind": "Pod", "name": "p"},
        }
    )
    assert told == "2026-01-01T00:00:00Z Warning Pod/p Failed (x3): no image"


def test_a_claim_is_given_to_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bed.claim.members", list)
    first = Claim(tmp_path)
    first.record(stays=False)
    with pytest.raises(BedError, match=r"held by process \d+ .*make bed-down"):
        Claim(tmp_path)
    first.release()
    second = Claim(tmp_path)
    assert second.standing() is Standing.WRECKED
    second.release()


def test_a_bed_with_another_state_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bed.claim.members", lambda: [SOMEONE])
    with pytest.raises(BedError, match=r"MORIIO_BED_STATE=/state make bed-down"):
        Claim(tmp_path)


def test_a_node_is_found_although_its_mark_is_unreadable_for_the_moment_of_an_exec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([None, None, 42])
    monkeypatch.setattr("bed.node.namespace_init", lambda _state, _name: next(looks))
    assert Node(node_addresses(1)[0], Places(tmp_path, tmp_path)).init_pid() == 42
