"""All tables of monitoring, and the first alert rules; it replaces those up to 0018."""

import uuid

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import mirrors.migrations._create_models

RULES = [
    ("RPO above 30 s", "time_lag", 30.0, 60, "warning"),
    ("RPO above 5 min", "time_lag", 300.0, 60, "critical"),
    ("Stalled", "stands", 60.0, 30, "critical"),
    ("Flow failed", "flow_failed", None, 0, "critical"),
    ("Flow degraded", "flow_degraded", None, 120, "warning"),
    ("Data loss needs a decision", "gap", None, 0, "critical"),
    ("No metrics", "stale", 60.0, 30, "critical"),
    ("Runner is down", "runner_down", None, 60, "critical"),
    ("Data loss by retention within 6 h", "forecast", 21600.0, 30, "critical"),
    ("Heartbeat older than 2 min", "heartbeat", 120.0, 30, "warning"),
    ("Checkpoints older than 10 min", "checkpoint", 600.0, 60, "warning"),
    ("Transaction open for more than 15 min", "open_transaction", 900.0, 60, "warning"),
    ("Another producer writes remote topics", "foreign_writes", None, 0, "critical"),
    ("A selected topic is not replicated", "not_replicated", None, 30, "critical"),
    ("Forecast above the budget", "budget", 100.0, 300, "warning"),
    ("Another host took a runner over", "runner_moved", None, 0, "warning"),
    ("Records went to a dead-letter topic", "dead_letters", None, 0, "warning"),
    ("Records not verified for 8 days", "unverified", 691200.0, 60, "warning"),
    ("Schemas are missing on the target", "schemas", None, 300, "warning"),
    ("Conflicting keys differ on both sides", "conflicts", None, 0, "warning"),
]


