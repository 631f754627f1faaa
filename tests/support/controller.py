"""A controller in this process that keeps the rules of Apache's, over real sockets.

``controller_contract.py`` asks it and Apache's own one the same questions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gantrymq.demo.ports import free_port
from gantrymq.protocol.command import Command, decode_command, encode_response

SUCCESS, FENCED_SET, NOT_MASTER, NOT_ALIVE, NO_METADATA = 0, 2001, 2002, 2006, 2008
NOT_REGISTERED, STILL_EXISTS, FAILED, EQUAL, TAKEN = 2010, 2011, 2012, 2013, 2014


@dataclass
class Group:
    """The brokers of one name."""

    codes: dict[int, str] = field(default_factory=dict)
    """Number to check code."""
    addresses: dict[int, str] = field(default_factory=dict)
    live: dict[int, asyncio.StreamWriter] = field(default_factory=dict)
    master: int | None = None
    epoch: int = 0
    in_sync: list[int] = field(default_factory=list)
    set_epoch: int = 0

    def elect(self, wanted: int | None = None) -> bool:
        """Whether somebody is master now. As Apache's, it counts an election that finds nobody."""
        candidates = [number for number in self.in_sync if number in self.live]
        if wanted is not None and not self.in_sync:
            candidates = [wanted]
        if wanted is not None and wanted in candidates:
            candidates = [wanted]
        if not candidates:
            if self.master is not None:
                self.master, self.epoch = None, self.epoch + 1
            return False
        self.master, self.epoch, self.set_epoch = candidates[0], self.epoch + 1, self.set_epoch + 1
        assert self.master is not None
        self.in_sync = [self.master]
        return True


class ModelController:
    """Leads alone. It tells nobody of an election: brokers find out."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.address = ""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._answers: dict[int, Callable[[dict[str, str], bytes], tuple[int, dict[str, Any], bytes]]] = {
            1001: self._alter, 1002: self._elect, 1003: self._register, 1005: self._metadata, 1006: self._state,
            1012: self._next, 1013: self._apply,
        }  # fmt: skip

    async def start(self, port: int | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port or free_port())
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """It is away; what it knows stays."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            await server.wait_closed()
        for group in self.groups.values():
            group.live.clear()

    def dead(self, name: str, number: int) -> None:
        """The controller takes this broker for dead."""
        group = self.groups[name]
        group.live.pop(number, None)
        if group.master == number:
            group.elect()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                end = 4 + int.from_bytes(frame[1:4])
                command = decode_command(frame[0], frame[4:end], frame[end:])
                if command.code == 904:
                    self._beat(self._fields(command), writer)
                    continue
                code, extra, body = self._answers[command.code](self._fields(command), command.body)
                texts = {name: str(value) for name, value in extra.items()}
                writer.write(encode_response(command, code, body=body, extra=texts, remark=f"code {code}"))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            if self._server is not None:
                for name, group in self.groups.items():
                    for number in [number for number, one in group.live.items() if one is writer]:
                        self.dead(name, number)
            writer.transport.abort()

    @staticmethod
    def _fields(command: Command) -> dict[str, str]:
        if command.ext is None:
            return {}
        assert isinstance(command.ext, msgspec.Raw)
        return msgspec.json.decode(command.ext, type=dict[str, str])

    def _group(self, fields: dict[str, str]) -> Group:
        return self.groups.setdefault(fields["brokerName"], Group())

    def _beat(self, fields: dict[str, str], writer: asyncio.StreamWriter) -> None:
        self._group(fields).live[int(fields["brokerId"])] = writer

    def _metadata(self, fields: dict[str, str], body: bytes) -> tuple[int, dict[str, Any], bytes]:
        return SUCCESS, {"controllerLeaderAddress": self.address, "isLeader": "true"}, b""

    def _next(self, fields: dict[str, str], body: bytes) -> tuple[int, dict[str, Any], bytes]:
        return SUCCESS, {"nextBrokerId": max(self._group(fields).codes, default=0) + 1}, b""

    def _apply(self, fields: dict[str, str], body: bytes) -> tuple[int, dict[str, Any], bytes]:
        number, code = int(fields["appliedBrokerId"]), fields["registerCheckCode"]
        if self._group(fields).codes.setdefault(number, code) != code:
            return TAKEN, {}, b""
        return SUCCESS, {}, b""

    def _register(self, fields: dict[str, str], body: bytes) -> tuple[int, dict[str, Any], bytes]:
        group, number = self._group(fields), int(fields["brokerId"])
        if number not in group.codes:
            return NOT_REGISTERED, {}, b""
        group.addresses[number] = fields["brokerAddress"]
        return SUCCESS, {}, b""

    def _elect(self, fields: dict[str, str], body: bytes) -> tuple[int, dict[str, Any], bytes]:
        group, number, designated = self._group(fields), int(fields["brokerId"]), fields["designateElect"] == "true"
        if number not in group.codes:
            return NOT_REGISTERED, {}, b""
        if group.master is not None and (not designated or number == group.master):
            return STILL_EXISTS, {}, b""
        if designated and (number not in group.in_sync or number not in group.live):
            return FAILED, {}, b""
        return (SUCCESS if group.elect(number) else FAILED), {}, b""

    def _alter(self, fields: dict[str, str], body: bytes) -> tuple[int, dict[str, Any], bytes]:
        group, wanted = self._group(fields), msgspec.json.decode(body)
        members = sorted(wanted["syncStateSet"])
        if members == sorted(group.in_sync):
            return EQUAL, {}, b""
        if group.master != int(fields["masterBrokerId"]) or group.epoch != int(fields["masterEpoch"]):
            return NOT_MASTER, {}, b""
        if group.set_epoch != wanted["syncStateSetEpoch"]:
            return FENCED_SET, {}, b""
        if any(number not in group.live for number in members):
            return NOT_ALIVE, {}, b""
        group.in_sync, group.set_epoch = members, group.set_epoch + 1
        return SUCCESS, {}, b""

    def _state(self, fields: dict[str, str], body: bytes) -> tuple[int, dict[str, Any], bytes]:
        table = {
            name: self._shown(name, self.groups[name]) for name in msgspec.json.decode(body) if name in self.groups
        }
        return SUCCESS, {}, msgspec.json.encode({"replicasInfoTable": table})

    @staticmethod
    def _shown(name: str, group: Group) -> dict[str, Any]:
        def shown(number: int) -> dict[str, Any]:
            address, alive = group.addresses.get(number, ""), number in group.live
            return {"brokerName": name, "brokerId": number, "brokerAddress": address, "alive": alive}

        master = {} if group.master is None else {
            "masterBrokerId": group.master, "masterAddress": group.addresses.get(group.master, "")
        }  # fmt: skip
        return {
            **master, "masterEpoch": group.epoch, "syncStateSetEpoch": group.set_epoch,
            "inSyncReplicas": [shown(number) for number in group.in_sync],
            "notInSyncReplicas": [shown(number) for number in group.addresses if number not in group.in_sync],
        }  # fmt: skip
