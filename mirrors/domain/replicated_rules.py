"""What skip.replicated asks of the flows that write on the cluster which is read."""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.keys.control import SKIP
from mirrors.domain.specs import FlowSpec


def check_replicated(spec: FlowSpec, writers: Iterable[FlowSpec]) -> None:
    """`writers` are the flows that write on the source of `spec`."""
    for writer in writers if spec.settings.skip_replicated else ():
        if writer.settings.delivery != "exactly_once":
            raise InvalidSettings(
                {
                    SKIP: [
                        f"{spec.name} leaves out what other flows wrote on {spec.source.alias} "
                        f"({SKIP}=true), but {writer.name} writes there with "
                        "delivery=at_least_once: a record could be seen before the note that it "
                        f"is a copy. Set delivery=exactly_once on {writer.name}."
                    ]
                }
            )
