"""What is wrong in a job file is found before Spark starts, with line, key and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.describe.addresses import directory_of
from gantrymq.spark.pipelines.describe.job_file import read_job
from gantrymq.spark.pipelines.describe.job_rules import JobInvalid
from gantrymq.spark.pipelines.job import (
    DeltaTarget,
    IcebergTarget,
    Job,
    MysqlTarget,
    ParquetTarget,
    PostgresqlTarget,
    TopicTarget,
)
from gantrymq.spark.pipelines.ready_made.order_paid import FILE

GOOD = """\
name = "clicks"
checkpoint = "state"

[source]
nameServers = "127.0.0.1:9876"
subscribe = "clicks"
columns = "tags"

[body]
schema = "id string, page string"

[events]
key = ["id"]
horizon = "2h"

[targets.pages]
type = "parquet"
path = "pages"
sql = "SELECT id, page FROM events"

[dead_letters]
type = "topic"
topic = "clicks-rejected"
"""
AS_YAML = """\
name: clicks
checkpoint: state
source:
  nameServers: 127.0.0.1:9876
  subscribe: clicks
  columns: tags
body:
  schema: id string, page string
events:
  key: [id]
  horizon: 2h
targets:
  pages:
    type: parquet
    path: pages
    sql: SELECT id, page FROM events
dead_letters:
  type: topic
  topic: clicks-rejected
"""


def written(where: Path, text: str, name: str = "job.toml") -> str:
    path = where / name
    path.write_text(text)
    return str(path)


def test_a_job(tmp_path: Path) -> None:
    job = read_job(written(tmp_path, GOOD))
    assert (job.name, job.checkpoint) == ("clicks", f"{tmp_path}/state")
    assert job.targets == {"pages": ParquetTarget(path=f"{tmp_path}/pages", sql="SELECT id, page FROM events")}
    assert job.dead_letters == TopicTarget(topic="clicks-rejected")
    assert (job.events.horizon_ms, job.run.interval_ms) == (7_200_000, 500)
    assert job.columns == ("topic", "broker_name", "queue_id", "queue_offset", "body", "tags")


def test_the_same_in_yaml(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    assert read_job(written(tmp_path, AS_YAML, "job.yaml")) == read_job(written(tmp_path, GOOD))


def test_the_same_as_a_function(tmp_path: Path) -> None:
    text = """
from gantrymq.spark.pipelines.job import Body, Events, Job, ParquetTarget, TopicTarget

def clicks():
    return Job(
        name="clicks", checkpoint="state",
        source={"nameServers": "127.0.0.1:9876", "subscribe": "clicks", "columns": "tags"},
        body=Body(schema="id string, page string"), events=Events(key=("id",), horizon="2h"),
        targets={"pages": ParquetTarget(path="pages", sql="SELECT id, page FROM events")},
        dead_letters=TopicTarget(topic="clicks-rejected"),
    )
"""
    file = written(tmp_path, text, "jobs.py")
    assert read_job(f"{file}:clicks") == read_job(written(tmp_path, GOOD))
    with pytest.raises(ConfigError, match=r"has no function job\(\)"):
        read_job(file)


def test_every_kind_of_target(tmp_path: Path) -> None:
    text = (
        GOOD
        + """
[targets.lake]
type = "iceberg"
table = "shop.pages"
catalog = { type = "sql", uri = "sqlite:///catalog.db" }

[targets.rows]
type = "postgresql"
dsn = "dbname=shop"
table = "shop.pages"
key = ["id"]

[targets.others]
type = "postgresql"
dsn = "dbname=archive"
table = "shop.pages"
key = ["id"]

[targets.mysql]
type = "mysql"
url = "mysql://shop@127.0.0.1/shop"
table = "pages"
key = ["id"]

