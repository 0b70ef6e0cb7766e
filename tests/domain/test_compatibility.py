"""The page on MirrorMaker 2 states what the code does, for every key."""

from __future__ import annotations

import re

from mirrors.domain.settings.client_properties import TABLES as CLIENT_TABLES
from mirrors.domain.settings.table import KEYS
from mirrors.domain.settings.unsupported_mm2 import REFUSED
from tests.domain.cases import golden
from tests.domain.compatibility import PAGE, TABLES, render
from tests.domain.key_tests import CLIENTS, FAMILIES, PROOFS, is_there
from tests.domain.key_tests import REFUSED as REFUSALS

TEXT = PAGE.read_text()


def test_the_tables_of_the_page_are_those_of_the_rules() -> None:
    assert render(TEXT) == TEXT, "run: python -m tests.domain.compatibility"


def test_every_table_is_on_the_page_once() -> None:
    assert sorted(re.findall(r"<!-- table: (\w+) -->", TEXT)) == sorted(TABLES)


def test_every_key_is_on_the_page() -> None:
    names = {*KEYS, *REFUSED, *(name for table in CLIENT_TABLES.values() for name in table)}
    assert not [name for name in names if f"| `{name}` |" not in TEXT]


def test_no_key_has_two_verdicts() -> None:
    assert not set(KEYS) & set(REFUSED)
    assert all(key.why for key in REFUSED.values())


def test_every_option_that_mm2_validates_is_known_by_name() -> None:
    # What its validation was fed, but for its own worker's and what it did not know either.
    options = {name for case in golden("validation")["cases"] for name in case["add"]}
    clients = {name for name in options if "consumer." in name and name not in REFUSED}
    assert options - clients - {"unknown.key"} <= {*KEYS, *REFUSED}


def test_every_key_of_the_page_names_a_test_that_exists() -> None:
    assert not [name for name, key in KEYS.items() if key.verdict != "ours" and name not in PROOFS]
    assert not [name for name in PROOFS if name not in KEYS]
    assert not [proof for proof in PROOFS.values() if not is_there(proof)]
    for proof in (REFUSALS, FAMILIES, CLIENTS):
        assert is_there(proof)
        assert proof.removeprefix("tests/").split("::")[0] in TEXT
    assert not is_there("tests/domain/test_compatibility.py::test_that_nobody_wrote")
