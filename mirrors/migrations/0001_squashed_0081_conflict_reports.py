"""All tables of a new database at once; it replaces the migrations up to 0081."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import mirrors.domain.audit.actors
import mirrors.migrations._create_models

ROLES = ("viewer", "operator", "admin", "approver", "auditor")


def create_roles(apps, schema_editor):
    groups = apps.get_model("auth", "Group")
    for name in ROLES:
        groups.objects.get_or_create(name=name)


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("mirrors", "0001_first"),
        ("mirrors", "0002_roles"),
        ("mirrors", "0003_duties"),
        ("mirrors", "0004_gaps_and_offset_runs"),
        ("mirrors", "0005_groups"),
        ("mirrors", "0006_failovers"),
        ("mirrors", "0007_standby_notes"),
        ("mirrors", "0008_failbacks"),
        ("mirrors", "0009_drills"),
        ("mirrors", "0010_drift"),
        ("mirrors", "0011_comparisons"),
        ("mirrors", "0012_failover_execution"),
        ("mirrors", "0013_setting_changes"),
        ("mirrors", "0014_runner_memory_and_log"),
        ("mirrors", "0015_what_runs_lead_to"),
        ("mirrors", "0016_codes_of_a_plan"),
        ("mirrors", "0017_lanes_and_their_reasons"),
        ("mirrors", "0018_lanes_of_jobs"),
        ("mirrors", "0019_remote_truncated"),
        ("mirrors", "0020_repeats"),
        ("mirrors", "0021_where_maps_begin"),
        ("mirrors", "0022_positions_lost"),
        ("mirrors", "0023_lost_runs"),
        ("mirrors", "0024_in_the_way"),
        ("mirrors", "0025_run_verification"),
        ("mirrors", "0026_drill_verification"),
        ("mirrors", "0027_start_refusal"),
        ("mirrors", "0028_left_behind"),
        ("mirrors", "0029_counted_loss"),
        ("mirrors", "0030_cluster_warnings"),
        ("mirrors", "0031_offset_bounds"),
        ("mirrors", "0032_account"),
        ("mirrors", "0033_account_lower_bounds"),
        ("mirrors", "0034_runner_degraded"),
        ("mirrors", "0035_source_topic_ids"),
        ("mirrors", "0036_orphan_certainty"),
        ("mirrors", "0037_lacking_rights"),
        ("mirrors", "0038_run_certificates"),
        ("mirrors", "0039_swept_accounts"),
        ("mirrors", "0040_owed_before_the_account"),
        ("mirrors", "0041_counted_ranges"),
        ("mirrors", "0042_remote_topic_ids"),
        ("mirrors", "0043_flow_speed"),
        ("mirrors", "0044_forms_and_runners"),
        ("mirrors", "0045_group_lag"),
        ("mirrors", "0046_unknown_lags"),
        ("mirrors", "0047_failback_of_a_run"),
        ("mirrors", "0048_audit_entries"),
        ("mirrors", "0049_approvals"),
        ("mirrors", "0050_replicated_by_topic"),
        ("mirrors", "0051_token_scopes"),
        ("mirrors", "0052_hooks"),
        ("mirrors", "0053_person_settings"),
        ("mirrors", "0054_position_changes"),
        ("mirrors", "0055_scope_of_failovers"),
        ("mirrors", "0056_missed_heartbeats"),
        ("mirrors", "0057_topic_previews"),
        ("mirrors", "0058_topic_configs"),
        ("mirrors", "0059_latencies"),
        ("mirrors", "0060_sign_in"),
        ("mirrors", "0061_recovery_codes"),
        ("mirrors", "0062_topic_rates"),
        ("mirrors", "0063_offset_ages"),
        ("mirrors", "0064_grants"),
        ("mirrors", "0065_application_orphans"),
        ("mirrors", "0066_host_leases"),
        ("mirrors", "0067_rule_previews"),
        ("mirrors", "0068_comparisons_in_runners"),
        ("mirrors", "0069_dead_letters"),
        ("mirrors", "0070_order_of_groups"),
        ("mirrors", "0071_spark_views"),
        ("mirrors", "0072_applied_documents"),
        ("mirrors", "0073_runner_moves"),
        ("mirrors", "0074_rule_starts"),
        ("mirrors", "0075_verified_ranges"),
        ("mirrors", "0076_partition_map_age"),
        ("mirrors", "0077_schemas"),
        ("mirrors", "0078_flow_packing"),
        ("mirrors", "0079_host_drains"),
        ("mirrors", "0080_routes"),
        ("mirrors", "0081_conflict_reports"),
    ]

    dependencies = [
        ("knox", "0009_extend_authtoken_field"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        mirrors.migrations._create_models.CreateModels(
            models=[
                migrations.CreateModel(
                    name="TokenFacts",
                    fields=[
                        (
                            "token",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                primary_key=True,
                                related_name="facts",
                                serialize=False,
                                to=settings.KNOX_TOKEN_MODEL,
                            ),
                        ),
                        ("name", models.CharField(blank=True, max_length=100)),
                        (
                            "scope",
                            models.CharField(
                                choices=[
                                    ("metrics", "Metrics"),
                                    ("read", "Read"),
                                    ("operate", "Operate"),
                                    ("everything", "Everything"),
                                ],
                                default="everything",
                                max_length=10,
                            ),
                        ),
                        ("last_used_at", models.DateTimeField(null=True)),
                        ("last_address", models.CharField(blank=True, max_length=45)),
                    ],
                ),
                migrations.CreateModel(
                    name="PersonSettings",
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
                            "user",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="person_settings",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("zone", models.CharField(default="UTC", max_length=64)),
                    ],
                ),
                migrations.CreateModel(
                    name="OidcAccount",
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
                            "user",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="oidc",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("issuer", models.CharField(max_length=300)),
                        ("subject", models.CharField(max_length=255)),
                        ("refresh_token", models.TextField()),
                        ("checked_at", models.DateTimeField()),
                        ("asked_at", models.DateTimeField()),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("issuer", "subject"), name="one account per subject"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="OneTimeCode",
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
                            "user",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="one_time_code",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("secret", models.TextField()),
                        ("confirmed_at", models.DateTimeField(null=True)),
                        ("last_step", models.BigIntegerField(default=0)),
                    ],
                ),
                migrations.CreateModel(
                    name="RecoveryCode",
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
                            "account",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="recovery_codes",
                                to="mirrors.onetimecode",
                            ),
                        ),
                        ("digest", models.CharField(max_length=64)),
                        ("used_at", models.DateTimeField(null=True)),
                    ],
                ),
                migrations.CreateModel(
                    name="FlowLabel",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="labels",
                                to="mirrors.flow",
                            ),
                        ),
                        ("name", models.CharField(max_length=63)),
                    ],
                    options={
                        "ordering": ("name",),
                        "indexes": [models.Index(fields=["name"], name="flows_of_label")],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "name"), name="one label of a name per flow"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SignInGroup",
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
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="sign_in_groups",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("name", models.CharField(max_length=255)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("user", "name"), name="one row per person and group"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AccessGrant",
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
                            "user",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="grants",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                        ("group", models.CharField(blank=True, max_length=255)),
                        (
                            "role",
                            models.CharField(
                                choices=[
                                    ("viewer", "viewer"),
                                    ("operator", "operator"),
                                    ("editor", "editor"),
                                    ("approver", "approver"),
                                    ("auditor", "auditor"),
                                    ("admin", "admin"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "scope",
                            models.CharField(
                                choices=[
                                    ("everything", "everything"),
                                    ("cluster", "cluster"),
                                    ("flow", "flow"),
                                    ("label", "label"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "cluster",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="grants",
                                to="mirrors.cluster",
                            ),
                        ),
                        (
                            "flow",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="grants",
                                to="mirrors.flow",
                            ),
                        ),
                        ("label", models.CharField(blank=True, max_length=63)),
                        ("created_by", models.CharField(max_length=150)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                    ],
                    options={
                        "ordering": ("id",),
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("group", ""), ("user__isnull", False)),
                                    models.Q(
                                        ("user", None), models.Q(("group", ""), _negated=True)
                                    ),
                                    _connector="OR",
                                ),
                                name="a grant is for a person or for a group",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(
                                        ("cluster", None),
                                        ("flow", None),
                                        ("label", ""),
                                        ("scope", "everything"),
                                    ),
                                    models.Q(
                                        ("cluster__isnull", False),
                                        ("flow", None),
                                        ("label", ""),
                                        ("scope", "cluster"),
                                    ),
                                    models.Q(
                                        ("cluster", None),
                                        ("flow__isnull", False),
                                        ("label", ""),
                                        ("scope", "flow"),
                                    ),
                                    models.Q(
                                        ("cluster", None),
                                        ("flow", None),
                                        ("scope", "label"),
                                        models.Q(("label", ""), _negated=True),
                                    ),
                                    _connector="OR",
                                ),
                                name="a grant has the part of its scope",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Cluster",
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
                        ("alias", models.CharField(max_length=100, unique=True)),
                        ("bootstrap_servers", models.TextField()),
                        (
                            "security_protocol",
                            models.CharField(
                                choices=[
                                    ("PLAINTEXT", "Plaintext"),
                                    ("SSL", "Ssl"),
                                    ("SASL_PLAINTEXT", "Sasl Plaintext"),
                                    ("SASL_SSL", "Sasl Ssl"),
                                ],
                                default="PLAINTEXT",
                                max_length=16,
                            ),
                        ),
                        (
                            "sasl_mechanism",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("PLAIN", "Plain"),
                                    ("SCRAM-SHA-256", "Scram Sha 256"),
                                    ("SCRAM-SHA-512", "Scram Sha 512"),
                                    ("OAUTHBEARER", "Oauthbearer"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("sasl_username", models.CharField(blank=True, max_length=255)),
                        ("sasl_password", models.CharField(blank=True, max_length=500)),
                        ("ssl_ca", models.CharField(blank=True, max_length=500)),
                        ("ssl_certificate", models.CharField(blank=True, max_length=500)),
                        ("ssl_key", models.CharField(blank=True, max_length=500)),
                        ("properties", models.JSONField(blank=True, default=dict)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("updated_at", models.DateTimeField(auto_now=True)),
                        ("cluster_id", models.TextField(blank=True)),
                        ("brokers", models.PositiveIntegerField(null=True)),
                        ("reachable", models.BooleanField(null=True)),
                        ("reason", models.TextField(blank=True)),
                        ("warnings", models.JSONField(blank=True, default=list)),
                        ("checked_at", models.DateTimeField(null=True)),
                        ("reached_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ("alias",),
                    },
                ),
                migrations.CreateModel(
                    name="ClusterTest",
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
                        ("reason", models.TextField(blank=True)),
                        ("requested_by", models.CharField(max_length=150)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        (
                            "cluster",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="tests",
                                to="mirrors.cluster",
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("queued", "Queued"),
                                    ("running", "Running"),
                                    ("succeeded", "Succeeded"),
                                    ("failed", "Failed"),
                                ],
                                default="queued",
                                max_length=16,
                            ),
                        ),
                        ("result", models.JSONField(default=dict)),
                        ("started_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "indexes": [
                            models.Index(
                                fields=["requested_by", "created_at"], name="tests_of_person"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TopicPreview",
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
                        ("properties", models.JSONField(default=dict)),
                        ("typed", models.JSONField(default=dict)),
                        ("selected", models.PositiveIntegerField(null=True)),
                        ("excluded", models.PositiveIntegerField(null=True)),
                        ("rows", models.JSONField(default=list)),
                        ("missing", models.JSONField(default=list)),
                    ],
                    options={
                        "ordering": ("-id",),
                    },
                ),
                migrations.CreateModel(
                    name="Runner",
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
                        ("master", models.CharField(max_length=255)),
                        ("slots", models.PositiveIntegerField()),
                        ("host", models.CharField(blank=True, max_length=255)),
                        ("failover_hosts", models.CharField(blank=True, max_length=1000)),
                        ("is_leased", models.BooleanField(default=False)),
                        ("moved_at", models.DateTimeField(null=True)),
                        ("moved_from", models.CharField(blank=True, max_length=255)),
                        ("move_reason", models.TextField(blank=True)),
                        ("move_to", models.CharField(blank=True, max_length=255)),
                        ("move_requested_by", models.CharField(blank=True, max_length=150)),
                        ("move_requested_at", models.DateTimeField(null=True)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("absent", "Absent"),
                                    ("starting", "Starting"),
                                    ("ready", "Ready"),
                                    ("degraded", "Degraded"),
                                    ("stopping", "Stopping"),
                                    ("lost", "Lost"),
                                ],
                                default="absent",
                                max_length=16,
                            ),
                        ),
                        ("reason", models.TextField(blank=True)),
                        ("since", models.DateTimeField(default=django.utils.timezone.now)),
                        ("pid", models.PositiveIntegerField(null=True)),
                        ("start_tick", models.BigIntegerField(null=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("seen_at", models.DateTimeField(null=True)),
                        ("failed_starts", models.PositiveIntegerField(default=0)),
                        ("slots_used", models.PositiveIntegerField(null=True)),
                        ("rss_bytes", models.BigIntegerField(null=True)),
                        ("memory", models.JSONField(blank=True, default=dict)),
                        ("application_id", models.CharField(blank=True, max_length=255)),
                        ("spark_ui", models.BooleanField(default=False)),
                        ("event_log", models.CharField(blank=True, max_length=500)),
                        ("spark_ui_url", models.CharField(blank=True, max_length=300)),
                        ("spark_warnings", models.JSONField(blank=True, default=list)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("retired_at", models.DateTimeField(null=True)),
                        ("retired_by", models.CharField(blank=True, max_length=150)),
                    ],
                    options={
                        "ordering": ("name",),
                    },
                ),
                migrations.CreateModel(
                    name="Host",
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
                        ("name", models.CharField(max_length=255, unique=True)),
                        ("renewed_at", models.DateTimeField()),
                        ("held_since", models.DateTimeField()),
                        ("draining_since", models.DateTimeField(null=True)),
                        (
                            "draining_by",
                            models.CharField(blank=True, db_default="", default="", max_length=150),
                        ),
                    ],
                    options={
                        "ordering": ("name",),
                    },
                ),
                migrations.CreateModel(
                    name="RunnerLog",
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
                            "runner",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="log",
                                to="mirrors.runner",
                            ),
                        ),
                        ("lines", models.JSONField(default=list)),
                        ("mark", models.CharField(max_length=100)),
                        ("written_at", models.DateTimeField()),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="Sighting",
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
                        ("name", models.CharField(max_length=255, unique=True)),
                        ("kind", models.CharField(max_length=32)),
                        ("host", models.CharField(max_length=255)),
                        ("pid", models.PositiveIntegerField()),
                        ("seen_at", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("name",),
                    },
                ),
                migrations.CreateModel(
                    name="Flow",
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
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="flows_out",
                                to="mirrors.cluster",
                            ),
                        ),
                        (
                            "target",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="flows_in",
                                to="mirrors.cluster",
                            ),
                        ),
                        (
                            "runner",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="flows",
                                to="mirrors.runner",
                            ),
                        ),
                        ("properties", models.JSONField(blank=True, default=dict)),
                        (
                            "desired_state",
                            models.CharField(
                                choices=[
                                    ("running", "Running"),
                                    ("paused", "Paused"),
                                    ("stopped", "Stopped"),
                                ],
                                default="stopped",
                                max_length=16,
                            ),
                        ),
                        (
                            "observed_state",
                            models.CharField(
                                choices=[
                                    ("draft", "Draft"),
                                    ("starting", "Starting"),
                                    ("running", "Running"),
                                    ("degraded", "Degraded"),
                                    ("backing_off", "Backing Off"),
                                    ("paused", "Paused"),
                                    ("stopped", "Stopped"),
                                    ("failed", "Failed"),
                                    ("failed_over", "Failed Over"),
                                ],
                                default="draft",
                                max_length=16,
                            ),
                        ),
                        ("reason", models.TextField(blank=True)),
                        ("since", models.DateTimeField(default=django.utils.timezone.now)),
                        ("generation", models.PositiveIntegerField(default=1)),
                        ("rules_known", models.PositiveIntegerField(default=0)),
                        ("compared_since", models.DateTimeField(null=True)),
                        ("restarts", models.PositiveIntegerField(default=0)),
                        ("attempt", models.PositiveIntegerField(default=0)),
                        ("forgiven_at", models.DateTimeField(null=True)),
                        ("retry_at", models.DateTimeField(null=True)),
                        ("accepts_other_writers", models.BooleanField(default=False)),
                        ("warnings", models.JSONField(blank=True, default=list)),
                        ("speed", models.JSONField(blank=True, default=dict)),
                        ("packing", models.JSONField(null=True)),
                        ("as_of", models.DateTimeField(null=True)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                    ],
                    options={
                        "ordering": ("id",),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("source", "target"), name="one_flow_per_pair"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("source", models.F("target")), _negated=True),
                                name="source_is_not_target",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Job",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="jobs",
                                to="mirrors.flow",
                            ),
                        ),
                        (
                            "runner",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="jobs",
                                to="mirrors.runner",
                            ),
                        ),
                        ("generation", models.PositiveIntegerField()),
                        ("attempt", models.PositiveIntegerField()),
                        ("restarts", models.PositiveIntegerField(default=0)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("starting", "Starting"),
                                    ("running", "Running"),
                                    ("degraded", "Degraded"),
                                    ("paused", "Paused"),
                                    ("stopped", "Stopped"),
                                    ("failed", "Failed"),
                                    ("lost", "Lost"),
                                ],
                                default="starting",
                                max_length=16,
                            ),
                        ),
                        ("reason", models.TextField(blank=True)),
                        ("error", models.TextField(blank=True)),
                        ("refusal", models.CharField(blank=True, default="", max_length=32)),
                        ("since", models.DateTimeField(default=django.utils.timezone.now)),
                        ("started_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("as_of", models.DateTimeField(null=True)),
                        ("records", models.BigIntegerField(default=0)),
                        ("bytes", models.BigIntegerField(default=0)),
                        ("lanes", models.JSONField(blank=True, default=list)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=("flow",),
                                name="one_open_job_per_flow",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="FlowTopic",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="topics",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("remote_topic", models.TextField(null=True)),
                        ("state", models.CharField(max_length=16)),
                        ("reason", models.TextField(blank=True)),
                        ("partitions", models.PositiveIntegerField()),
                        ("code", models.CharField(blank=True, default="", max_length=32)),
                        (
                            "source_topic_id",
                            models.CharField(blank=True, default="", max_length=64),
                        ),
                        (
                            "remote_topic_id",
                            models.CharField(blank=True, default="", max_length=64),
                        ),
                        ("offset_lag", models.BigIntegerField(null=True)),
                        ("time_lag_ms", models.BigIntegerField(null=True)),
                        ("unknown_lags", models.PositiveIntegerField(db_default=0, default=0)),
                        ("owed", models.BigIntegerField(default=0)),
                        ("least", models.BigIntegerField(default=0)),
                        ("unknown_partitions", models.PositiveIntegerField(default=0)),
                        ("certainty", models.CharField(default="counted", max_length=16)),
                        ("states", models.JSONField(default=dict)),
                        ("account_state", models.CharField(default="in_step", max_length=24)),
                        ("records", models.BigIntegerField(db_default=0, default=0)),
                        ("bytes", models.BigIntegerField(db_default=0, default=0)),
                        ("job", models.BigIntegerField(null=True)),
                        ("job_records", models.BigIntegerField(db_default=0, default=0)),
                        ("job_bytes", models.BigIntegerField(db_default=0, default=0)),
                        ("sampled_records", models.BigIntegerField(db_default=0, default=0)),
                        ("sampled_bytes", models.BigIntegerField(db_default=0, default=0)),
                        ("sampled_at", models.DateTimeField(null=True)),
                        ("records_per_second", models.FloatField(null=True)),
                        ("bytes_per_second", models.FloatField(null=True)),
                        ("latency", models.JSONField(null=True)),
                        ("observed_at", models.DateTimeField(null=True)),
                        ("as_of", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("topic",),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "topic"), name="one_row_per_topic"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="FlowPartition",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="partitions",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("partition", models.PositiveIntegerField()),
                        ("remote_topic", models.CharField(max_length=255)),
                        ("state", models.CharField(max_length=16)),
                        ("reason", models.TextField(blank=True)),
                        ("position", models.BigIntegerField(null=True)),
                        ("source_end", models.BigIntegerField(null=True)),
                        ("source_stable_end", models.BigIntegerField(null=True)),
                        ("source_first", models.BigIntegerField(null=True)),
                        ("offset_lag", models.BigIntegerField(null=True)),
                        ("time_lag_ms", models.BigIntegerField(null=True)),
                        ("certainty", models.CharField(default="at_most", max_length=16)),
                        ("account_state", models.CharField(default="in_step", max_length=24)),
                        ("code", models.CharField(blank=True, default="", max_length=32)),
                        ("least", models.BigIntegerField(default=0)),
                        ("counted", models.JSONField(null=True)),
                        ("lane", models.CharField(blank=True, max_length=16)),
                        ("repeats", models.BigIntegerField(null=True)),
                        ("dead_letters", models.BigIntegerField(null=True)),
                        ("dead_letter_at", models.DateTimeField(null=True)),
                        ("why", models.TextField(blank=True, default="")),
                        ("records", models.BigIntegerField(db_default=0, default=0)),
                        ("bytes", models.BigIntegerField(db_default=0, default=0)),
                        ("latency", models.JSONField(null=True)),
                        ("as_of", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("topic", "partition"),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "topic", "partition"), name="one_row_per_partition"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SettingChange",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="setting_changes",
                                to="mirrors.flow",
                            ),
                        ),
                        ("generation", models.PositiveIntegerField()),
                        ("when", models.DateTimeField(default=django.utils.timezone.now)),
                        ("who", models.CharField(max_length=150)),
                        ("key", models.CharField(max_length=255)),
                        ("before", models.TextField(null=True)),
                        ("after", models.TextField(null=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "indexes": [
                            models.Index(fields=["flow", "-id"], name="setting_changes_of")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RuleWaiver",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="waivers",
                                to="mirrors.flow",
                            ),
                        ),
                        ("requested_by", models.CharField(max_length=150)),
                        ("why", models.CharField(max_length=500)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("decided_by", models.CharField(blank=True, default="", max_length=150)),
                        ("decided_at", models.DateTimeField(null=True)),
                        ("approved", models.BooleanField(null=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                    },
                ),
                migrations.CreateModel(
                    name="FlowAccount",
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
                                related_name="account",
                                to="mirrors.flow",
                            ),
                        ),
                        ("revision", models.PositiveBigIntegerField(default=0)),
                        ("as_of", models.DateTimeField()),
                        ("is_swept", models.BooleanField(default=False)),
                        ("records", models.BigIntegerField(default=0)),
                        ("least", models.BigIntegerField(default=0)),
                        ("unknown", models.PositiveIntegerField(default=0)),
                        ("certainty", models.CharField(default="unknown", max_length=16)),
                        ("observed_at", models.DateTimeField(null=True)),
                        ("time_lag_ms", models.BigIntegerField(null=True)),
                        ("unknown_lags", models.PositiveIntegerField(db_default=0, default=0)),
                        ("partitions", models.PositiveIntegerField(default=0)),
                        ("states", models.JSONField(default=dict)),
                        ("unknown_topics", models.JSONField(default=list)),
                        ("topics_copied", models.PositiveIntegerField(default=0)),
                        ("topics_left_out", models.PositiveIntegerField(default=0)),
                        ("topics_blocked", models.PositiveIntegerField(default=0)),
                        ("worst_topic", models.CharField(blank=True, max_length=255)),
                        ("latency", models.JSONField(null=True)),
                        ("not_visible", models.TextField(blank=True)),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="AuditHead",
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
                        ("position", models.BigIntegerField(default=0)),
                        ("digest", models.CharField(max_length=64)),
                    ],
                ),
                migrations.CreateModel(
                    name="AuditAnchor",
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
                        ("position", models.BigIntegerField(unique=True)),
                        ("digest", models.CharField(max_length=64)),
                        ("at", models.CharField(max_length=40)),
                        ("fingerprint", models.CharField(max_length=64)),
                        ("signature", models.CharField(max_length=128)),
                    ],
                    options={
                        "ordering": ("-position",),
                    },
                ),
                migrations.CreateModel(
                    name="FailoverRun",
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
                        ("reason", models.TextField(blank=True)),
                        ("requested_by", models.CharField(max_length=150)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("since", models.DateTimeField(default=django.utils.timezone.now)),
                        ("why", models.CharField(blank=True, max_length=500)),
                        ("seen_at", models.DateTimeField(null=True)),
                        (
                            "flow",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="failovers",
                                to="mirrors.flow",
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("simulation", "Simulation"),
                                    ("switchover", "Switchover"),
                                    ("failover", "Failover"),
                                    ("failback", "Failback"),
                                ],
                                max_length=16,
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("queued", "Queued"),
                                    ("running", "Running"),
                                    ("waiting", "Waiting"),
                                    ("succeeded", "Succeeded"),
                                    ("failed", "Failed"),
                                    ("aborted", "Aborted"),
                                ],
                                default="queued",
                                max_length=16,
                            ),
                        ),
                        (
                            "verification",
                            models.CharField(
                                choices=[
                                    ("verified", "Verified"),
                                    ("partly_verified", "Partly Verified"),
                                    ("not_verified", "Not Verified"),
                                    ("none", "None"),
                                ],
                                default="none",
                                max_length=16,
                            ),
                        ),
                        ("verification_reason", models.TextField(blank=True, default="")),
                        ("groups", models.JSONField(default=list)),
                        ("scope", models.JSONField(blank=True, default=dict)),
                        ("mark", models.CharField(max_length=16)),
                        ("abort_asked_by", models.CharField(blank=True, max_length=150)),
                        ("progress", models.JSONField(default=dict)),
                        ("plan", models.JSONField(null=True)),
                        ("result", models.JSONField(null=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("swept_at", models.DateTimeField(null=True)),
                        (
                            "simulation",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="executions",
                                to="mirrors.failoverrun",
                            ),
                        ),
                        (
                            "failback",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="switches",
                                to="mirrors.failback",
                            ),
                        ),
                        ("switch_refused", models.TextField(blank=True, db_default="", default="")),
                        ("hooks", models.JSONField(default=dict)),
                        ("holder", models.CharField(blank=True, default="", max_length=32)),
                        ("next_at", models.DateTimeField(null=True)),
                        (
                            "waits_for",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("approval", "Approval"),
                                    ("pause", "Pause"),
                                    ("person", "Person"),
                                    ("trouble", "Trouble"),
                                ],
                                default="",
                                max_length=16,
                            ),
                        ),
                        ("approved_by", models.CharField(blank=True, default="", max_length=150)),
                        (
                            "pause_asked_by",
                            models.CharField(blank=True, default="", max_length=150),
                        ),
                        ("lacking", models.JSONField(null=True)),
                        ("counted", models.JSONField(null=True)),
                        ("counted_rows", models.JSONField(default=dict)),
                        ("counted_at", models.DateTimeField(null=True)),
                        ("count_due_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=("flow",),
                                name="one_open_run_per_flow",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Hook",
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
                        ("name", models.CharField(max_length=64, unique=True)),
                        ("url", models.CharField(max_length=2000)),
                        ("headers", models.CharField(blank=True, default="", max_length=2000)),
                        ("secret", models.CharField(blank=True, default="", max_length=500)),
                        ("changed_by", models.CharField(max_length=150)),
                        ("changed_at", models.DateTimeField(auto_now=True)),
                    ],
                    options={
                        "ordering": ("name",),
                    },
                ),
                migrations.CreateModel(
                    name="FailoverStep",
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
                            "run",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="steps",
                                to="mirrors.failoverrun",
                            ),
                        ),
                        ("number", models.PositiveSmallIntegerField()),
                        ("name", models.CharField(max_length=32)),
                        ("does", models.CharField(max_length=200)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("pending", "Pending"),
                                    ("running", "Running"),
                                    ("waiting", "Waiting"),
                                    ("succeeded", "Succeeded"),
                                    ("failed", "Failed"),
                                    ("skipped", "Skipped"),
                                ],
                                default="pending",
                                max_length=16,
                            ),
                        ),
                        ("reason", models.TextField(blank=True)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("attempt", models.PositiveSmallIntegerField(default=0)),
                        ("acting_at", models.DateTimeField(null=True)),
                        ("acted_at", models.DateTimeField(null=True)),
                        ("due_at", models.DateTimeField(null=True)),
                        ("result", models.JSONField(default=dict)),
                        ("command", models.TextField(blank=True, default="")),
                        ("confirmed_by", models.CharField(blank=True, default="", max_length=150)),
                        ("undone_at", models.DateTimeField(null=True)),
                        ("undo_tries", models.PositiveSmallIntegerField(default=0)),
                        ("undo_reason", models.TextField(blank=True, default="")),
                    ],
                    options={
                        "ordering": ("number",),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("run", "number"), name="one_step_per_number"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="LeftBehind",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="left_behind",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("partition", models.IntegerField(default=-1)),
                        ("reason", models.CharField(max_length=500)),
                        ("decided_by", models.CharField(max_length=150)),
                        ("decided_at", models.DateTimeField()),
                        ("withdrawn_by", models.CharField(blank=True, default="", max_length=150)),
                        ("withdrawn_at", models.DateTimeField(null=True)),
                        ("withdrawn_why", models.CharField(blank=True, default="", max_length=500)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("withdrawn_at__isnull", True)),
                                fields=("flow", "topic", "partition"),
                                name="one_decision_to_leave_behind",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Transition",
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
                        ("subject", models.CharField(max_length=32)),
                        ("subject_id", models.BigIntegerField()),
                        ("field", models.CharField(max_length=32)),
                        ("name", models.CharField(max_length=255)),
                        ("who", models.CharField(max_length=150)),
                        ("when", models.DateTimeField()),
                        ("from_state", models.CharField(blank=True, max_length=32)),
                        ("to_state", models.CharField(max_length=32)),
                        ("why", models.TextField(blank=True)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("person", "person"),
                                    ("token", "token"),
                                    ("process", "process"),
                                ],
                                db_default=mirrors.domain.audit.actors.ActorKind["PERSON"],
                                default=mirrors.domain.audit.actors.ActorKind["PERSON"],
                                max_length=8,
                            ),
                        ),
                        (
                            "result",
                            models.CharField(
                                choices=[("done", "Done"), ("refused", "Refused")],
                                db_default="done",
                                default="done",
                                max_length=8,
                            ),
                        ),
                        (
                            "reference",
                            models.CharField(blank=True, db_default="", default="", max_length=64),
                        ),
                        (
                            "address",
                            models.CharField(blank=True, db_default="", default="", max_length=45),
                        ),
                        ("detail", models.JSONField(null=True)),
                        ("position", models.BigIntegerField(null=True, unique=True)),
                        (
                            "digest",
                            models.CharField(blank=True, db_default="", default="", max_length=64),
                        ),
                    ],
                    options={
                        "ordering": ("-id",),
                        "indexes": [
                            models.Index(
                                fields=["subject", "subject_id", "-id"], name="transition_of"
                            ),
                            models.Index(
                                condition=models.Q(("position__isnull", True)),
                                fields=["id"],
                                name="transition_not_sealed",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Comparison",
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
                        ("reason", models.TextField(blank=True)),
                        ("requested_by", models.CharField(max_length=150)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("since", models.DateTimeField(default=django.utils.timezone.now)),
                        ("why", models.CharField(blank=True, max_length=500)),
                        ("seen_at", models.DateTimeField(null=True)),
                        (
                            "flow",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="comparisons",
                                to="mirrors.flow",
                            ),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("queued", "Queued"),
                                    ("running", "Running"),
                                    ("succeeded", "Succeeded"),
                                    ("failed", "Failed"),
                                    ("aborted", "Aborted"),
                                ],
                                default="queued",
                                max_length=16,
                            ),
                        ),
                        (
                            "verdict",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("same", "Same"),
                                    ("partly", "Partly"),
                                    ("differs", "Differs"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("topics", models.JSONField(default=list)),
                        ("content", models.BooleanField(default=True)),
                        ("records", models.BigIntegerField(null=True)),
                        ("seconds", models.PositiveIntegerField()),
                        ("megabytes", models.PositiveIntegerField()),
                        ("is_incremental", models.BooleanField(default=False)),
                        ("megabytes_per_second", models.PositiveIntegerField(null=True)),
                        (
                            "engine",
                            models.CharField(
                                blank=True,
                                choices=[("spark", "Spark"), ("worker", "Worker")],
                                max_length=16,
                            ),
                        ),
                        ("engine_reason", models.TextField(blank=True)),
                        ("request", models.PositiveIntegerField(default=0)),
                        ("answered_at", models.DateTimeField(null=True)),
                        ("abort_asked_by", models.CharField(blank=True, max_length=150)),
                        ("progress", models.JSONField(default=dict)),
                        ("summary", models.JSONField(null=True)),
                        ("spent_ms", models.BigIntegerField(default=0)),
                        ("read_bytes", models.BigIntegerField(default=0)),
                        ("turn", models.PositiveIntegerField(default=0)),
                        ("rests", models.BooleanField(default=False)),
                        ("lost", models.PositiveSmallIntegerField(default=0)),
                        ("started_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=("flow",),
                                name="one_open_comparison_per_flow",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ComparisonPart",
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
                            "comparison",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="parts",
                                to="mirrors.comparison",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("partition", models.PositiveIntegerField()),
                        ("remote_topic", models.CharField(max_length=255)),
                        (
                            "verdict",
                            models.CharField(
                                choices=[
                                    ("waiting", "Waiting"),
                                    ("same", "Same"),
                                    ("differs", "Differs"),
                                    ("partly", "Partly"),
                                    ("unread", "Unread"),
                                ],
                                default="waiting",
                                max_length=16,
                            ),
                        ),
                        ("reason", models.TextField(blank=True)),
                        ("compacted", models.BooleanField(default=False)),
                        ("rule", models.PositiveSmallIntegerField(null=True)),
                        ("keeps_time", models.BooleanField(default=True)),
                        ("source_first", models.BigIntegerField(null=True)),
                        ("source_end", models.BigIntegerField(null=True)),
                        ("target_first", models.BigIntegerField(null=True)),
                        ("target_end", models.BigIntegerField(null=True)),
                        ("next", models.BigIntegerField(null=True)),
                        ("source_records", models.BigIntegerField(default=0)),
                        ("target_records", models.BigIntegerField(default=0)),
                        ("differences", models.PositiveIntegerField(default=0)),
                        ("explained", models.PositiveIntegerField(default=0)),
                        ("unread", models.BigIntegerField(default=0)),
                        ("source_digest", models.CharField(blank=True, max_length=32)),
                        ("target_digest", models.CharField(blank=True, max_length=32)),
                    ],
                    options={
                        "ordering": ("topic", "partition"),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("comparison", "topic", "partition"),
                                name="one_part_per_partition",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ComparisonFinding",
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
                            "comparison",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="findings",
                                to="mirrors.comparison",
                            ),
                        ),
                        ("about", models.CharField(max_length=16)),
                        ("kind", models.CharField(max_length=16)),
                        ("weight", models.CharField(max_length=16)),
                        ("name", models.TextField()),
                        ("partition", models.PositiveIntegerField(null=True)),
                        ("source_offset", models.BigIntegerField(null=True)),
                        ("target_offset", models.BigIntegerField(null=True)),
                        ("sentence", models.TextField()),
                    ],
                    options={
                        "ordering": ("id",),
                    },
                ),
                migrations.CreateModel(
                    name="ConflictReport",
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
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="conflict_reports",
                                to="mirrors.flow",
                            ),
                        ),
                        (
                            "runner",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="+",
                                to="mirrors.runner",
                            ),
                        ),
                        ("window_seconds", models.PositiveIntegerField()),
                        ("period_seconds", models.PositiveIntegerField()),
                        ("topics", models.PositiveIntegerField(default=0)),
                        ("as_of", models.DateTimeField(null=True)),
                        ("handed_at", models.DateTimeField(null=True)),
                        ("keys", models.BigIntegerField(null=True)),
                        ("differing", models.PositiveIntegerField(null=True)),
                        ("records", models.BigIntegerField(default=0)),
                        ("copies", models.BigIntegerField(default=0)),
                        ("limits", models.JSONField(default=list)),
                        ("sentence", models.TextField(blank=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                    },
                ),
                migrations.CreateModel(
                    name="ConflictKey",
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
                            "report",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="found",
                                to="mirrors.conflictreport",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("digest", models.CharField(max_length=32)),
                        ("text", models.TextField(blank=True)),
                        ("conflicts", models.BigIntegerField()),
                        ("agrees", models.BooleanField()),
                        ("source_partition", models.PositiveIntegerField()),
                        ("source_offset", models.BigIntegerField()),
                        ("source_at", models.DateTimeField(null=True)),
                        ("source_value", models.CharField(max_length=32)),
                        ("target_partition", models.PositiveIntegerField()),
                        ("target_offset", models.BigIntegerField()),
                        ("target_at", models.DateTimeField(null=True)),
                        ("target_value", models.CharField(max_length=32)),
                        ("source_last_offset", models.BigIntegerField()),
                        ("source_last_value", models.CharField(max_length=32)),
                        ("target_last_offset", models.BigIntegerField()),
                        ("target_last_value", models.CharField(max_length=32)),
                    ],
                    options={
                        "ordering": ("id",),
                    },
                ),
                migrations.CreateModel(
                    name="Drift",
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
                        ("decided_by", models.CharField(blank=True, max_length=150)),
                        ("decided_at", models.DateTimeField(null=True)),
                        ("decided_why", models.TextField(blank=True)),
                        (
                            "flow",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="drift",
                                to="mirrors.flow",
                            ),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("topic config", "Topic Config"),
                                    ("partitions", "Partitions"),
                                    ("deleted topic", "Deleted Topic"),
                                    ("acl", "Acl"),
                                    ("schema level", "Schema Level"),
                                    ("deleted schema", "Deleted Schema"),
                                    ("foreign schema", "Foreign Schema"),
                                ],
                                max_length=16,
                            ),
                        ),
                        ("name", models.TextField()),
                        ("key", models.TextField(blank=True)),
                        ("place", models.CharField(max_length=64)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("open", "Open"),
                                    ("accepted", "Accepted"),
                                    ("ignored", "Ignored"),
                                    ("fixing", "Fixing"),
                                    ("fixed", "Fixed"),
                                    ("closed", "Closed"),
                                ],
                                default="open",
                                max_length=16,
                            ),
                        ),
                        ("expected", models.TextField(null=True)),
                        ("found", models.TextField(null=True)),
                        ("wanted", models.TextField(null=True)),
                        ("reason", models.TextField(blank=True)),
                        ("opened_at", models.DateTimeField()),
                        ("seen_at", models.DateTimeField()),
                        ("closed_at", models.DateTimeField(null=True)),
                        ("closed_why", models.TextField(blank=True)),
                        ("expires_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("closed_at__isnull", True)),
                                fields=("flow", "place"),
                                name="one_drift_per_place",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="TopicBaseline",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="baselines",
                                to="mirrors.flow",
                            ),
                        ),
                        ("remote_topic", models.CharField(max_length=255)),
                        ("topic_id", models.CharField(blank=True, max_length=64)),
                        ("partitions", models.PositiveIntegerField()),
                        ("configs", models.JSONField(default=dict)),
                    ],
                    options={
                        "ordering": ("remote_topic",),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "remote_topic"),
                                name="one_baseline_per_remote_topic",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="CarriedAcl",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="carried_acls",
                                to="mirrors.flow",
                            ),
                        ),
                        ("rule", models.JSONField()),
                        ("digest", models.CharField(max_length=64)),
                        ("made_at", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("pk",),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "digest"), name="one_row_per_carried_acl"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="AclPreview",
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
                                related_name="acl_preview",
                                to="mirrors.flow",
                            ),
                        ),
                        ("shape", models.JSONField()),
                        ("digest", models.CharField(max_length=64)),
                        ("who", models.CharField(max_length=150)),
                        ("at", models.DateTimeField()),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="TopicConfigs",
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
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="topic_configs",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("rows", models.JSONField(default=list)),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "topic"), name="one_config_reading_a_topic"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RulePreview",
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
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rule_previews",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("count", models.PositiveSmallIntegerField()),
                        ("rules", models.TextField()),
                        ("is_edited", models.BooleanField()),
                        ("as_of", models.DateTimeField(null=True)),
                        ("request", models.BinaryField(null=True)),
                        ("handed_at", models.DateTimeField(null=True)),
                        ("result", models.BinaryField(null=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                    },
                ),
                migrations.CreateModel(
                    name="AppliedDocument",
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
                migrations.CreateModel(
                    name="FlowObjectives",
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
                                related_name="objectives",
                                to="mirrors.flow",
                            ),
                        ),
                        ("rpo_seconds", models.PositiveBigIntegerField(null=True)),
                        ("rpo_records", models.PositiveBigIntegerField(null=True)),
                        ("rto_seconds", models.PositiveBigIntegerField(null=True)),
                        ("set_by", models.CharField(max_length=150)),
                        ("set_at", models.DateTimeField(default=django.utils.timezone.now)),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="Drill",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="drills",
                                to="mirrors.flow",
                            ),
                        ),
                        ("schedule", models.CharField(max_length=100)),
                        ("time_zone", models.CharField(default="UTC", max_length=64)),
                        ("groups", models.JSONField(default=list)),
                        ("enabled", models.BooleanField(default=True)),
                        ("since", models.DateTimeField(default=django.utils.timezone.now)),
                        ("changed_by", models.CharField(max_length=150)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                    ],
                    options={
                        "ordering": ("pk",),
                    },
                ),
                migrations.CreateModel(
                    name="DrillRun",
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
                        ("reason", models.TextField(blank=True)),
                        ("requested_by", models.CharField(max_length=150)),
                        ("ended_at", models.DateTimeField(null=True)),
                        (
                            "drill",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="runs",
                                to="mirrors.drill",
                            ),
                        ),
                        (
                            "flow",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="drill_runs",
                                to="mirrors.flow",
                            ),
                        ),
                        ("flow_name", models.CharField(max_length=255)),
                        ("slot", models.BigIntegerField(null=True)),
                        ("schedule", models.CharField(blank=True, max_length=200)),
                        ("groups", models.JSONField(default=list)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("queued", "Queued"),
                                    ("running", "Running"),
                                    ("passed", "Passed"),
                                    ("no_objectives", "No Objectives"),
                                    ("failed", "Failed"),
                                ],
                                default="queued",
                                max_length=16,
                            ),
                        ),
                        (
                            "verification",
                            models.CharField(
                                choices=[
                                    ("verified", "Verified"),
                                    ("partly_verified", "Partly Verified"),
                                    ("not_verified", "Not Verified"),
                                    ("none", "None"),
                                ],
                                default="none",
                                max_length=16,
                            ),
                        ),
                        ("verification_reason", models.TextField(blank=True, default="")),
                        (
                            "run",
                            models.OneToOneField(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="drill_run",
                                to="mirrors.failoverrun",
                            ),
                        ),
                        ("objectives", models.JSONField(default=dict)),
                        ("figures", models.JSONField(default=dict)),
                        ("measured", models.JSONField(null=True)),
                        ("verdict", models.JSONField(null=True)),
                        ("uncertified", models.TextField(blank=True)),
                        ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                        ("started_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "indexes": [
                            models.Index(fields=["flow", "-ended_at"], name="drills_of_flow")
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("drill", "slot"), name="one_drill_run_per_slot"
                            ),
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=("flow",),
                                name="one_open_drill_per_flow",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="SigningKey",
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
                        ("fingerprint", models.CharField(max_length=64, unique=True)),
                        ("public_key", models.CharField(max_length=64)),
                        ("host", models.CharField(max_length=255)),
                        ("first_used_at", models.DateTimeField(default=django.utils.timezone.now)),
                    ],
                    options={
                        "ordering": ("pk",),
                    },
                ),
                migrations.CreateModel(
                    name="Certificate",
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
                        ("number", models.CharField(max_length=32, unique=True)),
                        (
                            "drill_run",
                            models.OneToOneField(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="certificate",
                                to="mirrors.drillrun",
                            ),
                        ),
                        (
                            "failover",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="certificates",
                                to="mirrors.failoverrun",
                            ),
                        ),
                        (
                            "supplements",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="supplemented_by",
                                to="mirrors.certificate",
                            ),
                        ),
                        (
                            "flow",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="certificates",
                                to="mirrors.flow",
                            ),
                        ),
                        ("flow_name", models.CharField(max_length=255)),
                        ("passed", models.BooleanField()),
                        ("text", models.TextField()),
                        ("issued_at", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("-id",),
                    },
                ),
                migrations.CreateModel(
                    name="Divergence",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="divergences",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("partition", models.PositiveIntegerField()),
                        ("remote_topic", models.CharField(max_length=255)),
                        ("position", models.BigIntegerField()),
                        ("downstream", models.BigIntegerField()),
                        ("end", models.BigIntegerField()),
                        ("how", models.CharField(max_length=8)),
                        ("source_cluster", models.TextField(blank=True)),
                        ("source_topic_id", models.CharField(blank=True, max_length=64)),
                        ("target_cluster", models.TextField(blank=True)),
                        ("target_topic_id", models.CharField(blank=True, max_length=64)),
                        ("resets", models.PositiveIntegerField(default=0)),
                        ("mark", models.CharField(max_length=64)),
                        ("kept_at", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("topic", "partition"),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "topic", "partition"),
                                name="one_divergence_per_partition",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Failback",
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
                        ("reason", models.TextField(blank=True)),
                        ("requested_by", models.CharField(max_length=150)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        ("ended_at", models.DateTimeField(null=True)),
                        ("since", models.DateTimeField(default=django.utils.timezone.now)),
                        ("why", models.CharField(blank=True, max_length=500)),
                        ("seen_at", models.DateTimeField(null=True)),
                        (
                            "flow",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="failbacks",
                                to="mirrors.flow",
                            ),
                        ),
                        (
                            "reverse",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="brings_back",
                                to="mirrors.flow",
                            ),
                        ),
                        (
                            "failover",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.SET_NULL,
                                related_name="orphan_lists",
                                to="mirrors.failoverrun",
                            ),
                        ),
                        ("scope", models.JSONField(blank=True, default=dict)),
                        (
                            "flow_was",
                            models.CharField(blank=True, db_default="", default="", max_length=16),
                        ),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("queued", "Queued"),
                                    ("preparing", "Preparing"),
                                    ("running", "Running"),
                                    ("succeeded", "Succeeded"),
                                    ("failed", "Failed"),
                                    ("aborted", "Aborted"),
                                ],
                                default="queued",
                                max_length=16,
                            ),
                        ),
                        ("starts", models.JSONField(default=list)),
                        ("changes", models.JSONField(default=list)),
                        ("groups", models.JSONField(default=list)),
                        ("groups_at", models.DateTimeField(null=True)),
                        ("listed_at", models.DateTimeField(null=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("ended_at__isnull", True)),
                                fields=("flow",),
                                name="one_open_failback_per_flow",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="OrphanStretch",
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
                        ("decided_by", models.CharField(blank=True, max_length=150)),
                        ("decided_at", models.DateTimeField(null=True)),
                        (
                            "failback",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="orphans",
                                to="mirrors.failback",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("partition", models.PositiveIntegerField()),
                        ("remote_topic", models.CharField(max_length=255)),
                        ("first", models.BigIntegerField()),
                        ("end", models.BigIntegerField()),
                        ("gone", models.BigIntegerField(default=0)),
                        ("records", models.BigIntegerField(default=0)),
                        ("certainty", models.CharField(default="counted", max_length=16)),
                        ("kept", models.BigIntegerField(default=0)),
                        ("bytes", models.BigIntegerField(default=0)),
                        ("settled_to", models.BigIntegerField()),
                        ("replayed", models.BigIntegerField(default=0)),
                        (
                            "state",
                            models.CharField(
                                choices=[
                                    ("listed", "Listed"),
                                    ("decided", "Decided"),
                                    ("replayed", "Replayed"),
                                    ("exported", "Exported"),
                                    ("dropped", "Dropped"),
                                    ("failed", "Failed"),
                                ],
                                default="listed",
                                max_length=16,
                            ),
                        ),
                        ("reason", models.TextField(blank=True)),
                        ("since", models.DateTimeField(default=django.utils.timezone.now)),
                        ("decision", models.CharField(blank=True, max_length=16)),
                        ("decided_why", models.CharField(blank=True, max_length=500)),
                    ],
                    options={
                        "ordering": ("topic", "partition"),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("failback", "topic", "partition"),
                                name="one_stretch_per_partition",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="OrphanChunk",
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
                            "stretch",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="chunks",
                                to="mirrors.orphanstretch",
                            ),
                        ),
                        ("first", models.BigIntegerField()),
                        ("count", models.PositiveIntegerField()),
                        ("body", models.BinaryField()),
                    ],
                    options={
                        "ordering": ("stretch", "first"),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("stretch", "first"), name="one_chunk_at"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Gap",
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
                                    ("remote_truncated", "Remote Truncated"),
                                    ("target_replaced", "Target Replaced"),
                                    ("positions_lost", "Positions Lost"),
                                    ("refused", "Refused"),
                                    ("damaged", "Damaged"),
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
                migrations.CreateModel(
                    name="RunIndex",
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
                                related_name="run_index",
                                to="mirrors.flow",
                            ),
                        ),
                        ("positions_id", models.CharField(blank=True, max_length=64)),
                        ("positions_next", models.BigIntegerField(default=0)),
                        ("positions_epoch", models.IntegerField(default=-1)),
                        ("runs_id", models.CharField(blank=True, max_length=64)),
                        ("runs_next", models.BigIntegerField(default=0)),
                        ("runs_epoch", models.IntegerField(default=-1)),
                        ("version", models.PositiveBigIntegerField(default=0)),
                        ("as_of", models.DateTimeField(null=True)),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="PartitionMap",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="maps",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("partition", models.PositiveIntegerField()),
                        ("generation", models.CharField(max_length=32)),
                        ("position", models.BigIntegerField(null=True)),
                        ("map_end", models.BigIntegerField(null=True)),
                        ("into", models.CharField(blank=True, default="", max_length=64)),
                        (
                            "route",
                            models.CharField(blank=True, db_default="", default="", max_length=255),
                        ),
                        ("source_start", models.BigIntegerField(null=True)),
                        ("target_start", models.BigIntegerField(null=True)),
                        ("starts_at", models.DateTimeField(null=True)),
                        ("known_since", models.DateTimeField(auto_now_add=True, null=True)),
                        ("verified_first", models.BigIntegerField(null=True)),
                        ("verified_end", models.BigIntegerField(null=True)),
                        ("verified_at", models.DateTimeField(null=True)),
                        ("compared_end", models.BigIntegerField(null=True)),
                        ("differences", models.PositiveIntegerField(default=0)),
                    ],
                    options={
                        "ordering": ("topic", "partition", "id"),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "topic", "partition", "generation"),
                                name="one_map_per_generation",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RuleStart",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="rule_starts",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic", models.CharField(max_length=255)),
                        ("partition", models.PositiveIntegerField()),
                        ("offset", models.BigIntegerField()),
                        ("when", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("topic", "partition"),
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "topic", "partition"),
                                name="one_rule_start_per_partition",
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="RunBlock",
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
                            "map",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="blocks",
                                to="mirrors.partitionmap",
                            ),
                        ),
                        ("first", models.BigIntegerField()),
                        ("downstream", models.BigIntegerField()),
                        ("topic_offset", models.BigIntegerField()),
                        ("body", models.BinaryField()),
                    ],
                    options={
                        "ordering": ("map", "first"),
                        "indexes": [
                            models.Index(fields=["map", "downstream"], name="block_by_downstream")
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("map", "first"), name="one_block_at")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="OffsetBounds",
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
                            "map",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="bounds",
                                to="mirrors.partitionmap",
                            ),
                        ),
                        ("pairs", models.JSONField(default=list)),
                        ("proven", models.JSONField(default=list)),
                        ("refuted", models.JSONField(default=list)),
                        ("as_of", models.DateTimeField()),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="PositionChange",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="position_changes",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topics", models.TextField()),
                        ("partition", models.PositiveIntegerField(null=True)),
                        ("to", models.CharField(max_length=64)),
                        ("requested_by", models.CharField(max_length=150)),
                        ("requested_at", models.DateTimeField()),
                        ("previewed_at", models.DateTimeField(null=True)),
                        ("digest", models.CharField(blank=True, max_length=64)),
                        ("rows", models.JSONField(default=list)),
                        ("applied_by", models.CharField(blank=True, max_length=150)),
                        ("why", models.CharField(blank=True, max_length=500)),
                        ("applied_at", models.DateTimeField(null=True)),
                        ("failed_at", models.DateTimeField(null=True)),
                        ("error", models.TextField(blank=True)),
                    ],
                    options={
                        "ordering": ("-id",),
                    },
                ),
                migrations.CreateModel(
                    name="GroupOffset",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="groups",
                                to="mirrors.flow",
                            ),
                        ),
                        ("group", models.CharField(max_length=500)),
                        ("topic", models.CharField(blank=True, max_length=255)),
                        ("partition", models.IntegerField(default=-1)),
                        (
                            "route",
                            models.CharField(blank=True, db_default="", default="", max_length=255),
                        ),
                        ("remote_topic", models.TextField(blank=True)),
                        ("source_offset", models.BigIntegerField(null=True)),
                        ("translated_offset", models.BigIntegerField(null=True)),
                        ("target_offset", models.BigIntegerField(null=True)),
                        ("outcome", models.CharField(blank=True, max_length=16)),
                        ("sync_state", models.CharField(max_length=16)),
                        ("reason", models.TextField(blank=True)),
                        ("wrote", models.BigIntegerField(null=True)),
                        ("source_lag", models.BigIntegerField(null=True)),
                        ("re_reads", models.BigIntegerField(null=True)),
                        ("source_state", models.CharField(blank=True, max_length=32)),
                        ("offset_since", models.DateTimeField(null=True)),
                        ("as_of", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("group", "topic", "partition"),
                        "indexes": [
                            models.Index(
                                fields=["flow", "group", "sync_state", "partition", "source_lag"],
                                name="order_of_groups",
                            )
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("flow", "group", "topic", "partition", "route"),
                                name="one_row_per_group_place_and_route",
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
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        (
                            "flow",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="checkpoints",
                                to="mirrors.flow",
                            ),
                        ),
                        ("group", models.CharField(max_length=500)),
                        ("topic", models.CharField(max_length=255)),
                        ("partition", models.PositiveIntegerField()),
                        ("upstream", models.BigIntegerField()),
                        ("downstream", models.BigIntegerField()),
                        ("metadata", models.TextField(blank=True)),
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
                migrations.CreateModel(
                    name="GroupBookmark",
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
                                related_name="group_bookmark",
                                to="mirrors.flow",
                            ),
                        ),
                        ("checkpoints_id", models.CharField(blank=True, max_length=64)),
                        ("checkpoints_next", models.BigIntegerField(default=0)),
                        ("syncs_id", models.CharField(blank=True, max_length=64)),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="SyncedPartition",
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
                            "map",
                            models.OneToOneField(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="synced",
                                to="mirrors.partitionmap",
                            ),
                        ),
                        ("upstream", models.BigIntegerField()),
                        ("downstream", models.BigIntegerField()),
                        ("synced", models.BigIntegerField()),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="SchemaSync",
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
                                related_name="schemas",
                                to="mirrors.flow",
                            ),
                        ),
                        ("as_of", models.DateTimeField(null=True)),
                        ("asked_at", models.DateTimeField(null=True)),
                        ("error", models.TextField(blank=True)),
                        ("keeps_ids", models.BooleanField(null=True)),
                        ("ids_reason", models.TextField(blank=True)),
                        ("import_refused", models.TextField(blank=True)),
                        ("importing", models.JSONField(default=dict)),
                        ("changes", models.JSONField(default=list)),
                        ("left_out", models.JSONField(default=list)),
                        ("subjects", models.PositiveIntegerField(default=0)),
                        ("pending", models.PositiveIntegerField(default=0)),
                        ("conflicts", models.PositiveIntegerField(default=0)),
                        ("conflict", models.TextField(blank=True)),
                        ("unread", models.PositiveIntegerField(default=0)),
                        ("other_ids", models.PositiveIntegerField(default=0)),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="SchemaSubject",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="schema_subjects",
                                to="mirrors.flow",
                            ),
                        ),
                        ("subject", models.TextField()),
                        ("target_subject", models.TextField(blank=True)),
                        ("state", models.CharField(max_length=16)),
                        ("reason", models.TextField(blank=True)),
                        ("refusal", models.TextField(blank=True)),
                        ("versions", models.PositiveIntegerField()),
                        ("present", models.PositiveIntegerField()),
                        ("other_ids", models.PositiveIntegerField()),
                        ("level", models.CharField(blank=True, max_length=64)),
                        ("listed", models.JSONField(default=list)),
                    ],
                    options={
                        "ordering": ("subject",),
                    },
                ),
                migrations.CreateModel(
                    name="SchemaId",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="schema_ids",
                                to="mirrors.flow",
                            ),
                        ),
                        ("subject", models.TextField()),
                        ("version", models.PositiveIntegerField()),
                        ("source_id", models.BigIntegerField()),
                        ("target_subject", models.TextField()),
                        ("target_version", models.PositiveIntegerField()),
                        ("target_id", models.BigIntegerField()),
                        ("kind", models.CharField(max_length=16)),
                        ("digest", models.CharField(max_length=64)),
                        ("references", models.JSONField(default=list)),
                        ("read_at", models.DateTimeField()),
                    ],
                    options={
                        "ordering": ("subject", "version"),
                        "indexes": [
                            models.Index(
                                fields=["flow", "source_id"], name="schema_ids_by_source_id"
                            )
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DutyRun",
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
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="duty_runs",
                                to="mirrors.flow",
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
                migrations.CreateModel(
                    name="HeartbeatState",
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
                                related_name="heartbeat",
                                to="mirrors.flow",
                            ),
                        ),
                        ("slot", models.BigIntegerField(default=0)),
                        ("missed", models.PositiveIntegerField(db_default=0, default=0)),
                        ("place", models.CharField(default="source", max_length=8)),
                        ("place_since", models.DateTimeField(null=True)),
                        ("reason", models.TextField(blank=True)),
                        ("error", models.TextField(blank=True)),
                        ("written_at", models.DateTimeField(null=True)),
                        ("seen_at", models.DateTimeField(null=True)),
                        ("latency_ms", models.BigIntegerField(null=True)),
                        ("clock_skew_ms", models.BigIntegerField(null=True)),
                        ("as_of", models.DateTimeField(null=True)),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="FlowPlan",
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
                                related_name="plan",
                                to="mirrors.flow",
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
                        ("codes", models.JSONField(null=True)),
                        ("asked_by", models.CharField(blank=True, max_length=150)),
                        ("since", models.DateTimeField()),
                        ("as_of", models.DateTimeField(null=True)),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="StandbyNote",
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
                                related_name="standby_note",
                                to="mirrors.flow",
                            ),
                        ),
                        ("topic_id", models.CharField(blank=True, max_length=64)),
                        ("digests", models.JSONField(default=dict)),
                        ("as_of", models.DateTimeField(null=True)),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
            ],
        ),
        migrations.RunPython(create_roles, migrations.RunPython.noop),
    ]
