"""Apache's controller, a name server, and brokers of ours that the controller elects, each in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gantrymq.demo.ports import free_port
from gantrymq.protocol.bodies.replication import GroupReplicas, ReplicasOfGroups
from gantrymq.protocol.codes import RequestCode, ResponseCode
from tests.interop.apache import ApacheCluster
from tests.interop.places import ask
from tests.kill.group import NAME, Member
from tests.support.gantry_process import GantryProcess

BY_CONTROLLER = {"etcdAddr": "", "enableControllerMode": "true", "brokerId": -1, "primaryLease": 1000}


def asked(controller: str, name: str) -> GroupReplicas:
    """What the controller knows of a group. Raises OSError or AssertionError when it does not answer."""
    answer = ask(controller, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=msgspec.json.encode([name]))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return ReplicasOfGroups.decode(answer.body).replicas_info_table.get(name, GroupReplicas())


class ControllerGroup:
    """All of them, with the face of ``tests.kill.group.Group``. ``settings``: of each broker."""

    def __init__(self, root: Path, size: int = 3, **settings: Any) -> None:
        self.apache = ApacheCluster("5.5.0", root / "apache")
        self._name_server = GantryProcess(root / "nameserver.log")
        self._port = free_port()
        self.name_servers = f"127.0.0.1:{self._port}"
        self._root, self._size, self._settings = root, size, settings
        self.members: list[Member] = []

    def __enter__(self) -> ControllerGroup:
        self.apache.start_controller()
        self._name_server.start("nameserver", "-p", str(self._port), "--host", "127.0.0.1")
        settings = {**BY_CONTROLLER, "controllerAddr": self.apache.controller, **self._settings}
        for number in range(1, self._size + 1):
            self.members.append(Member(self._root / str(number), number, self.name_servers, 0, **settings))
            self.members[-1].serve()
        return self

    def __exit__(self, *_: object) -> None:
        for program in (*self.members, self._name_server):
            program.kill()
        self.apache.close()

    def state(self) -> GroupReplicas:
        """As the controller has it."""
        return asked(self.apache.controller, NAME)

    def record(self) -> dict[str, Any]:
        """The same in the words of ours."""
        state = self.state()
        return {"epoch": state.master_epoch, "in_sync": [one.broker_id for one in state.in_sync_replicas]}

    def primary(self) -> Member | None:
        """Whom the controller names."""
        address = self.state().master_address
        return next((member for member in self.members if address == f"127.0.0.1:{member.port}"), None)
