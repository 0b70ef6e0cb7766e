"""A small web shop: its topics and their settings, and what a moment of business writes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from random import Random

HOUR = "3600000"
_LOG = {"retention.ms": str(6 * int(HOUR)), "retention.bytes": "67108864"}
_TABLE = {
    "cleanup.policy": "compact",
    "segment.ms": "300000",
    "min.cleanable.dirty.ratio": "0.3",
    "delete.retention.ms": HOUR,
}
_CITIES = ("Lisbon", "Oslo", "Kraków", "Turin", "Łódź", "Graz", "Malmö", "Porto")
_GOODS = ("lamp", "kettle", "chair", "rug", "clock", "mug", "shelf", "stool")
CUSTOMERS = 400


@dataclasses.dataclass(frozen=True)
class Topic:
    """One topic of the shop; `codec` is what its producer compresses with."""

    name: str
    partitions: int
    codec: str
    config: dict[str, str]


PRIMARY = (
    Topic("orders", 6, "zstd", {**_LOG, "max.message.bytes": "2097152"}),
    Topic("payments", 3, "lz4", _LOG),
    Topic("customers", 3, "snappy", _TABLE),
    Topic("invoices", 2, "gzip", _LOG),
    Topic("clicks", 4, "none", _LOG),
)
BACKUP = (
    Topic("returns", 2, "gzip", _LOG),
    Topic("stock", 2, "lz4", _TABLE),
)
PAYMENTS = "payments"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One record to be written."""

    topic: str
    key: str | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def business(chance: Random, amount: int) -> Iterator[Entry]:
    """What the shop writes on the primary in a moment in which it takes `amount` orders."""
    for _ in range(amount):
        yield order(chance)
        for _ in range(chance.randint(0, 3)):
            yield click(chance)
        if chance.random() < 0.5:
            yield customer(chance)
        if chance.random() < 0.3:
            yield invoice(chance)


def warehouse(chance: Random, amount: int) -> Iterator[Entry]:
    """What the warehouse writes on the backup, so that records cross in that direction too."""
    for _ in range(amount):
        yield Entry(
            "returns",
            _customer_id(chance),
            _json({"goods": chance.choice(_GOODS), "reason": chance.choice(("late", "broken"))}),
            _trace(chance),
        )
        goods = chance.choice(_GOODS)
        gone = chance.random() < 0.05
        yield Entry("stock", goods, None if gone else _json({"left": chance.randint(0, 900)}))


def order(chance: Random) -> Entry:
    lines = [
        {"goods": chance.choice(_GOODS), "count": chance.randint(1, 5)}
        for _ in range(chance.randint(1, 6))
    ]
    body = {"id": chance.getrandbits(48), "lines": lines, "city": chance.choice(_CITIES)}
    headers = (*_trace(chance), ("content-type", b"application/json"), ("content-type", b"v2"))
    if chance.random() < 0.004:  # a photo of the broken thing comes with it
        return Entry("orders", _customer_id(chance), _json(body) + _photo(chance), headers)
    return Entry("orders", _customer_id(chance), _json(body), headers)


def payment(chance: Random) -> Entry:
    body = {"order": chance.getrandbits(48), "cents": chance.randint(99, 90_000)}
    return Entry(PAYMENTS, _customer_id(chance), _json(body), _trace(chance))


def customer(chance: Random) -> Entry:
    key = _customer_id(chance)
    if chance.random() < 0.08:  # asked to be forgotten
        return Entry("customers", key, None, (("reason", b"erasure"),))
    body = {"city": chance.choice(_CITIES), "orders": chance.randint(1, 50)}
    return Entry("customers", key, _json(body))


def invoice(chance: Random) -> Entry:
    lines = [f"{chance.choice(_GOODS)};{chance.randint(1, 9)};{chance.randint(99, 9999)}\n"]
    return Entry(
        "invoices",
        None,
        "".join(lines * chance.randint(20, 400)).encode(),
        (("content-type", b"text/csv"), ("signature", None)),
    )


def click(chance: Random) -> Entry:
    page = b"/" + chance.choice(_GOODS).encode()
    return Entry("clicks", None, b"" if chance.random() < 0.02 else page)


def _customer_id(chance: Random) -> str:
    return f"customer-{chance.randrange(CUSTOMERS):04d}"


def _trace(chance: Random) -> tuple[tuple[str, bytes | None], ...]:
    return (("trace-id", chance.randbytes(16)),)


def _photo(chance: Random) -> bytes:
    return chance.randbytes(chance.randint(50_000, 400_000))


def _json(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
