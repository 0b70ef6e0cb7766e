"""The page on rules names what the code has, and its examples can be used."""

from __future__ import annotations

import re

import yaml

from mirrors.domain.transforms.functions import COLUMNS, HELPERS
from mirrors.domain.transforms.rules import parse_rules
from mirrors.domain.transforms.sql import rule_problems
from tests.house.rules import ROOT

PAGE = (ROOT / "docs/operations/flows/transforms.md").read_text()


def test_every_column_and_helper_is_on_the_page_as_in_the_code() -> None:
    for name, kind in COLUMNS.items():
        assert f"| `{name}` | {kind} |" in PAGE
    for helper in HELPERS.values():
        assert f"| `{helper.signature}` | {helper.meaning} |" in PAGE


def test_the_rules_on_the_page_can_be_used() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (document,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    properties = yaml.safe_load(document)["spec"]["properties"]
    for text in (example, properties["transforms"]):
        assert parse_rules(text)
        assert rule_problems(parse_rules(text)) == []
    assert properties["transforms"].isprintable()
