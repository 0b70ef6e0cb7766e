"""The few exceptions that the rules and the door to Kafka raise, each with a sentence to show."""

from __future__ import annotations


class UnderstudyError(Exception):
    """A refusal or failure whose text may be shown: what, where, likely cause, what to do.

    Never carries a secret. `code` is stable and machine-readable.
    """

    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class InvalidSettings(UnderstudyError):
    """Settings that a person typed were refused; `fields` maps each key to its sentences."""

    code = "invalid"

    def __init__(self, fields: dict[str, list[str]]) -> None:
        super().__init__(" ".join(text for texts in fields.values() for text in texts))
        self.fields = fields


class KafkaUnavailable(UnderstudyError):
    """No usable connection: refused, DNS, time-out, TLS, not a Kafka port. Worth trying again."""

    code = "kafka_unavailable"


class KafkaRefused(UnderstudyError):
    """Kafka answered no: authentication, authorisation, a request it will not take."""

    code = "kafka_refused"


class Fenced(UnderstudyError):
    """Another owner of the same transactional id took over; stop and write nothing more."""

    code = "fenced"
