"""A run is taken up turn by turn, and each step keeps what it takes to undo it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mirrors', '0011_comparisons'),
    ]

    operations = [
        migrations.AddField(
            model_name='failoverrun',
            name='approved_by',
            field=models.CharField(blank=True, default='', max_length=150),
        ),
        migrations.AddField(
            model_name='failoverrun',
            name='holder',
            field=models.CharField(blank=True, default='', max_length=32),
        ),
        migrations.AddField(
            model_name='failoverrun',
            name='hooks',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='failoverrun',
            name='next_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='failoverrun',
            name='pause_asked_by',
            field=models.CharField(blank=True, default='', max_length=150),
        ),
        migrations.AddField(
            model_name='failoverrun',
            name='simulation',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='executions', to='mirrors.failoverrun'),
        ),
        migrations.AddField(
            model_name='failoverrun',
            name='waits_for',
            field=models.CharField(blank=True, choices=[('approval', 'Approval'), ('pause', 'Pause'), ('person', 'Person'), ('trouble', 'Trouble')], default='', max_length=16),
        ),
        migrations.AddField(
            model_name='failoverstep',
            name='acted_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='failoverstep',
            name='acting_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='failoverstep',
            name='attempt',
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='failoverstep',
            name='command',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='failoverstep',
            name='confirmed_by',
            field=models.CharField(blank=True, default='', max_length=150),
        ),
        migrations.AddField(
            model_name='failoverstep',
            name='due_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='failoverstep',
            name='result',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='failoverstep',
            name='undo_reason',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='failoverstep',
            name='undo_tries',
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='failoverstep',
            name='undone_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name='failoverstep',
            name='state',
            field=models.CharField(choices=[('pending', 'Pending'), ('running', 'Running'), ('waiting', 'Waiting'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('skipped', 'Skipped')], default='pending', max_length=16),
        ),
    ]
