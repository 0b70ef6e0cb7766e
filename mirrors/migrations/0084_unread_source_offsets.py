from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("mirrors", "0083_runner_pools"),
    ]

    operations: ClassVar = [
        migrations.AddField(
            model_name="groupoffset",
            name="source_unread",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
