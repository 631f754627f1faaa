"""Runs scenarios on Apache's brokers. Many run at the same time on one broker, so that few JVMs must be started."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Final

from gantrymq.client.connection.endpoint import Outside
from tests.holes.case import Case, Observed, On
from tests.holes.stage import BODY_LENGTH_AT, CHECK_MAX, INTERVAL_S, WRONG_LENGTH, Stage
from tests.interop.apache import ApacheCluster
from tests.interop.process import Process

TIMEOUT_S: Final = {on: 6.0 if on is On.DEFAULT else 1.0 for on in On}
LONGEST_S: Final = 300.0
"""How long all scenarios of one round may take."""


class House:
    """One broker, and the scenarios that run on it now."""

    def __init__(self, cluster: ApacheCluster, on: On) -> None:
        self.cluster = cluster
        self.on = on
        self._conf = {
            "transactionTimeOut": round(TIMEOUT_S[on] * 1000), "transactionCheckInterval": round(INTERVAL_S * 1000),
            "transactionCheckMax": CHECK_MAX, "waitTimeMillsInSendQueue": 15_000,
        }  # fmt: skip
        if on is not On.DEFAULT and cluster.version.startswith("5"):
            self._conf["transactionOpMsgMaxSize"] = 1
        self.store = cluster.directory / f"store-{on.name.lower()}"
        self._process: Process | None = None
        self._playing = 0
        self._waiting = 0
        self._restarted = asyncio.Event()

    def start(self) -> None:
        self._process = self.cluster.start_broker(self.store, name=f"broker-{self.on.name.lower()}", **self._conf)
        self.address = self.cluster.broker_address

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def play(self, cases: Iterable[Case]) -> dict[str, Observed | BaseException]:
        """These cases at the same time."""
        cases = list(cases)
        self._playing, self._waiting = len(cases), 0
        self._restarted = asyncio.Event()
        async with asyncio.timeout(LONGEST_S):
            found = await asyncio.gather(*(self._one(case) for case in cases), return_exceptions=True)
        return dict(zip((case.name for case in cases), found, strict=True))

    async def _one(self, case: Case) -> Observed:
        stage = ApacheStage(self, TIMEOUT_S[self.on])
        try:
            return await case.play(stage)
        finally:
            self._playing -= 1
            await stage.leave()
            await self._restart_when_all_wait(case.restarts == "stop")

    async def restart(self, *, orderly: bool) -> None:
        """Restart the broker once for all scenarios, when every scenario that still runs asks for it."""
        self._waiting += 1
        restarted = self._restarted
        await self._restart_when_all_wait(orderly)
        await restarted.wait()

    async def _restart_when_all_wait(self, orderly: bool) -> None:
        if not self._waiting or self._waiting < self._playing or self._restarted.is_set():
            return
        assert self._process is not None
        (self._process.stop if orderly else self._process.kill)()
        await asyncio.to_thread(self.start)
        self._waiting = 0
        self._restarted.set()


class ApacheStage(Stage):
    """One scenario on the broker of a house."""

    def __init__(self, house: House, timeout_s: float) -> None:
        super().__init__()
        self._house = house
        self.timeout_s = timeout_s
        self.outside = Outside()
        self._prefix = f"H{self.outside.rng.below(1 << 30):X}"

    @property
    def address(self) -> str:
        return self._house.address

    def new_outside(self) -> Outside:
        return self.outside

    def damage(self, log_offset: int) -> None:
        # The broker maps its files into memory, so it sees what is written to them.
        log = self._house.store / "commitlog"
        path = max(path for path in log.iterdir() if int(path.name) <= log_offset)
        with path.open("r+b") as file:
            file.seek(log_offset - int(path.name) + BODY_LENGTH_AT)
            file.write(WRONG_LENGTH)

    async def offsets_written(self) -> None:
        file = self._house.store / "config" / "consumerOffset.json"
        written = file.stat().st_mtime_ns if file.exists() else 0
        await self.until(lambda: file.exists() and file.stat().st_mtime_ns != written, "consumer offsets")

    @property
    def knows_timers(self) -> bool:
        return self._house.cluster.version.startswith("5")

    async def restart(self, *, orderly: bool = False) -> None:
        await self._house.restart(orderly=orderly)


def play_apache(version: str, cases: list[Case], directory: Path) -> dict[str, Observed | BaseException]:
    """Run all these cases on brokers of one version. Returns the result of each case, or the error that it raised."""
    cluster = ApacheCluster(version, directory)
    found: dict[str, Observed | BaseException] = {}

    async def on_house(house: House, cases: list[Case]) -> None:
        rounds = sorted(cases, key=_round)
        for _, together in groupby(rounds, key=_round):
            found.update(await house.play(together))

    try:
        cluster.start_name_server()
        for on in On:
            here = [case for case in cases if case.on is on]
            if here:
                house = House(cluster, on)
                began = time.monotonic()
                house.start()
                started = time.monotonic()
                asyncio.run(on_house(house, here))
                house.close()
                print(
                    f"Apache {version}, {on.value}: {len(here)} scenarios in {time.monotonic() - started:.0f} s, "
                    f"started in {started - began:.0f} s"
                )
    except Exception as error:  # the cases that have not run yet cannot run because of this
        found.update({case.name: error for case in cases if case.name not in found})
    finally:
        cluster.close()
    return found


def _round(case: Case) -> tuple[bool, str, str]:
    """A sort key: cases with the same key run at the same time."""
    return (not case.first, case.restarts, case.name if case.alone else "")
