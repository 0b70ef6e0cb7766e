"""Where each group of a failover plan goes on: translations from rows, the ends of the target."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from mirrors.domain.checkpoints import GroupPlace
from mirrors.domain.failover.shapes import GroupPicture
from mirrors.kafka.admin import Place
from mirrors.models import Flow
from mirrors.services.backward import answers_home
from mirrors.services.offsets.translation import translate_offsets


def with_answers(
    flow: Flow,
    groups: Iterable[GroupPicture],
    target: tuple[Mapping[Place, int], Mapping[Place, int]],
    states: Mapping[str, str],
    home: Mapping[Place, Place],
) -> Iterator[GroupPicture]:
    """Each place with its translation and the target's end, each group with its state there.

    `home`: remote partitions on the source that came from the target, and go back to themselves.
    """
    groups = [_known(group, home) for group in groups]
    asked: dict[Place, set[int]] = {}
    for place in (place for group in groups for place in group.places):
        if place.source_offset is not None:
            asked.setdefault((place.topic, place.partition), set()).add(place.source_offset)
    away = {place: rows for place, rows in asked.items() if place not in home}
    answers = translate_offsets(flow=flow, places=away)
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


def _on_target(
    place: GroupPlace, starts: Mapping[Place, int], ends: Mapping[Place, int]
) -> GroupPlace:
    where = (place.remote_topic or "", place.partition)
    end, found = ends.get(where), place.translation
    place = dataclasses.replace(place, target_end=end)
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
