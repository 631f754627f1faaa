"""The signature of a request, by which brokers with access control know who sent it.

A signed request has two more extension fields: ``AccessKey``, the name of the account, and ``Signature``, which is
Base64 of HMAC-SHA1 with the secret key. Signed are the values of all extension fields but ``Signature``, in the order
of their keys and one behind the other, and then the body. Source: AclClientRPCHook, AclUtils.combineRequestContent.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from operator import itemgetter
from typing import Any, Final

from msgspec import structs

from gantrymq.protocol.command import RESPONSE_FLAG, decode_command, encode_command
from gantrymq.protocol.frame import FrameSplitter

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
ORDERS_KEPT: Final = 64
"""How many lists of field names a key remembers the order of. A client has one for each kind of request."""


def _sha1() -> Callable[[bytes], Any]:
    """CPython's own SHA-1. That of OpenSSL takes locks: a process that is forked while another thread is in OpenSSL (a
    worker of gunicorn with ``--preload``, while a driver connects) would wait for ever when it signs."""
    try:
        made: Callable[[bytes], Any] = import_module("_sha1").sha1
    except ImportError:  # another Python than CPython
        made = partial(hashlib.sha1, usedforsecurity=False)
    return made


_SHA1: Final = _sha1()
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


def hmac_sha1(key: bytes, data: bytes) -> bytes:
    """HMAC with SHA-1, without OpenSSL. Source: RFC 2104."""
    if len(key) > _BLOCK_BYTES:
        key = _SHA1(key).digest()
    key = key.ljust(_BLOCK_BYTES, b"\0")
    inner: bytes = _SHA1(key.translate(_INNER) + data).digest()
    whole: bytes = _SHA1(key.translate(_OUTER) + inner).digest()
    return whole


@dataclass(frozen=True, slots=True)
class Account:
    """Who signs."""

    access_key: str
    secret_key: str = field(repr=False)


def signature_of(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """The signature of a request with these extension fields, of which ``AccessKey`` is one."""
    text = "".join([fields[key] for key in sorted(fields) if key != SIGNATURE])
    return base64.b64encode(hmac_sha1(secret_key.encode(), text.encode() + body)).decode()


class SecretKey:
    """A secret key that checks many signatures.

    The state of HMAC behind the key is copied for each request. The order of the fields is remembered by their names,
    but only those of a request with a right signature, so that strangers cannot fill the memory.
    """

    __slots__ = ("_orders", "_proofs", "_state")

    def __init__(self, secret_key: str) -> None:
        self._state = hmac.new(secret_key.encode(), digestmod="sha1")
        self._proofs = hmac.new(secret_key.encode(), digestmod="sha256")
        self._orders: dict[tuple[str, ...], Callable[[Mapping[str, str]], Any]] = {}

    def signs(self, fields: Mapping[str, str], body: bytes) -> bool:
        """Whether the signature of a request is the one that this key makes (``signature_of``). It takes the same time
        for every wrong signature."""
        names = tuple(fields)
        in_order = self._orders.get(names)
        if in_order is not None:
            return self._matches("".join(in_order(fields)), fields, body)
        ordered = sorted(name for name in names if name != SIGNATURE)
        if not self._matches("".join([fields[name] for name in ordered]), fields, body):
            return False
        if len(ordered) > 1:  # of one name it would make no tuple
            if len(self._orders) >= ORDERS_KEPT:
                self._orders.clear()
            self._orders[names] = itemgetter(*ordered)
        return True

    def proof(self, text: bytes) -> bytes:
        """32 bytes that only this key makes of ``text``. They sign no request, which has another hash."""
        state = self._proofs.copy()
        state.update(text)
        return state.digest()

    def proves(self, text: bytes, proof: bytes) -> bool:
        """Whether it is the proof of ``text``. It takes the same time for every wrong one."""
        return hmac.compare_digest(self.proof(text), proof)

    def _matches(self, text: str, fields: Mapping[str, str], body: bytes) -> bool:
        state = self._state.copy()
        state.update(text.encode() + body)
        right = binascii.b2a_base64(state.digest(), newline=False)
        return hmac.compare_digest(fields.get(SIGNATURE, "").encode(), right)


def signed_frame(frame: bytes, account: Account) -> bytes:
    """The frame of a request with the signature of ``account``; answers to requests of the peer are never signed."""
    ((serialization, header, body),) = FrameSplitter().feed(frame)
    command = decode_command(serialization, header, body)
    if command.flag & RESPONSE_FLAG:
        return frame
    fields = {**command.ext_fields(), ACCESS_KEY: account.access_key}
    fields[SIGNATURE] = signature_of(fields, body, account.secret_key)
    return encode_command(structs.replace(command, ext=fields))
