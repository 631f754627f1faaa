"""A small shop. The database is SQLite unless PGDATABASE names one of PostgreSQL."""

import os
from pathlib import Path

SECRET_KEY = "only for the example"
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = ["gantrymq.django", "shop"]
ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

if "PGDATABASE" in os.environ:  # libpq reads host, port and user from the environment, too
    DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}}
else:
    path = os.environ.get("SHOP_DATABASE", Path(__file__).parent.parent / "shop.sqlite3")
    shop = {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": {"timeout": 20}}
    DATABASES = {"default": {**shop, "TEST": {"NAME": f"{path}.test"}}}  # in memory, no thread waits for another

GANTRYMQ = {"GROUP": "shop", "NAME_SERVERS": os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")}
