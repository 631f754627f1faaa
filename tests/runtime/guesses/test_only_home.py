"""Everything that is guessed about the machine is guessed in one place, and the list of it is complete."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from gantrymq.runtime import guesses

PACKAGE = Path(guesses.__file__).parents[2]
ROOT = Path(__file__).parents[3]
GUESSES = frozenset({
    "Path.home", "expanduser", "getuser", "getlogin", "getpwuid", "getpwnam", "getuid", "gethostname", "getfqdn",
    "gethostbyname", "gettempdir", "mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile", "cpu_count",
    "sched_getaffinity", "sysconf", "getpreferredencoding", "getlocale", "get_terminal_size", "if_nameindex",
})  # fmt: skip
"""Calls that ask the machine for something that a container may lack."""
VARIABLES = re.compile(r"HOME|XDG_\w+|TMPDIR|USER|LOGNAME|SUDO_USER|TZ|LANG|LC_\w+")
NOT_PRODUCT = ("testing", "demo")
"""They run on a developer's machine."""
ELSEWHERE = {
    ("admin/audit.py", "SUDO_USER"): "who is behind sudo, beside the name that is guessed",
    ("cli/user.py", "USER"): "the word for a user of a broker in help texts",
}


def calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            last = name.rpartition(".")[2]
            if last in GUESSES or name.endswith("Path.home"):
                yield name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and VARIABLES.fullmatch(node.value):
            yield node.value


def test_nothing_else_guesses() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] in NOT_PRODUCT or place.parts[:2] == ("runtime", "guesses"):
            continue
        found += [
            f"{place}: {name}"
            for name in calls(ast.parse(path.read_text("utf-8")))
            if (str(place), name) not in ELSEWHERE
        ]
    assert not found, "add a function to gantrymq.runtime.guesses and a row to docs/operations.md: " + ", ".join(found)


def test_text_is_read_and_written_as_utf8_whatever_the_locale_says() -> None:
    bare = re.compile(r"\.read_text\(\)|\.write_text\([^,()]*\)")
    found = [
        f"{path.relative_to(PACKAGE)}: {hit.group()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in NOT_PRODUCT
        for hit in bare.finditer(path.read_text("utf-8"))
    ]
    assert not found, found


def test_every_guess_is_in_the_table() -> None:
    functions = {
        name
        for module in pkgutil.iter_modules(guesses.__path__)
        for name, value in vars(importlib.import_module(f"{guesses.__name__}.{module.name}")).items()
        if not name.startswith("_") and inspect.isroutine(inspect.unwrap(value))
        and inspect.unwrap(value).__module__ == f"{guesses.__name__}.{module.name}"
    }  # fmt: skip
    section = (ROOT / "docs/operations.md").read_text("utf-8").partition("## What is guessed")[2].partition("\n## ")[0]
    assert functions == set(re.findall(r"(?m)^\| `(\w+)` \|", section))
