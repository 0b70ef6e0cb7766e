"""What a target registry lacks of the source's: order, ids, names, and what is only named."""

from __future__ import annotations

from typing import Any

import pytest

from mirrors.domain.schemas.plan import SchemaPlan, plan_schemas
from mirrors.domain.schemas.snapshot import (
    RegistrySnapshot,
    Schema,
    SchemaReference,
    SchemaVersion,
    SubjectState,
)
from mirrors.domain.schemas.subjects import SubjectFormat, SubjectSelection
from mirrors.domain.topics.manual_schema_changes import SubjectBaseline, manual_changes


def version(number: int, text: str = "", *references: SchemaReference) -> SchemaVersion:
    return SchemaVersion(
        id=number, kind="AVRO", digest=text or f"text {number}", references=references
    )


def registry(alias: str = "east", mode: str = "", level: str = "", **more: Any) -> RegistrySnapshot:
    """Subjects as keywords: versions by number, or a state."""
    unread = more.pop("unread", {})
    subjects = {
        name.replace("_", "-"): found
        if isinstance(found, SubjectState)
        else SubjectState(versions=found)
        for name, found in more.items()
    }
    return RegistrySnapshot(alias=alias, subjects=subjects, unread=unread, mode=mode, level=level)


def plan(source: RegistrySnapshot, target: RegistrySnapshot, **more: Any) -> SchemaPlan:
    selection = more.pop("selection", SubjectSelection())
    return plan_schemas(source, target, selection, **more)


def order(found: SchemaPlan) -> list[tuple[str, int]]:
    return [(row.subject, row.version) for row in found.register]


def test_what_is_the_same_is_paired_and_nothing_changes() -> None:
    source = registry(orders={1: version(7), 2: version(8)})
    target = registry("west", orders={1: version(1, "text 7"), 2: version(2, "text 8")})
    found = plan(source, target)
    assert found.changes == 0
    assert [(pair.id, pair.target_id, pair.has_other_id) for pair in found.pairs] == [
        (7, 1, True),
        (8, 2, True),
    ]
    assert [(row.state, row.other_ids) for row in found.rows] == [("in_sync", 2)]


def test_a_schema_comes_after_those_that_it_refers_to() -> None:
    base = SchemaReference("Base", "z-base", 2)
    source = registry(a={1: version(5, "a", base)}, z_base={1: version(3), 2: version(4)})
    found = plan(source, registry("west"))
    assert order(found) == [("z-base", 1), ("z-base", 2), ("a", 1)]
    # Also if only the first one is selected.
    found = plan(source, registry("west"), selection=SubjectSelection(names=("a",)))
    assert order(found) == [("z-base", 1), ("z-base", 2), ("a", 1)]
    assert "refers to it" in found.register[0].because


def test_excluded_subjects_are_left_alone() -> None:
    source = registry(a={1: version(1)}, a_draft={1: version(2)}, b={1: version(3)})
    chosen = SubjectSelection(names=("a.*",), excluded=(".*-draft",))
    assert order(plan(source, registry("west"), selection=chosen)) == [("a", 1)]


def test_references_that_lead_nowhere_or_in_a_loop_are_named() -> None:
    lost = version(5, "a", SchemaReference("Lost", "lost", 1))
    one = version(6, "b", SchemaReference("C", "c", 1))
    two = version(7, "c", SchemaReference("B", "b", 1))
    source = registry(a={1: lost}, b={1: one}, c={1: two}, d={1: version(8)})
    found = plan(source, registry("west"))
    assert order(found) == [("d", 1)]
    states = {row.subject: row.state for row in found.rows}
    assert states == {"a": "conflict", "b": "conflict", "c": "conflict", "d": "pending"}
    text = " ".join(found.left_out)
    assert "refers to version 1 of 'lost', and east has no version 1 of subject 'lost'" in text
    assert "form a loop" in " ".join(row.reason for row in found.rows)


def test_the_same_text_with_another_reference_is_another_schema() -> None:
    first = version(5, "same", SchemaReference("Base", "base", 1))
    second = version(6, "same", SchemaReference("Base", "base", 2))
    source = registry(a={1: first, 2: second}, base={1: version(1), 2: version(2)})
    target = registry("west", a={1: second}, base={1: version(1), 2: version(2)})
    found = plan(source, target)
    assert [(pair.version, pair.target_version) for pair in found.pairs if pair.subject == "a"] == [
        (2, 1)
    ]
    assert order(found) == [("a", 1)]


@pytest.mark.parametrize(
    ("ids", "mode", "refused", "keeps", "words"),
    [
        ("auto", "READWRITE", "", True, "import mode keeps ids"),
        ("auto", "", "", False, "has no modes"),
        ("auto", "READWRITE", "It refuses.", False, "It refuses."),
        ("map", "READWRITE", "", False, "is map"),
    ],
)
def test_ids_are_kept_where_the_target_has_an_import_mode(
    ids: str, mode: str, refused: str, keeps: bool, words: str
) -> None:
    source = registry(orders={3: version(7)})
    found = plan(source, registry("west", mode=mode), ids=ids, refused=refused)
    assert [(row.version, row.id, row.keeps) for row in found.register] == [(3, 7, keeps)]
    assert found.keeps_ids is keeps
    assert words in found.ids_reason


