"""The three roles as groups, so that a fresh database can give them to people."""

from django.db import migrations

ROLES = ("viewer", "operator", "admin")


def create_roles(apps, schema_editor):
    groups = apps.get_model("auth", "Group")
    for name in ROLES:
        groups.objects.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0001_first"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [migrations.RunPython(create_roles, migrations.RunPython.noop)]
