"""Tools create, show and delete consumer groups: 200, 201, 207, 225, 352 and UPDATE_AND_GET_GROUP_FORBIDDEN."""

from __future__ import annotations

from gantrymq.broker.operations.groups import GroupAdministration
from gantrymq.broker.operations.table_changes import DeleteGroup, MakeGroups, TableChanges
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.topic_admin import outcome_of
from gantrymq.protocol.bodies.groups import GroupConfigList, GroupForbidden
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.headers import topics as headers
from gantrymq.protocol.headers.tools import UpdateForbidden
from gantrymq.protocol.headers.topics import AllGroupsAnswer, GroupOnly


class GroupHandler:
    """Requests of tools about consumer groups."""

    def __init__(self, groups: GroupAdministration, changes: TableChanges) -> None:
        self._groups = groups
        self._changes = changes

    def update_group(self, session: ClientSession, command: Command) -> None:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""
        self._changes.add(MakeGroups([Group.of_request(command.body)], outcome_of(session, command)))

    def update_groups(self, session: ClientSession, command: Command) -> None:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST."""
        wanted = GroupConfigList.of_request(command.body).group_config_list
        self._changes.add(MakeGroups(wanted, outcome_of(session, command)))

    def delete_group(self, session: ClientSession, command: Command) -> None:
        """DELETE_SUBSCRIPTIONGROUP."""
        header = command.header(headers.DeleteGroup)
        with_offsets = bool(header.clean_offset or header.remove_offset)
        self._changes.add(DeleteGroup(header.group_name, with_offsets, outcome_of(session, command)))

    def group(self, session: ClientSession, command: Command) -> bytes:
        """GET_SUBSCRIPTIONGROUP_CONFIG."""
        group = self._groups.get(command.header(GroupOnly).group)
        return encode_response(command, ResponseCode.SUCCESS, body=group.encode())

    def all_groups(self, session: ClientSession, command: Command) -> bytes:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG. Whoever asks for pages gets everything as the first one."""
        header = AllGroupsAnswer(total_group_num=len(self._groups.table().subscription_group_table))
        return encode_response(command, ResponseCode.SUCCESS, header, self._groups.encoded_table())

    def forbid(self, session: ClientSession, command: Command) -> bytes:
        """UPDATE_AND_GET_GROUP_FORBIDDEN."""
        header = command.header(UpdateForbidden)
        if header.readable is not None:
            self._groups.allow(header.group, header.topic, header.readable)
        readable = self._groups.may_read(header.group, header.topic)
        body = GroupForbidden(group=header.group, topic=header.topic, readable=readable)
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())