def test_keep_maps_nothing_and_says_why() -> None:
    found = plan(registry(orders={1: version(7)}), registry("west"), ids="keep")
    assert not found.register
    assert "sync.schemas.ids is keep, and: The schema registry of west has no modes" in str(
        found.left_out
    )


def test_a_version_that_is_another_schema_on_the_target_is_a_conflict_when_ids_are_kept() -> None:
    source = registry(orders={1: version(7)})
    target = registry("west", mode="READWRITE", orders={1: version(7, "other")})
    found = plan(source, target)
    assert not found.register
    assert found.rows[0].state == "conflict"
    assert "west has another schema as version 1 of 'orders'" in found.rows[0].reason
    # With ids of the target's own it gets the next version.
    assert order(plan(source, target, ids="map")) == [("orders", 1)]


def test_soft_deleted_versions_gaps_and_foreign_versions_are_named_and_nothing_is_deleted() -> None:
    state = SubjectState(versions={5: version(7)}, deleted=(2,))
    target = registry("west", orders={1: version(3, "theirs")})
    found = plan(registry(orders=state), target)
    assert order(found) == [("orders", 5)]
    text = " ".join(found.left_out)
    assert "Version 2 of subject 'orders' is soft-deleted on east" in text
    assert "Versions 1, 3, 4 of subject 'orders' no longer exist on east" in text
    assert "Version 1 of subject 'orders' on west is not on east. Nothing is deleted" in text


def test_levels_are_those_that_apply_and_modes_only_the_subjects_own() -> None:
    source = registry(
        mode="READONLY",
        level="FULL",
        a=SubjectState(versions={1: version(1)}, level="NONE", mode="READONLY"),
        b={1: version(2)},
    )
    target = registry(
        "west", mode="READWRITE", level="BACKWARD", a={1: version(1)}, b={1: version(2)}
    )
    found = plan(source, target)
    assert [(row.what, row.target_subject, row.before, row.after) for row in found.settings] == [
        ("level", "a", "", "NONE"),
        ("mode", "a", "", "READONLY"),
        ("level", "b", "", "FULL"),
    ]


def test_a_subject_that_could_not_be_read_is_unknown_and_hides_no_other() -> None:
    source = registry(a={1: version(1)}, b={1: version(2)}, unread={"c": "c is forbidden."})
    target = registry("west", a={1: version(1)}, unread={"b": "b is forbidden."})
    found = plan(source, target)
    states = {row.subject: row.state for row in found.rows}
    assert states == {"a": "in_sync", "b": "unknown", "c": "unknown"}
    assert not found.register
    assert {"c is forbidden.", "b is forbidden."} <= set(found.left_out)


@pytest.mark.parametrize(
    ("template", "subject", "there"),
    [
        ("${subject}", "orders", "orders"),
        ("${subject}", ":.eu:orders", ":.eu:orders"),
        ("dr-${subject}", ":.eu:orders", ":.eu:dr-orders"),
        (":.east:${subject}", "orders", ":.east:orders"),
        (":.east:${subject}", ":.eu:orders", None),
    ],
)
def test_subjects_are_named_with_prefix_and_context(
    template: str, subject: str, there: str | None
) -> None:
    assert SubjectFormat().parse(template) == template
    assert SubjectSelection(template=template).on_target(subject) == there


@pytest.mark.parametrize(
    "text", ["", "orders", "${subject}${subject}", "a b ${subject}", ":x:${subject}"]
)
def test_a_format_without_one_subject_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a text with"):
        SubjectFormat().parse(text)


def test_two_contexts_are_named() -> None:
    source = RegistrySnapshot(
        alias="east", subjects={":.eu:orders": SubjectState(versions={1: version(1)})}
    )
    found = plan(source, registry("west"), selection=SubjectSelection(template=":.east:${subject}"))
    assert not found.register
    assert "sync.schemas.subject.format adds one" in found.rows[0].reason


def test_schemas_are_equal_whatever_their_white_space_and_the_order_of_keys() -> None:
    one = Schema("AVRO", '{"type": "record", "name": "A", "fields": []}')
    other = Schema("AVRO", '{"name":"A","fields":[],"type":"record"}')
    assert one.digest == other.digest
    assert one.digest != Schema("JSON", other.text).digest
    assert Schema("PROTOBUF", "message A {\n}").digest == Schema("PROTOBUF", "message A { }").digest


def test_only_what_the_flow_left_otherwise_is_a_manual_change() -> None:
    source = registry(level="FULL", a={1: version(1), 2: version(2)})
    target = registry("west", level="NONE", a={2: version(2), 3: version(9, "theirs")})
    found = plan(source, target)
    assert not manual_changes(found, target, {}, {})
    base = {"a": SubjectBaseline(level="FULL", versions={1, 2})}
    changes = manual_changes(found, target, base, {("a", 1): "a", ("a", 2): "a"})
    assert [(row.kind, row.key, row.found) for row in changes] == [
        ("schema level", "level", "NONE"),
        ("deleted schema", "version 1", None),
        ("foreign schema", "version 3", "id 9"),
    ]
    # A new version of the source is none.
    assert len(manual_changes(found, target, base, {("a", 2): "a"})) == 2
