"""Ordering keys of messages."""

from django.db import migrations

from gantrymq.django.operations import AddGantryOrdering


class Migration(migrations.Migration):
    dependencies = (("gantrymq", "0002_outbox"),)
    operations = (AddGantryOrdering(),)
