"""``gantry``: the commands and the modules that define them. The entry point ``main`` loads this only when needed."""

from __future__ import annotations

import importlib
import os
import platform
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from gantrymq import __version__
from gantrymq.build_info import build_info

_COMMANDS: Final = {
    "server": ("gantrymq.cli.serve", "server"),
    "nameserver": ("gantrymq.cli.serve", "nameserver"),
    "broker": ("gantrymq.cli.serve", "broker"),
    "proxy": ("gantrymq.cli.serve", "proxy"),
    "topic": ("gantrymq.cli.topic", "app"),
    "group": ("gantrymq.cli.group", "app"),
    "message": ("gantrymq.cli.message", "app"),
    "consumer": ("gantrymq.cli.consumer", "app"),
    "transactions": ("gantrymq.cli.transactions", "app"),
    "cluster": ("gantrymq.cli.cluster", "app"),
    "doctor": ("gantrymq.cli.doctor", "doctor"),
    "console": ("gantrymq.cli.console", "console"),
    "backup": ("gantrymq.cli.backup", "app"),
    "restore": ("gantrymq.cli.backup", "restore"),
    "user": ("gantrymq.cli.user", "app"),
    "acl": ("gantrymq.cli.acl", "app"),
    "sql": ("gantrymq.cli.sql", "app"),
    "checker": ("gantrymq.cli.checker", "checker"),
    "spark-checker": ("gantrymq.cli.spark_checker", "spark_checker"),
    "demo": ("gantrymq.cli.demo", "demo"),
    "simulate": ("gantrymq.cli.simulate", "simulate"),
    "check-history": ("gantrymq.cli.check_history", "check_history"),
    "crash-points": ("gantrymq.cli.crash_points", "crash_points"),
    "pipeline": ("gantrymq.cli.pipelines", "app"),
}
"""Name to module and object, in the order of ``gantry --help``. A module is imported when its command runs: a server
must not load what only the demo needs.
"""


class _LazyGroup(TyperGroup):
    """Finds commands by the table above."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, (module, _) in _COMMANDS.items() if find_spec(module) is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        module, name = _COMMANDS[cmd_name]
        target = getattr(importlib.import_module(module), name)
        if isinstance(target, typer.Typer):
            group = get_group(target)
            group.name = cmd_name
            return group
        single = typer.Typer(add_completion=False)
        single.command(cmd_name)(target)
        return get_command(single)


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Transactional messaging, compatible with Apache RocketMQ.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        python = f"{platform.python_implementation()} {platform.python_version()}"
        typer.echo(f"gantry {__version__}, {build_info()}, {python}")
        raise typer.Exit


@app.callback()
def gantry(
    version: bool = typer.Option(
        False,
        "--version",
        help="Show the version, and whether the core is compiled.",
        callback=_show_version,
        is_eager=True,
    ),
    access_key: Annotated[
        str | None,
        typer.Option(help="The user as whom commands sign their requests. Default: GANTRY_ACCESS_KEY."),
    ] = None,
    secret_key_file: Annotated[
        Path | None, typer.Option(help="A file with the user's secret key. Default: GANTRY_SECRET_KEY.")
    ] = None,
) -> None:
    """Transactional messaging, compatible with Apache RocketMQ."""
    if (access_key is None) != (secret_key_file is None):
        raise typer.BadParameter("give --access-key and --secret-key-file together")
    if access_key is not None and secret_key_file is not None:
        try:
            secret = secret_key_file.read_text("utf-8").partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"{secret_key_file} cannot be read: {error}") from error
        # Every client of the command takes them from there.
        os.environ["GANTRY_ACCESS_KEY"], os.environ["GANTRY_SECRET_KEY"] = access_key, secret
