from django.db import models


class Order(models.Model):
    """open, paid, shipped"""

    name = models.CharField(max_length=40, unique=True)
    status = models.CharField(max_length=10, default="open")
