"""What of a flow was last written to its target."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("mirrors", "0006_failovers"),
    ]

    operations = [
        migrations.CreateModel(
            name="StandbyNote",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("topic_id", models.CharField(blank=True, max_length=64)),
                ("digests", models.JSONField(default=dict)),
                ("as_of", models.DateTimeField(null=True)),
                ("flow", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name="standby_note", to="mirrors.flow")),
            ],
        ),
    ]
