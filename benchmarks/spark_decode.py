"""``python -m benchmarks.spark_decode``: what each kind of column costs when an answer to a pull is decoded, no Spark.

The answer has 10,000 messages with the properties that our client writes, and is decoded again and again; the best time
counts. Where the tag and the keys differ in length from message to message, the row says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib

from gantrymq.message import flags, properties
from gantrymq.protocol.stored_message import encode_record, pack_host
from gantrymq.spark.columns.decode import Records

PLAIN = "topic,queue_id,queue_offset,body,born_timestamp"
SELECTIONS = {
    "body and place": PLAIN,
    "tags and keys too": f"{PLAIN},tags,keys",
    "tags, keys and id too": f"{PLAIN},tags,keys,message_id",
    "properties too": f"{PLAIN},properties",
}
HOST = pack_host("127.0.0.1:10911")


def answer(messages: int, body_bytes: int, *, kind: str) -> bytes:
    """Log records as a pull returns them. ``kind``: plain, lengths (of the keys) or compressed."""
    records = []
    place = 0
    body = (b"abcdefghij0123456789ABCDEF" * (body_bytes // 26 + 1))[:body_bytes]
    sent = zlib.compress(body, 5) if kind == "compressed" else body
    for number in range(messages):
        key = f"order-{number}" if kind != "lengths" else f"order-{'x' * (number * 7919 % 23)}{number:06d}"
        text = properties.encode(
            {"TAGS": "vip", "KEYS": key, "UNIQ_KEY": f"7F0000016D98E784C4C96794C4{number:06d}", "WAIT": "true"}
        )
        record = encode_record(
            b"SparkBench", sent, text.encode(), (0, number, place, 1_763_700_000_000, HOST),
            (1_763_700_000_000, HOST, 0, flags.COMPRESSED if kind == "compressed" else 0, 0),
        )  # fmt: skip
        records.append(record)
        place += len(record)
    return b"".join(records)


def best_us(data: bytes, columns: str, messages: int, rounds: int) -> float:
    """Microseconds of processor time for a message."""
    best = float("inf")
    names = columns.split(",")
    for _ in range(rounds):
        begin = time.thread_time()
        for piece in Records.scan(data).pieces(names):
            piece.batch(names, "SparkBench", "broker-a")
        best = min(best, time.thread_time() - begin)
    return best / messages * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--body-bytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=30)
    chosen = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    for kind in ("plain", "lengths", "compressed"):
        data = answer(chosen.messages, chosen.body_bytes, kind=kind)
        for name, columns in SELECTIONS.items():
            us = best_us(data, columns, chosen.messages, chosen.rounds)
            first = found.get("plain, body and place", {"us": us})["us"]
            found[f"{kind}, {name}"] = {"us": round(us, 3), "of_body": round(us / first, 2)}
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
