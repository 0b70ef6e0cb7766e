"""Gaps, and the index of offset runs."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0003_duties"),
    ]

    operations = [
        migrations.CreateModel(
            name="PartitionMap",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic", models.CharField(max_length=255)),
                ("partition", models.PositiveIntegerField()),
                ("generation", models.CharField(max_length=32)),
                ("position", models.BigIntegerField(null=True)),
                (
                    "flow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="maps",
                        to="mirrors.flow",
                    ),
                ),
            ],
            options={
                "ordering": ("topic", "partition", "id"),
            },
        ),
        migrations.CreateModel(
            name="RunBlock",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("first", models.BigIntegerField()),
                ("downstream", models.BigIntegerField()),
                ("topic_offset", models.BigIntegerField()),
                ("body", models.BinaryField()),
                (
                    "map",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="blocks",
                        to="mirrors.partitionmap",
                    ),
                ),
            ],
            options={
                "ordering": ("map", "first"),
            },
        ),
        migrations.CreateModel(
            name="RunIndex",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("positions_id", models.CharField(blank=True, max_length=64)),
                ("positions_next", models.BigIntegerField(default=0)),
                ("runs_id", models.CharField(blank=True, max_length=64)),
                ("runs_next", models.BigIntegerField(default=0)),
                ("version", models.PositiveBigIntegerField(default=0)),
                ("as_of", models.DateTimeField(null=True)),
                (
                    "flow",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="run_index",
                        to="mirrors.flow",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Gap",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic", models.CharField(max_length=255)),
                ("partition", models.PositiveIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("deleted", "Deleted"),
                            ("truncated", "Truncated"),
                            ("recreated", "Recreated"),
                            ("source_replaced", "Source Replaced"),
                            ("remote_recreated", "Remote Recreated"),
                            ("remote_missing", "Remote Missing"),
                            ("remote_written", "Remote Written"),
                            ("target_replaced", "Target Replaced"),
                        ],
                        max_length=32,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("accepted", "Accepted"),
                            ("restarted", "Restarted"),
                            ("closed", "Closed"),
                        ],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("position", models.BigIntegerField(null=True)),
                ("first_available", models.BigIntegerField(null=True)),
                ("source_end", models.BigIntegerField(null=True)),
                ("first_lost", models.BigIntegerField(null=True)),
                ("last_lost", models.BigIntegerField(null=True)),
                ("count", models.BigIntegerField(null=True)),
                ("facts", models.JSONField(default=dict)),
                ("opened_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
                ("closed_why", models.TextField(blank=True)),
                ("decided_by", models.CharField(blank=True, max_length=150)),
                ("decided_at", models.DateTimeField(null=True)),
                ("decided_why", models.TextField(blank=True)),
                (
                    "flow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="gaps",
                        to="mirrors.flow",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("closed_at__isnull", True)),
                        fields=("flow", "topic", "partition"),
                        name="one_gap_per_partition",
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="partitionmap",
            constraint=models.UniqueConstraint(
                fields=("flow", "topic", "partition", "generation"), name="one_map_per_generation"
            ),
        ),
        migrations.AddConstraint(
            model_name="runblock",
            constraint=models.UniqueConstraint(fields=("map", "first"), name="one_block_at"),
        ),
    ]
