"""A person moves a runner to another host."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies: ClassVar = [
        ('mirrors', '0072_applied_documents'),
    ]

    operations: ClassVar = [
        migrations.AddField(
            model_name='runner',
            name='move_requested_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='runner',
            name='move_requested_by',
            field=models.CharField(blank=True, max_length=150),
        ),
        migrations.AddField(
            model_name='runner',
            name='move_to',
            field=models.CharField(blank=True, max_length=255),
        ),
    ]
