from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("mirrors", "0082_group_summaries"),
    ]

    operations: ClassVar = [
        migrations.AddField(
            model_name="runner",
            name="pool",
            field=models.CharField(blank=True, db_default="", default="", max_length=63),
        ),
        migrations.AddField(
            model_name="runner",
            name="auto_balance",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="runner",
            name="uneven_since",
            field=models.DateTimeField(null=True),
        ),
        migrations.CreateModel(
            name="FlowMove",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("pool", models.CharField(max_length=63)),
                ("before", models.CharField(max_length=100)),
                ("to", models.CharField(max_length=100)),
                ("reason", models.TextField()),
                ("requested_by", models.CharField(max_length=150)),
                ("requested_at", models.DateTimeField()),
                ("moved_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("succeeded", models.BooleanField(null=True)),
                ("outcome", models.TextField(blank=True)),
                (
                    "flow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="moves",
                        to="mirrors.flow",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("pool",),
                        name="one_open_move_per_pool",
                    )
                ],
            },
        ),
    ]
