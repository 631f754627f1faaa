"""The story of test_five_clients.py: endpoint, topic; for TLS and a signature, access key and secret key.

It runs in an environment with the official client alone.
"""

import json
import sys
import time

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

ENDPOINT, TOPIC, *KEYS = sys.argv[1:]
TLS = {"tls_enable": bool(KEYS)}


def say(step: str, text: str) -> None:
    # In one write: several threads speak here, and ``print`` writes the end of a line by itself.
    sys.stdout.write(json.dumps({"step": step, "text": text}) + "\n")
    sys.stdout.flush()


def message(body: str) -> Message:
    made = Message()
    made.topic, made.tag, made.body = TOPIC, "five", body.encode()
    return made


def got(who: str, one: Message) -> None:
    text = one.body.decode()
    say(who, text)
    if text == "normal 0":
        say("as sent", f"{one.tag} {sorted(one.keys)} {one.properties}")


class Listener(MessageListener):
    def consume(self, one: Message) -> ConsumeResult:
        got("push", one)
        return ConsumeResult.SUCCESS


class Checker(TransactionChecker):
    def check(self, one: Message) -> TransactionResolution:
        say("check", one.body.decode())
        return TransactionResolution.COMMIT


def main() -> None:
    where = ClientConfiguration(ENDPOINT, Credentials(*KEYS), request_timeout=3)
    wanted = {TOPIC: FilterExpression("five")}
    PushConsumer(where, f"{TOPIC}-push", Listener(), wanted, **TLS).startup()
    producer = Producer(where, [TOPIC], checker=Checker(), **TLS)
    producer.startup()
    for number in range(3):
        made = message(f"normal {number}")
        made.keys = f"k{number}"
        made.add_property("a", "b")
        producer.send(made)
    ordered = message("ordered")
    ordered.message_group = "group"
    producer.send(ordered)
    delayed = message("delayed")
    delayed.delivery_timestamp = int(time.time()) + 2
    producer.send(delayed)
    transaction = producer.begin_transaction()
    producer.send(message("committed"), transaction)
    transaction.commit()
    transaction = producer.begin_transaction()
    producer.send(message("rolled back"), transaction)
    transaction.rollback()
    producer.send(message("checked"), producer.begin_transaction())
    simple = SimpleConsumer(where, f"{TOPIC}-simple", wanted, 2, **TLS)
    simple.startup()
    nothing = message("x")
    nothing.topic = "Nothing"
    try:
        producer.send(nothing)
    except Exception as error:  # the client has no common class
        say("refused", str(error))
    say("ready", "")
    while True:
        for one in simple.receive(16, 30):
            got("simple", one)
            simple.ack(one)


main()
