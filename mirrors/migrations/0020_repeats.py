from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mirrors', '0019_remote_truncated'),
    ]

    operations = [
        migrations.AddField(
            model_name='flowpartition',
            name='repeats',
            field=models.BigIntegerField(null=True),
        ),
    ]