def make_rules(apps, schema_editor):
    rules = apps.get_model("monitoring", "AlertRule")
    rules.objects.bulk_create(
        rules(name=name, kind=kind, threshold=limit, for_seconds=seconds, severity=severity)
        for name, kind, limit, seconds, severity in RULES
    )


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("monitoring", "0001_history"),
        ("monitoring", "0002_alerts"),
        ("monitoring", "0003_default_rules"),
        ("monitoring", "0004_sweeps_and_forecasts"),
        ("monitoring", "0005_foreign_writes"),
        ("monitoring", "0006_not_replicated"),
        ("monitoring", "0007_delivery_attempts"),
        ("monitoring", "0008_topic_history"),
        ("monitoring", "0009_names_of_rules"),
        ("monitoring", "0010_costs"),
        ("monitoring", "0011_compression"),
        ("monitoring", "0012_full_steps"),
        ("monitoring", "0013_moved_runners"),
        ("monitoring", "0014_dead_letters"),
        ("monitoring", "0015_usage_by_minute"),
        ("monitoring", "0016_unverified_records"),
        ("monitoring", "0017_schemas"),
        ("monitoring", "0018_conflicts"),
    ]

    dependencies = [
        ("mirrors", "0081_conflict_reports"),
    ]

    operations = [
        mirrors.migrations._create_models.CreateModels(
            models=[
                migrations.CreateModel(
                    name="Channel",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("name", models.CharField(max_length=100, unique=True)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("webhook", "Webhook"),
                                    ("slack", "Slack"),
                                    ("teams", "Teams"),
                                    ("email", "Email"),
                                    ("pagerduty", "Pagerduty"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("target", models.CharField(blank=True, max_length=1000)),
                        ("secret", models.CharField(blank=True, max_length=500)),
                        ("headers", models.JSONField(blank=True, default=dict)),
                        ("enabled", models.BooleanField(default=True)),
                    ],
                    options={
                        "ordering": ("name",),
                    },
                ),
                migrations.CreateModel(
                    name="Delivery",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "alert",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="deliveries",
                                to="monitoring.alert",
                            ),
                        ),
                        (
                            "channel",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="deliveries",
                                to="monitoring.channel",
                            ),
                        ),
                        ("what", models.CharField(max_length=16)),
                        ("key", models.UUIDField(default=uuid.uuid4, unique=True)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("queued", "Queued"),
                                    ("sending", "Sending"),
                                    ("sent", "Sent"),
                                    ("dead", "Dead"),
                                ],
                                default="queued",
                                max_length=16,
                            ),
                        ),
                        ("attempt", models.PositiveIntegerField(default=0)),
                        ("due_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("claimed_until", models.DateTimeField(null=True)),
                        ("attempted_at", models.DateTimeField(null=True)),
                        ("sent_at", models.DateTimeField(null=True)),
                        ("error", models.TextField(blank=True)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "indexes": [
                            models.Index(fields=["state", "due_at"], name="deliveries_due")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("alert", "channel", "what"), name="told_once_a_transition"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AlertRule",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("name", models.CharField(max_length=100, unique=True)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("time_lag", "time_lag"),
                                    ("offset_lag", "offset_lag"),
                                    ("stands", "stands"),
                                    ("flow_failed", "flow_failed"),
                                    ("flow_degraded", "flow_degraded"),
                                    ("gap", "gap"),
                                    ("dead_letters", "dead_letters"),
                                    ("conflicts", "conflicts"),
                                    ("stale", "stale"),
                                    ("runner_down", "runner_down"),
                                    ("runner_moved", "runner_moved"),
                                    ("forecast", "forecast"),
                                    ("heartbeat", "heartbeat"),
                                    ("checkpoint", "checkpoint"),
                                    ("open_transaction", "open_transaction"),
                                    ("foreign_writes", "foreign_writes"),
                                    ("not_replicated", "not_replicated"),
                                    ("unverified", "unverified"),
                                    ("schemas", "schemas"),
                                    ("budget", "budget"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "flow",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="alert_rules",
                                to="mirrors.flow",
                            ),
                        ),
                        ("threshold", models.FloatField(null=True)),
                        ("clear_below", models.FloatField(null=True)),
                        ("for_seconds", models.PositiveIntegerField(default=0)),
                        (
                            "severity",
                            models.CharField(
                                choices=[
                                    ("critical", "Critical"),
                                    ("warning", "Warning"),
                                    ("info", "Info"),
                                ],
                                default="warning",
                                max_length=16,
                            ),
                        ),
                        ("enabled", models.BooleanField(default=True)),
                        ("runbook", models.CharField(blank=True, max_length=500)),
                        ("labels", models.JSONField(blank=True, default=dict)),
                        (
                            "channels",
                            models.ManyToManyField(
                                blank=True, related_name="rules", to="monitoring.channel"
                            ),
                        ),
                    ],
                    options={
                        "ordering": ("name",),
                    },
                ),
                migrations.CreateModel(
                    name="Alert",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "rule",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="alerts",
                                to="monitoring.alertrule",
                            ),
                        ),
                        ("rule_name", models.CharField(max_length=100)),
                        ("subject", models.CharField(max_length=64)),
                        ("subject_name", models.CharField(max_length=255)),
                        (
                            "flow",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="alerts",
                                to="mirrors.flow",
                            ),
                        ),
                        (
                            "severity",
                            models.CharField(
                                choices=[
                                    ("critical", "Critical"),
                                    ("warning", "Warning"),
                                    ("info", "Info"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("pending", "Pending"),
                                    ("firing", "Firing"),
                                    ("resolved", "Resolved"),
                                ],
                                default="pending",
                                max_length=16,
                            ),
                        ),
                        ("value", models.FloatField(null=True)),
                        ("sentence", models.TextField(blank=True)),
                        ("since", models.DateTimeField(default=django.utils.timezone.now)),
                        ("fired_at", models.DateTimeField(null=True)),
                        ("told_at", models.DateTimeField(null=True)),
                        ("resolved_at", models.DateTimeField(null=True)),
                        ("acknowledged_at", models.DateTimeField(null=True)),
                        ("acknowledged_by", models.CharField(blank=True, max_length=150)),
                        ("note", models.CharField(blank=True, max_length=500)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "indexes": [
                            models.Index(fields=["state", "-fired_at"], name="alerts_by_state")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("resolved_at__isnull", True)),
                                fields=("rule", "subject"),
                                name="one_open_alert_a_subject",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Silence",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "flow",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="silences",
                                to="mirrors.flow",
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="silences",
                                to="mirrors.cluster",
                            ),
                        ),
                        (
                            "rule",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="silences",
                                to="monitoring.alertrule",
                            ),
                        ),
                        ("starts_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("ends_at", models.DateTimeField()),
                        ("who", models.CharField(max_length=150)),
                        ("reason", models.CharField(blank=True, max_length=500)),
                    ],
                    options={
                        "ordering": ("-id",),
                    },
                ),
                migrations.CreateModel(
                    name="TransferPrice",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "source",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="mirrors.cluster",
                            ),
                        ),
                        (
                            "target",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="mirrors.cluster",
                            ),
                        ),
                        ("per_gb", models.DecimalField(decimal_places=6, max_digits=12)),
                        ("currency", models.CharField(max_length=3)),
                        (
                            "monthly_budget",
                            models.DecimalField(decimal_places=2, max_digits=14, null=True),
                        ),
                        ("set_by", models.CharField(max_length=150)),
                        ("set_at", models.DateTimeField()),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("source", "target"), name="one_price_a_pair"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CompressionReading",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("requested_by", models.CharField(max_length=150)),
                        ("requested_at", models.DateTimeField()),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("error", models.TextField(blank=True)),
                        (
                            "flow",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="compression",
                                to="mirrors.flow",
                            ),
                        ),
                        ("samples", models.JSONField(default=dict)),
                        ("failed", models.JSONField(default=dict)),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="MonthlyUsage",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "flow",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="usage",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("month", models.DateField()),
                        ("bytes", models.BigIntegerField()),
                        ("since", models.DateTimeField()),
                        ("until", models.DateTimeField()),
                    ],
                    options={
                        "indexes": [models.Index(fields=["month", "flow"], name="usage_by_month")],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "topic", "month"),
                                name="one_usage_a_topic_and_month",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ClusterSweep",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "cluster",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="sweep",
                                to="mirrors.cluster",
                            ),
                        ),
                        ("due_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("claimed_until", models.DateTimeField(null=True)),
                        ("as_of", models.DateTimeField(null=True)),
                        ("stale_since", models.DateTimeField(null=True)),
                        ("error", models.TextField(blank=True)),
                        ("failures", models.PositiveIntegerField(default=0)),
                        ("partitions", models.PositiveIntegerField(default=0)),
                        ("unanswered", models.PositiveIntegerField(default=0)),
                        ("took_ms", models.PositiveIntegerField(default=0)),
                    ],
                    options={
                        "ordering": ("cluster_id",),
                    },
                ),
                migrations.CreateModel(
                    name="PartitionRange",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="ranges",
                                to="mirrors.cluster",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("partition", models.PositiveIntegerField()),
                        ("earliest", models.BigIntegerField()),
                        ("end", models.BigIntegerField()),
                        ("stable_end", models.BigIntegerField()),
                        ("steps", models.JSONField(default=list)),
                        ("held_since", models.DateTimeField(null=True)),
                        ("as_of", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("topic", "partition"),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("cluster", "topic", "partition"),
                                name="one_range_per_partition",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="FlowOutlook",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "flow",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="outlook",
                                to="mirrors.flow",
                            ),
                        ),
                        ("as_of", models.DateTimeField()),
                        ("offset_lag", models.BigIntegerField(null=True)),
                        ("moved_at", models.DateTimeField(null=True)),
                        ("lag_when_moved", models.BigIntegerField(null=True)),
                        ("reached", models.BigIntegerField(default=0)),
                        ("loses_at", models.DateTimeField(null=True)),
                        ("at_risk", models.PositiveIntegerField(default=0)),
                        ("risks", models.JSONField(default=list)),
                        ("tracks", models.JSONField(default=list)),
                        ("held_since", models.DateTimeField(null=True)),
                        ("held_records", models.BigIntegerField(default=0)),
                        ("held", models.JSONField(default=list)),
                    ],
                    options={
                        "ordering": ("flow_id",),
                    },
                ),
                migrations.CreateModel(
                    name="LagSample",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "flow",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="samples",
                                to="mirrors.flow",
                            ),
                        ),
                        (
                            "resolution",
                            models.PositiveSmallIntegerField(
                                choices=[(10, "10 s"), (60, "60 s"), (3600, "3600 s")]
                            ),
                        ),
                        ("at", models.DateTimeField()),
                        ("offset_lag", models.BigIntegerField(null=True)),
                        ("time_lag_ms", models.BigIntegerField(null=True)),
                        ("records_per_second", models.FloatField(null=True)),
                        ("bytes_per_second", models.FloatField(null=True)),
                        ("out_of_sync", models.PositiveIntegerField()),
                        ("unknown_partitions", models.PositiveIntegerField(default=0)),
                        ("latency_ms", models.BigIntegerField(null=True)),
                        ("heartbeat_age_ms", models.BigIntegerField(null=True)),
                    ],
                    options={
                        "ordering": ("at",),
                        "indexes": [
                            models.Index(fields=["resolution", "at"], name="samples_by_age")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "resolution", "at"), name="one_sample_a_step"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Feed",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "flow",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="feed",
                                to="mirrors.flow",
                            ),
                        ),
                        ("as_of", models.DateTimeField(null=True)),
                        ("job", models.BigIntegerField(null=True)),
                        ("records", models.BigIntegerField(default=0)),
                        ("bytes", models.BigIntegerField(default=0)),
                        ("stale_since", models.DateTimeField(null=True)),
                        ("moved_at", models.DateTimeField(null=True)),
                        ("lag_when_moved", models.BigIntegerField(null=True)),
                    ],
                    options={
                        "ordering": ("flow_id",),
                    },
                ),
                migrations.CreateModel(
                    name="TopicSample",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "flow",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="topic_samples",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        (
                            "resolution",
                            models.PositiveSmallIntegerField(
                                choices=[(60, "60 s"), (3600, "3600 s")]
                            ),
                        ),
                        ("at", models.DateTimeField()),
                        ("owed", models.BigIntegerField()),
                        ("time_lag_ms", models.BigIntegerField(null=True)),
                        ("unknown_partitions", models.PositiveIntegerField(default=0)),
                        ("records", models.BigIntegerField()),
                        ("bytes", models.BigIntegerField()),
                    ],
                    options={
                        "ordering": ("at",),
                        "indexes": [
                            models.Index(fields=["resolution", "at"], name="topic_samples_by_age")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "topic", "resolution", "at"),
                                name="one_sample_a_topic_and_step",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="PartitionSample",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "flow",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="partition_samples",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("partition", models.PositiveIntegerField()),
                        (
                            "resolution",
                            models.PositiveSmallIntegerField(
                                choices=[(60, "60 s"), (3600, "3600 s")]
                            ),
                        ),
                        ("at", models.DateTimeField()),
                        ("owed", models.BigIntegerField(null=True)),
                        ("time_lag_ms", models.BigIntegerField(null=True)),
                    ],
                    options={
                        "ordering": ("at",),
                        "indexes": [
                            models.Index(
                                fields=["resolution", "at"], name="partition_samples_by_age"
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "topic", "partition", "resolution", "at"),
                                name="one_sample_a_partition_and_step",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="FullStep",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("of_topics", models.BooleanField()),
                        ("resolution", models.PositiveSmallIntegerField()),
                        ("at", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("at",),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("of_topics", "resolution", "at"), name="one_row_a_full_step"
                            )
                        ],
                    },
                ),
            ],
        ),
        migrations.RunPython(make_rules, migrations.RunPython.noop),
    ]
