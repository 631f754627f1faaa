"""The Django project of these tests. Django has one configuration for a process; its databases change for each test."""

from __future__ import annotations

from django.conf import settings

import django

GANTRYMQ = {"GROUP": "shop", "NAME_SERVERS": "127.0.0.1:9876", "DATABASES": ["default"]}
if not settings.configured:
    settings.configure(
        SECRET_KEY="tests",
        INSTALLED_APPS=["gantrymq.django", "tests.django.orders"],
        DATABASES={
            alias: {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"} for alias in ("default", "second")
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        ROOT_URLCONF="tests.django.urls",
        ALLOWED_HOSTS=["*"],
        GANTRYMQ=GANTRYMQ,
    )
    django.setup()
