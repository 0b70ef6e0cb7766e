"""Consumer groups on both sides, and what was last written about them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0004_gaps_and_offset_runs"),
    ]

    operations = [
        migrations.CreateModel(
            name="GroupBookmark",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("checkpoints_id", models.CharField(blank=True, max_length=64)),
                ("checkpoints_next", models.BigIntegerField(default=0)),
                ("syncs_id", models.CharField(blank=True, max_length=64)),
                (
                    "flow",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="group_bookmark",
                        to="mirrors.flow",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SyncedPartition",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("upstream", models.BigIntegerField()),
                ("downstream", models.BigIntegerField()),
                ("synced", models.BigIntegerField()),
                (
                    "map",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="synced",
                        to="mirrors.partitionmap",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="GroupOffset",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("group", models.CharField(max_length=500)),
                ("topic", models.CharField(blank=True, max_length=255)),
                ("partition", models.IntegerField(default=-1)),
                ("remote_topic", models.CharField(blank=True, max_length=255)),
                ("source_offset", models.BigIntegerField(null=True)),
                ("translated_offset", models.BigIntegerField(null=True)),
                ("target_offset", models.BigIntegerField(null=True)),
                ("outcome", models.CharField(blank=True, max_length=16)),
                ("sync_state", models.CharField(max_length=16)),
                ("reason", models.TextField(blank=True)),
                ("wrote", models.BigIntegerField(null=True)),
                ("as_of", models.DateTimeField()),
                (
                    "flow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="groups",
                        to="mirrors.flow",
                    ),
                ),
            ],
            options={
                "ordering": ("group", "topic", "partition"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("flow", "group", "topic", "partition"),
                        name="one_row_per_group_place",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="KnownCheckpoint",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("group", models.CharField(max_length=500)),
                ("topic", models.CharField(max_length=255)),
                ("partition", models.PositiveIntegerField()),
                ("upstream", models.BigIntegerField()),
                ("downstream", models.BigIntegerField()),
                ("metadata", models.TextField(blank=True)),
                (
                    "flow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="checkpoints",
                        to="mirrors.flow",
                    ),
                ),
            ],
            options={
                "ordering": ("group", "topic", "partition"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("flow", "group", "topic", "partition"),
                        name="one_checkpoint_per_place",
                    )
                ],
            },
        ),
    ]
