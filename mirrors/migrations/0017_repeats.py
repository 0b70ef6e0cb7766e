from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mirrors', '0016_codes_of_a_plan'),
    ]

    operations = [
        migrations.AddField(
            model_name='flowpartition',
            name='repeats',
            field=models.BigIntegerField(null=True),
        ),
    ]
