from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("mirrors", "0077_schemas"),
    ]

    operations: ClassVar = [
        migrations.AddField(
            model_name="flow",
            name="packing",
            field=models.JSONField(null=True),
        ),
    ]
