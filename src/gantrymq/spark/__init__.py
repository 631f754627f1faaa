"""The PySpark data source ``rocketmq`` and the pipelines built on it.

Importing this package does not import pyspark. That happens when one of its names is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.spark.listener import LagListener
    from gantrymq.spark.registration import register
    from gantrymq.spark.session import spark_session
    from gantrymq.spark.source import RocketMQDataSource

__all__ = ["LagListener", "RocketMQDataSource", "register", "spark_session"]

_HOMES = {
    "LagListener": "gantrymq.spark.listener",
    "RocketMQDataSource": "gantrymq.spark.source",
    "register": "gantrymq.spark.registration",
    "spark_session": "gantrymq.spark.session",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow"):
            raise
        raise ImportError(f"{name} needs Spark; run: pip install 'gantrymq[spark]' ({error})") from error
