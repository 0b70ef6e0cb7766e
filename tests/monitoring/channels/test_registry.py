"""The table of channel types is complete: each kind has a type, instructions and tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.template.loader import get_template

from monitoring.channels.registry import CHANNEL_TYPES, errors_of
from monitoring.models import ChannelKind


@pytest.mark.parametrize("kind", ChannelKind.values)
def test_each_kind_has_a_type_instructions_and_a_test_file(kind: str) -> None:
    channel_type = CHANNEL_TYPES[kind]
    assert channel_type.kind == kind
    assert get_template(channel_type.template).render()
    assert Path(__file__).with_name(f"test_{kind}.py").exists()


@pytest.mark.parametrize("kind", ChannelKind.values)
def test_a_target_may_refer_to_a_secret_for_channels_and_to_no_other(kind: str) -> None:
    assert "target" not in errors_of(kind, "env:UNDERSTUDY_NOTIFY_X", "")
    assert "target" in errors_of(kind, "env:SECRET_KEY", "")
