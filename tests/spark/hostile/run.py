"""Send hostile bodies and values through a job with every kind of target, and judge where each message is.

``python -m tests.spark.hostile.run --seed 1 --bodies 100000``. Exit status 1 when a message is not in every table or in
the dead letters, once, or when its values were changed; each is printed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import Job
from gantrymq.spark.pipelines.run.backfill import process_range
from gantrymq.spark.pipelines.run.batches import Batches
from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
from gantrymq.spark.pipelines.run.running import Ending, process
from tests.spark.fakes import START_MS, FakeBroker
from tests.spark.hostile.job import FORMATS, TOPIC, found_in, job_of
from tests.spark.hostile.judge import wrong
from tests.spark.hostile.registered import PREFIX, registry_for
from tests.spark.log_server import LogServer
from tests.sql.database_servers import MariaDB, PostgreSQL, lacking
from tests.sql.databases import Place

SHOWN = 20


class Killed(Exception):
    """The job ends here, as if its process were killed."""


def play(
    spark: Any,
    form: str,
    seed: int,
    bodies: int,
    where: Path,
    database: Place,
    mysql: Place | None,
    *,
    stream: bool,
    crash: float,
    batch: int,
) -> tuple[list[str], Counter[str]]:
    """What is wrong after a run, and how often there was each sort of reason. ``crash``: how probably the job ends
    before or after each write to a target; it is run again then."""
    chance = random.Random(f"{seed} {form}")
    made = list(FORMATS[form](chance, bodies))
    queue = MessageQueue(TOPIC, "broker-a", 0)
    where.mkdir()
    registry = registry_for(form) if form.startswith(PREFIX) else nullcontext(None)
    with LogServer(FakeBroker(answers_at_most=5000)) as server, registry as url:
        server.broker.logs[queue] = {}
        for one in made:
            server.broker.append(queue, one.body)
        job = job_of(form, where, server.address, database, mysql, batch, url)
        crashes = 0
        with crashing(chance, crash):
            while not _finished(spark, job, bodies, batch, stream=stream):
                crashes += 1
    found = found_in(job, where, database, mysql)
    seen = Counter({"accepted": len(found.places["delta"]), "crashes": crashes})
    seen.update(_sort(reason) for _, reason in found.dead)
    return wrong(made, found), seen


def _finished(spark: Any, job: Job, bodies: int, batch: int, *, stream: bool) -> bool:
    try:
        if stream:
            process(spark, job, Ending(until_end=True), ProgressLines(None), OsDisk())
        else:
            process_range(spark, job, START_MS, START_MS + bodies, batch, ProgressLines(None), OsDisk())
    except Exception as error:
        if "Killed" not in f"{type(error)} {error}":
            raise
        return False
    return True


@contextmanager
def crashing(chance: random.Random, probability: float) -> Iterator[None]:
    """Writes to a target end the job now and then, before them or after them."""
    commit = Batches._commit

    def perhaps(self: Batches, *rest: Any) -> int:
        if chance.random() < probability:
            raise Killed
        committed = commit(self, *rest)
        if chance.random() < probability:
            raise Killed
        return committed

    Batches._commit = perhaps  # type: ignore[method-assign]
    try:
        yield
    finally:
        Batches._commit = commit  # type: ignore[method-assign]


def _sort(reason: str) -> str:
    words = reason.split(":")[0].split(" ")
    return words[0] if words[0].startswith("targets.") else " ".join(words[:2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--bodies", type=int, default=30_000, help="of all formats together")
    parser.add_argument("--formats", default=",".join(FORMATS), help="some of them, with commas between; default: all")
    parser.add_argument("--batch", type=int, default=5_000, help="the most messages in a batch")
    parser.add_argument("--crash", type=float, default=0.01, help="how probably a write to a target ends the job")
    parser.add_argument("--backfill", action="store_true", help="by a backfill instead of a stream")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    from gantrymq.spark import spark_session
    from gantrymq.spark.session.session import SHORT_JOBS

    root = Path(tempfile.mkdtemp(prefix="gantry-hostile-"))
    server = PostgreSQL(root / "postgresql")
    other = None if lacking("mariadb") else MariaDB(root / "mariadb")
    spark = spark_session("hostile", master="local[2]", conf=SHORT_JOBS)
    spark.sparkContext.setLogLevel("OFF")
    count, failed = 0, 0
    try:
        server.start()
        if other is not None:
            other.start()
        mysql = None if other is None else Place.at(other, "hostile")
        forms = given.formats.split(",")
        for form in forms:
            begin = time.monotonic()
            bodies = given.bodies // len(forms)
            lines, seen = play(
                spark, form, given.seed, bodies, root / form, Place.at(server), mysql,
                stream=not given.backfill, crash=given.crash, batch=given.batch,
            )  # fmt: skip
            count, failed = count + bodies, failed + len(lines)
            took = f"{time.monotonic() - begin:.0f} s"
            print(f"{form}: {bodies} bodies, {len(lines)} wrong, {took}; {dict(seen.most_common())}")
            print(*lines[:SHOWN], sep="\n", flush=True)
    finally:
        spark.stop()
        server.kill()
        if other is not None:
            other.kill()
        shutil.rmtree(root, ignore_errors=True)
    print(f"{count} bodies, {failed} unaccounted or wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
