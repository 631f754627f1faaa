"""A pipeline as a value: where messages come from, what they mean, and which tables they go to. No I/O.

    source -> body decoded -> valid or dead letter -> one event for each key -> a projection for each target

``job_file`` reads a job from TOML, YAML or Python, ``job_rules`` finds what is wrong in it, ``running`` runs it.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

from gantrymq.errors import ConfigError

DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)")
UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
MESSAGE_COLUMNS: Final = ("topic", "broker_name", "queue_id", "queue_offset", "body")
"""The columns that every job reads. They are also the columns of the dead letters, with a reason."""
Allowed: TypeAlias = Literal["any_as_text", "rounding", "replaced_bytes"]
"""What a job can allow of its bodies; without these, a value is exactly the one of the body or the message is a dead
letter."""
Readable: TypeAlias = Literal["all", "newest", "none"]
DEAD_LETTER_SCHEMA: Final = (
    "topic string, broker_name string, queue_id int, queue_offset bigint, body binary, reason string"
)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the job file. A key that is not a field is an error."""


class Body(Section, frozen=True, kw_only=True):
    """How the body of a message becomes the columns of an event."""

    format: Literal["json", "avro", "protobuf", "none"] = "json"
    """``none``: the columns of an event are the columns of the message."""
    schema: str | None = None
    """json: the columns as DDL, for example ``order_id string, amount_cents bigint``."""
    schema_file: str | None = None
    """avro: the schema (.avsc) that the producers write with. protobuf: a descriptor set, as ``protoc
    --include_imports --descriptor_set_out`` writes it."""
    message: str | None = None
    """protobuf: the full name of the message type, for example ``shop.OrderPaid``."""
    allow: tuple[Allowed, ...] = ()
    """``any_as_text``: a column of type string takes every value, as it is written in the JSON. ``rounding``: decimals
    are rounded half up to the digits of their columns, and times are cut to microseconds. ``replaced_bytes``: bytes
    that are not UTF-8 become U+FFFD, which can make two keys equal."""
    registry: str | None = None
    """The address of a schema registry of Confluent's kind. Bodies begin with the id of their schema then."""
    subject: str | None = None
    """The only subject whose schemas count. Without ``schema_file``, its newest version is the job's own schema."""
    compatibility: Readable = "all"
    """Which versions of the subject the job must be able to read when it begins."""


class Events(Section, frozen=True, kw_only=True):
    """Which events count, and when two of them are the same one."""

    valid: str | None = None
    """An SQL condition. An event for which it does not hold is a dead letter."""
    key: tuple[str, ...] = ()
    """Events with equal values in these columns are repeats; the first one counts. Empty: nothing is a repeat."""
    horizon: str = "24h"
    """A repeat is recognised for this long after the first event. Only time in which the job runs counts. The state on
    the disk has an entry for each key of this time, about 100 bytes."""
    columns: dict[str, str] = {}
    """Further columns of the event, each an SQL expression on those of the body, such as ``coalesce(after.id,
    before.id)``."""

    @property
    def horizon_ms(self) -> int:
        return duration_ms(self.horizon)


class Changes(Section, frozen=True, kw_only=True):
    """Events that say what a row is now, or that it is gone. Of each key the last event by order counts."""

    key: tuple[str, ...]
    """Columns of the event that name a row."""
    order_by: tuple[str, ...]
    """Columns of the event by which a later one of the same key is known, compared from left to right."""
    operation: str | None = None
    """A column that says what the event does. None: each event says what its row is now."""
    upsert: tuple[str, ...] = ("insert", "update")
    """Values of ``operation``: the row is now as the event says, whether it was there before or not."""
    delete: tuple[str, ...] = ("delete",)
    """Values of ``operation``: the row is gone."""
    horizon: str = "7d"
    """A delete is remembered for so long: an older event that comes later does not bring the row back. Only time in
    which the job runs counts."""

    @property
    def horizon_ms(self) -> int:
        return duration_ms(self.horizon)


class ParquetTarget(Section, frozen=True, kw_only=True, tag_field="type", tag="parquet"):
    """A directory of Parquet files; see ``tables``."""

    path: str
    sql: str = "SELECT * FROM events"
    """The projection: a query of the view ``events``."""
    partition_by: tuple[str, ...] = ()
    """Columns of the projection. Each combination of their values has a directory of its own."""
    key: tuple[str, ...] = ()
    """Columns that name a row within its directory. A row is not added if another query has put one with this key
    there: an earlier run whose checkpoint is lost, or a backfill. Empty: ``events.key`` does this, if the projection
    has its columns."""


