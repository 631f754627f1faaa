"""Which modules a person reads who follows one batch of a job, from the job file to its table.

    python -m tests.spark.pipelines.trip

A job with a Parquet table and dead letters processes 20 messages, four of which are not valid. Two figures are printed:
the modules of ``gantrymq.spark.pipelines`` whose functions ran in the driver, and those that were loaded.
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

import gantrymq
from gantrymq import Message, Producer
from tests.kill.server import Server

ROOT = f"{Path(gantrymq.__file__).parent}/spark/pipelines/"
PACKAGE = "gantrymq.spark.pipelines."
FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
JOB = """
name = "trip"
checkpoint = "state"
source = {{ nameServers = "{name_servers}", subscribe = "Trip" }}
body = {{ schema = "id bigint, cents int" }}
events = {{ key = ["id"], valid = "cents >= 0" }}
targets.rows = {{ type = "parquet", path = "rows", sql = "SELECT id, cents FROM events" }}
dead_letters = {{ type = "parquet", path = "rejected" }}
run = {{ master = "local[1]" }}
"""


def main() -> None:
    ran: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & FUNCTION == FUNCTION and not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(ROOT):
            ran.add(code.co_filename.removeprefix(ROOT))

    with tempfile.TemporaryDirectory(prefix="gantry-trip-", ignore_cleanup_errors=True) as place:
        server = Server(Path(place) / "server", "ASYNC_FLUSH")
        server.start()
        try:
            with Producer("trip", name_servers=server.name_servers) as producer:
                for number in range(20):
                    body = json.dumps({"id": number, "cents": number}).encode()
                    producer.send(Message("Trip", body if number % 5 else b"not valid"))
            file = Path(place) / "job.toml"
            file.write_text(JOB.format(name_servers=server.name_servers))
            threading.setprofile(note)
            sys.setprofile(note)
            from gantrymq.spark.pipelines.describe.job_file import read_job
            from gantrymq.spark.pipelines.run.running import Ending, run

            print(run(read_job(str(file), {}), Ending(until_end=True)))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            server.kill()
    loaded = [name for name in sys.modules if name.startswith(PACKAGE) and not hasattr(sys.modules[name], "__path__")]
    print(f"{len(ran)} modules ran in the driver, {len(loaded)} were loaded")
    for path in sorted(ran):
        print("   ", path)


if __name__ == "__main__":
    main()
