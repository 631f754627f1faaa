"""``docs/commands.md``: the commands of ``gantry`` with their options, as ``--help`` shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
import typer

from gantrymq.cli.commands import app

from .marks import cell


def commands() -> dict[str, Any]:
    """Every command of ``gantry``, those of groups as ``group command``."""
    found: dict[str, Any] = {}

    def walk(prefix: str, group: Any) -> None:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if hasattr(command, "list_commands"):
                if command.invoke_without_command:
                    found[f"{prefix}{name}"] = command
                walk(f"{prefix}{name} ", command)
            else:
                found[f"{prefix}{name}"] = command

    walk("", typer.main.get_command(app))
    return found


def page() -> str:
    known = commands()
    return "\n".join([*_table(known), "", *(line for name, command in known.items() for line in _one(name, command))])


def _table(known: dict[str, Any]) -> Iterator[str]:
    yield "| command | what it does |"
    yield "|---|---|"
    for name, command in known.items():
        first = re.split(r"(?<=[.:])\s", " ".join((command.help or "").split()))[0].rstrip(".:")
        yield f"| [`gantry {name}`](#{anchor(name)}) | {cell(first)} |"


def anchor(name: str) -> str:
    return f"gantry-{name}".replace(" ", "-")


def _one(name: str, command: Any) -> Iterator[str]:
    """A section: usage, what the help says, a table of options."""
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    words = [_word(one) for one in shown if one.param_type_name == "argument"]
    options = [one for one in shown if one.param_type_name == "option"]
    usage = " ".join(["gantry", name, *words, *(["[OPTIONS]"] if options else [])])
    yield from (f"### gantry {name}", "", f"`{usage}`", "", *(command.help or "").strip().splitlines(), "")
    rows = [one for one in shown if one.param_type_name == "argument" and getattr(one, "help", None)] + options
    if rows:
        yield "| option | meaning | default |"
        yield "|---|---|---|"
        for one in rows:
            yield f"| {_names(one)} | {_meaning(one)} | {_default(one)} |"
        yield ""


def _word(argument: Any) -> str:
    name = str(argument.metavar or argument.name).strip("{}").upper().replace("_", "-")
    many = "..." if argument.nargs == -1 or argument.multiple else ""
    return f"{name}{many}" if argument.required else f"[{name}{many}]"


def _names(one: Any) -> str:
    if one.param_type_name == "argument":
        return f"`{_word(one)}`"
    return ", ".join(f"`{name}`" for name in [*one.opts, *one.secondary_opts])


def _meaning(one: Any) -> str:
    said = one.help or ""
    if getattr(one, "multiple", False):
        said += " May be given several times."
    if one.envvar and getattr(one, "show_envvar", True):
        names = [one.envvar] if isinstance(one.envvar, str) else one.envvar
        said += f" Environment: {', '.join(f'`{name}`' for name in names)}."
    return cell(said.strip())


def _default(one: Any) -> str:
    if one.required:
        return "required"
    if isinstance(one.show_default, str):
        return cell(one.show_default)
    if one.default is None or one.default is False or not one.show_default or callable(one.default):
        return ""
    value = getattr(one.default, "value", one.default)
    if value is True:
        return f"`{one.opts[0]}`"
    shown = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"`{cell(shown)}`" if shown else ""
