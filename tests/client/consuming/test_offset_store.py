"""Progress in a file: Java's form, its backup, its damage."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.consuming.offset_store import FileOffsetStore, decode_offsets, encode_offsets
from gantrymq.errors import RemoteProtocolError
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.runtime.disk import OsDisk

QUEUE = MessageQueue("T", "broker-a", 0)
names = st.from_regex(r"[a-zA-Z0-9_%-]{1,10}", fullmatch=True)
tables = st.dictionaries(
    st.builds(MessageQueue, names, names, st.integers(0, 1000)), st.integers(0, 2**62).map(QueueOffset)
)


@given(tables)
def test_what_was_written_is_read(offsets: dict[MessageQueue, QueueOffset]) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


def test_the_form_is_javas() -> None:
    data = b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5}}'
    assert encode_offsets({QUEUE: QueueOffset(5)}) == data
    pretty = b'{\n\t"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5\n\t}\n}'
    assert decode_offsets(pretty) == {QUEUE: 5}


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"offsetTable":{"x":1}}', b'{"offsetTable":[1]}'])
def test_what_is_no_table_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_offsets(data)


def test_a_damaged_file_gives_way_to_its_backup(tmp_path: Path) -> None:
    def progress() -> FileOffsetStore:
        return FileOffsetStore(OsDisk(), str(tmp_path), "1.2.3.4@DEFAULT", "G")

    async def test() -> None:
        first = progress()
        assert await first.load(QUEUE) is None
        await first.flush()
        assert list(tmp_path.iterdir()) == []
        for offset in (1, 2):
            await first.keep(QUEUE, QueueOffset(offset))
            await first.flush()
        path = tmp_path / "1.2.3.4@DEFAULT" / "G" / "offsets.json"
        assert await progress().load(QUEUE) == 2
        path.write_text("{")
        assert await progress().load(QUEUE) == 1
        path.with_name("offsets.json.bak").unlink()
        assert await progress().load(QUEUE) is None

    asyncio.run(test())


def test_a_disk_that_takes_nothing_is_tried_again(tmp_path: Path) -> None:
    async def test() -> None:
        (tmp_path / "file").write_text("")
        progress = FileOffsetStore(OsDisk(), str(tmp_path / "file"), "c", "G")
        await progress.keep(QUEUE, QueueOffset(1))
        await progress.flush()
        (tmp_path / "file").unlink()
        await progress.flush()
        assert (tmp_path / "file" / "c" / "G" / "offsets.json").exists()

    asyncio.run(test())
