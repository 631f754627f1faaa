"""How log lines of subscribers look: topic, group and message id, in columns."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
from faststream._internal.logger.logging import get_broker_logger

if TYPE_CHECKING:
    from faststream._internal.basic_types import LoggerProto
    from faststream._internal.context import ContextRepo

_ID_CHARACTERS = 10


class GantryParamsStorage(DefaultLoggerStorage):
    """Widths of the columns, as wide as the longest names of the registered subscribers."""

    def __init__(self) -> None:
        super().__init__()
        self._widths = {"topic": 5, "group": 5}
        self.logger_log_level = logging.INFO

    def set_level(self, level: int) -> None:
        self.logger_log_level = level

    def register_subscriber(self, params: dict[str, Any]) -> None:
        self._widths = {name: max(width, len(params.get(name, ""))) for name, width in self._widths.items()}

    def get_logger(self, *, context: ContextRepo) -> LoggerProto:
        if not (logger := self._get_logger_ref()):
            columns = " | ".join(f"%({name})-{width}s" for name, width in self._widths.items())
            logger = get_broker_logger(
                name="gantrymq",
                default_context=dict.fromkeys(self._widths, ""),
                message_id_ln=_ID_CHARACTERS,
                fmt=f"%(asctime)s %(levelname)-8s - {columns} | %(message_id)-{_ID_CHARACTERS}s - %(message)s",
                context=context,
                log_level=self.logger_log_level,
            )
            self._logger_ref.add(logger)
        return logger


make_logger = partial(make_logger_state, default_storage_cls=GantryParamsStorage)
