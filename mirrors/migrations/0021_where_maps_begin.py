from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0020_repeats"),
    ]

    operations = [
        migrations.AddField(
            model_name="partitionmap",
            name="source_start",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="partitionmap",
            name="starts_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="partitionmap",
            name="target_start",
            field=models.BigIntegerField(null=True),
        ),
    ]
