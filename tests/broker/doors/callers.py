"""Those who come through the doors of the broker. A new door is tested by a class like these, and a line in ``DOORS``.

A class marks each method with the operations that it asks for (``asked.asks``) and gives a reason for those that it
cannot ask for (``cannot``: the beginning of their names, and why). What the broker refuses is raised as ``Refused``,
translated back from what the door says.
"""

from __future__ import annotations

from typing import Final

from tests.broker.doors.by_frames import ByFrames
from tests.broker.doors.by_grpc import ByGrpc
from tests.broker.doors.by_http import ByHttp
from tests.broker.doors.by_values import ByValues

DOORS: Final = (ByValues, ByFrames, ByHttp, ByGrpc)
