"""What one TCP connection to a broker can carry: its smallest buffer for each round trip.

An estimate from the settings of both ends. The kernel of the broker's machine is not known.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from mirrors.domain.flows.speed_limits import FAR_MS
from mirrors.domain.formatting import size

RECEIVE: Final = "socket.receive.buffer.bytes"
SEND: Final = "socket.send.buffer.bytes"
# 1 Gb/s: buffers that carry more need no advice.
WANTED_BYTES_S: Final = 125_000_000
_SYSCTL: Final = Path("/proc/sys/net/ipv4")

Holder = Literal["broker", "kernel", "client"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ends:
    """Buffer sizes in bytes; None where unknown, or where the operating system decides.

    `kernel_*`: the largest buffers of this machine's kernel. `client_*`: settings of the cluster.
    """

    kernel_receive: int | None = None
    kernel_send: int | None = None
    client_receive: int | None = None
    client_send: int | None = None
    broker_receive: int | None = None
    broker_send: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """The bytes that one direction may have in flight, and whose buffer is the smallest."""

    bytes: int
    holder: Holder
    setting: str


def read_window(ends: Ends) -> Window | None:
    """From the broker to here. None if nothing is known."""
    # Half of the kernel's receive buffer holds its own data structures.
    kernel = ends.kernel_receive // 2 if ends.kernel_receive else None
    own = _own(ends.client_receive, "receive.buffer.bytes", kernel, "net.ipv4.tcp_rmem")
    return _smaller(own, _window(ends.broker_send, "broker", SEND))


def write_window(ends: Ends) -> Window | None:
    """From here to the broker. None if nothing is known."""
    own = _own(ends.client_send, "send.buffer.bytes", ends.kernel_send, "net.ipv4.tcp_wmem")
    return _smaller(own, _window(ends.broker_receive, "broker", RECEIVE))


def bytes_per_second(window: Window | None, rtt_ms: float | None) -> int | None:
    return round(window.bytes / rtt_ms * 1000) if window and rtt_ms else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distance:
    """A broker, its round trip, and the buffers on both ends."""

    broker: int
    rtt_ms: float
    ends: Ends


def advice(alias: str, distances: Iterable[Distance]) -> list[str]:
    """A sentence for each buffer that holds a distant broker's connections below 1 Gb/s."""
    found: dict[tuple[str, str], list[tuple[Distance, Window]]] = {}
    for one in distances:
        if one.rtt_ms < FAR_MS:
            continue
        for way, window in (("from", read_window(one.ends)), ("to", write_window(one.ends))):
            if window is not None and window.bytes / one.rtt_ms * 1000 < WANTED_BYTES_S:
                found.setdefault((way, window.setting), []).append((one, window))
    return [_sentence(alias, way, rows) for (way, _), rows in sorted(found.items())]


def _sentence(alias: str, way: str, rows: list[tuple[Distance, Window]]) -> str:
    farthest, window = max(rows, key=lambda row: row[0].rtt_ms / row[1].bytes)
    carried = size(bytes_per_second(window, farthest.rtt_ms))
    head = (
        f"One connection {way} {alias} carries at most about {carried}/s at RTT "
        f"{farthest.rtt_ms:.0f} ms:"
    )
    needed = round(WANTED_BYTES_S * farthest.rtt_ms / 1000)
    if window.holder == "broker":
        brokers = ", ".join(str(one.broker) for one, _ in rows)
        plural = "s" if len(rows) > 1 else ""
        return (
            f"{head} {window.setting} of broker{plural} {brokers} is {window.bytes:,}. Set it to "
            f"-1, so that the kernel sizes the buffer, or to {needed:,} for "
            f"{size(WANTED_BYTES_S)}/s, and restart the broker{plural}."
        )
    if window.holder == "client":
        return (
            f"{head} {window.setting} of the cluster is {window.bytes:,}. Remove it, or raise it "
            f"to {needed:,} for {size(WANTED_BYTES_S)}/s."
        )
    receives = window.setting.endswith("rmem")
    least, usual, most = (4096, 131072, 2 * needed) if receives else (4096, 16384, needed)
    return (
        f"{head} {window.setting} of this machine allows {size(window.bytes)} in flight. For "
        f"{size(WANTED_BYTES_S)}/s: sysctl -w {window.setting}='{least} {usual} {most}'."
    )


def own_ends(properties: Mapping[str, str], sysctl: Path = _SYSCTL) -> Ends:
    """The buffers of this end: the kernel's limits, and what the cluster's properties set."""
    return Ends(
        kernel_receive=_most(sysctl / "tcp_rmem"),
        kernel_send=_most(sysctl / "tcp_wmem"),
        client_receive=positive(properties.get("receive.buffer.bytes")),
        client_send=positive(properties.get("send.buffer.bytes")),
    )


def positive(text: str | None) -> int | None:
    """A size in bytes; None for -1, 0 and what is no number."""
    with contextlib.suppress(TypeError, ValueError):
        if (value := int(text or 0)) > 0:
            return value
    return None


def _most(file: Path) -> int | None:
    """The third value: the largest buffer that the kernel allocates itself."""
    with contextlib.suppress(OSError):
        return positive(next(itertools.islice(file.read_text().split(), 2, None), None))
    return None


def _own(
    client: int | None, client_setting: str, kernel: int | None, kernel_setting: str
) -> Window | None:
    if client is not None:
        return Window(bytes=client, holder="client", setting=client_setting)
    return _window(kernel, "kernel", kernel_setting)


def _window(value: int | None, holder: Holder, setting: str) -> Window | None:
    return Window(bytes=value, holder=holder, setting=setting) if value else None


def _smaller(one: Window | None, other: Window | None) -> Window | None:
    known = [window for window in (one, other) if window is not None]
    return min(known, key=lambda window: window.bytes, default=None)
