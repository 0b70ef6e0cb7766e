"""Everybody who can be measured, by label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from controlplane.bench.errors import BenchError
from controlplane.bench.loop import CopyLoop
from controlplane.bench.mirror_maker import PROFILES, MirrorMaker
from controlplane.bench.systems import System
from controlplane.bench.understudy import Understudy

OURS = {"understudy": "exactly_once", "understudy-alo": "at_least_once"}
LABELS = (*PROFILES, "loop", *OURS)


def make_system(
    label: str,
    directory: Path,
    environment: Mapping[str, str],
    flow_properties: Mapping[str, str] | None = None,
) -> System:
    """The system of this label; `flow_properties` go into our flows, nobody else's."""
    makers: dict[str, Callable[[Path, Mapping[str, str]], System]] = {"loop": CopyLoop}
    makers |= {name: partial(MirrorMaker, profile) for name, profile in PROFILES.items()}
    makers |= {
        name: partial(Understudy, delivery, label=name, extra=flow_properties)
        for name, delivery in OURS.items()
    }
    if label not in makers:
        raise BenchError(f"There is no system {label}; there are {', '.join(LABELS)}.")
    return makers[label](directory, environment)
