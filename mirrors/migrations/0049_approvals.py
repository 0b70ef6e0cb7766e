"""The roles approver and auditor, and requests to drop a flow's rule of a second person."""

import django.db.models.deletion
from django.db import migrations, models

ROLES = ("approver", "auditor")


def create_roles(apps, schema_editor):
    groups = apps.get_model("auth", "Group")
    for name in ROLES:
        groups.objects.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("mirrors", "0048_audit_entries"),
    ]

    operations = [
        migrations.CreateModel(
            name="RuleWaiver",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("requested_by", models.CharField(max_length=150)),
                ("why", models.CharField(max_length=500)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("decided_by", models.CharField(blank=True, default="", max_length=150)),
                ("decided_at", models.DateTimeField(null=True)),
                ("approved", models.BooleanField(null=True)),
                (
                    "flow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="waivers",
                        to="mirrors.flow",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
            },
        ),
        migrations.RunPython(create_roles, migrations.RunPython.noop),
    ]
