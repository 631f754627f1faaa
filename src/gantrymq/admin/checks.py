"""How often open transactions were checked, which only our brokers say: an Apache broker writes it into its halves."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gantrymq.admin.asking import Asking
from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.tools import ListChecks
from gantrymq.transactions.history.diagnosis import CHECKS_SPAN_MAX, CheckProgress


async def checks_of(asking: Asking, address: str, queue_offsets: list[int]) -> dict[int, CheckProgress]:
    """How often our broker asked about these halves, of those that are open; of an Apache broker nothing."""
    found: dict[int, CheckProgress] = {}
    if asking.endpoint.speaks_java(address):
        return found
    for span in spans(queue_offsets, CHECKS_SPAN_MAX):
        header = ListChecks(begin=span.start, end=span.stop)
        answer = await asking.ask(
            address, RequestCode.LIST_CHECKS, header, what="list of checks",
            accept=(ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        )  # fmt: skip
        if answer.code != ResponseCode.SUCCESS:
            break  # an older one of ours
        try:
            rows = msgspec.json.decode(answer.body, type=list[tuple[int, int, int, int | None]])
        except msgspec.MsgspecError as error:
            raise RemoteProtocolError(f"{address} did not answer with a JSON list of checks: {error}") from error
        found |= {offset: CheckProgress(times, unknown, next_ms) for offset, times, unknown, next_ms in rows}
    return found


def spans(numbers: Iterable[int], width: int) -> list[range]:
    """Ranges that hold all ``numbers``, none wider than ``width``, as few as there can be."""
    found: list[range] = []
    for number in sorted(numbers):
        if found and number < found[-1].start + width:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found
