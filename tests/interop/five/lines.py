"""The driver of five_lines.py for Python: endpoint, ``plain`` or ``tls``; for a signature, access key and secret key.

It runs in an environment with the official client alone. Each line of its input is an order: a verb and ``key=value``,
apart by tabs. Orders run beside each other; each is answered with a line ``done`` or ``failed`` of its number.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    LitePushConsumer,
    LiteSimpleConsumer,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

ENDPOINT, TLS, *KEYS = sys.argv[1:]
OWN = {"tls_enable": TLS == "tls"}
DECISIONS = {"commit": TransactionResolution.COMMIT, "rollback": TransactionResolution.ROLLBACK}
LARGE = 200  # bytes of a body that is not shown

clients, transactions, got = {}, {}, {}


def say(**values):
    sys.stdout.write(json.dumps(values) + "\n")  # one write: several threads speak here
    sys.stdout.flush()


def show(who, one):
    body = one.body.decode()
    got[who, body] = one
    shown = body if len(body) < LARGE else f"large {len(body)}"
    say(
        step="got", who=who, body=shown, attempt=one.delivery_attempt or 1,
        tag=one.tag or "", keys=" ".join(sorted(one.keys)), property=one.properties.get("a", ""),
        group=one.message_group or "", lite=one.lite_topic or "", priority=str(one.priority or 0),
    )  # fmt: skip


def where(order):
    """An order may name another door, or another account than the process was given; an empty access key is none."""
    keys = [order["access"], order.get("secret", "")] if "access" in order else KEYS
    credentials = Credentials(*keys) if keys and keys[0] else Credentials()
    return ClientConfiguration(order.get("endpoint", ENDPOINT), credentials, request_timeout=15)


class Listener(MessageListener):
    def __init__(self, who, fails):
        self.who, self.fails, self.times = who, fails, {}

    def consume(self, one):
        show(self.who, one)
        # Counted here: when the client tries an ordered message again by itself, its number stays.
        self.times[one.message_id] = self.times.get(one.message_id, 0) + 1
        fails = one.body.startswith(b"fails") and self.times[one.message_id] <= self.fails
        return ConsumeResult.FAILURE if fails else ConsumeResult.SUCCESS


class Checker(TransactionChecker):
    def __init__(self, who):
        self.who = who

    def check(self, one):
        body = one.body.decode()
        say(step="check", who=self.who, body=body)
        return DECISIONS.get(body.split()[0], TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED)


def message(order):
    made = Message()
    made.topic, made.body = order["topic"], (order["body"] * int(order.get("times", "1"))).encode()
    for key, field in (("tag", "tag"), ("key", "keys"), ("group", "message_group"), ("lite", "lite_topic")):
        if key in order:
            setattr(made, field, order[key])
    if "property" in order:
        made.add_property("a", order["property"])
    if "priority" in order:
        made.priority = int(order["priority"])
    if "delay" in order:
        made.delivery_timestamp = int(time.time()) + int(order["delay"])
    return made


def producer(order):
    made = Producer(where(order), [order["topic"]], checker=Checker(order["name"]), **OWN)
    made.startup()
    clients[order["name"]] = made


def send(order):
    return getattr(clients[order["name"]].send(message(order)), "recall_handle", "") or ""


def half(order):
    made = clients[order["name"]].begin_transaction()
    clients[order["name"]].send(message(order), made)
    transactions[order["transaction"]] = made


def end(order):
    made = transactions[order["transaction"]]
    (made.commit if order["how"] == "commit" else made.rollback)()


def recall(order):
    clients[order["name"]].recall_message(order["topic"], order["handle"])


def expressions(order):
    kind = FilterType.SQL if "sql" in order else FilterType.TAG
    return {order["topic"]: FilterExpression(order.get("sql") or order.get("tags", "*"), kind)}


def simple(order):
    made = SimpleConsumer(where(order), order["group"], expressions(order), int(order["wait"]), **OWN)
    made.startup()
    clients[order["name"]] = made


def receive(order):
    found = clients[order["name"]].receive(int(order["count"]), int(order["invisible"])) or []
    for one in found:
        show(order["name"], one)
    return str(len(found))


def ack(order):
    clients[order["name"]].ack(got[order["name"], order["body"]])


def change(order):
    clients[order["name"]].change_invisible_duration(got[order["name"], order["body"]], int(order["invisible"]))


def push(order):
    listener = Listener(order["name"], int(order.get("fails", "0")))
    made = PushConsumer(where(order), order["group"], listener, expressions(order), **OWN)
    made.startup()
    clients[order["name"]] = made


def lite(order):
    listener = Listener(order["name"], int(order.get("fails", "0")))
    made = LitePushConsumer(where(order), order["group"], order["topic"], listener, **OWN)
    made.startup()
    clients[order["name"]] = made


def lite_simple(order):
    made = LiteSimpleConsumer(order["topic"], where(order), order["group"], int(order["wait"]), **OWN)
    made.startup()
    clients[order["name"]] = made


def subscribe(order):
    end = time.monotonic() + 10
    while True:
        try:
            return clients[order["name"]].subscribe_lite(order["lite"])
        except Exception as error:
            # The client takes its quota for 0 until the settings have come, and its start does not wait for them.
            if "quota: 0" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.1)


def unsubscribe(order):
    clients[order["name"]].unsubscribe_lite(order["lite"])


def close(order):
    clients.pop(order["name"]).shutdown()


VERBS = (
    producer, send, half, end, recall, simple, receive, ack, change, push, lite, lite_simple, subscribe, unsubscribe,
    close,
)  # fmt: skip
BY_NAME = {one.__name__: one for one in VERBS}


def obey(verb, order):
    try:
        say(step="done", number=order["number"], text=BY_NAME[verb](order) or "")
    except Exception as error:  # the client has no common class
        say(step="failed", number=order["number"], text=f"{type(error).__name__} {error}")


with ThreadPoolExecutor(64) as threads:
    say(step="ready")
    for line in sys.stdin:
        verb, *words = line.rstrip("\n").split("\t")
        threads.submit(obey, verb, dict(word.split("=", 1) for word in words))
