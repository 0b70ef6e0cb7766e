"""Hooks of failovers become rows that admins make; flows keep theirs as a hook of their own."""

from django.db import migrations, models

URL, HEADERS, SECRET = (f"failover.webhook.{name}" for name in ("url", "headers", "secret"))


def name_hooks(apps, schema_editor):
    hooks = apps.get_model("mirrors", "Hook")
    for flow in apps.get_model("mirrors", "Flow").objects.all():
        facts = {name: flow.properties.pop(name, "").strip() for name in (URL, HEADERS, SECRET)}
        if not any(facts.values()):
            continue
        if facts[URL]:
            name = f"flow-{flow.pk}"
            hooks.objects.create(
                name=name,
                url=facts[URL],
                headers=facts[HEADERS],
                secret=facts[SECRET],
                changed_by="upgrade",
            )
            flow.properties["failover.webhook"] = name
        flow.save(update_fields=["properties"])


class Migration(migrations.Migration):
    dependencies = [
        ("mirrors", "0051_token_scopes"),
    ]

    operations = [
        migrations.CreateModel(
            name="Hook",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=64, unique=True)),
                ("url", models.CharField(max_length=2000)),
                ("headers", models.CharField(blank=True, default="", max_length=2000)),
                ("secret", models.CharField(blank=True, default="", max_length=500)),
                ("changed_by", models.CharField(max_length=150)),
                ("changed_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "ordering": ("name",),
            },
        ),
        migrations.RunPython(name_hooks, migrations.RunPython.noop),
    ]
