"""What is copied beside the log, and what a restore makes of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.backup.tables import deleted_before, is_late, is_whole, joined, lowered, names_in
from gantrymq.broker.pop.check_point import APPLIED_GROUP, REVIVE_GROUP
from gantrymq.broker.registries.json_file import pretty
from gantrymq.broker.registries.registries import GROUPS_FILE, OFFSETS_FILE, TOPICS_FILE
from gantrymq.errors import BackupDamaged
from gantrymq.protocol import lenient_json

offsets = st.integers(0, 1 << 40)
names = st.text("abcXYZ%_-", min_size=1, max_size=8)
groups = names | st.sampled_from((REVIVE_GROUP, APPLIED_GROUP))


def test_a_copy_counts_only_where_the_file_is_missing() -> None:
    listed = ["a.json", "a.json.bak", "b.json.bak", "c.json.tmp", "d.json.new", "timercheck"]
    assert names_in("config", listed) == ["config/a.json", "config/b.json", "config/timercheck"]


def test_positions_are_read_before_the_log_and_names_behind_it() -> None:
    early = [OFFSETS_FILE, "config/delayOffset.json", "config/timercheck", "gantry/delivered"]
    late = [TOPICS_FILE, GROUPS_FILE, "config/auth/users.json", "gantry/deleted"]
    assert [is_late(path) for path in early + late] == [False] * len(early) + [True] * len(late)


def test_half_of_a_file_is_not_used() -> None:
    assert is_whole(TOPICS_FILE, b'{"topicConfigTable":{0:1}}')
    assert not is_whole(TOPICS_FILE, b'{"topicConfigTable":{0:')
    assert not is_whole(TOPICS_FILE, b"")
    assert is_whole("config/timercheck", b"\0\1")


@given(
    st.dictionaries(st.tuples(names, groups), st.dictionaries(st.integers(0, 9), offsets, max_size=3), max_size=4),
    st.dictionaries(st.tuples(names, st.integers(0, 9)), offsets, max_size=8),
)
def test_no_position_lies_behind_its_queue(
    table: dict[tuple[str, str], dict[int, int]], ends: dict[tuple[str, int], int]
) -> None:
    content = {"dataVersion": {"counter": 3}, "offsetTable": {f"{t}@{g}": queues for (t, g), queues in table.items()}}
    data = pretty(content).encode()
    new, changed = lowered(data, ends)
    found = lenient_json.loads(new)
    assert found["dataVersion"] == {"counter": 3}
    count = 0
    for (topic, group), queues in table.items():
        for queue_id, offset in queues.items():
            most = ends.get((topic, queue_id), 0) - (group in (REVIVE_GROUP, APPLIED_GROUP))
            after = found["offsetTable"][f"{topic}@{group}"][str(queue_id)]
            assert after == min(offset, most)
            count += after != offset
    assert count == changed
    assert new == data or changed


def test_what_was_made_between_both_backups_is_added_and_nothing_else_changes() -> None:
    older = pretty({"dataVersion": {"counter": 1}, "topicConfigTable": {"a": {"perm": 6}}}).encode()
    newer = pretty({"topicConfigTable": {"a": {"perm": 2}, "b": {"perm": 4}}}).encode()
    both = lenient_json.loads(joined(TOPICS_FILE, older, newer))
    assert both == {"dataVersion": {"counter": 1}, "topicConfigTable": {"a": {"perm": 6}, "b": {"perm": 4}}}
    assert joined(TOPICS_FILE, newer, older) == newer
    assert joined(OFFSETS_FILE, older, newer) == older
    groups = pretty({"subscriptionGroupTable": {"g": {}}}).encode()
    assert lenient_json.loads(joined(GROUPS_FILE, b"{}", groups))["subscriptionGroupTable"] == {"g": {}}


def test_a_table_that_is_no_table_is_damage() -> None:
    with pytest.raises(BackupDamaged, match="cannot be read"):
        lowered(b"{", {})
    with pytest.raises(BackupDamaged, match="is not a table"):
        lowered(json.dumps([1]).encode(), {})


def test_deletions_behind_the_cut_did_not_happen() -> None:
    assert deleted_before(100, {"a": 10, "b": 20}, {"a": 10, "b": 99, "c": 100, "d": 101}) == {"a": 10, "b": 99}
    assert deleted_before(100, {"b": 20}, {"b": 120}) == {"b": 20}
