"""A table for the tests, made by ``migrate --run-syncdb``."""

from django.db import models


class Order(models.Model):
    name = models.CharField(max_length=40, unique=True)
    status = models.CharField(max_length=20)
