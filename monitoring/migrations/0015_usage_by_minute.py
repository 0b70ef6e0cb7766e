"""Adds the minutes that no month contains yet: from now on each sample is added when it is taken."""

from datetime import UTC

from django.db import migrations
from django.db.models import Max, Min, Sum
from django.utils import timezone


def add_minutes(apps, schema_editor):
    months = apps.get_model("monitoring", "MonthlyUsage")
    samples = apps.get_model("monitoring", "TopicSample")
    first = timezone.now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    last = months.objects.aggregate(Max("until"))["until__max"]
    minutes = samples.objects.filter(resolution=60, at__gte=max(first, last or first), bytes__gt=0)
    found = minutes.order_by().values("flow", "topic")
    for row in found.annotate(since=Min("at"), until=Max("at"), sent=Sum("bytes")):
        counted, created = months.objects.get_or_create(
            flow_id=row["flow"],
            topic=row["topic"],
            month=first.date(),
            defaults={"bytes": row["sent"], "since": row["since"], "until": row["until"]},
        )
        if not created:
            counted.bytes += row["sent"]
            counted.until = row["until"]
            counted.save(update_fields=["bytes", "until"])


class Migration(migrations.Migration):
    dependencies = [("monitoring", "0014_dead_letters")]

    operations = [migrations.RunPython(add_minutes, migrations.RunPython.noop)]
