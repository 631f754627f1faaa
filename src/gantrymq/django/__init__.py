"""Commit a row and its messages together in a Django project. Needs ``gantrymq[django]``; see docs/django.md."""

from gantrymq.django.inbox import Inbox
from gantrymq.django.running import close, start
from gantrymq.django.sending import run, send
from gantrymq.errors import OutcomeUnknown, TransactionBroken, TransactionClaimed

__all__ = ["Inbox", "OutcomeUnknown", "TransactionBroken", "TransactionClaimed", "close", "run", "send", "start"]
