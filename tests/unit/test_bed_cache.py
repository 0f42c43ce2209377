"""The cache never takes an interrupted build for a finished one, and knows content by its hash."""

from pathlib import Path

import pytest
from bed.binaries import kubernetes_version, linker_flags
from bed.cache import digest, entry, tree_digest
from bed.errors import BedError
from bed.images import ImageSpec
from bed.imagestore import clone
from bed.packages import missing


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "cache"
    monkeypatch.setenv("MORIIO_CACHE", str(root))
    return root


def test_an_entry_is_built_once(cache: Path) -> None:
    def build(path: Path) -> None:
        path.write_text("made")

    def never(path: Path) -> None:
        raise AssertionError(path)

    assert entry("folder/thing", "making", build).read_text() == "made"
    assert entry("folder/thing", "making", never) == cache / "folder" / "thing"


def test_a_failed_build_leaves_no_entry(cache: Path) -> None:
    def fail(path: Path) -> None:
        path.mkdir()
        (path / "half").touch()
        raise BedError("no")

    with pytest.raises(BedError, match="no"):
        entry("thing", "making", fail)
    assert [item.name for item in cache.iterdir()] == ["locks"]


def test_what_a_killed_build_left_is_not_part_of_the_next(cache: Path) -> None:
    (cache / ".partial-thing").mkdir(parents=True)
    (cache / ".partial-thing" / "stale").touch()

    made = entry("thing", "making", lambda path: path.mkdir())
    assert list(made.iterdir()) == []


def tree(root: Path) -> str:
    return tree_digest([root], relative_to=root.parent)


def test_a_trees_hash_does_not_depend_on_how_its_path_is_spelled(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("a")
    assert tree(source) == tree_digest([tmp_path / "other/../source"], relative_to=tmp_path)


def test_a_trees_hash_follows_names_contents_and_execute_bits(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    file = source / "file"
    hashes = []
    for change in (
        lambda: file.write_text("a"),
        lambda: file.write_text("b"),
        lambda: file.chmod(0o755),
        lambda: file.rename(source / "other"),
    ):
        change()
        hashes.append(tree(source))
    assert len(set(hashes)) == 4


def test_a_trees_hash_does_not_follow_what_tools_leave_or_where_it_stands(tmp_path: Path) -> None:
    for place in ("here", "there"):
        (tmp_path / place / "source").mkdir(parents=True)
        (tmp_path / place / "source" / "file").write_text("a")
    leftover = tmp_path / "here" / "source" / "__pycache__"
    leftover.mkdir()
    (leftover / "file.pyc").touch()
    assert tree(tmp_path / "here" / "source") == tree(tmp_path / "there" / "source")


def test_parts_of_a_digest_do_not_run_together() -> None:
    assert digest("ab", "c") != digest("a", "bc")


def test_the_kubernetes_version_is_the_one_that_go_mod_requires() -> None:
    text = "require (\n\tk8s.io/api v0.35.4\n\tk8s.io/kubernetes v1.35.4 // indirect\n)\n"
    assert kubernetes_version(text) == "v1.35.4"
    with pytest.raises(BedError, match="does not require"):
        kubernetes_version("module x\n")


def test_programs_are_told_their_version() -> None:
    flags = linker_flags("v1.35.4")
    assert "-X k8s.io/component-base/version.gitVersion=v1.35.4" in flags
    assert "-X k8s.io/component-base/version.gitMinor=35" in flags


def test_a_removed_package_counts_as_missing() -> None:
    status = "gcc installed\nrunc config-files\n"
    assert missing(status, ("gcc", "runc", "tini")) == ["runc", "tini"]


def test_a_nodes_store_has_its_own_databases_and_shares_the_rest(tmp_path: Path) -> None:
    source, root = tmp_path / "template", tmp_path / "node"
    blob = Path("io.containerd.content.v1.content/blobs/sha256/abc")
    layer = Path("io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/file")
    database = Path("io.containerd.metadata.v1.bolt/meta.db")
    for file in (blob, layer, database):
        (source / file).parent.mkdir(parents=True)
        (source / file).write_text("of the template")
    clone(source, root)
    (root / database).write_text("of the node")
    assert (source / database).read_text() == "of the template"
    assert (root / blob).samefile(source / blob)
    assert (root / layer).samefile(source / layer)


def test_an_images_name_in_the_cluster_tells_what_it_is() -> None:
    spec = ImageSpec("router", Path("Dockerfile"), Path())
    assert spec.reference == "localhost/moriio/router:dev"
