from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0018_lanes_of_jobs"),
    ]

    operations = [
        migrations.AlterField(
            model_name="gap",
            name="kind",
            field=models.CharField(
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
                ],
                max_length=32,
            ),
        ),
    ]
