"""Lane and reason stand apart; what brokers name is as long as they like."""

from django.db import migrations, models
from django.db.models.functions import Substr

_BOTH = "repack: "


def split(apps, schema_editor):
    rows = apps.get_model("mirrors", "FlowPartition").objects.filter(lane__startswith=_BOTH)
    rows.update(why=Substr("lane", len(_BOTH) + 1), lane="repack")


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0016_codes_of_a_plan"),
    ]

    operations = [
        migrations.AddField(
            model_name="flowpartition",
            name="why",
            field=models.TextField(blank=True, default=""),
        ),
        migrations.AlterField(
            model_name="flowtopic",
            name="remote_topic",
            field=models.TextField(null=True),
        ),
        migrations.AlterField(
            model_name="groupoffset",
            name="remote_topic",
            field=models.TextField(blank=True),
        ),
        migrations.AlterField(
            model_name="cluster",
            name="cluster_id",
            field=models.TextField(blank=True),
        ),
        migrations.AlterField(
            model_name="divergence",
            name="source_cluster",
            field=models.TextField(blank=True),
        ),
        migrations.AlterField(
            model_name="divergence",
            name="target_cluster",
            field=models.TextField(blank=True),
        ),
        migrations.AlterField(
            model_name="comparisonfinding",
            name="name",
            field=models.TextField(),
        ),
        migrations.RunPython(split, migrations.RunPython.noop),
    ]
