"""How full the file systems of a store are: one measure for refusing writes, for deletion and for the tools."""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.runtime.disk import Disk, Usage
from gantrymq.store.layout import Layout


@dataclass(frozen=True, slots=True)
class Space:
    """The file systems of a store: that of the log, and that of everything else; mostly they are one.

    How full one is says ``Usage.fullness``. Deletion begins at a lower number than refusal (``diskMaxUsedSpaceRatio``,
    ``diskSpaceCleanForciblyRatio``, ``diskSpaceWarningLevelRatio``), which makes room in time only if both mean the
    same number. Source: UtilAll.getDiskPartitionSpaceUsedPercent, which counts alike.
    """

    disk: Disk
    layout: Layout

    def of_log(self) -> Usage:
        return self.disk.usage(self.layout.log)

    def of_queues(self) -> Usage:
        return self.disk.usage(self.layout.root)

    def fullest(self) -> tuple[str, float]:
        """The directory whose file system has the least room, and how full that is, from 0 to 1."""
        log, queues = self.of_log().fullness, self.of_queues().fullness
        return (self.layout.log, log) if log > queues else (self.layout.root, queues)
