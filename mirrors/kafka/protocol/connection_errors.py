"""Why a connection to a broker failed: the step, and what the system or the broker said."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from mirrors.domain.errors import UnderstudyError

Step = Literal["dns", "tcp", "tls", "versions", "login", "ask"]
STEPS: tuple[Step, ...] = get_args(Step)


class Broken(Exception):
    """A step failed; `cause` is an OSError or one of the exceptions below."""

    def __init__(self, stage: Step, cause: Exception) -> None:
        super().__init__(stage)
        self.stage: Step = stage
        self.cause = cause
        # The explanation, once it was diagnosed.
        self.told: UnderstudyError | None = None


def progress(error: Exception) -> int:
    """How far an attempt came; -1 where it did not begin."""
    return STEPS.index(error.stage) if isinstance(error, Broken) else -1


class Closed(ConnectionError):
    """The other side closed the connection; `said` is what came before that."""

    def __init__(self, said: bytes = b"") -> None:
        super().__init__("closed")
        self.said = said


class Alien(Exception):
    """The reply is not Kafka's; `said` is how it begins where it is not even a frame."""

    def __init__(self, said: bytes = b"") -> None:
        super().__init__("alien")
        self.said = said


class Unproven(Exception):
    """The broker did not prove that it knows the password itself."""


class OtherReply(Alien):
    """The reply belongs to another request."""


@dataclasses.dataclass
class TooOld(Exception):
    """The broker does not know the request in a version that we speak; the connection is fine."""

    request: str
    theirs: tuple[int, int]
    ours: tuple[int, int]

    def __str__(self) -> str:
        return self.request


@dataclasses.dataclass
class Refused(Exception):
    """The broker refused the login with a Kafka error number."""

    number: int
    words: str = ""
    mechanisms: tuple[str, ...] = ()


CAUSES = (OSError, Alien, Refused, Unproven, TooOld)
