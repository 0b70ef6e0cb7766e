import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0013_setting_changes"),
    ]

    operations = [
        migrations.AddField(
            model_name="runner",
            name="memory",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.CreateModel(
            name="RunnerLog",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("lines", models.JSONField(default=list)),
                ("mark", models.CharField(max_length=100)),
                ("written_at", models.DateTimeField()),
                (
                    "runner",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="log",
                        to="mirrors.runner",
                    ),
                ),
            ],
        ),
    ]
