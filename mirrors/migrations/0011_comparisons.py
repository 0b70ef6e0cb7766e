"""Comparisons of both clusters of a flow."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mirrors', '0010_drift'),
    ]

    operations = [
        migrations.CreateModel(
            name='Comparison',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('succeeded', 'Succeeded'), ('failed', 'Failed'), ('aborted', 'Aborted')], default='queued', max_length=16)),
                ('reason', models.TextField(blank=True)),
                ('since', models.DateTimeField(default=django.utils.timezone.now)),
                ('verdict', models.CharField(blank=True, choices=[('same', 'Same'), ('partly', 'Partly'), ('differs', 'Differs')], max_length=16)),
                ('topics', models.JSONField(default=list)),
                ('content', models.BooleanField(default=True)),
                ('records', models.BigIntegerField(null=True)),
                ('seconds', models.PositiveIntegerField()),
                ('megabytes', models.PositiveIntegerField()),
                ('why', models.CharField(blank=True, max_length=500)),
                ('requested_by', models.CharField(max_length=150)),
                ('abort_asked_by', models.CharField(blank=True, max_length=150)),
                ('progress', models.JSONField(default=dict)),
                ('summary', models.JSONField(null=True)),
                ('spent_ms', models.BigIntegerField(default=0)),
                ('read_bytes', models.BigIntegerField(default=0)),
                ('turn', models.PositiveIntegerField(default=0)),
                ('rests', models.BooleanField(default=False)),
                ('lost', models.PositiveSmallIntegerField(default=0)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('flow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comparisons', to='mirrors.flow')),
            ],
            options={
                'ordering': ('-id',),
            },
        ),
        migrations.CreateModel(
            name='ComparisonFinding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('about', models.CharField(max_length=16)),
                ('kind', models.CharField(max_length=16)),
                ('weight', models.CharField(max_length=16)),
                ('name', models.CharField(max_length=600)),
                ('partition', models.PositiveIntegerField(null=True)),
                ('source_offset', models.BigIntegerField(null=True)),
                ('target_offset', models.BigIntegerField(null=True)),
                ('sentence', models.TextField()),
                ('comparison', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='findings', to='mirrors.comparison')),
            ],
            options={
                'ordering': ('id',),
            },
        ),
        migrations.CreateModel(
            name='ComparisonPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('topic', models.CharField(max_length=255)),
                ('partition', models.PositiveIntegerField()),
                ('remote_topic', models.CharField(max_length=255)),
                ('verdict', models.CharField(choices=[('waiting', 'Waiting'), ('same', 'Same'), ('differs', 'Differs'), ('partly', 'Partly'), ('unread', 'Unread')], default='waiting', max_length=16)),
                ('reason', models.TextField(blank=True)),
                ('compacted', models.BooleanField(default=False)),
                ('keeps_time', models.BooleanField(default=True)),
                ('source_first', models.BigIntegerField(null=True)),
                ('source_end', models.BigIntegerField(null=True)),
                ('target_first', models.BigIntegerField(null=True)),
                ('target_end', models.BigIntegerField(null=True)),
                ('next', models.BigIntegerField(null=True)),
                ('source_records', models.BigIntegerField(default=0)),
                ('target_records', models.BigIntegerField(default=0)),
                ('differences', models.PositiveIntegerField(default=0)),
                ('explained', models.PositiveIntegerField(default=0)),
                ('unread', models.BigIntegerField(default=0)),
                ('source_digest', models.CharField(blank=True, max_length=32)),
                ('target_digest', models.CharField(blank=True, max_length=32)),
                ('comparison', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='mirrors.comparison')),
            ],
            options={
                'ordering': ('topic', 'partition'),
            },
        ),
        migrations.AddConstraint(
            model_name='comparison',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('flow',), name='one_open_comparison_per_flow'),
        ),
        migrations.AddConstraint(
            model_name='comparisonpart',
            constraint=models.UniqueConstraint(fields=('comparison', 'topic', 'partition'), name='one_part_per_partition'),
        ),
    ]
