"""Deliveries that a door prolongs by itself, as long as their client lives (``auto_renew``).

A prolonged delivery has a new receipt handle, and the client keeps its first one. For whom that is done, and which
handle the client has, is in the check point (of an orderly delivery: in the file of the orderly pops). So a door that
starts anew goes on where the last one ended. A delivery that was never prolonged is not noted: its client has the
handle that counts, and the message comes again soon if the client never got it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from gantrymq.broker.pop.ledger import Ledger
from gantrymq.broker.pop.order_blocks import OrderBlocks
from gantrymq.message.receipt_handle import NORMAL, ORDERLY, ReceiptHandle, kind_of

AT_A_PROXY: Final = "\n"
"""The name of a client that a proxy has begins with this. Other names begin with the id of the client."""
RESUME_MS: Final = 30_000
"""How long such a delivery goes on at least behind a start, so that the door can prolong it again."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Who has a delivery prolonged."""

    holder: str
    """The client, as the door names it; empty: nobody."""
    first_pop: int
    """ms since 1970 of the pop whose receipt handle the client has."""

    @property
    def elsewhere(self) -> bool:
        """A proxy does it: no door of this broker knows the client."""
        return self.holder.startswith(AT_A_PROXY)

    @classmethod
    def at_a_proxy(cls, client: str, first_pop: int) -> Hold:
        """``client``: as the proxy names it."""
        return cls(AT_A_PROXY + client, first_pop)

    @property
    def client(self) -> str:
        """As whoever prolongs the delivery names it."""
        return self.holder.removeprefix(AT_A_PROXY)


NOBODY: Final = Hold("", 0)


@dataclass(frozen=True, slots=True)
class HeldDelivery:
    """A delivery that a door has prolonged."""

    hold: Hold
    group: str
    topic: str
    """The one that the message lies in."""
    handle: ReceiptHandle
    """The one that counts now."""

    @property
    def first(self) -> ReceiptHandle:
        """The one that the client has."""
        return replace(self.handle, pop_time=self.hold.first_pop)


def held_deliveries(ledger: Ledger, blocks: OrderBlocks, broker_name: str) -> Iterator[HeldDelivery]:
    """All that are open."""
    for opened in ledger.all_prolonged():
        point = opened.point
        for offset in sorted(opened.pending):
            handle = ReceiptHandle(
                point.start_offset, point.pop_time, point.invisible_time, opened.revive_queue, kind_of(point.topic),
                point.broker_name, point.queue_id, offset,
            )  # fmt: skip
            yield HeldDelivery(Hold(point.holder, point.first_pop), point.group, point.topic, handle)
    for topic, group, queue_id, block in blocks.all():
        for offset, holder in sorted(block.holders.items()):
            if offset not in block.acked and offset in block.offsets:
                visible_at = block.visible_at.get(offset, block.pop_time + block.invisible_time)
                handle = ReceiptHandle(
                    block.offsets[0], block.pop_time, visible_at - block.pop_time, ORDERLY, NORMAL, broker_name,
                    queue_id, offset,
                )  # fmt: skip
                yield HeldDelivery(Hold(holder, block.pop_time), group, topic, handle)


def ending_at_proxies(held: Iterable[HeldDelivery], now_ms: int, within_ms: int) -> list[HeldDelivery]:
    """Those that proxies have prolonged and that end within ``within_ms``, the next one first. ``now_ms``: by the wall
    clock."""
    ending = [one for one in held if one.hold.elsewhere and 0 < one.handle.visible_at - now_ms <= within_ms]
    return sorted(ending, key=lambda one: one.handle.visible_at)
