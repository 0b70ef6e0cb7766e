from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mirrors', '0054_position_changes'),
    ]

    operations = [
        migrations.AddField(
            model_name='failoverrun',
            name='scope',
            field=models.JSONField(blank=True, default=dict),
        ),
    ]
