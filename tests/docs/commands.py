"""The commands of a block for a shell, read: programs, commands, options and files that there are."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import typer
from typer.main import get_command

from gantrymq.cli.commands import app

from .blocks import ROOT

OTHERS = frozenset({
    "aws", "cat", "cd", "celery", "chmod", "curl", "docker", "echo", "export", "git", "grpcurl", "install", "kubectl",
    "openssl", "psql", "spark-pipelines", "systemctl", "systemd-sysusers",
})  # fmt: skip
"""Programs that are not of this project: only the files that they name are looked for."""
OURS = re.compile(r"(?:src|tests|tools|examples|benchmarks|deploy|docs)/[\w./-]+")
RUN_PY = re.compile(r"\n  ([a-z]+) ")
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
"""What Typer's own copy of click raises for each kind of wrong command line."""
OF_THE_READER = ("does not exist", "env var: '")
"""A file on a reader's machine, and an option that a variable of its environment gives."""


def commands_of(text: str) -> Iterator[list[str]]:
    """The words of each command: without comments, the prompt and variables before it; parts of a pipe one by one."""
    for line in text.replace("\\\n", " ").splitlines():
        words = _words(line)
        part: list[str] = []
        for word in [*words, ";"]:
            if word and set(word) <= set("|&;<>()"):
                if part := _bare(part):
                    yield part
                part = [] if set(word) <= set("|&;") else ["cat"]  # a file behind > or <
            else:
                part.append(word)


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(re.sub(r"\$\(.*\)", "VALUE", line), posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    return list(lexer)


def _bare(words: list[str]) -> list[str]:
    while words and (words[0] == "$" or re.fullmatch(r"[A-Z_]+=.*", words[0])):
        words = words[1:]
    return words


def wrong_in(words: list[str]) -> str:
    """What is wrong with a command; empty: nothing."""
    missing = [path for word in words for path in OURS.findall(word) if word.startswith(path)]
    missing = [path for path in missing if not (ROOT / path).exists()]
    if missing:
        return f"there is no {missing[0]} in this repository"
    program = Path(words[0]).name
    if program == "python3" and words[1:2] == ["run.py"]:
        return wrong_in_run_py(words[2:])
    if program in {"python", "python3"}:
        return wrong_in_module(words[2:]) if words[1] == "-m" else ""
    if program == "gantry":
        return wrong_in_gantry(words[1:])
    if program == "pip":
        return wrong_in_pip(words[1:])
    if program in OTHERS:
        return ""
    return f"{program} is not known; one that is not of this project belongs into OTHERS of tests/docs/commands.py"


def wrong_in_run_py(words: list[str]) -> str:
    if not words:
        return "run.py takes a command"
    if words[0] == "gantry":
        return wrong_in_gantry(words[1:])
    if words[0] not in RUN_PY.findall((ROOT / "run.py").read_text("utf-8")):
        return f"run.py has no command {words[0]}"
    if words[0] == "bench":
        return wrong_in_module(["benchmarks", *words[1:]])
    return ""


def wrong_in_module(words: list[str]) -> str:
    """A module with its options: each one is in its package's code, as a text."""
    module, *rest = words
    if module == "pytest":
        return ""  # its files are looked for as all files
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        return f"there is no module {module}"
    code = "".join(path.read_text("utf-8") for path in Path(found.origin).parent.rglob("*.py"))
    missing = [word for word in rest if re.fullmatch(r"--[a-z-]+", word) and f'"{word}"' not in code]
    named = [word for word in rest[:1] if module == "benchmarks" and word.isidentifier() and f'"{word}"' not in code]
    return f"{module} has no {(missing + named)[0]}" if missing or named else ""


def wrong_in_pip(words: list[str]) -> str:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for word in words:
        if match := re.fullmatch(r"gantrymq\[(.+)\]", word):
            unknown = set(match[1].split(",")) - set(extras)
            if unknown:
                return f"gantrymq has no extra {min(unknown)}"
    return ""


@cache
def root() -> Any:
    return get_command(app)


def wrong_in_gantry(words: list[str]) -> str:
    """What Typer says of a command line, without running it. A file that is not on this machine is no mistake."""
    command, path, rest = root(), "gantry", list(words)
    context = click.Context(command, info_name=path)
    while hasattr(command, "list_commands") and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            return f"there is no command {rest[0]!r} of {path}"
        command, path, rest = found, f"{path} {rest[0]}", rest[1:]
    if rest == ["--version"]:
        return ""
    try:
        command.make_context(path, rest)
    except typer.Exit:
        return ""  # --help
    except USAGE_ERROR as error:
        said = error.format_message()
        return "" if any(part in said for part in OF_THE_READER) else f"{path}: {said}"
    return ""
