"""How records cross: the lanes."""

from __future__ import annotations

from typing import Literal

# raw: a batch as the bytes it is. repack: written anew, record by record as bytes, for a reason
# that is told. record: one by one, by a Kafka client.
Lane = Literal["raw", "repack", "record"]
