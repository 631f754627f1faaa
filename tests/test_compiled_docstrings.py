"""The compiled core says of itself what its sources say."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import WrapperDescriptorType
from typing import Any

import pytest

import gantrymq
from gantrymq.build_info import SHARED_LIBRARY, build_info

SOURCE = Path(gantrymq.__file__).parent.parent
PUBLIC = ("gantrymq", "gantrymq.aio", "gantrymq.sql", "gantrymq.testing", "gantrymq.tracing", "gantrymq.metrics")
COMPILED = frozenset(build_info().compiled) - {SHARED_LIBRARY}

pytestmark = pytest.mark.skipif(not COMPILED, reason="pure Python keeps docstrings by itself")


def source_of(module: str) -> ast.Module:
    path = SOURCE / module.replace(".", "/")
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_bytes())


def documented(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Qualified name and docstring of each class, method, property and function that has one."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield prefix + node.name, text
        if isinstance(node, ast.ClassDef):
            yield from documented(node.body, f"{prefix}{node.name}.")


def found(module: Any, name: str) -> Any:
    """What has this qualified name; None: the module has deleted it, or the name is mangled."""
    for part in name.split("."):
        module = inspect.getattr_static(module, part, None)
    return module.__func__ if isinstance(module, staticmethod) else module


def text_of(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


def test_every_compiled_module_says_what_its_source_says() -> None:
    compared, other = 0, []
    for name in sorted(COMPILED):
        module, tree = importlib.import_module(name), source_of(name)
        if text_of(module) != (ast.get_docstring(tree) or ""):
            other.append(name)
        for inside, text in documented(tree.body):
            thing = found(module, inside)
            if thing is None or isinstance(thing, WrapperDescriptorType):  # CPython documents __init__ and its like
                continue
            if inspect.iscoroutinefunction(thing):  # mypyc's object for it has no place for a docstring
                continue
            compared += 1
            if text_of(thing) != text:
                other.append(f"{name}.{inside}")
    assert not other, "their docstrings are not those of their sources"
    assert compared > 1000


def test_every_public_name_that_is_compiled_says_what_its_source_says() -> None:
    things = {getattr(importlib.import_module(module), name) for module in PUBLIC for name in public_names(module)}
    compiled = [thing for thing in things if thing.__module__ in COMPILED]
    assert "SendStatus" in {thing.__name__ for thing in compiled}
    for thing in compiled:
        assert text_of(thing) == dict(documented(source_of(thing.__module__).body))[thing.__qualname__]


def public_names(module: str) -> list[str]:
    names = importlib.import_module(module).__all__
    return [name for name in names if hasattr(getattr(importlib.import_module(module), name), "__qualname__")]


def test_signatures_are_read_as_before() -> None:
    from gantrymq.runtime.turns import Turns
    from gantrymq.store.log.conditions import LocalDisk

    assert list(inspect.signature(Turns.must_wait).parameters) == ["self", "now"]
    assert list(inspect.signature(LocalDisk).parameters) == ["position", "limit_ms"]