[targets.delta]
type = "delta"
path = "delta"
"""
    )
    job = read_job(written(tmp_path, text))
    assert isinstance(job.targets["mysql"], MysqlTarget)
    assert isinstance(job.targets["lake"], IcebergTarget) and isinstance(job.targets["rows"], PostgresqlTarget)
    assert job.targets["delta"].sql == "SELECT * FROM events"


def test_a_target_in_mysql_that_cannot_work(tmp_path: Path) -> None:
    rows = '[targets.rows]\ntype = "mysql"\nurl = "mysql://localhost/shop"\ntable = "a.b.c"\nkey = []\n'
    with pytest.raises(JobInvalid) as raised:
        read_job(written(tmp_path, GOOD + rows))
    said = {problem.key: problem.text for problem in raised.value.problems}
    assert said == {
        "targets.rows.url": "this is not an address of a database; write mysql://USER@localhost:3306/DATABASE",
        "targets.rows.key": "name the columns by which a row is updated",
        "targets.rows.table": "'a.b.c' is not a table name; write table or schema.table",
    }
    changes = '[changes]\nkey = ["id"]\norder_by = ["id"]\n'
    good = rows.replace("mysql://localhost", "mysql://me@localhost").replace("a.b.c", "c").replace("[]", '["id"]')
    with pytest.raises(JobInvalid, match=r"a job with \[changes\] cannot write to MySQL"):
        read_job(written(tmp_path, GOOD + good + changes))


def test_an_address_is_no_directory_beside_the_job(tmp_path: Path) -> None:
    text = GOOD + "\n[targets.lake]\ntype = 'delta'\npath = 's3:///clicks'\n"
    text = text.replace('checkpoint = "state"', 'checkpoint = "s3a:///state"')
    assert read_job(written(tmp_path, text)).checkpoint == "s3a:///state"
    lake = read_job(written(tmp_path, text)).targets["lake"]
    assert isinstance(lake, DeltaTarget) and lake.path == "s3:///clicks"
    assert directory_of("a", "--out") == f"{Path.cwd()}/a"
    with pytest.raises(
        ConfigError, match="--out: abfss://localhost/x is an address, and here a path of this machine is needed"
    ):
        directory_of("abfss://localhost/x", "--out")


def test_changes_of_the_command_line(tmp_path: Path) -> None:
    job = read_job(written(tmp_path, GOOD), ["source.subscribe=taps", "run.max_rows=5", "run.spark.spark.x.y=01"])
    assert (job.source["subscribe"], job.run.max_rows, job.run.spark) == ("taps", 5, {"spark.x.y": "01"})
    with pytest.raises(ConfigError, match="is not a change; write key=value"):
        read_job(written(tmp_path, GOOD), ["source"])


def test_the_name_servers_of_the_environment(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD.replace('nameServers = "127.0.0.1:9876"\n', ""))
    assert read_job(file, environment={"NAMESRV_ADDR": "ns:1"}).source["nameServers"] == "ns:1"
    assert read_job(file, environment={}).source["nameServers"] == "127.0.0.1:9876"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('name = "clicks"', "", "job.toml: name: this key is missing"),
        ('name = "clicks"', 'nam = "clicks"', "line 1: nam: there is no such key; did you mean name?"),
        ('name = "clicks"', 'name = "two words"', "line 1: name: 'two words' is not a name"),
        ('name = "clicks"', "name = 5", "line 1: name: write a text, and not a whole number"),
        ('subscribe = "clicks"', 'subscibe = "clicks"', "line 6: source.subscibe: the format rocketmq has no option"),
        ("nameServers =", '"kafka.bootstrap.servers" =', "Kafka's option is nameServers here"),
        ('subscribe = "clicks"', "", "source: give exactly one of subscribe"),
        ('columns = "tags"', "maxOffsetsPerTrigger = 5", "line 7: source.maxOffsetsPerTrigger: a job sets this option"),
        ('schema = "id string, page string"', "", "line 9: body: the format json needs the key schema"),
        ('schema = "', 'format = "xml"\nschema = "',
         "line 10: body.format: 'xml' is not a valid format; there are json, avro, protobuf, none"),
        ('schema = "', 'allow = "rounding"\nschema = "', 'body.allow: write a list such as ["id"], and not a text'),
        ('schema = "', 'allow = ["round"]\nschema = "',
         "body.allow[0]: 'round' is not a valid allow; there are any_as_text, rounding, replaced_bytes"),
        ('schema = "id string, page string"', 'format = "avro"\nschema_file = "a"\nallow = ["any_as_text"]',
         "body.allow: any_as_text has no meaning for the format avro; remove it"),
        ('schema = "', 'message = "M"\nschema = "', "line 10: body.message: this key has no meaning"),
        ('schema = "', 'subject = "S"\nschema = "', "body.subject: this key has no meaning without"),
        ('schema = "', 'registry = "localhost:8081"\nschema = "', "line 10: body.registry: 'localhost:8081' is not an"),
        ('schema = "', 'registry = "http://u:p@localhost"\nschema = "', "body.registry: has a password in its"),
        ('schema = "id string, page string"', 'format = "avro"\nregistry = "http://localhost"',
         "needs the key schema_file"),
        ('horizon = "2h"', 'horizon = "2 weeks"', "line 14: events.horizon: '2 weeks' is not a time; write"),
        ('horizon = "2h"', 'horizon = "0s"', "line 14: events.horizon: the horizon must be longer"),
        ('path = "pages"', "", "line 16: targets.pages: the key path is missing"),
        ('path = "pages"', 'pth = "pages"\npath = "x"', "line 18: targets.pages.pth: there is no such key; did you"),
        ('path = "pages"', 'path = "pages"\npartition_by = ["id"]\nkey = ["id"]', "targets.pages.key: it names a row"),
        ('type = "parquet"', 'type = "csv"',
         "line 17: targets.pages.type: 'csv' is not a valid type; there are parquet, delta, iceberg, postgresql"),
        ("SELECT id, page FROM events", " ", "line 19: targets.pages.sql: write a query"),
        ("[dead_letters]", "[targets.x]\ntype='parquet'\npath='pages'\n[dead_letters]", "writes to the same place"),
        ('type = "topic"\ntopic = "clicks-rejected"', "type='delta'\npath='./pages'", "dead_letters: targets.pages"),
        ('checkpoint = "state"', 'checkpoint = "hdfs://localhost/x"', "line 2: checkpoint: hdfs://localhost/x is not"),
        ('checkpoint = "state"', 'checkpoint = "s3://b/x"', "Spark's library for S3 has the addresses s3a://"),
        ('path = "pages"', 'path = "dbfs:/b/x"', "dbfs:/b/x is not a valid place; give a path, or an address"),
        ('type = "topic"\ntopic = "clicks-rejected"', "type='delta'\npath='ftp://localhost/x'", "localhost/x is not"),
        ('[dead_letters]\ntype = "topic"\ntopic = "clicks-rejected"', "", "dead_letters: this table is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert before in GOOD
    with pytest.raises(ConfigError) as raised:
        read_job(written(tmp_path, GOOD.replace(before, after)))
    assert message in str(raised.value)


CHANGES = """\
[changes]
key = ["id"]
order_by = ["version"]
operation = "op"

