import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0012_failover_execution"),
    ]

    operations = [
        migrations.CreateModel(
            name="SettingChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("generation", models.PositiveIntegerField()),
                ("when", models.DateTimeField(default=django.utils.timezone.now)),
                ("who", models.CharField(max_length=150)),
                ("key", models.CharField(max_length=255)),
                ("before", models.TextField(null=True)),
                ("after", models.TextField(null=True)),
                (
                    "flow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="setting_changes",
                        to="mirrors.flow",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
                "indexes": [models.Index(fields=["flow", "-id"], name="setting_changes_of")],
            },
        ),
    ]
