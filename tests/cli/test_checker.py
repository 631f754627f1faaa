"""``gantry checker`` as a process of its own, with a real server and real databases."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq.cli.databases import open_engine
from gantrymq.errors import ConfigError
from gantrymq.sql import Transactions
from tests.cli.test_serve import Program, address, program, server
from tests.cli.tool import Tool, eventually
from tests.sql.databases import Place, database, database_server, mariadb, postgresql, sqlite

__all__ = ["database", "database_server", "mariadb", "postgresql", "sqlite"]

SERVICE = """
import os, signal, sys
from sqlalchemy import create_engine, text
from gantrymq import Message
from gantrymq.sql import Transactions

url, name_servers, group, when = sys.argv[1:]
away = "always" if when == "by row" else "refuse"
transactions = Transactions(group, create_engine(url), name_servers=name_servers, when_broker_is_away=away)

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

with transactions, transactions.begin() as tx:
    tx.session.execute(text("INSERT INTO orders VALUES (1)"))
    tx.send(Message("orders", b"1"))
    enlistment = tx._enlistment
    if when == "before":
        enlistment._waiter.begin(enlistment._halves.when_stored)()
        die()
    enlistment.committed = die
"""
"""A service that dies behind its half message, or behind its commit."""


@pytest.fixture(scope="module")
def name_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("server")
    (root / "broker.conf").write_text("transactionCheckInterval=1000\n")
    with program(*server(root / "store"), "-c", str(root / "broker.conf")) as running:
        yield address(running.ready(), "name server")


def killed_service(place: Place, name_servers: str, group: str, when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVICE, place.url(), name_servers, group, when], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


def line_of(running: Program) -> str:
    assert running.process.stdout is not None
    return running.process.stdout.readline()


@pytest.mark.pure("a step of a local transaction is replaced in the service")
@pytest.mark.slow
@pytest.mark.parametrize(("when", "answer"), [("before", "ROLLBACK"), ("after", "COMMIT")])
def test_it_answers_for_a_service_of_which_nothing_is_left(
    database: Place, name_servers: str, tmp_path: Path, when: str, answer: str
) -> None:
    tool = Tool(name_servers, tmp_path / "audit.jsonl")
    eventually(lambda: tool.run("topic", "list")[0] == 0)
    group = f"orders-{database.kind}-{when}"
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    Transactions(group, database.connect, name_servers=name_servers).create_table()
    killed_service(database, name_servers, group, when)
    arguments = ("checker", "--group", group, "--name-servers", name_servers)
    with program(*arguments, GANTRY_DATABASE_URL=database.url()) as running:
        assert running.ready().startswith(f"producer group {group}, cluster DefaultCluster, database ")
        assert f"  {answer}" in (line := line_of(running)), line
        assert "topic orders" in line
        running.process.send_signal(signal.SIGTERM)
        assert running.ended()[:2] == (0, "")
    assert database.execute("SELECT id FROM orders") == ([(1,)] if when == "after" else [])
    assert database.execute("SELECT outcome FROM gantrymq_outcomes WHERE outcome > 0") == [
        (1 if when == "after" else 2,)
    ]


def test_what_is_missing_is_said(name_servers: str, tmp_path: Path, sqlite: Place) -> None:
    tool = Tool(name_servers, tmp_path / "audit.jsonl")
    url = sqlite.url()
    ctrl_c = signal.getsignal(signal.SIGINT)
    assert "has no table gantrymq_outcomes" in tool.fails("checker", "-g", "G", "-d", url)
    assert "Missing option '--database-url'" in tool.fails("checker", "-g", "G", status=2)
    assert "claim_timeout is a number of seconds" in tool.fails(
        "checker", "-g", "G", "-d", url, "--claim-timeout", "0", status=2
    )
    assert "no-such-topic" in tool.fails("checker", "-g", "G", "-d", url, "--topic", "no-such-topic")
    nobody = tool.fails("checker", "-g", "G", "-d", url, "-n", "127.0.0.1:1")
    assert "cannot reach 127.0.0.1:1" in nobody
    dead = tool.fails("checker", "-g", "G", "-d", "postgresql+psycopg://u:secret@127.0.0.1:1/d")
    assert "the table gantrymq_outcomes cannot be read" in dead
    assert "secret" not in dead
    assert signal.getsignal(signal.SIGINT) is ctrl_c, "a start that failed left its handler"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("secret", "cannot be read"),
        ("oracle9://u:secret@localhost/d", "cannot be read"),
        ("postgresql+psycopg://u:secret@localhost:port/d", "cannot be read"),
        ("oracle+cx_oracle://u:secret@localhost/d", "pip install cx_Oracle"),
        ("postgresql+asyncpg://u:secret@localhost/d", "use a blocking one"),
    ],
)
def test_a_wrong_url_is_refused_and_not_shown(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        open_engine(url)
    assert "secret" not in str(caught.value)


@pytest.mark.pure("a step of a local transaction is replaced in the service")
@pytest.mark.slow
def test_unknown_has_a_reason(name_servers: str, sqlite: Place, tmp_path: Path) -> None:
    """A checker of another database must not decide."""
    tool = Tool(name_servers, tmp_path / "audit.jsonl")
    eventually(lambda: tool.run("topic", "list")[0] == 0)
    other = Place("sqlite", f"{sqlite.name}.other")
    for place in (sqlite, other):
        place.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        name = place.name
        Transactions("G", lambda name=name: sqlite3.connect(name), name_servers=name_servers).create_table()  # type: ignore[misc]
    killed_service(sqlite, name_servers, "G", "after")
    with program("checker", "-g", "G", "-n", name_servers, "-d", other.url(), "-t", "orders") as running:
        assert running.ready().startswith("producer group G, topic orders, ")
        line = line_of(running)
        assert "UNKNOWN" in line and "ran in another database" in line, line
        running.process.send_signal(signal.SIGINT)
        assert running.ended()[0] == 0
    with program("checker", "-g", "G", "-n", name_servers, "-d", sqlite.url()) as running:
        running.ready()
        assert "COMMIT" in line_of(running)


@pytest.mark.pure("a step of a local transaction is replaced in the service")
@pytest.mark.slow
@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
def test_it_sends_what_a_dead_service_has_left_in_the_outbox(
    database: Place, name_servers: str, tmp_path: Path
) -> None:
    tool = Tool(name_servers, tmp_path / "audit.jsonl")
    eventually(lambda: tool.run("topic", "list")[0] == 0)
    group = f"orders-{database.kind}-by-row"
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    Transactions(group, database.connect, name_servers=name_servers).create_table()
    killed_service(database, name_servers, group, "by row")
    shown = tool.text("sql", "rows", "--database-url", database.url())
    assert f"1 messages of the producer group {group} wait" in shown
    database.execute("UPDATE gantrymq_outbox SET taken_until = 0")  # its time is over
    arguments = ("checker", "--group", group, "--name-servers", name_servers)
    with program(*arguments, GANTRY_DATABASE_URL=database.url()) as running:
        running.ready()
        eventually(lambda: database.execute("SELECT COUNT(*) FROM gantrymq_outbox") == [(0,)])
    assert tool.text("sql", "rows", "--database-url", database.url()) == "no message waits in gantrymq_outbox\n"
