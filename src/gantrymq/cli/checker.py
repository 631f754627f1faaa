"""``gantry checker``: answer check-backs of a producer group from its database, where no producer lives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gantrymq.admin import Admin
from gantrymq.cli.cluster_options import CALL_TIMEOUT_MS, LOCAL, USAGE, NameServers, fail
from gantrymq.cli.databases import DatabaseUrl, describe, open_engine
from gantrymq.cli.serving.running import run
from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.sql.rows.outbox_table import OUTBOX
from gantrymq.sql.rows.tables import OUTCOMES
from gantrymq.sql.rules.runner import run_blocking
from gantrymq.sql.transaction.checker import OutcomeChecker
from gantrymq.sql.transaction.local import Local
from gantrymq.sql.transaction.relay import STOP_S, Relay
from gantrymq.sql.transaction.settings import TransactionsConfig
from gantrymq.sql.transaction.threaded_database import ThreadedDatabase

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

NAME: Final = "checker"


class SayingChecker(OutcomeChecker):
    """Prints a line for each answer."""

    def check_local_transaction(self, message: MessageView) -> ListenerAnswer:
        answer = self._answer(message)
        reason = f": {answer.reason}" if answer.reason else ""
        typer.echo(
            f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC  {answer.of_halves.name:8}  topic {message.topic}, message "
            f"{message.message_id}{reason}"
        )
        return ListenerAnswer(answer.of_halves, remark=answer.reason, ask_again=answer.passing)


def checker(
    group: Annotated[
        str, typer.Option("--group", "-g", help="Producer group of the Transactions that it answers for.")
    ],
    database_url: DatabaseUrl,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Only the brokers of this topic; may be repeated. Default: all brokers."),
    ] = None,
    table: Annotated[str, typer.Option("--table", help="Name of the outcome table, perhaps with a schema.")] = OUTCOMES,
    outbox_table: Annotated[
        str, typer.Option("--outbox-table", help="Name of the outbox; where there is none, its rows are nobody's.")
    ] = OUTBOX,
    claim_timeout: Annotated[
        float, typer.Option("--claim-timeout", help="Seconds to wait for a running local transaction.")
    ] = 2.0,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "warning",
    name_servers: NameServers = LOCAL,
) -> None:
    """Answer check-backs of a producer group (gantrymq.sql) from its database, where no producer lives.

    It joins the group and prints a line for each answer. It also sends the messages that dead processes have left in
    the outbox. Any number of checkers may run beside producers.
    """  # fmt: skip
    try:
        settings = TransactionsConfig(
            group=group, name_servers=name_servers, table=table, claim_timeout=claim_timeout, outbox_table=outbox_table
        )
        engine = open_engine(database_url)
    except ConfigError as error:
        fail(str(error), NAME, USAGE)
    run(NAME, lambda: _running(engine, settings, topics or []), log_level)


@contextlib.asynccontextmanager
async def _running(engine: Engine, settings: TransactionsConfig, topics: list[str]) -> AsyncIterator[str]:
    from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase

    async with Admin(settings.name_servers, call_timeout_ms=CALL_TIMEOUT_MS) as admin:
        clusters = (await admin.cluster_info()).cluster_addr_table
        for topic in topics:
            await admin.route(topic)  # says so when there is no such topic
    if not clusters:
        raise ConfigError("the name server knows no broker; start one, or see --name-servers")
    local = await asyncio.to_thread(Local, SqlAlchemyDatabase(engine), settings)
    # Every broker has a topic with the name of its cluster. That is how it is found, now and when it comes later.
    producer = TransactionProducer(
        settings.group, name_servers=settings.name_servers, listener=SayingChecker(local.ask),
        topics=topics or sorted(clusters),
    )  # fmt: skip
    # Before the producer starts: from then on it answers, and the line that it is ready comes first.
    has_outbox = await asyncio.to_thread(_has_outbox, local)
    async with producer:
        where = f"topic {', '.join(topics)}" if topics else f"cluster {', '.join(sorted(clusters))}"
        relaying = Relay(local, ThreadedDatabase(local.database), producer) if has_outbox else None
        if relaying is not None:
            relaying.start()
        yield f"producer group {settings.group}, {where}, database {describe(engine)}"
        if relaying is not None:
            await relaying.stop(STOP_S)
    engine.dispose()


def _has_outbox(local: Local) -> bool:
    try:
        run_blocking(local.open_outbox)
    except ConfigError:  # only services with when_broker_is_away need one
        return False
    return True
