"""The tables in migrations of Alembic, run as its users run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq import Message
from gantrymq.sql import Transactions
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.outbox_table import outbox_ddl
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place

ENV = """
from alembic import context
from sqlalchemy import Column, Integer, MetaData, Table, create_engine
from gantrymq.sql import alembic as gantrymq

metadata = MetaData()
Table("orders", metadata, Column("id", Integer, primary_key=True))
url = context.config.get_main_option("sqlalchemy.url")
if context.is_offline_mode():
    context.configure(url=url, target_metadata=metadata, include_name=gantrymq.include_name)
    with context.begin_transaction():
        context.run_migrations()
else:
    with create_engine(url).connect() as connection:
        context.configure(connection=connection, target_metadata=metadata, include_name=gantrymq.include_name)
        with context.begin_transaction():
            context.run_migrations()
"""
MIGRATION = """
from alembic import op
from sqlalchemy import Column, Integer
from gantrymq.sql import alembic as gantrymq

revision, down_revision = "1", None

def upgrade():
    op.create_table("orders", Column("id", Integer, primary_key=True))
    gantrymq.create_tables(op)

def downgrade():
    gantrymq.drop_tables(op)
    op.drop_table("orders")
"""


@pytest.fixture
def project(tmp_path: Path, database: Place) -> Path:
    root = tmp_path / "project"
    (root / "migrations" / "versions").mkdir(parents=True)
    (root / "migrations" / "env.py").write_text(ENV)
    (root / "migrations" / "versions" / "one.py").write_text(MIGRATION)
    (root / "alembic.ini").write_text(f"[alembic]\nscript_location = migrations\nsqlalchemy.url = {database.url()}\n")
    return root


def alembic(project: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "alembic", *arguments], cwd=project, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_migration_makes_the_tables_that_transactions_need(
    project: Path, database: Place, gantry: LocalCluster
) -> None:
    alembic(project, "upgrade", "head")
    transactions = Transactions(
        "g", database.connect, name_servers="127.0.0.1:9876", when_broker_is_away="row", row_after_ms=0
    )
    with transactions, transactions.begin() as tx:
        tx.execute("INSERT INTO orders VALUES (1)")
        tx.send(Message("orders", b"1"))
    assert [message.body for message in gantry.messages("orders")] == [b"1"]
    alembic(project, "check")  # autogenerate finds nothing to drop
    alembic(project, "downgrade", "base")
    with pytest.raises(Exception, match=r"(?i)no such table|does not exist|doesn't exist"):
        database.execute("SELECT * FROM gantrymq_outcomes")
    with pytest.raises(Exception, match=r"(?i)no such table|does not exist|doesn't exist"):
        database.execute("SELECT * FROM gantrymq_outbox")


@pytest.mark.slow
def test_a_project_with_the_first_two_tables_gets_the_outbox_in_another_migration(
    project: Path, database: Place
) -> None:
    alembic(project, "upgrade", "head")
    database.execute("DROP TABLE gantrymq_outbox")  # as a project of an older version has it
    (project / "migrations" / "versions" / "two.py").write_text(
        "from alembic import op\nfrom gantrymq.sql import alembic as gantrymq\n\n"
        'revision, down_revision = "2", "1"\n\n'
        "def upgrade():\n    gantrymq.create_outbox_table(op)\n\n"
        "def downgrade():\n    gantrymq.drop_outbox_table(op)\n"
    )
    alembic(project, "upgrade", "head")
    assert database.execute("SELECT * FROM gantrymq_outbox") == []
    alembic(project, "downgrade", "base")


@pytest.mark.slow
def test_an_outbox_gets_ordering_keys_in_another_migration(project: Path, database: Place) -> None:
    alembic(project, "upgrade", "head")
    database.execute("DROP TABLE gantrymq_outbox")
    database.execute(*outbox_ddl(DatabaseKind(database.kind), ordered=False))
    (project / "migrations" / "versions" / "two.py").write_text(
        "from alembic import op\nfrom gantrymq.sql import alembic as gantrymq\n\n"
        'revision, down_revision = "2", "1"\n\n'
        "def upgrade():\n    gantrymq.add_ordering(op)\n\n"
        "def downgrade():\n    gantrymq.drop_ordering(op)\n"
    )
    alembic(project, "upgrade", "head")
    assert database.execute("SELECT order_key, seq, half FROM gantrymq_outbox") == []
    alembic(project, "downgrade", "1")
    with pytest.raises(Exception, match=r"(?i)no such column|does not exist|unknown column"):
        database.execute("SELECT half FROM gantrymq_outbox")
    alembic(project, "downgrade", "base")


@pytest.mark.slow
def test_a_migration_can_be_printed(project: Path, database: Place) -> None:
    printed = alembic(project, "upgrade", "head", "--sql")
    assert "CREATE TABLE IF NOT EXISTS gantrymq_outcomes" in printed
    assert ('COLLATE "C"' in printed) is (database.kind == "postgresql")
    assert ("ENGINE=InnoDB" in printed) is (database.kind == "mariadb")
