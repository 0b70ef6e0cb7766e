from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("mirrors", "0078_flow_packing"),
    ]

    operations: ClassVar = [
        migrations.AddField(
            model_name="host",
            name="draining_by",
            field=models.CharField(blank=True, db_default="", default="", max_length=150),
        ),
        migrations.AddField(
            model_name="host",
            name="draining_since",
            field=models.DateTimeField(null=True),
        ),
    ]
