"""Two DAGs for Airflow 3: tables by the hour, and a report that waits until a stream has read its hour.

Copy this file into the folder of DAGs. Airflow's environment needs `pip install gantrymq`, which brings no Spark. The
backfill runs in an environment of its own, made by `pip install 'gantrymq[spark,pipelines]'`. The
variables GANTRY and ORDERS_JOB have the full paths of its command and of the job file.
"""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
from airflow.sdk import dag, task
from airflow.timetables.interval import CronDataIntervalTimetable

GANTRY = os.environ.get("GANTRY", "gantry")
JOB = os.environ.get("ORDERS_JOB", "orders.toml")
NAME_SERVERS = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
GROUP, TOPIC = "orders-tables", "orders-paid"

# With "@hourly" alone, Airflow 3 has intervals without length: data_interval_start would be data_interval_end.
HOURLY = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
START = datetime(2026, 1, 1, tzinfo=UTC)


@dag(schedule=HOURLY, start_date=START, catchup=False, max_active_runs=1)
def orders_by_hour() -> None:
    """The messages of each hour, as a batch. Running an hour again adds nothing twice: events have a key."""
    # A backfill takes only what was over a minute ago, so that nothing of its hour is still on its way.
    over = TimeDeltaSensor(task_id="over", delta=timedelta(minutes=2), mode="reschedule")
    backfill = BashOperator(
        task_id="backfill",
        bash_command=f"{shlex.quote(GANTRY)} pipeline backfill {shlex.quote(JOB)} "
        "--from '{{ data_interval_start }}' --to '{{ data_interval_end }}'",
        retries=3,
        retry_delay=timedelta(minutes=5),
    )
    over >> backfill


@dag(schedule=HOURLY, start_date=START, catchup=False)
def report_by_hour() -> None:
    """What comes behind a stream (`gantry pipeline run orders.toml`) that runs all the time."""

    @task.sensor(poke_interval=30, timeout=3600, mode="reschedule")
    def stream_has_read(data_interval_end: datetime | None = None) -> bool:
        from gantrymq import Admin

        assert data_interval_end is not None
        with Admin(NAME_SERVERS) as admin:
            progress = admin.consumers.progress(GROUP, TOPIC)
        print(f"{GROUP} is {progress.lag} messages behind in {TOPIC}")
        return progress.reached(int(data_interval_end.timestamp() * 1000))

    @task
    def report(data_interval_start: datetime | None = None) -> None:
        print(f"the hour from {data_interval_start} is in the tables")

    stream_has_read() >> report()


orders_by_hour()
report_by_hour()