class DeltaTarget(Section, frozen=True, kw_only=True, tag_field="type", tag="delta"):
    """A Delta table, written without a JVM library."""

    path: str
    sql: str = "SELECT * FROM events"


class IcebergTarget(Section, frozen=True, kw_only=True, tag_field="type", tag="iceberg"):
    """An Iceberg table in a catalog of pyiceberg."""

    table: str
    """Namespace and name, for example ``shop.shipping``."""
    catalog: dict[str, str]
    """The properties of the catalog, for example ``{type = "sql", uri = "sqlite:///catalog.db", warehouse = "..."}``"""
    sql: str = "SELECT * FROM events"


class PostgresqlTarget(Section, frozen=True, kw_only=True, tag_field="type", tag="postgresql"):
    """A table in PostgreSQL, one row for each key. The table must exist, with a unique index of the key."""

    dsn: str
    """A connection string of libpq. A password is best given by PGPASSWORD or a password file."""
    table: str
    key: tuple[str, ...]
    grow: bool = False
    """Whether the job may alter the table, which belongs to somebody else: add its columns, and make types wider."""
    sql: str = "SELECT * FROM events"


class MysqlTarget(Section, frozen=True, kw_only=True, tag_field="type", tag="mysql"):
    """A table in MySQL or MariaDB, one row for each key. The table must exist, with a unique index of the key."""

    url: str
    """``mysql://user@localhost:3306/database``. A password is best given by MYSQL_PWD."""
    table: str
    key: tuple[str, ...]
    sql: str = "SELECT * FROM events"


class TopicTarget(Section, frozen=True, kw_only=True, tag_field="type", tag="topic"):
    """A topic, for dead letters. A message may be there twice after a crash."""

    topic: str
    name_servers: str | None = None
    """None: those of the source."""


TableTarget: TypeAlias = ParquetTarget | DeltaTarget | IcebergTarget | PostgresqlTarget | MysqlTarget
Target: TypeAlias = TableTarget | TopicTarget


class Run(Section, frozen=True, kw_only=True):
    """How the job runs."""

    interval: str = "500ms"
    """The shortest time between the starts of two batches."""
    max_rows: int = 200_000
    """The most messages in a batch. The driver has one batch in memory, about 100 bytes and a body for each message."""
    master: str = "local[*]"
    """Where Spark runs; ``sc://127.0.0.1:15002`` is a server of Spark Connect."""
    driver_memory: str = "1g"
    python: str | None = None
    """The Python of the executors of a cluster, by a path that is valid there and beside the driver. None:
    ``PYSPARK_PYTHON``, else the one of the driver."""
    warm_workers: bool | None = None
    """Whether Spark forks its workers from a process that has imported this package; None: only on one machine."""
    spark: dict[str, str] = {}
    """Further settings of Spark."""

    @property
    def interval_ms(self) -> int:
        return duration_ms(self.interval)

    @property
    def is_remote(self) -> bool:
        """Whether this process is a client of Spark Connect, and Spark's driver another one."""
        return self.master.startswith("sc://")


class Job(Section, frozen=True, kw_only=True):
    """One pipeline."""

    name: str
    checkpoint: str
    """Directory of Spark's checkpoint. Together with the targets it is the whole state of the job."""
    source: dict[str, str]
    """Options of the format ``rocketmq``."""
    body: Body = Body()
    events: Events = Events()
    changes: Changes | None = None
    """None: rows are only added, and ``events.key`` says which are repeats."""
    targets: dict[str, TableTarget]
    dead_letters: Target | None = None
    """Where messages go that are not events; None only where every message is one."""
    run: Run = Run()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of messages that the job reads."""
        return tuple(dict.fromkeys([*MESSAGE_COLUMNS, *self.named_columns]))

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns of the message that ``source.columns`` names, for projections."""
        return tuple(name.strip() for name in self.source.get("columns", "").split(",") if name.strip())


def duration_ms(text: str) -> int:
    """Milliseconds of ``90s``, ``24h`` or ``7d``. Raises ConfigError for anything else."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not a time; write a whole number with ms, s, m, h or d, for example 24h")
    return int(match.group(1)) * UNITS_MS[match.group(2)]
