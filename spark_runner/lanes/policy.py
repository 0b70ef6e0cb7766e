"""What the target asks of a batch; from the remote topic's configs and the flow's settings."""

from __future__ import annotations


class Policy:
    """What the target asks of a batch; from the remote topic's configs and the flow's settings."""

    __slots__ = ("codec", "keep_append_time", "most_bytes")

    def __init__(
        self, *, codec: int | None = None, most_bytes: int = 0, keep_append_time: bool = True
    ) -> None:
        self.codec = codec
        # 0: not known, then the broker's refusal says so
        self.most_bytes = most_bytes
        self.keep_append_time = keep_append_time
