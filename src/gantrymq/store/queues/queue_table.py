"""All consume queues of a store, by topic and queue id."""

from __future__ import annotations

import os

from gantrymq.errors import StoreFormatUnknown
from gantrymq.runtime.disk import Disk
from gantrymq.store.files.segment import OpenFiles
from gantrymq.store.files.segmented_file import list_segments
from gantrymq.store.queues.consume_queue import ConsumeQueue

SIZE_KEY = "mappedFileSizeConsumeQueue"


def list_queues(disk: Disk, directory: str, segment_size: int) -> dict[tuple[str, int], list[int]]:
    """What lies below ``consumequeue/``, checked but not changed. Raises StoreFormatUnknown."""
    found = {}
    for topic in disk.list(directory):
        topic_directory = os.path.join(directory, topic)
        if topic.startswith("."):
            continue
        if not disk.is_dir(topic_directory):
            raise StoreFormatUnknown(
                f"{topic_directory} is a file where directories of topics should be; a store whose consume queues are "
                "in RocksDB (storeType=defaultRocksDB) cannot be opened. Move consumequeue/ away to have the queues "
                "built again from the log"
            )
        for queue in disk.list(topic_directory):
            if queue.isdigit():
                place = os.path.join(topic_directory, queue)
                found[topic, int(queue)] = list_segments(disk, place, segment_size, SIZE_KEY)
    return found


class QueueTable:
    """Makes queues on first use."""

    def __init__(self, open_files: OpenFiles, directory: str, segment_size: int) -> None:
        self._open_files = open_files
        self._disk = open_files.disk
        self.directory = directory
        self._segment_size = segment_size
        self.queues: dict[tuple[str, int], ConsumeQueue] = {}
        self.get = self.queues.get
        """The queue of a (topic, queue id), or None."""

    def make(self, topic: str, queue_id: int, bases: list[int] | None = None) -> ConsumeQueue:
        """The queue, new when there is none."""
        key = (topic, queue_id)
        queue = self.queues.get(key)
        if queue is None:
            place = os.path.join(self.directory, topic, str(queue_id))
            queue = ConsumeQueue(self._open_files, place, self._segment_size, topic, queue_id, bases or [])
            self.queues[key] = queue
        return queue

    def remove_topic(self, topic: str) -> int:
        """Remove the queues of a topic with their files; how many. Raises OSError; then some files may be left."""
        numbers = [queue_id for known, queue_id in self.queues if known == topic]
        for queue_id in numbers:
            queue = self.queues.pop((topic, queue_id))
            queue.drop()
            self._disk.remove_dir(queue.directory)
        if self._disk.exists(os.path.join(self.directory, topic)):
            self._disk.remove_dir(os.path.join(self.directory, topic))
            self._disk.sync_dir(self.directory)
        return len(numbers)
