"""Runs of duties, what heartbeats tell, and plans."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0002_roles"),
    ]

    operations = [
        migrations.CreateModel(
            name="FlowPlan",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("asked", "Asked"),
                            ("ready", "Ready"),
                            ("applying", "Applying"),
                            ("applied", "Applied"),
                            ("stale", "Stale"),
                            ("failed", "Failed"),
                        ],
                        default="asked",
                        max_length=16,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("digest", models.CharField(blank=True, max_length=64)),
                ("changes", models.JSONField(default=list)),
                ("left_out", models.JSONField(default=list)),
                ("asked_by", models.CharField(blank=True, max_length=150)),
                ("since", models.DateTimeField()),
                ("as_of", models.DateTimeField(null=True)),
                (
                    "flow",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="plan",
                        to="mirrors.flow",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="HeartbeatState",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slot", models.BigIntegerField(default=0)),
                ("place", models.CharField(default="source", max_length=8)),
                ("place_since", models.DateTimeField(null=True)),
                ("reason", models.TextField(blank=True)),
                ("error", models.TextField(blank=True)),
                ("written_at", models.DateTimeField(null=True)),
                ("seen_at", models.DateTimeField(null=True)),
                ("latency_ms", models.BigIntegerField(null=True)),
                ("clock_skew_ms", models.BigIntegerField(null=True)),
                ("as_of", models.DateTimeField(null=True)),
                (
                    "flow",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="heartbeat",
                        to="mirrors.flow",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DutyRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("duty", models.CharField(max_length=32)),
                ("slot", models.BigIntegerField()),
                ("since", models.DateTimeField()),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("runs", models.PositiveIntegerField(default=1)),
                ("counts", models.JSONField(default=dict)),
                ("totals", models.JSONField(default=dict)),
                ("reasons", models.JSONField(default=list)),
                ("error", models.TextField(blank=True)),
                (
                    "flow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="duty_runs",
                        to="mirrors.flow",
                    ),
                ),
            ],
            options={
                "ordering": ("-slot", "-id"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("flow", "duty", "slot"), name="one_run_per_slot"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None)),
                        fields=("flow", "duty"),
                        name="one_open_run_per_duty",
                    ),
                ],
            },
        ),
    ]
