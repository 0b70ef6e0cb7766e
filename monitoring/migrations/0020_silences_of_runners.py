import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0082_group_summaries"),
        ("monitoring", "0019_metrics_push"),
    ]

    operations = [
        migrations.AddField(
            model_name="silence",
            name="runner",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="silences",
                to="mirrors.runner",
            ),
        ),
    ]
