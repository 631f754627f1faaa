"""The tables of outcomes and of the inbox."""

from django.db import migrations

from gantrymq.django.operations import CreateGantryTables


class Migration(migrations.Migration):
    initial = True
    dependencies = ()
    operations = (CreateGantryTables(),)
