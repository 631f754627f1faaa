"""The table of messages that wait for a broker."""

from django.db import migrations

from gantrymq.django.operations import CreateGantryOutbox


class Migration(migrations.Migration):
    dependencies = (("gantrymq", "0001_initial"),)
    operations = (CreateGantryOutbox(),)
