"""The databases of users, for the commands that need one: by a URL whose secrets are never printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gantrymq.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

DatabaseUrl = Annotated[
    str,
    typer.Option(
        "--database-url", "-d", envvar="GANTRY_DATABASE_URL", show_envvar=True,
        help="The database, as SQLAlchemy writes it: postgresql+psycopg://user:password@localhost/name. In the "
        "environment, nobody sees the password in the list of processes.",
    ),
]  # fmt: skip


def open_engine(url: str) -> Engine:
    """An engine for a URL. Raises ConfigError without the secrets that are in it."""
    try:
        from sqlalchemy import create_engine
        from sqlalchemy.exc import SQLAlchemyError
    except ModuleNotFoundError as error:
        raise ConfigError("this command needs SQLAlchemy: pip install 'gantrymq[sql]'") from error
    try:
        engine = create_engine(url, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise ConfigError(f"the database's driver is not installed: pip install {error.name}") from None
    except (SQLAlchemyError, ValueError, TypeError):
        raise ConfigError(
            "--database-url cannot be read (it is not shown, because it may hold a password); write it as "
            "postgresql+psycopg://user:password@localhost:5432/name, mysql+pymysql://... or sqlite:////path/of/the/file"
        ) from None
    if engine.dialect.is_async:
        raise ConfigError(
            f"--database-url names the asynchronous driver {engine.dialect.driver}; use a blocking one, such as "
            "postgresql+psycopg, mysql+pymysql or sqlite"
        )
    return engine


def describe(engine: Engine) -> str:
    """Which database it is, for people: no user, password or options."""
    url = engine.url
    place = f" at {url.host}{f':{url.port}' if url.port else ''}" if url.host else ""
    return f"{url.database or '(default)'} ({engine.dialect.name}{place})"
