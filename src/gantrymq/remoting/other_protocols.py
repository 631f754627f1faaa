"""Peers that do not speak the remoting protocol in the clear: told by the first bytes that they send, or by a close
before any byte. Then the error can say what to change, instead of that nobody is there."""

from __future__ import annotations

from typing import Final

TLS_ADVICE: Final = (
    "if it takes only TLS (tls.server.mode=enforcing), connect with TLS: set GANTRY_TLS_CONFIG to a file with "
    "tls.enable=true and tls.client.trustCertPath, or pass tls=True and tls_trust_cert_path"
)
HTTP_ADVICE: Final = "give the port of the name server (9876) or broker (10911), and not one for HTTP"
_BEGINNINGS: Final = (
    (b"\x15\x03", "it speaks TLS on this port", TLS_ADVICE),
    (b"\x16\x03", "it speaks TLS on this port", TLS_ADVICE),
    (b"HTTP/", "it speaks HTTP on this port", HTTP_ADVICE),
)
"""An alert or a handshake of TLS (RFC 8446, 5.1), and a status line of HTTP (RFC 9112, 4). A frame of remoting begins
with its length; such a length is over the limit of a frame, so no frame begins like this."""
CLOSED: Final = "it closed the connection before it answered anything"


def other_protocol(data: bytes) -> tuple[str, str] | None:
    """The reason and the advice, when ``data``, the first bytes of a peer, belong to another protocol."""
    for beginning, reason, advice in _BEGINNINGS:
        if data.startswith(beginning):
            return reason, advice
    return None
