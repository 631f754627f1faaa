"""Subscriptions of lite topics against a plain model, and which of them may have something."""

from __future__ import annotations

import random

import pytest

from gantrymq.broker.pop.lite.ready import ReadyQueues
from gantrymq.broker.pop.lite.subscriptions import SUBSCRIPTIONS_MAX, LiteReader, LiteSubscriptions
from gantrymq.broker.refusal import Refusal, Refused

READERS = [LiteReader(client, group) for client in "123" for group in ("G", "H")]
QUEUES = [f"%LMQ%$p${name}" for name in "abcdef"]
QUOTA = 4


@pytest.mark.parametrize("seed", range(30))
def test_any_history_is_that_of_a_dictionary_of_sets(seed: int) -> None:
    chance = random.Random(seed)
    subscriptions, model = LiteSubscriptions(), {reader: set[str]() for reader in READERS}
    for _ in range(200):
        reader, some = chance.choice(READERS), set(chance.sample(QUEUES, chance.randrange(5)))
        own = model[reader]
        what = chance.choice(("add", "replace", "remove", "forget"))
        if what == "remove":
            assert set(subscriptions.remove(reader, some)) == own & some, f"seed {seed}"
            own -= some
        elif what == "forget":
            assert set(subscriptions.forget(reader)) == own, f"seed {seed}"
            own.clear()
        else:
            wanted = some if what == "replace" else own | some
            if len(wanted) > max(QUOTA, len(own)) or (len(wanted) > QUOTA and len(wanted) > len(own)):
                with pytest.raises(Refused):
                    getattr(subscriptions, what)(reader, some, QUOTA)
            else:
                assert set(getattr(subscriptions, what)(reader, some, QUOTA)) == wanted - own, f"seed {seed}"
                model[reader] = set(wanted)
        assert {one: set(subscriptions.of(one)) for one in READERS} == model, f"seed {seed}"
        assert len(subscriptions) == sum(map(len, model.values())), f"seed {seed}"
        for queue in QUEUES:
            assert set(subscriptions.readers(queue)) == {one for one in READERS if queue in model[one]}, f"seed {seed}"


def test_too_many_are_refused_with_the_limit() -> None:
    subscriptions = LiteSubscriptions()
    subscriptions.add(READERS[0], map(str, range(SUBSCRIPTIONS_MAX)), -1)
    with pytest.raises(Refused, match=f"at most {SUBSCRIPTIONS_MAX}") as caught:
        subscriptions.add(READERS[1], QUEUES, -1)
    assert caught.value.reason is Refusal.LITE_SUBSCRIPTIONS_EXCEEDED


def test_queues_with_more_have_their_turn_behind_the_others() -> None:
    ready, reader = ReadyQueues(), READERS[0]
    ready.note(reader, ("a", "b", "c", "d"))
    ready.looked_at(reader, ["a"], ["b"])
    assert ready.of(reader) == ("c", "d", "a")
    ready.note(reader, ("c", "b"))
    assert ready.of(reader) == ("c", "d", "a", "b")
    ready.drop(reader, ("c", "d", "a", "b", "x"))
    assert ready.of(reader) == ()
    ready.looked_at(reader, ["a"], ["b"])
    assert ready.of(reader) == ()
