"""The pages that are made from the code: docs/commands.md, docs/errors.md and docs/api/."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
from tools.pages import api, commands, errors
from tools.pages.all import stale
from tools.pages.marks import BEGIN, END, between_marks


def test_no_page_is_stale() -> None:
    assert not stale(), "run: python -m tools.pages"


def test_every_command_has_a_section_and_a_row() -> None:
    made = commands.page()
    for name in commands.commands():
        assert f"\n### gantry {name}\n" in made
        assert f"(#{commands.anchor(name)}) |" in made


def test_every_command_and_option_says_what_it_is_for() -> None:
    silent = [
        f"gantry {name} {' '.join(getattr(one, 'opts', []))}"
        for name, command in commands.commands().items()
        for one in [command, *command.params]
        if not getattr(one, "hidden", False) and getattr(one, "param_type_name", "") != "argument" and not one.help
    ]
    assert not silent, f"give them a help text: {silent}"


def test_every_error_says_what_it_means_and_what_to_do() -> None:
    found = errors.errors()
    assert {"ConfigError", "GroupNotFound", "DataLost", "NotAtRest"} <= {error.name for error in found}
    silent = [f"{error.module}.{error.name}" for error in found if not error.meaning or not error.what_to_do]
    assert not silent, f"give them a docstring, and a literal what_to_do: {silent}"


def test_the_page_of_errors_agrees_with_the_classes() -> None:
    """The page is made without an import; what it says must be what programs see."""
    for error in errors.errors():
        if error.module.startswith("gantrymq.spark"):
            continue
        kind: Any = getattr(importlib.import_module(error.module), error.name)
        assert (kind.retryable, kind.what_to_do) == (error.retryable, error.what_to_do)
        assert error.parent in {base.__name__ for base in kind.__mro__}


@pytest.mark.parametrize("module", api.MODULES)
def test_what_is_public_has_a_docstring(module: str) -> None:
    silent = []
    for name in api.public_names(module):
        thing = getattr(importlib.import_module(module), name)
        if not says_something(thing):
            silent.append(name)
        if inspect.isclass(thing):
            silent += [f"{name}.{member}" for member in own_members(thing)]
    assert not silent, f"docs/api/ is made from docstrings; these have none: {silent}"


def says_something(thing: Any) -> bool:
    text = (getattr(thing, "__doc__", None) or "").strip()
    return bool(text) and not text.startswith(f"{getattr(thing, '__name__', '')}(")  # as dataclass makes it


def own_members(kind: type[Any]) -> list[str]:
    """The public methods and properties of a class that have no docstring, without those of other libraries."""
    silent = []
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        ours = inspect.isfunction(function) and function.__module__.startswith("gantrymq")
        if not name.startswith("_") and ours and not inspect.getdoc(getattr(kind, name, function)):
            silent.append(name)
    return silent


def test_a_page_without_its_marks_is_refused() -> None:
    assert between_marks(f"a\n{BEGIN}\nold\n{END}\nz", " new\n") == f"a\n{BEGIN}\n\nnew\n\n{END}\nz"
    with pytest.raises(ValueError, match="once each"):
        between_marks("nothing", "new")
