"""``python -m benchmarks.metrics_cost``: what the broker's metrics cost a message.

Nearly all metrics are read from what the broker counts anyway, and cost nothing until somebody reads them. Only the
times of requests (``rocketmq_rpc_latency_milliseconds``) are taken for each request. That work is timed here alone, for
the requests of one read (16 of them), best of several rounds, beside the best time that the broker's thread needs for a
plain message (``benchmarks.broker_cost``) in the same process. Prints microseconds and the share.
"""

from __future__ import annotations

import argparse
import time
from typing import Final

from msgspec.structs import force_setattr

from benchmarks import broker_cost
from gantrymq.build_info import build_info
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.remoting.latency import RequestLatency
from gantrymq.runtime.clock import SystemClock

BUNCH: Final = 16
ROUNDS: Final = 9
BUNCHES: Final = 5_000


def latency_us(form: str) -> float:
    """Microseconds for taking the time of one request."""
    latency = RequestLatency(SystemClock())
    command = Command(code=RequestCode.SEND_MESSAGE_V2, opaque=1, serialize=broker_cost.FORMS[form])
    frame = encode_response(command, ResponseCode.SUCCESS)
    measured = empty = float("inf")
    for _ in range(ROUNDS):
        begun = time.thread_time()
        for _ in range(BUNCHES):
            for _ in range(BUNCH):
                force_setattr(command, "arrived", 1.0)
                latency.answered(command, frame)
            latency.take()
        measured = min(measured, time.thread_time() - begun)
        begun = time.thread_time()
        for _ in range(BUNCHES):
            for _ in range(BUNCH):
                pass
        empty = min(empty, time.thread_time() - begun)
    return (measured - empty) * 1e6 / BUNCH / BUNCHES


def main() -> None:
    argparse.ArgumentParser(prog="python -m benchmarks.metrics_cost", description=__doc__).parse_args()
    print("compiled core" if build_info().compiled else "pure Python")
    for form in broker_cost.FORMS:
        message_us = float(str(broker_cost.measured(["--kind", "plain", "--form", form])["best_us"]))
        taken_us = latency_us(form)
        print(
            f"{form:<7} headers: {taken_us:.2f} us of {message_us:.1f} us a message, {taken_us / message_us:.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
