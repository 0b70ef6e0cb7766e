"""What documents of files set when they were last applied."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("mirrors", "0071_spark_views")]
    operations: ClassVar = [
        migrations.CreateModel(
            name="AppliedDocument",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=20)),
                ("name", models.CharField(max_length=255)),
                ("spec", models.JSONField(default=dict)),
                ("applied_by", models.CharField(max_length=150)),
                ("applied_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("kind", "name"), name="one row per applied object"
                    )
                ],
            },
        ),
    ]
