"""Django system checks: programs, packages and settings that this deployment needs."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError

from mirrors.kafka.security import cleartext_logins as cleartext
from mirrors.kafka.security import egress, librdkafka_egress

MINIMUM_JAVA = 17
# Of the examples of this project and of the images that people use with it.
KNOWN = frozenset(
    {"understudy", "postgres", "password", "redis", "valkey", "changeme", "secret", "admin"}
)
KNOWN_PREFIXES = ("change-me", "changeme", "django-insecure-")


def java(app_configs: Any, **options: Any) -> list[CheckMessage]:
    home = os.environ.get("JAVA_HOME", "")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"Install Java {MINIMUM_JAVA} or newer, or set JAVA_HOME. The runner needs it."
    if not path or not shutil.which(path):
        return [Warning("No Java found.", hint=hint, id="understudy.W001")]
    try:
        done = subprocess.run(  # noqa: S603 (own path, no shell)
            [path, "-version"], capture_output=True, text=True, check=False, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Warning(f"Java does not respond: {error}.", hint=hint, id="understudy.W001")]
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if not found or int(found[1]) < MINIMUM_JAVA:
        version = found[1] if found else "of an unknown version"
        return [Warning(f"Java at {path} is {version}.", hint=hint, id="understudy.W002")]
    return []


def python_packages(app_configs: Any, **options: Any) -> list[CheckMessage]:
    messages: list[CheckMessage] = []
    if importlib.util.find_spec("pyspark") is None:
        hint = "pip install -r requirements.txt"
        messages.append(Error("pyspark is not installed.", hint=hint, id="understudy.E003"))
    plotly = importlib.util.find_spec("plotly")
    folder = Path(plotly.origin).parent if plotly and plotly.origin else None
    if folder is None or not (folder / "package_data/plotly.min.js").is_file():
        hint = "Reinstall the package plotly; the charts load plotly.min.js from it."
        messages.append(Warning("plotly.min.js is missing.", hint=hint, id="understudy.W004"))
    return messages


def broker_url(app_configs: Any, **options: Any) -> list[CheckMessage]:
    parts = urllib.parse.urlsplit(settings.REDIS_URL)
    if parts.scheme in {"redis", "rediss"} and parts.hostname:
        return []
    if parts.scheme in {"unix", "redis+socket"} and parts.path:
        return []
    hint = "Set REDIS_URL to redis://host:port/number or redis+socket:///path/to/redis.sock."
    return [Error("REDIS_URL is not a URL of Redis.", hint=hint, id="understudy.E005")]


def secret_key(app_configs: Any, **options: Any) -> list[CheckMessage]:
    if settings.SECRET_KEY_IS_SET:
        return []
    hint = "Set UNDERSTUDY_SECRET_KEY or UNDERSTUDY_SECRET_KEY_FILE to 50 random characters."
    text = "Each process generates its own secret key, so a restart logs users out."
    return [Error(text, hint=hint, id="understudy.E006")]


def known_secrets(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """Values that examples show, and that everybody can try, and a queue that is open to others."""
    queue = urllib.parse.urlsplit(settings.REDIS_URL)
    hint = "Put a random value in its place; `make .env` writes some for docker-compose.yml."
    found = {
        "UNDERSTUDY_SECRET_KEY": settings.SECRET_KEY,
        "The password in DATABASE_URL": str(settings.DATABASES["default"].get("PASSWORD", "")),
        "The password in REDIS_URL": queue.password or "",
    }
    messages: list[CheckMessage] = [
        Error(f"{name} is a value that examples show.", hint=hint, id="understudy.E012")
        for name, value in found.items()
        if value.lower() in KNOWN or value.lower().startswith(KNOWN_PREFIXES)
    ]
    if queue.hostname and not queue.password and not _is_here(queue.hostname):
        text = f"The queue on {queue.hostname} has no password: its clients command the workers."
        hint = "Give it one, and write it into REDIS_URL: redis://:PASSWORD@host:port/0."
        messages.append(Warning(text, hint=hint, id="understudy.W013"))
    return messages


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def signing_key(app_configs: Any, **options: Any) -> list[CheckMessage]:
    if settings.UNDERSTUDY_SIGNING_KEY:
        return []
    hint = "Set UNDERSTUDY_SIGNING_KEY_FILE to an Ed25519 key in PEM, the same for every worker."
    text = (
        "Certificates of drills are signed with a key that each worker generates in "
        f"{settings.UNDERSTUDY_SIGNING_KEY_PATH}; if that file is lost, the key changes."
    )
    return [Warning(text, hint=hint, id="understudy.W007")]


def cleartext_logins(app_configs: Any, **options: Any) -> list[CheckMessage]:
    allowed = os.environ.get(cleartext.VARIABLE, "").strip()
    if not allowed:
        return []
    text = f"Passwords and tokens may be sent to Kafka without encryption: {allowed}."
    hint = f"Use SASL_SSL or SCRAM on these clusters, then remove {cleartext.VARIABLE}."
    return [Warning(text, hint=hint, id="understudy.W008")]


def egress_rules(app_configs: Any, **options: Any) -> list[CheckMessage]:
    if os.environ.get(egress.VARIABLE, "").strip():
        return []
    text = "Connections to Kafka may go to any address except cloud metadata services."
    hint = (
        f"Set {egress.VARIABLE} to the addresses of your clusters, such as *.kafka.internal:9092."
    )
    return [Warning(text, hint=hint, id="understudy.W010")]


def librdkafka_rules(app_configs: Any, **options: Any) -> list[CheckMessage]:
    if librdkafka_egress.find() is not None:
        return []
    text = "Connections of librdkafka to addresses that brokers advertise are not checked."
    hint = "Run `make compiled` (needs a C compiler), or limit egress by the network."
    return [Warning(text, hint=hint, id="understudy.W011")]


def refused_settings(
    app_configs: Any, *, databases: Any = None, **options: Any
) -> list[CheckMessage]:
    """Saved clusters and channels whose references or logins this deployment rejects.

    Runs in `migrate` and `check --database default`, so an upgrade reports what to change.
    """
    if not databases or "default" not in databases:
        return []
    from mirrors.services.clusters import refused_clusters  # noqa: PLC0415 (models are not loaded)
    from monitoring.channels.registry import refused_channels  # noqa: PLC0415 (the same)

    try:
        refused = {**refused_clusters(), **refused_channels()}
    except DatabaseError:
        # Before the first migration the tables do not exist.
        return []
    hint = "docs/operations/access/secrets.md lists the settings and how to move a secret."
    return [
        Warning(f"{name} cannot connect: {why}", hint=hint, id="understudy.W009")
        for name, why in refused.items()
    ]


def install() -> None:
    """Register the checks. Java only at deployment: it takes a second, and web needs none."""
    register(python_packages, Tags.compatibility)
    register(broker_url, Tags.compatibility)
    register(java, Tags.compatibility, deploy=True)
    register(known_secrets, Tags.security)
    register(secret_key, Tags.security, deploy=True)
    register(signing_key, Tags.security, deploy=True)
    register(cleartext_logins, Tags.security, deploy=True)
    register(egress_rules, Tags.security, deploy=True)
    register(librdkafka_rules, Tags.security, deploy=True)
    register(refused_settings, Tags.database)
