"""Where each group of a failover plan goes on: translations from rows, the ends of the target."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from mirrors.domain.checkpoints import GroupPlace
from mirrors.domain.failover.shapes import GroupPicture
from mirrors.kafka.admin import Place
from mirrors.kafka.connection import Partial
from mirrors.models import Flow
from mirrors.services.backward import answers_home
from mirrors.services.offsets.translation import translate_offsets


def with_answers(
    flow: Flow,
    groups: Iterable[GroupPicture],
    target: tuple[Mapping[Place, int], Partial[Place, int]],
    states: Mapping[str, str],
    home: Mapping[Place, Place],
    positions: Mapping[Place, int],
) -> Iterator[GroupPicture]:
    """Each place with its translation and the target's end, each group with its state there.

    `home`: remote partitions on the source that came from the target, and go back to themselves.
    `positions`: how far each partition was copied when the picture was taken.
    """
    groups = [_known(group, home) for group in groups]
    asked: dict[Place, set[int]] = {}
    for place in (place for group in groups for place in group.places):
        if place.source_offset is not None:
            asked.setdefault((place.topic, place.partition), set()).add(place.source_offset)
    away = {place: rows for place, rows in asked.items() if place not in home}
    answers = translate_offsets(flow=flow, places=away, positions=positions)
    answers |= answers_home(flow, {place: asked[place] for place in asked.keys() & home.keys()})
    known = {(where, row.upstream): row for where, rows in answers.items() for row in rows}
    for group in groups:
        places = [
            dataclasses.replace(place, translation=known[where, place.source_offset])
            if place.source_offset is not None
            else place
            for place in group.places
            for where in ((place.topic, place.partition),)
        ]
        yield dataclasses.replace(
            group,
            places=tuple(_on_target(place, *target) for place in places),
            target_state=states.get(group.group, ""),
        )


def copied_to(flow: Flow, positions: Mapping[Place, int]) -> dict[Place, int]:
    """Behind the last record copied by these positions, on the target; markers do not count."""
    asked = {place: [position] for place, position in positions.items()}
    found = translate_offsets(flow=flow, places=asked, positions=positions)
    return {
        place: rows[0].downstream
        for place, rows in found.items()
        if rows and rows[0].downstream is not None
    }


def _on_target(
    place: GroupPlace, starts: Mapping[Place, int], ends: Partial[Place, int]
) -> GroupPlace:
    where = (place.remote_topic or "", place.partition)
    end, found = ends.done.get(where), place.translation
    # One that did not answer is not one that is not there.
    silence = ends.failed[where].message if where in ends.failed else ""
    place = dataclasses.replace(place, target_end=end, trouble=place.trouble or silence)
    empty = end is not None and starts.get(where) == end
    if found is None or found.downstream is not None or not empty:
        return place
    # A map has nothing to say of it; who begins at its end sees all that will ever come.
    reason = "nothing was copied yet: the remote partition is empty"
    found = dataclasses.replace(found, downstream=end, outcome="exact", reason=reason)
    return dataclasses.replace(place, translation=found)


def _known(group: GroupPicture, home: Mapping[Place, Place]) -> GroupPicture:
    """Without partitions that no flow can lead back: what they came from is not known."""
    names = {topic for topic, _ in home}
    kept = [
        place
        for place in group.places
        if place.topic not in names or (place.topic, place.partition) in home
    ]
    return dataclasses.replace(group, places=tuple(kept))
