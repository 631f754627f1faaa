"""The signature of a request, by which brokers with access control know who sent it.

A signed request has two more extension fields: ``AccessKey``, the name of the account, and ``Signature``, which is
Base64 of HMAC-SHA1 with the secret key. Signed are the values of all extension fields but ``Signature``, in the order
of their keys and one behind the other, and then the body. Source: AclClientRPCHook, AclUtils.combineRequestContent.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from gantrymq.protocol.command import RESPONSE_FLAG, decode_command, encode_command
from gantrymq.protocol.frame import FrameSplitter

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"


@dataclass(frozen=True, slots=True)
class Account:
    """Who signs."""

    access_key: str
    secret_key: str = field(repr=False)


def signature_of(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """The signature of a request with these extension fields, of which ``AccessKey`` is one."""
    text = "".join([fields[key] for key in sorted(fields) if key != SIGNATURE])
    return base64.b64encode(hmac.digest(secret_key.encode(), text.encode() + body, "sha1")).decode()


def is_signed_by(fields: Mapping[str, str], body: bytes, secret_key: str) -> bool:
    """Whether the signature of a request is the one that this secret key makes. It takes the same time for every wrong
    signature."""
    given = fields.get(SIGNATURE, "")
    return hmac.compare_digest(given.encode(), signature_of(fields, body, secret_key).encode())


def signed_frame(frame: bytes, account: Account) -> bytes:
    """The frame of a request with the signature of ``account``; answers to requests of the peer are never signed."""
    ((serialization, header, body),) = FrameSplitter().feed(frame)
    command = decode_command(serialization, header, body)
    if command.flag & RESPONSE_FLAG:
        return frame
    fields = {**command.ext_fields(), ACCESS_KEY: account.access_key}
    fields[SIGNATURE] = signature_of(fields, body, account.secret_key)
    return encode_command(structs.replace(command, ext=fields))
