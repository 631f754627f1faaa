from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.offsets import StreamOffset, covers, describe, from_tree, limited, parse_positions, to_tree

queues = st.builds(MessageQueue, st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), st.integers(0, 3))
positions = st.dictionaries(queues, st.integers(0, 1000), max_size=8)


@given(positions)
def test_positions_survive_json(given_positions: dict[MessageQueue, int]) -> None:
    assert from_tree(json.loads(json.dumps(to_tree(given_positions))), "x") == given_positions


@given(positions, positions)
def test_stream_offsets_survive_json(at: dict[MessageQueue, int], base: dict[MessageQueue, int]) -> None:
    offset = StreamOffset(at, base)
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_equal_positions_give_equal_text() -> None:
    one, two = MessageQueue("a", "x", 0), MessageQueue("a", "x", 1)
    assert json.dumps(to_tree({one: 1, two: 2})) == json.dumps(to_tree({two: 2, one: 1}))


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", '{"t": 5}', '{"t": {"b": {"x": 1}}}', '{"t": {"b": {"0": -3}}}', '{"t":{"b":{"-1":1}}}'],
)
def test_bad_json_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="startingOffsets"):
        parse_positions(text, "startingOffsets")


def test_a_checkpoint_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="version"):
        StreamOffset.from_json({"offset": 5})


def test_the_first_batch_begins_at_the_base_of_its_end() -> None:
    """Spark forgets the first offset; a restart in batch 0 must not find another one (docs/design.md#spark)."""
    queue, new = MessageQueue("a", "x", 0), MessageQueue("a", "x", 1)
    end = StreamOffset({queue: 50, new: 3}, {queue: 40, new: 0})
    assert StreamOffset({}, {}).begin_of(queue, end) == 40
    assert StreamOffset({queue: 45}, {queue: 40}).begin_of(queue, end) == 45
    assert StreamOffset({queue: 45}, {queue: 40}).begin_of(new, end) == 0


SHORT, LONG, OTHER = (MessageQueue("a", "x", 0), MessageQueue("a", "x", 1), MessageQueue("a", "y", 0))


@example({}, {SHORT: 1, LONG: 4, OTHER: 1}, 3)  # the least of each counts towards the limit, too
@given(positions, st.dictionaries(queues, st.integers(0, 500), max_size=8), st.integers(1, 300))
def test_a_limit_moves_every_queue_and_none_too_far(
    begin: dict[MessageQueue, int], steps: dict[MessageQueue, int], max_rows: int
) -> None:
    end = {queue: begin.get(queue, 0) + step for queue, step in steps.items()}
    result = limited(begin, end, max_rows)
    waiting = [queue for queue, step in steps.items() if step]
    assert result.keys() == end.keys()
    assert all(begin.get(queue, 0) <= result[queue] <= end[queue] for queue in end)
    assert all(result[queue] > begin.get(queue, 0) for queue in waiting)
    taken = sum(result[queue] - begin.get(queue, 0) for queue in end)
    assert taken <= max(max_rows, len(waiting))
    assert limited(begin, end, None) == end


def test_covers() -> None:
    queue = MessageQueue("a", "x", 0)
    assert covers({}, {}) and covers({}, {queue: 0}) and covers({queue: 2}, {queue: 2})
    assert not covers({}, {queue: 1})


def test_describe_names_a_few() -> None:
    many = [MessageQueue("t", "b", number) for number in range(7)]
    assert describe(many[:2]) == "t/b/0, t/b/1"
    assert describe(many).endswith("t/b/4 and 2 more")
