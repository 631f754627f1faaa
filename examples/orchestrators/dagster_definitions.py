"""The same for Dagster: a table by the hour, and a report that waits until a stream has read its hour.

    dagster dev -f dagster_definitions.py

Dagster's environment needs `pip install gantrymq`, which brings no Spark. The backfill runs in an environment of its
own, made by `pip install 'gantrymq[spark,pipelines]'`. The
variables GANTRY and ORDERS_JOB have the full paths of its command and of the job file.
"""

import os
import subprocess

import dagster as dg

GANTRY = os.environ.get("GANTRY", "gantry")
JOB = os.environ.get("ORDERS_JOB", "orders.toml")
NAME_SERVERS = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
GROUP, TOPIC = "orders-tables", "orders-paid"

HOURS = dg.HourlyPartitionsDefinition(start_date=os.environ.get("FIRST_HOUR", "2026-01-01-00:00"))


# A backfill takes only what was over a minute ago, so the first try of an hour may come too early.
@dg.asset(partitions_def=HOURS, retry_policy=dg.RetryPolicy(max_retries=3, delay=120))
def orders(context: dg.AssetExecutionContext) -> None:
    """The messages of each hour, as a batch. Running an hour again adds nothing twice: events have a key."""
    hour = context.partition_time_window
    command = [GANTRY, "pipeline", "backfill", JOB, "--from", hour.start.isoformat(), "--to", hour.end.isoformat()]
    subprocess.run(command, check=True)


@dg.asset(partitions_def=HOURS)
def report(context: dg.AssetExecutionContext) -> None:
    """What comes behind a stream (`gantry pipeline run orders.toml`) that runs all the time."""
    context.log.info(f"the hour {context.partition_key} is in the tables")


@dg.sensor(target=report, minimum_interval_seconds=60)
def stream_has_read(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """A run of the report for each hour that the stream has read. The cursor is the last hour that was started."""
    from gantrymq import Admin

    hours = HOURS.get_partition_keys()
    waiting = hours[hours.index(context.cursor) + 1 :] if context.cursor in hours else hours[-1:]
    with Admin(NAME_SERVERS) as admin:
        progress = admin.consumers.progress(GROUP, TOPIC)
    ended = {hour: HOURS.time_window_for_partition_key(hour).end for hour in waiting}
    ready = [hour for hour, end in ended.items() if progress.reached(int(end.timestamp() * 1000))]
    if not ready:
        return dg.SkipReason(f"{GROUP} is {progress.lag} messages behind in {TOPIC}")
    return dg.SensorResult(
        run_requests=[dg.RunRequest(run_key=hour, partition_key=hour) for hour in ready], cursor=ready[-1]
    )


hourly = dg.build_schedule_from_partitioned_job(dg.define_asset_job("orders_by_hour", [orders]), minute_of_hour=2)
defs = dg.Definitions(assets=[orders, report], sensors=[stream_has_read], schedules=[hourly])
