"""What the pictures of the demo are taken of."""

from __future__ import annotations

import pytest

from controlplane.demo.screenshots import is_page


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", True),
        ("/flows/1/", True),
        ("/flows/?q=a.b", True),
        ("/drills/evidence.json", False),
        ("/drills/evidence.json?flow=1", False),
        ("https://example.com/", False),
        ("#top", False),
    ],
)
def test_a_download_is_no_page(path: str, expected: bool) -> None:
    assert is_page(path) is expected
