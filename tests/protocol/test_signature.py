"""Signed requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess
import sys
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.protocol.command import Command, SerializeType, decode_command, encode_command
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.signature import SIGNATURE, Account, SecretKey, hmac_sha1, signature_of, signed_frame

ME = Account("me", "very secret")
FIELDS = st.dictionaries(
    st.from_regex(r"[a-zA-Z_]{1,12}", fullmatch=True), st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
)


def is_signed_by(fields: Mapping[str, str], body: bytes, secret_key: str) -> bool:
    return fields.get(SIGNATURE) == signature_of(fields, body, secret_key)


def decoded(frame: bytes) -> Command:
    ((serialization, header, body),) = FrameSplitter().feed(frame)
    return decode_command(serialization, header, body)


@given(FIELDS, st.binary(), st.sampled_from(SerializeType))
def test_a_signed_request_says_the_same_and_who_sent_it(
    fields: dict[str, str], body: bytes, serialize: SerializeType
) -> None:
    command = Command(code=10, opaque=7, ext=fields, body=body, serialize=serialize)
    signed = decoded(signed_frame(encode_command(command), ME))
    found = dict(signed.ext_fields())
    assert (signed.code, signed.opaque, signed.body, signed.serialize) == (10, 7, body, serialize)
    assert is_signed_by(found, body, "very secret") and not is_signed_by(found, body, "another")
    assert not is_signed_by(found, body + b"x", "very secret")
    assert {key: value for key, value in found.items() if key not in ("AccessKey", "Signature")} == {
        key: value for key, value in fields.items() if key not in ("AccessKey", "Signature")
    }
    assert found["AccessKey"] == "me"


def test_the_signature_is_that_of_the_documented_text() -> None:
    fields = {"b": "2", "AccessKey": "me", "a": "1", "Signature": "old"}
    expected = hmac.new(b"key", b"me" + b"1" + b"2" + b"body", hashlib.sha1).digest()
    assert signature_of(fields, b"body", "key") == base64.b64encode(expected).decode()


def test_an_answer_is_not_signed() -> None:
    frame = encode_command(Command(code=0, flag=1, ext={"a": "1"}))
    assert signed_frame(frame, ME) == frame


@pytest.mark.parametrize("fields", [{}, {"AccessKey": "me"}, {"Signature": "é"}])
def test_a_request_without_a_signature_is_not_signed(fields: dict[str, str]) -> None:
    assert not is_signed_by(fields, b"", "very secret")


FEW = st.dictionaries(st.sampled_from(["a", "b", "topic", "AccessKey"]), st.text("ab1ü", max_size=3), max_size=3)


@given(st.lists(st.tuples(FEW, st.binary(max_size=9), st.sampled_from(["right", "wrong", "none", "é"])), max_size=4))
def test_a_prepared_key_says_what_the_secret_says(requests: list[tuple[dict[str, str], bytes, str]]) -> None:
    """Also for the second request with the same fields, for which it remembers their order."""
    key = SecretKey("very secret")
    for fields, body, kind in requests * 2:
        right = signature_of(fields, body, "very secret")
        signature = {"right": right, "wrong": signature_of(fields, body, "another"), "none": ""}.get(kind, kind)
        # Where it stands among the fields is the sender's choice.
        for signed in ({**fields, SIGNATURE: signature}, {SIGNATURE: signature, **fields}):
            assert key.signs(signed, body) is is_signed_by(signed, body, "very secret") is (kind == "right")
            assert not key.signs({**signed, "more1": "x"}, body)
            assert not key.signs(signed, body + b"x")


def test_a_key_remembers_nothing_of_strangers_and_not_much_of_others() -> None:
    key = SecretKey("very secret")
    for number in range(300):
        fields = {"AccessKey": "me", f"f{number}": "1"}
        assert not key.signs({**fields, SIGNATURE: "guess"}, b"")
    assert not key._orders
    for number in range(300):
        fields = {"AccessKey": "me", f"f{number}": "1"}
        assert key.signs({**fields, SIGNATURE: signature_of(fields, b"", "very secret")}, b"")
    assert 0 < len(key._orders) <= 64


def test_the_secret_is_shown_nowhere() -> None:
    assert "very secret" not in repr(ME)


@given(key=st.binary(max_size=200), data=st.binary(max_size=400))
def test_our_hmac_is_the_one_of_the_standard_library(key: bytes, data: bytes) -> None:
    assert hmac_sha1(key, data) == hmac.digest(key, data, "sha1")


FORKS = """
import os, ssl, threading
import certifi
from gantrymq.protocol.signature import signature_of

def use_openssl():
    while True:
        ssl.create_default_context(cafile=certifi.where())

for _ in range(3):
    threading.Thread(target=use_openssl, daemon=True).start()
for _ in range(60):
    child = os.fork()
    if not child:
        signature_of({"AccessKey": "me"}, b"", "secret")
        os._exit(0)
    os.waitpid(child, 0)
os._exit(0)
"""


def test_a_forked_process_signs_whatever_its_parent_was_doing() -> None:
    """A lock of OpenSSL is not free in a child whose parent held it in another thread, as a driver may."""
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=120)
