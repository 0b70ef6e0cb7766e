"""Failovers and their steps."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mirrors', '0005_groups'),
    ]

    operations = [
        migrations.CreateModel(
            name='FailoverRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('simulation', 'Simulation'), ('switchover', 'Switchover'), ('failover', 'Failover'), ('failback', 'Failback')], max_length=16)),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('waiting', 'Waiting'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('aborted', 'Aborted')], default='queued', max_length=16)),
                ('reason', models.TextField(blank=True)),
                ('since', models.DateTimeField(default=django.utils.timezone.now)),
                ('groups', models.JSONField(default=list)),
                ('why', models.CharField(blank=True, max_length=500)),
                ('requested_by', models.CharField(max_length=150)),
                ('mark', models.CharField(max_length=16)),
                ('abort_asked_by', models.CharField(blank=True, max_length=150)),
                ('progress', models.JSONField(default=dict)),
                ('plan', models.JSONField(null=True)),
                ('result', models.JSONField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('swept_at', models.DateTimeField(null=True)),
                ('flow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='failovers', to='mirrors.flow')),
            ],
            options={
                'ordering': ('-id',),
            },
        ),
        migrations.CreateModel(
            name='FailoverStep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveSmallIntegerField()),
                ('name', models.CharField(max_length=32)),
                ('does', models.CharField(max_length=200)),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('running', 'Running'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('skipped', 'Skipped')], default='pending', max_length=16)),
                ('reason', models.TextField(blank=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='mirrors.failoverrun')),
            ],
            options={
                'ordering': ('number',),
            },
        ),
        migrations.AddConstraint(
            model_name='failoverrun',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('flow',), name='one_open_run_per_flow'),
        ),
        migrations.AddConstraint(
            model_name='failoverstep',
            constraint=models.UniqueConstraint(fields=('run', 'number'), name='one_step_per_number'),
        ),
    ]
