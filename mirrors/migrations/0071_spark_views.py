from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirrors", "0070_order_of_groups")]

    operations = [
        migrations.AddField(
            model_name="runner",
            name="event_log",
            field=models.CharField(blank=True, max_length=500),
        ),
        migrations.AddField(
            model_name="runner",
            name="spark_ui",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="runner",
            name="spark_ui_url",
            field=models.CharField(blank=True, max_length=300),
        ),
        migrations.AddField(
            model_name="runner",
            name="spark_warnings",
            field=models.JSONField(blank=True, default=list),
        ),
    ]
