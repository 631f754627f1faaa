"""A real process is killed while it writes. Everything whose storing was confirmed is there afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq.store.recovery.cases import Case
from tests.support.places import durable, open_store, record, run, small

WRITER = """
import asyncio, sys
from tests.support.places import durable, open_store, record, small

async def main():
    store = open_store(small(sys.argv[1]))
    number = 0
    while True:
        group = [store.append([record(queue_id=n % 3, body=b"%d" % (number + n))])[0] for n in range(7)]
        assert await durable(store, group) is None
        number += 7
        print(number, flush=True)

asyncio.run(main())
"""


@pytest.mark.kill
@pytest.mark.parametrize("acknowledged", [7, 700, 7000])
def test_sigkill_loses_nothing_that_was_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    place = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=place
    ) as writer:
        assert writer.stdout is not None
        reported = 0
        while reported < acknowledged:
            reported = int(writer.stdout.readline())
        writer.kill()
        reported = max([reported, *map(int, writer.stdout.read().split("\n")[:-1])])

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert store.recovered.case in (Case.MARKED, Case.UNKNOWN, Case.APACHE_DIED)
        assert store.recovered.quarantined == {}
        bodies = [message.body for message in store.scan(0)]
        assert len(bodies) >= reported and bodies == [b"%d" % number for number in range(len(bodies))]
        for queue in range(3):
            least, most = store.queue_range("Orders", queue)
            assert (least, most) == (0, len([n for n in range(len(bodies)) if n % 7 % 3 == queue]))
        assert await durable(store, store.append([record()])) is None
        await store.close()
        again = open_store(small(tmp_path))
        assert (again.recovered.case, again.recovered.records) == (Case.CLEAN, 0)
        assert len(list(again.scan(0))) == len(bodies) + 1
        await again.close()

    run(scenario())
