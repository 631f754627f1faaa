"""What strangers send: random bytes, frames with wrong lengths, requests with wrong fields, broken handshakes."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import SerializeType, encode_request
from gantrymq.protocol.frame import FrameSplitter, join_frame
from gantrymq.protocol.headers.registry import REQUEST_HEADERS
from gantrymq.protocol.signature import Account, signed_frame

TEXTS: Final = (
    "", "T", "Fuzz", "TBW102", "%RETRY%G", "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "G", "a" * 300, "\x00",
    "ä☃", "../x", "true", "null", "{}", "[]", "KEYS\x01k\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01G\x02UNIQ_KEY\x01K\x02", "DELAY\x0199\x02",
)  # fmt: skip
NUMBERS: Final = (
    "0", "1", "-1", "4", "8", "12", "32", "255", "65536", "2147483647", "-2147483648", "2147483648",
    "9223372036854775807", "-9223372036854775808", "99999999999999999999", "1e9", "NaN", "0x10", " 1", "1.5",
)  # fmt: skip
BODIES: Final = (
    b"", b"x", b"{}", b"[]", b"null", b"{", b"\xff" * 40, b'{"clientID":"c","producerDataSet":[{"groupName":"G"}]}',
    b'{"clientID":null,"consumerDataSet":[{}]}', b'{"topicConfigTable":{"T":{}}}', b"[" * 3000, b"key=value\n\x00",
)  # fmt: skip
STOPS: Final = frozenset({RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG})
"""Not sent with fields that are understood: a limit of one connection would end the fuzzing."""


class Inputs:
    """Bytes from one seed."""

    def __init__(self, rng: random.Random, accounts: Sequence[Account] = ()) -> None:
        """``accounts``: sign requests in one of two cases; their secrets may be right or wrong."""
        self._rng = rng
        self._accounts = accounts
        self._hello = client_hello()

    def plain(self) -> list[bytes]:
        """What one connection without TLS sends, in the pieces in which it sends it."""
        kind = self._rng.choice((self._garbage, self._requests, self._requests, self._damaged, self._lies, self._cut))
        return self._pieces(kind())

    def handshake(self) -> list[bytes]:
        """A beginning of TLS that cannot end well."""
        hello = bytearray(self._hello)
        kinds: tuple[Callable[[bytearray], bytes], ...] = (
            lambda data: bytes(data[: self._rng.randrange(1, len(data))]),
            self._flipped,
            lambda data: bytes(data) + self._garbage(),
            lambda data: bytes(data) + self._requests(),
            lambda data: b"\x16\x03" + self._garbage(),
            lambda data: bytes(data[:5]) * self._rng.randrange(1, 50),
        )
        return self._pieces(self._rng.choice(kinds)(hello))

    def _garbage(self) -> bytes:
        return self._rng.randbytes(self._rng.choice((1, 3, 4, 8, 40, 1000, 70_000)))

    def request(self) -> bytes:
        """A request of any code, with fields that may be understood."""
        rng = self._rng
        code = rng.choice(list(RequestCode)) if rng.random() < 0.95 else rng.randrange(-(1 << 15), 1 << 15)
        extra: dict[str, str] = {}
        header = REQUEST_HEADERS.get(code)  # type: ignore[call-overload]
        for field in msgspec.structs.fields(header) if header is not None else ():
            if rng.random() < 0.9:
                extra[field.encode_name] = rng.choice(TEXTS if rng.random() < 0.4 else NUMBERS)
        if rng.random() < 0.1:
            extra[rng.choice(TEXTS[1:]) or "x"] = rng.choice(TEXTS)
        if rng.random() < 0.2:
            signed = {"AccessKey": rng.choice(TEXTS), "Signature": rng.choice((*TEXTS, "AAAAAAAAAAAAAAAAAAAAAAAAAAA="))}
            extra |= dict(rng.sample(sorted(signed.items()), rng.choice((1, 2))))
        body = rng.choice(BODIES) if rng.random() < 0.8 else self._garbage()
        if code in STOPS:
            extra, body = {}, b"\xff"
        fits = -(1 << 15) <= code < 1 << 15
        made = encode_request(
            code, rng.randrange(1 << 31), None, body, one_way=rng.random() < 0.2, extra=extra,
            serialize=rng.choice(list(SerializeType)) if fits else SerializeType.JSON,
        )  # fmt: skip
        return signed_frame(made, rng.choice(self._accounts)) if self._accounts and rng.random() < 0.5 else made

    def _requests(self) -> bytes:
        return b"".join(self.request() for _ in range(self._rng.choice((1, 2, 20))))

    def _damaged(self) -> bytes:
        return self._flipped(bytearray(self._requests()))

    def _flipped(self, data: bytearray) -> bytes:
        for _ in range(self._rng.choice((1, 1, 2, 10))):
            data[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)
        return bytes(data)

    def _lies(self) -> bytes:
        """Frames whose lengths contradict each other or the limits."""
        rng = self._rng
        length = rng.choice(
            (0, 1, 3, 4, 5, 100, (16 << 20) - 1, 16 << 20, (16 << 20) + 1, (1 << 31) - 1, (1 << 32) - 1)
        )
        header = rng.choice((0, 1, length & 0xFFFFFF, 0xFFFFFF)) | rng.choice((0, 1, 2, 255)) << 24
        return length.to_bytes(4, "big") + header.to_bytes(4, "big") + self._garbage()

    def _cut(self) -> bytes:
        whole = self._requests()
        return whole[: self._rng.randrange(1, len(whole))]

    def mutated_header(self) -> bytes:
        """A frame with a right length and a header that is no header."""
        (serialization, head, body), *_ = FrameSplitter().feed(self.request())
        return join_frame(serialization, self._flipped(bytearray(head or b"x")), body)

    def _pieces(self, data: bytes) -> list[bytes]:
        """As a network may cut them."""
        rng = self._rng
        if rng.random() < 0.5:
            return [data]
        places = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((1, 2, 8))))
        ends = [0, *places, len(data)]
        return [data[start:end] for start, end in pairwise(ends) if start < end]


def client_hello() -> bytes:
    """The first message of a real client."""
    sent = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without an answer")
