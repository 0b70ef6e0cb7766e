"""Exceptions of the rules and of `mirrors.kafka`, each with a sentence to show."""

from __future__ import annotations


class UnderstudyError(Exception):
    """A refusal or failure whose text may be shown: what failed, where, why, what to do.

    It never carries a secret. `code` is stable and machine-readable.
    """

    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class InvalidSettings(UnderstudyError):
    """Settings were rejected. `fields` maps each key to its sentences."""

    code = "invalid"

    def __init__(self, fields: dict[str, list[str]]) -> None:
        super().__init__(" ".join(text for texts in fields.values() for text in texts))
        self.fields = fields


class KafkaUnavailable(UnderstudyError):
    """No usable connection: refused, DNS, timeout, TLS, not a Kafka port. A retry may help."""

    code = "kafka_unavailable"


class KafkaRefused(UnderstudyError):
    """Kafka rejected a request: authentication, authorization, or an invalid request."""

    code = "kafka_refused"


class Fenced(UnderstudyError):
    """Another owner took over the transactional id: stop, and write nothing more."""

    code = "fenced"
