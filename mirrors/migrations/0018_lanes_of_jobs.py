from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0017_lanes_and_their_reasons"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="lanes",
            field=models.JSONField(blank=True, default=list),
        ),
    ]
