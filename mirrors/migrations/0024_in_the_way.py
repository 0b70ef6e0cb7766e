from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0023_lost_runs"),
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
                    ("positions_lost", "Positions Lost"),
                    ("refused", "Refused"),
                    ("damaged", "Damaged"),
                ],
                max_length=32,
            ),
        ),
    ]
