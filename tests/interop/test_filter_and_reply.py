"""SQL92 selectors, request-reply, message trace, compression with the official clients; Apache 5.5.0 is the control."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gantrymq.message.system_topics import TRACE
from tests.interop.apache import ApacheCluster, JavaClient
from tests.interop.our_client import recorded
from tests.interop.ours import GantryCluster
from tests.interop.process import Process

Server = GantryCluster | ApacheCluster

MESSAGES = [
    "a;TagA;amount=1;color=red",
    "b;TagB;amount=5;color=blue;vip=true",
    "c;TagA;amount=10;color=red;vip=TRUE",
    "d;TagB;color=green",
    "e;TagA;amount=x;color=red",
    "f;TagB;amount=3000000000;color=blue",
    "g;TagA;amount=2.5;color=it's",
    "h;TagB;amount=-7;limit=-8",
]

SELECTED = {
    "amount > 2": "b c",
    "amount > 2.0": "b c f g",
    "amount >= 2147483648": "f",
    "amount < 0 or amount = 10": "c h",
    "amount between 1 and 5": "a b",
    "amount not between 1 and 5": "c h",
    "amount between -10 and -5": "h",
    "amount > limit": "h",
    "amount is null": "d",
    "amount is not null and color is not null": "a b c e f g",
    "amount = '5'": "b",
    "amount = 5 or color = 'red'": "a b c",
    "color = 'red' or amount = 5": "a b c e",
    "color = 'it''s'": "g",
    "color in ('blue', 'green')": "b d f",
    "color not in ('blue', 'green')": "a c e g",
    "not (color = 'red')": "b d f g",
    "color <> 'red'": "b d f g",
    "'red' <> color": "b d f g h",
    "color contains 'ee'": "d",
    "color not contains 'e'": "g",
    "color startswith 're' and not (amount = 1)": "c",
    "color endswith 'ue'": "b f",
    "color contains ''": "",
    "vip = TRUE": "b c",
    "vip": "",
    "not vip": "b c",
    "vip is null and TAGS = 'TagA'": "a e g",
    "UNIQ_KEY is not null and color = 'green'": "d",
    "KEYS = 'c'": "c",
    "true = false or color = 'green'": "d",
    "(amount > 2) = true": "b c",
    "amount = 1 = 2": "",
    "amount = 1 is null": "d",
    "1 = limit": "",
    "1 <> limit and color = 'red'": "a c e",
    "limit = missing and color = 'green'": "d",
    "amount = 5e0": "b",
    "amount = 5L": "b",
    "+amount = - -5": "b",
    "amount = 1 -- comment\n or color = 'green'": "a d",
    "amount = 1 /* or amount = 5 */": "a",
    "amount = 1 and": None,
    "color like 'r%'": "",
    "amount = 5 amount = 1": "b",
}
"""What each selector gets; None: what happens differs (an invalid one that comes with a pull)."""

TAKEN = ["amount = 1 amount = 2", "amount = 007", "color like 'r%'"]
REFUSED = [
    "amount >", "amount > 'x'", "amount = null", "amount between 5 and 1", "amount > 0.0", "amount != 1", "5",
    "amount in (1)", "(amount = 007)", "amount = 99999999999999999999", "color = 'red", "amount = 1 ?", "1 in ('1')",
]  # fmt: skip


@pytest.fixture(params=["gantry", "apache_5"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Ours, and the control."""
    yield request.getfixturevalue(request.param)


def name_of(what: str, client: JavaClient) -> str:
    return f"{what}{client.version.replace('.', '')}"


@pytest.mark.feature("filter: SQL92")
def test_selectors(java_client: JavaClient, server: Server) -> None:
    selectors = [selector for selector, bodies in SELECTED.items() if bodies is not None]
    driver = java_client.play(
        "Selectors", server.name_servers, name_of("Sql", java_client), len(MESSAGES), *MESSAGES, *selectors,
        "--refused", *TAKEN, *REFUSED,
    )  # fmt: skip
    driver.done()
    pulled = {step["selector"]: step["bodies"] for step in driver.steps("pulled")}
    assert driver.steps("pull failed") == []
    assert pulled == {selector: bodies for selector, bodies in SELECTED.items() if bodies is not None}
    got = [(step["who"], step["body"], step["times"]) for step in driver.steps("got")]
    pushed = [(who, body, 0) for who, body in [("push", f"live {number}") for number in range(5, 10)]]
    lite = [("lite", f"live {number}", 0) for number in range(3)]
    assert sorted(got) == sorted([*pushed, ("push", "live 7", 1), *lite])
    assert [step["selector"] for step in driver.steps("taken")] == TAKEN
    refused = driver.steps("refused")
    assert [(step["selector"], step["code"]) for step in refused] == [(selector, 23) for selector in REFUSED]
    assert all(step["message"] for step in refused)


@pytest.fixture
def replies(java_client: JavaClient, server: Server) -> Process:
    """One run of the driver; the tests of a client and a server share it."""
    key = (java_client.version, server.label)
    if key not in _PLAYED:
        _PLAYED[key] = java_client.play("Replies", server.name_servers, name_of("Ask", java_client))
        _PLAYED[key].join(300)
    return _PLAYED[key]


_PLAYED: dict[tuple[str, str], Process] = {}


@pytest.mark.feature("send: request-reply")
def test_a_request_gets_its_reply(replies: Process) -> None:
    wanted = [f"answer to question {what}" for what in (0, 1, 2, "async")]
    assert [step["body"] for step in replies.steps("reply")] == wanted
    assert {step["topic"] for step in replies.steps("reply")} == {"DefaultCluster_REPLY_TOPIC"}
    assert [step["size"] for step in replies.steps("big reply")] == [10_000]
    assert [step["status"] for step in replies.steps("answered")] == ["SEND_OK"] * 5
    assert replies.steps("timed out") and not replies.steps("no reply") and not replies.steps("reply failed")
    assert [
        (step["code"], "channel of <nobody> not found" in step["remark"]) for step in replies.steps("reply refused")
    ] == [(1, True)]


@pytest.mark.feature("send: compressed")
def test_bodies_of_every_compression_come_out_as_they_went_in(replies: Process) -> None:
    unpacked = {step["type"]: (step["good"], step["packed"]) for step in replies.steps("unpacked")}
    assert unpacked == {"ZLIB": (True, True), "LZ4": (True, True), "ZSTD": (True, True)}
    kinds = {step["type"]: step["sysFlag"] >> 8 & 7 for step in replies.steps("unpacked")}
    assert kinds == {"LZ4": 1, "ZSTD": 2, "ZLIB": 3}


@pytest.mark.feature("message trace")
def test_traces_are_kept(replies: Process, server: Server) -> None:
    kinds = {step["kind"] for step in replies.steps("trace")}
    assert {"Pub", "SubBefore", "SubAfter"} <= kinds
    assert all("traced" in (step["keys"] or "") for step in replies.steps("trace") if step["kind"] == "Pub")
    (sent,) = (step for step in replies.steps("sent") if step["what"] == "traced")
    steps = recorded(server, sent["msgId"], TRACE)
    assert [(happened, good) for happened, _, good in steps] == [("sent", True), ("consumed", True)]
