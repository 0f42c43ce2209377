"""Lets vLLM's MoRIIO connector be imported from a bare source tree, without vLLM's dependencies.

The connector's own modules, and two that tell it of its surroundings, are the real files. Every
other part of vLLM, and every package that is not installed, is blank: any name in it is a class
that takes anything. What a blank gives never gets into an answer, since it has no form in JSON.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

CONNECTOR = "vllm.distributed.kv_transfer.kv_connector.v1.moriio"
# Real modules of a tree; the folder that holds them is blank.
_REAL = (f"{CONNECTOR}.", "vllm.envs", "vllm.utils.network_utils")


class _BlankMeta(type):
    def __getattr__(cls, name: str) -> type[_Blank]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _blank(name)


class _Blank(metaclass=_BlankMeta):
    """A class, an object, a function, a decorator: whatever it is used as when imported."""

    def __init__(self, *_args: Any, **_named: Any) -> None: ...

    def __init_subclass__(cls, **_named: Any) -> None: ...

    def __call__(self, *args: Any, **_named: Any) -> Any:
        return args[0] if args else self

    def __getattr__(self, name: str) -> _Blank:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Blank()


def _blank(name: str) -> type[_Blank]:
    return type(name, (_Blank,), {})


class _BlankModule(ModuleType):
    def __getattr__(self, name: str) -> type[_Blank]:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _blank(name)
        setattr(self, name, made)
        return made


class _Blanks(MetaPathFinder, Loader):
    """Finds a blank module for any name."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _BlankModule(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


class _Tree(_Blanks):
    """Finds vLLM: the real modules in a tree, blanks for the rest."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != "vllm":
            return None
        file = self._tree / f"{name.replace('.', '/')}.py"
        if name.startswith(_REAL) and file.exists():
            return importlib.util.spec_from_file_location(name, file)
        if name.startswith(_REAL):
            raise ModuleNotFoundError(f"{name} is not in this release", name=name)
        return ModuleSpec(name, self, is_package=True)


def install(tree: Path) -> None:
    """Make `import vllm...` give the tree's connector, and every absent package a blank."""
    sys.meta_path.insert(0, _Tree(tree))
    sys.meta_path.append(_Blanks())
    sys.modules["regex"] = re  # the connector's two patterns mean the same to both
