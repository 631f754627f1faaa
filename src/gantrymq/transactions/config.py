"""Settings of transactions. Keys, units and defaults are Apache's; see the names in brackets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """How long a half message is left alone, how often its producer group is asked, and when asking ends."""

    timeout_ms: int = 6_000
    """[transactionTimeOut] Milliseconds after the half was stored in which it is not checked: the local transaction
    may still be running. CHECK_IMMUNITY_TIME_IN_SECONDS on a message replaces it for that message."""

    check_interval_ms: int = 30_000
    """[transactionCheckInterval] Milliseconds between two checks of one half, and how long an answer is waited for."""

    check_max: int = 15
    """[transactionCheckMax] Checks that may be answered with UNKNOWN before the half is parked. Checks that nobody
    answered do not count: a producer that is busy or down has decided nothing."""

    sender_grace_ms: int = 500
    """[decisiveCheckGrace] Milliseconds a client may be without any connection before halves it sent are checked early,
    if they say that their checkers are decisive. A living one is back within them; a killed one's messages must appear
    within a second. Negative: never early."""

    start_grace_ms: int = 5_000
    """[decisiveCheckGraceAtStart] The same for senders of halves that are open when the broker starts. Their clients
    try to connect once a second, and a try may take a second or two. Negative: never early."""

    reserved_hours: int = 72
    """[fileReservedTime] Hours after which an undecided half is parked even when nobody could be asked; the log keeps
    its files as long."""

    reject: bool = False
    """[rejectTransactionMessage] Refuse new half messages (those that are open can still be ended)."""

    op_message_bytes: int = 4_096
    """[transactionOpMsgMaxSize] Bytes of an op message that settles several halves; 1: each has its own."""

    promoted: bool = False
    """Whether what is open at the start was stored by another machine."""

    broker_name: str = ""
    """[brokerName] Travels in check requests; clients copy it into their answers."""
