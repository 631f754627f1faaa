"""``python -m benchmarks.hops``: how many functions and files one request crosses inside a broker.

A broker runs in this process without sockets, as in ``benchmarks.broker_cost``. While it handles one half message, its
end, one plain message or one pull, this counts the functions of gantrymq that are called, from the bytes of the request
to the bytes of the answer. It works with pure Python only, because calls of compiled functions are not visible.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.broker_cost import HEARTBEAT, TOPIC, Peer
from benchmarks.no_network import NoNetwork
from gantrymq.broker.broker import Broker
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import SerializeType, encode_request
from gantrymq.protocol.headers.pull import PullMessage
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.rng import SystemRng

Called = collections.Counter[tuple[str, str]]


class Tracer:
    """Counts calls by file and function, while it is switched on."""

    def __init__(self) -> None:
        self.called: Called = collections.Counter()

    def _call(self, frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and "/gantrymq/" in name:
            self.called[name.split("/gantrymq/")[-1], frame.f_code.co_qualname] += 1

    def __enter__(self) -> Called:
        self.called = collections.Counter()
        sys.setprofile(self._call)
        return self.called

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def config_of(root: str) -> Any:
    from gantrymq.broker.config import BrokerConfig

    # Older versions, without sections of settings, have no ``of``.
    make: Callable[..., Any] = getattr(BrokerConfig, "of", BrokerConfig)
    return make(
        store_path_root_dir=root, listen_port=0, bind_address="127.0.0.1", flush_disk_type="ASYNC_FLUSH",
        disk_space_warning_level_ratio=100, mapped_file_size_commit_log=64 << 20,
    )  # fmt: skip


def pull(number: int) -> bytes:
    header = PullMessage(
        consumer_group="G", topic=TOPIC, queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=4, commit_offset=0,
        suspend_timeout_millis=0, subscription="*", sub_version=0, expression_type="TAG",
    )  # fmt: skip
    return encode_request(RequestCode.PULL_MESSAGE, number, header)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the functions, too")
    chosen = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="gantry-hops-"))
    network = NoNetwork()
    broker = Broker(config_of(str(scratch)), network, SystemClock(), SystemRng(), OsDisk())
    await broker.start()
    try:
        peer = Peer(network, SerializeType.JSON, 128, None)
        await peer.ask(encode_request(RequestCode.HEART_BEAT, 1, body=HEARTBEAT), 1)
        await peer.plain(8)
        await peer.transactions(8, one_way=False)
        await peer.ask(pull(1), 1)
        tracer = Tracer()
        half = peer.sends(1, half=True)
        found: dict[str, Called] = {}
        with tracer as found["a half message"]:
            answers = await peer.ask(half, 1)
        end = peer.ends(answers, one_way=False)
        with tracer as found["its end (commit)"]:
            await peer.ask(end, 1)
        plain = peer.sends(1, half=False)
        with tracer as found["a plain message"]:
            await peer.ask(plain, 1)
        question = pull(2)
        with tracer as found["a pull of 8 messages"]:
            await peer.ask(question, 1)
        for name, called in found.items():
            files = {file for file, _ in called}
            print(f"{name:22} {sum(called.values()):4} calls, {len(called):3} functions, {len(files):3} files")
            if chosen.list:
                for (file, function), times in called.items():
                    print(f"    {times:3} {file}: {function}")
    finally:
        await broker.close()
        shutil.rmtree(scratch)


if __name__ == "__main__":
    asyncio.run(main())
