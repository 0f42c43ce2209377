"""`python -m generate [--check]`: the CRDs, three pages, two files of the chart.

Each file is a pure function of the models or of the chart's values, so the check is a comparison of
bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from moriio_operator.api import crd

from generate import chart_readme, chart_schema, compatibility, conditions, reference
from generate.chart_values import CHART

ROOT = Path(__file__).parents[2]


def files() -> dict[Path, str]:
    """Give every generated file with its text."""
    folders = (ROOT / "crds", CHART / "files")
    return {
        **{
            folder / resource.file: crd.render(resource)
            for folder in folders
            for resource in crd.RESOURCES
        },
        CHART / "values.schema.json": chart_schema.render(),
        CHART / "README.md": chart_readme.render(),
        ROOT / "docs/reference.md": reference.render(),
        ROOT / "docs/compatibility.md": compatibility.render(),
        ROOT / "docs/conditions.md": conditions.render(),
    }


def main(arguments: list[str]) -> int:
    """Write, or with --check compare; give the exit code."""
    stale = [
        (path, text)
        for path, text in files().items()
        if not path.exists() or path.read_text() != text
    ]
    for path, text in stale:
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        print(path.relative_to(ROOT), "is stale" if "--check" in arguments else "written")
    if stale and "--check" in arguments:
        print("run `make generate` and commit what it writes")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
