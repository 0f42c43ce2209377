"""What the documents show is what the project takes and says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from moriio_operator.api.deployment import Spec

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name
)
def test_examples_have_the_shape_of_the_resource(example: Path) -> None:
    found = yaml.safe_load(example.read_text())
    assert (found["apiVersion"], found["kind"]) == ("moriio.dev/v1alpha1", "PDDeployment")
    Spec.model_validate(found["spec"])


def test_the_readme_shows_the_minimal_example() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert yaml.safe_load(shown) == yaml.safe_load((ROOT / "examples/minimal.yaml").read_text())


def test_links_of_the_documents_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_make_command_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    sources = [*ROOT.glob("tests/demo/*.py"), *ROOT.glob("tests/bed/*.py"), ROOT / ".ci/run"]
    named = {
        name
        for path in (*pages, *sources)
        for name in re.findall(r"(?:`|^ +|run )make ([a-z-]+)", path.read_text(), re.MULTILINE)
    }
    assert {"demo", "kubectl", "bed-down"} <= named, "the search is blind"
    assert named <= targets
