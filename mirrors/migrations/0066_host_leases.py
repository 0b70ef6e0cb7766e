from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirrors", "0065_application_orphans")]

    operations = [
        migrations.CreateModel(
            name="Host",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=255, unique=True)),
                ("renewed_at", models.DateTimeField()),
                ("held_since", models.DateTimeField()),
            ],
            options={"ordering": ("name",)},
        ),
        migrations.AddField(
            model_name="runner",
            name="failover_hosts",
            field=models.CharField(blank=True, max_length=1000),
        ),
        migrations.AddField(
            model_name="runner",
            name="is_leased",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="runner",
            name="moved_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="runner",
            name="moved_from",
            field=models.CharField(blank=True, max_length=255),
        ),
        migrations.AddField(
            model_name="runner",
            name="move_reason",
            field=models.TextField(blank=True),
        ),
    ]
