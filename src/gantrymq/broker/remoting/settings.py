"""UPDATE_BROKER_CONFIG (25) and GET_BROKER_CONFIG (26)."""

from __future__ import annotations

from gantrymq.broker.config import parse_properties
from gantrymq.broker.operations.settings import SettingsAdministration
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import BrokerConfigAnswer
from gantrymq.runtime.properties import SETTINGS_BYTES


class SettingsHandler:
    """Shows and changes the settings of this broker."""

    def __init__(self, settings: SettingsAdministration) -> None:
        self._settings = settings

    def show(self, session: ClientSession, command: Command) -> bytes:
        """GET_BROKER_CONFIG."""
        header = BrokerConfigAnswer(version=self._settings.version.encode().decode())
        return encode_response(command, ResponseCode.SUCCESS, header, self._settings.text().encode())

    def update(self, session: ClientSession, command: Command) -> bytes:
        """UPDATE_BROKER_CONFIG."""
        if len(command.body) > SETTINGS_BYTES:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"the body has {len(command.body)} bytes; at most {SETTINGS_BYTES} are read as settings",
            )
        try:
            wanted = parse_properties(command.body.decode())
        except UnicodeDecodeError as error:
            raise Refused(Refusal.PARAMETER_INVALID, f"the body is no text: {error}") from error
        self._settings.update(wanted)
        return encode_response(command, ResponseCode.SUCCESS)
