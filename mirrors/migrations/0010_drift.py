import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("mirrors", "0009_drills"),
    ]

    operations = [
        migrations.CreateModel(
            name='AclPreview',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('shape', models.JSONField()),
                ('digest', models.CharField(max_length=64)),
                ('who', models.CharField(max_length=150)),
                ('at', models.DateTimeField()),
                ('flow', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='acl_preview', to='mirrors.flow')),
            ],
        ),
        migrations.CreateModel(
            name='CarriedAcl',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rule', models.JSONField()),
                ('digest', models.CharField(max_length=64)),
                ('made_at', models.DateTimeField()),
                ('flow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='carried_acls', to='mirrors.flow')),
            ],
            options={
                'ordering': ('pk',),
                'constraints': [models.UniqueConstraint(fields=('flow', 'digest'), name='one_row_per_carried_acl')],
            },
        ),
        migrations.CreateModel(
            name='Drift',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('topic config', 'Topic Config'), ('partitions', 'Partitions'), ('deleted topic', 'Deleted Topic'), ('acl', 'Acl')], max_length=16)),
                ('name', models.TextField()),
                ('key', models.TextField(blank=True)),
                ('place', models.CharField(max_length=64)),
                ('state', models.CharField(choices=[('open', 'Open'), ('accepted', 'Accepted'), ('ignored', 'Ignored'), ('fixing', 'Fixing'), ('fixed', 'Fixed'), ('closed', 'Closed')], default='open', max_length=16)),
                ('expected', models.TextField(null=True)),
                ('found', models.TextField(null=True)),
                ('wanted', models.TextField(null=True)),
                ('reason', models.TextField(blank=True)),
                ('opened_at', models.DateTimeField()),
                ('seen_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(null=True)),
                ('closed_why', models.TextField(blank=True)),
                ('decided_by', models.CharField(blank=True, max_length=150)),
                ('decided_at', models.DateTimeField(null=True)),
                ('decided_why', models.TextField(blank=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('flow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='drift', to='mirrors.flow')),
            ],
            options={
                'ordering': ('-id',),
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('flow', 'place'), name='one_drift_per_place')],
            },
        ),
        migrations.CreateModel(
            name='TopicBaseline',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('remote_topic', models.CharField(max_length=255)),
                ('topic_id', models.CharField(blank=True, max_length=64)),
                ('partitions', models.PositiveIntegerField()),
                ('configs', models.JSONField(default=dict)),
                ('flow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='baselines', to='mirrors.flow')),
            ],
            options={
                'ordering': ('remote_topic',),
                'constraints': [models.UniqueConstraint(fields=('flow', 'remote_topic'), name='one_baseline_per_remote_topic')],
            },
        ),
    ]
