"""The Django app. It connects to nothing when it is loaded: management commands load it, too."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.db.backends.signals import connection_created

from gantrymq.django import running
from gantrymq.django.project_settings import NAME


class GantryConfig(AppConfig):
    """``INSTALLED_APPS = [..., "gantrymq.django"]``; its label in commands and migrations is ``gantrymq``."""

    name = "gantrymq.django"
    label = "gantrymq"
    verbose_name = "GantryMQ"

    def ready(self) -> None:
        from gantrymq.django import checks  # noqa: F401 - registers them
        from gantrymq.django.watching import watch

        connection_created.connect(watch, dispatch_uid="gantrymq")
        setting_changed.connect(_setting_changed)


def _setting_changed(*, setting: str, **_: object) -> None:
    """A test uses ``override_settings(GANTRYMQ=...)``: what comes next begins with the new values."""
    if setting == NAME:
        running.close()
