"""The rendered objects, reviewed as files: a change here is a change on users' clusters.

After a change that is meant: `python -m unit.rendered`, and read the difference.
"""

from __future__ import annotations

import json

import pytest
import yaml

from unit.rendered import FOLDER, SPECS, objects, render


@pytest.mark.parametrize("name", SPECS)
def test_objects_are_what_was_reviewed(name: str) -> None:
    assert render(name) == (FOLDER / f"{name}.yaml").read_text()


@pytest.mark.parametrize("name", SPECS)
def test_the_file_says_the_same_as_the_objects(name: str) -> None:
    assert list(yaml.safe_load_all(render(name))) == objects(name)


@pytest.mark.parametrize("name", SPECS)
def test_building_again_gives_the_same_bytes(name: str) -> None:
    assert json.dumps(objects(name)) == json.dumps(objects(name))
