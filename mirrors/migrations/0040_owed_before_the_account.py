"""Topics that were reported before there was an account owe what their lag said then, not 0."""

from django.db import migrations
from django.db.models import F


def carry_over(apps, schema_editor):
    topics = apps.get_model("mirrors", "FlowTopic").objects.filter(states={})
    topics = topics.exclude(state="skipped").filter(remote_topic__isnull=False)
    topics.filter(offset_lag__gt=0).update(
        owed=F("offset_lag"), certainty="at_most", account_state="behind"
    )
    topics.filter(offset_lag=None).update(
        unknown_partitions=F("partitions"), certainty="unknown", account_state="unknown"
    )


class Migration(migrations.Migration):
    dependencies = [("mirrors", "0039_swept_accounts")]

    operations = [migrations.RunPython(carry_over, migrations.RunPython.noop)]
