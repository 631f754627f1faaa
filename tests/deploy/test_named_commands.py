"""Every command that a text tells people to run exists: in alerts, documents, errors and help. It has the options that
the text gives it, and takes as many arguments."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gantrymq.cli.commands import app

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(?:python3 run\.py |\.venv/bin/)?gantry ([a-z][^`\n]*)`")
"""In a sentence."""
BLOCK = re.compile(r"(?ms)^```(?:sh|console|bash)\n(.*?)^```")
"""A block of commands; tests/docs reads those."""
PLACEHOLDER = re.compile(r"^(?:\.\.\.|…|\[.*|.*\]|<.*>)$")


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]


def in_documents() -> Iterator[tuple[str, str]]:
    for path in documents():
        text = path.read_text("utf-8")
        for found in NAMED.findall(BLOCK.sub("", text)):
            yield path.name, found


def in_alerts() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "deploy").rglob("*.*")):
        if path.suffix in {".yml", ".json", ".md"}:
            for found in NAMED.findall(path.read_text("utf-8")):
                yield path.name, found


def in_sources() -> Iterator[tuple[str, str]]:
    """In the texts that programs say: errors, help, pages; parts of one text that stand side by side are one."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for found in NAMED.findall(node.value):
                    yield path.name, found
    for path in sorted((ROOT / "src").rglob("*.html")):
        for found in NAMED.findall(path.read_text("utf-8").replace("<code>", "`").replace("</code>", "`")):
            yield path.name, found


@cache
def root() -> Any:
    return get_command(app)


def wrong_in(words: list[str]) -> str:
    """What is wrong with a command; empty: nothing. A group alone may be named, too."""
    command, rest = root(), list(words)
    if rest and rest[0].startswith("-"):
        return ""  # options before the command: `gantry --version`
    while hasattr(command, "list_commands") and rest and not rest[0].startswith("-"):
        found = command.get_command(None, rest[0])
        if found is None and rest[0].isupper():
            return ""  # NAME stands for any of them
        if found is None:
            return f"there is no command {rest[0]!r} of {' '.join(words[: len(words) - len(rest)]) or 'gantry'}"
        command, rest = found, rest[1:]
    return _wrong_behind(command, rest)


def _wrong_behind(command: Any, words: list[str]) -> str:
    options = {
        name: parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    given, takes_value = 0, False
    for word in words:
        if takes_value:
            takes_value = False
        elif word.startswith("-") and len(word) > 1:
            name, _, value = word.partition("=")
            if name == "--help":
                continue
            if name not in options:
                return f"{command.name} has no option {name}"
            takes_value = not options[name].is_flag and not value
        else:
            given += 1
    counts = [parameter.nargs for parameter in command.params if parameter.param_type_name == "argument"]
    if given > sum(counts) and -1 not in counts:
        return f"{command.name} takes {sum(counts)} arguments, not {given}"
    return ""


def words_of(text: str) -> list[str]:
    """The words of a command, without comments and what follows a pipe, and without what only stands for more."""
    text = re.sub(r"\{\{.*?\}\}", "X", text)
    text = re.split(r"\s+#|\s[|&;>]|\s\\$", text)[0]
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return [word for word in words if not PLACEHOLDER.match(word)]


@pytest.mark.parametrize("where", [in_alerts, in_documents, in_sources])
def test_every_command_that_is_named_exists(where: object) -> None:
    assert callable(where)
    found = sorted(set(where()))
    assert len(found) > 5
    wrong = [(name, text, said) for name, text in found if (said := wrong_in(words_of(text)))]
    assert not wrong, "\n".join(f"{name}: `gantry {text}`: {said}" for name, text, said in wrong)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("message list", "no command 'list' of message"),
        ("transactions commit ID --really", "no option --really"),
        ("transactions commit A B", "takes 1 arguments, not 2"),
        ("transaction list", "no command 'transaction' of gantry"),
    ],
)
def test_what_is_wrong_is_found(text: str, said: str) -> None:
    assert said in wrong_in(words_of(text))
