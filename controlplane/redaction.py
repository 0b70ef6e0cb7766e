"""Removes passwords, tokens and credentials from every log line: by shape, and by their values."""

from __future__ import annotations

import contextvars
import logging
import re
from typing import Any

from mirrors.kafka.security import live_secrets

# The request or task of a log line; error messages name it.
reference: contextvars.ContextVar[str] = contextvars.ContextVar("reference", default="-")

_SECRETS = (
    # user:password@host in any URL
    (re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]*(?=@)"), "***"),
    # Authorization: Token 0123… / Basic … / Bearer …; a header's value may be short
    (re.compile(r"(?i)\b(token|bearer|basic)\s+[\w\-./+=]{16,}"), r"\1 ***"),
    (re.compile(r"(?i)(authorization['\"]?\s*[=:]\s*['\"]?\w+\s+)[^\s,;'\"]+"), r"\1***"),
    # X-Api-Key: …, X-Auth-Token: …
    (
        re.compile(r"(?i)(\bx-[\w-]*(?:key|token|secret)['\"]?\s*[=:]\s*['\"]?)[^\s,;'\"]+"),
        r"\1***",
    ),
    # The address of a Slack or Teams webhook is its secret.
    (re.compile(r"(?i)(hooks\.slack\.com/\w+/)[^\s'\"]+"), r"\1***"),
    (re.compile(r"(?i)(/webhookb2/|/workflows/)[^\s'\"]+"), r"\1***"),
    # password=…, "sasl_password": "…", secret: …; a reference (env:, file:) is not a secret
    (
        re.compile(
            r"(?i)([\w.-]*(?:password|passwd|pwd|secret|api[_-]?key|private_?key|token|\bsig|jaas[\w.]*)"
            r"['\"]?\s*[=:]\s*)"
            r"(?!['\"]?(?:env|file):)(?:\"[^\"]*\"|'[^']*'|[^\s,;&})\]]+)"
        ),
        r"\1***",
    ),
    (re.compile(r"-----BEGIN [^-]+-----.*?(?:-----END [^-]+-----|\Z)", re.DOTALL), "***"),
)


def redact(text: str) -> str:
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return live_secrets.hide(text)


class RedactSecrets(logging.Filter):
    """Redacts the message and the traceback, and adds the reference of the request."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.reference = reference.get()
        record.msg, record.args = redact(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redact(record.exc_text)
        return True


def logging_settings(level: str) -> dict[str, Any]:
    """One handler, whose filter redacts every line."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"redact": {"()": "controlplane.redaction.RedactSecrets"}},
        "formatters": {
            "line": {"format": "%(asctime)s %(levelname)s %(name)s [%(reference)s] %(message)s"}
        },
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["redact"]}
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"level": "INFO", "handlers": [], "propagate": True},
            # Several lines every two seconds, which metrics show better.
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            # A line for each request.
            "httpx": {"level": "WARNING"},
            "django.server": {"level": "INFO", "handlers": ["stderr"], "propagate": False},
        },
    }
