"""Since when a partition is known, so that an alert can say how long it is not verified."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirrors", "0075_verified_ranges")]

    operations = [
        migrations.AddField(
            model_name="partitionmap",
            name="known_since",
            field=models.DateTimeField(auto_now_add=True, null=True),
        ),
    ]
