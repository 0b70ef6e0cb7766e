from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0018_conflicts")]

    operations = [
        migrations.CreateModel(
            name="MetricsPush",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("due_at", models.DateTimeField()),
                ("interval_s", models.FloatField(default=60)),
                ("tried_at", models.DateTimeField(null=True)),
                ("succeeded_at", models.DateTimeField(null=True)),
                ("points", models.PositiveIntegerField(default=0)),
                ("took_ms", models.PositiveIntegerField(default=0)),
                ("error", models.TextField(blank=True)),
            ],
        ),
    ]
