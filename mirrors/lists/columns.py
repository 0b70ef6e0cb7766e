"""The declaration of a list: its columns, and how it is searched, filtered and sorted.

Three outputs follow from it: the headings of the page's table (`mirrors/views/tables.py`), the
CSV and JSON files (the same), and the fields of the REST serializer (`mirrors/api/`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Expression

SAME = "="


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a list.

    - `key`: attribute path of the value; the column's name in files and in `?sort=`.
    - `label`: the heading on the page; empty if the page does not have it.
    - `sort`: the fields to order by; empty if it cannot be sorted.
    - `title`: explains the figure; the tooltip of the heading and the description in OpenAPI.
    - `field`: the REST field, by default the key; None if REST does not have it.
    - `total`: for an amount that is owed or its age: the path of the `Total` that states it.
    """

    key: str
    label: str = ""
    sort: tuple[str, ...] = ()
    number: bool = False
    title: str = ""
    in_file: bool = True
    field: str | None = SAME
    # The heading is read aloud, but not drawn: a column of buttons.
    hidden: bool = False
    total: str = ""

    @property
    def rest_name(self) -> str | None:
        return self.key if self.field == SAME else self.field


def on_page(label: str, *, number: bool = False, title: str = "", hidden: bool = False) -> Column:
    """A column that only the page has: a drawing, buttons, or several values in one cell."""
    return Column("", label, (), number, title, in_file=False, field=None, hidden=hidden)


def in_files(*keys: str) -> tuple[Column, ...]:
    """Columns that only the files have."""
    return tuple(Column(key, field=None) for key in keys)


def in_rest(*fields: str) -> tuple[Column, ...]:
    """Fields that only REST has."""
    return tuple(Column(field, in_file=False) for field in fields)


@dataclasses.dataclass(frozen=True)
class ListSpec:
    """One list of the product.

    A list without `default` is shown whole: its rows are in the page's context, at the path
    `rows` or under the name that the view gives the list. Others are read page by page.
    """

    name: str
    columns: Sequence[Column]
    rows: str = ""
    search: Sequence[str] = ()
    default: str = ""
    filters: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    # Order of rows that are equal in the sorted column.
    tie: tuple[str | Expression, ...] = ("pk",)

    def __post_init__(self) -> None:
        if SPECS.setdefault(self.name, self) is not self:
            raise ValueError(f"The list {self.name} is declared twice.")

    @property
    def headings(self) -> list[Column]:
        """The columns of the page's table."""
        return [column for column in self.columns if column.label]

    @property
    def file_columns(self) -> list[Column]:
        return [column for column in self.columns if column.in_file]

    @property
    def fields(self) -> tuple[str, ...]:
        """The REST fields."""
        return tuple(name for column in self.columns if (name := column.rest_name))

    @property
    def extra_kwargs(self) -> dict[str, dict[str, Any]]:
        """`Meta.extra_kwargs` of the serializer: sources of renamed fields, and descriptions."""
        found: dict[str, dict[str, Any]] = {}
        for column in self.columns:
            name = column.rest_name
            if not name or "." in column.key:
                continue
            known = {"help_text": column.title} if column.title else {}
            if name != column.key and column.key != "pk":
                known["source"] = column.key
            if known:
                found[name] = known
        return found

    @property
    def orderings(self) -> dict[str, tuple[str, ...]]:
        """`ordering_aliases` of the view: each sortable REST field and its database fields."""
        return {name: c.sort for c in self.columns if c.sort and (name := c.rest_name)}


SPECS: dict[str, ListSpec] = {}
