"""One connection with TLS, over any link. It decrypts what the link below received, and encrypts what is written.

    link below   ->  received  ->  TLS  ->  received of the receiver above
    link below   <-  write     <-  TLS  <-  write of whoever has this link

``ssl`` works on bytes in memory here, so nothing can reach the socket beside it.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from typing import Final

from gantrymq.runtime.network import Link, Receiver

READ_BYTES: Final = 256 * 1024
"""Decrypted at once, at most; a record of TLS has 16 KiB."""

Agreed = Callable[[str | None], None]
"""Called once: with None when both sides agreed on TLS, else with the reason why they did not."""


class TlsLink:
    """For the link below, this is the Receiver; for the receiver above, it is the Link.

    ``accept``: makes the receiver when both sides have agreed, so that a failed handshake never becomes a session.
    ``server_name``: the host that a client asked for; None on the server's side.
    """

    __slots__ = (
        "_accept",
        "_agreed",
        "_below",
        "_closed",
        "_in",
        "_out",
        "_reason",
        "_receiver",
        "_tls",
        "local",
        "peer",
    )

    def __init__(
        self, context: ssl.SSLContext, accept: Callable[[], Receiver], agreed: Agreed, *, server_name: str | None
    ) -> None:
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_name is None, server_name)
        self._accept = accept
        self._agreed: Agreed | None = agreed
        self._receiver: Receiver | None = None
        self._below: Link | None = None
        self._reason: str | None = None
        self._closed = False
        self.peer = self.local = ""

    # What the link below calls.

    def connected(self, link: Link) -> None:
        self._below = link
        self.peer, self.local = link.peer, link.local
        self._shake_hands()

    def received(self, data: bytes) -> None:
        self._in.write(data)
        if self._receiver is not None or self._shake_hands():
            self._decrypt()

    def lost(self, reason: str) -> None:
        self._below = None
        if self._receiver is None:
            self._end_handshake(self._reason or f"{_ENDED} ({reason})")
        else:
            self._receiver.lost(self._reason or reason)

    def pause_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.pause_writing()

    def resume_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.resume_writing()

    # What the receiver above calls.

    def write(self, data: bytes) -> None:
        if self._closed or self._below is None:
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._send()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()  # says goodbye; the other side need not answer
        self._send()
        if self._below is not None:
            self._below.close()

    def abort(self) -> None:
        self._closed = True
        if self._below is not None:
            self._below.abort()

    def pause_reading(self) -> None:
        if self._below is not None:
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if self._below is not None:
            self._below.resume_reading()

    @property
    def unsent(self) -> int:
        return 0 if self._below is None else self._below.unsent

    def _shake_hands(self) -> bool:
        """Go on with the handshake; True when it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return False
        except ssl.SSLError as error:
            self._fail(error)
            return False
        self._send()
        self._receiver = self._accept()
        self._receiver.connected(self)
        self._end_handshake(None)
        return True

    def _end_handshake(self, reason: str | None) -> None:
        agreed, self._agreed = self._agreed, None
        if agreed is not None:
            agreed(reason)

    def _decrypt(self) -> None:
        pieces: list[bytes] = []
        error: ssl.SSLError | None = None
        ended = False
        while not ended:
            try:
                piece = self._tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError as failure:
                error = failure
                break
            if piece:
                pieces.append(piece)
            else:
                ended = True  # the other side said goodbye
        if pieces and self._receiver is not None:
            self._receiver.received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if error is not None:
            self._fail(error)
            return
        self._send()  # what TLS answers by itself, such as a change of keys
        if ended:
            self.close()

    def _fail(self, error: ssl.SSLError) -> None:
        """End the connection, after the alert that tells the other side why."""
        self._reason = reason_of(error)
        self._closed = True
        self._send()
        if self._below is not None:
            self._below.close()

    def _send(self) -> None:
        if self._below is not None and (data := self._out.read()):
            self._below.write(data)


def reason_of(error: ssl.SSLError) -> str:
    """What went wrong, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other side is not accepted: {error.verify_message}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return _IN_WORDS.get(reason, f"TLS failed: {reason}")


def is_plain(reason: str) -> bool:
    """Whether this reason of a failed handshake is what a client sees of a port without TLS."""
    return reason == _NOT_TLS or reason.startswith(_ENDED)


PLAIN_ADVICE: Final = (
    "if that port takes no TLS, connect without it (tls.enable=false in the file of GANTRY_TLS_CONFIG, or tls=False), "
    "or switch TLS on there (gantry server --tls-config); "
    "give the port of the name server or broker, and not one for HTTP"
)
_ENDED: Final = "the connection ended before both sides agreed on TLS"
_NOT_TLS: Final = "the other side does not use TLS on this port"
_IN_WORDS: Final = {
    "wrong version number": _NOT_TLS,
    "http request": _NOT_TLS,
    "peer did not return a certificate": "the client shows no certificate, and this server requires one",
    "tlsv13 alert certificate required": "the server requires a certificate of this client",
    "sslv3 alert handshake failure": "the other side refuses: it may require a certificate, or another version of TLS",
    "tlsv1 alert unknown ca": "the other side does not trust the authority of this certificate",
    "tlsv1 alert protocol version": "the two sides have no version of TLS in common; version 1.2 is needed",
    "unsupported protocol": "the two sides have no version of TLS in common; version 1.2 is needed",
    "no shared cipher": "the two sides have no cipher in common",
}
