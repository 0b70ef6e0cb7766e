"""Exit codes of the command `understudy`, and the error that carries one."""

from __future__ import annotations

# It was done, and the answer is good.
OK = 0
# It was done, and the answer is bad: not verified, different, failed.
BAD_RESULT = 1
# The command is wrong, or the state of the flow does not allow it.
USAGE = 2
# Understudy, or its database, does not answer.
NOT_REACHED = 3
# The token is missing, expired, or lacks the right.
NOT_ALLOWED = 4


class CommandError(Exception):
    """Ends a command: `message` goes to the standard error, `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