[targets.pages]
type = "delta"
path = "pages"
"""


def with_changes(text: str = CHANGES) -> str:
    return GOOD[: GOOD.index("[events]")] + text + GOOD[GOOD.index("[dead_letters]") :]


def test_a_job_with_changes(tmp_path: Path) -> None:
    job = read_job(written(tmp_path, with_changes()))
    assert job.changes is not None and job.changes.horizon_ms == 7 * 86_400_000
    assert (job.changes.upsert, job.changes.delete) == (("insert", "update"), ("delete",))


def test_the_job_of_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "pipelines.md").read_text()
    text = page[page.index("## Change data") :].split("```")[1].removeprefix("toml")
    job = read_job(written(tmp_path, text), environment={})
    assert job.changes is not None and job.changes.key == ("id",)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('order_by = ["version"]', "", "changes: the key order_by is missing"),
        ('order_by = ["version"]', "order_by = []", "line 14: changes.order_by: name the columns that say which event"),
        ('key = ["id"]', "key = []", "line 13: changes.key: name the columns that name a row"),
        ('operation = "op"', 'delete = ["update"]', "changes.delete: update is in changes.upsert, too"),
        ('operation = "op"', 'horizon = "0s"', "changes.horizon: the horizon must be longer than nothing"),
        ('operation = "op"', '[events]\nkey = ["id"]', "events.key: a job with [changes] has its key in changes.key"),
        ('type = "delta"', 'type = "parquet"', "targets.pages.type: the rows of a Parquet table never change"),
        ('type = "delta"\npath = "pages"', 'type = "postgresql"\ndsn = ""\ntable = "t"\nkey = ["x"]',
         "targets.pages.key: in a job with [changes] it must be changes.key, so: id"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_changes_is_named(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert before in CHANGES
    with pytest.raises(ConfigError) as raised:
        read_job(written(tmp_path, with_changes(CHANGES.replace(before, after))))
    assert message in str(raised.value)


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    text = GOOD.replace('horizon = "2h"', 'horizon = "x"').replace('name = "clicks"', 'name = "?"')
    with pytest.raises(ConfigError) as raised:
        read_job(written(tmp_path, text))
    assert len(str(raised.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("job.toml", "name = ", "this is not TOML"),
        ("job.yaml", "name: [", "this is not YAML"),
        ("job.yaml", "- a", "a job is a mapping"),
        ("job.txt", "", "a job file ends with"),
    ],
)
def test_files_that_are_no_jobs(tmp_path: Path, name: str, text: str, message: str) -> None:
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    with pytest.raises(ConfigError, match=message):
        read_job(written(tmp_path, text, name))
    with pytest.raises(ConfigError, match="there is no job file"):
        read_job(str(tmp_path / "absent.toml"))


def test_order_paid_is_such_a_file() -> None:
    job: Job = read_job(FILE, environment={})
    assert list(job.targets) == ["shipping", "points", "cart"]
    assert job.events.key == ("order_id",)


def test_a_job_invalid_can_be_pickled(tmp_path: Path) -> None:
    import pickle

    with pytest.raises(ConfigError) as raised:
        read_job(written(tmp_path, "[source]"))
    again: Any = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value)
