"""Prints the findings of every rule, or those whose path begins with the first argument."""

from __future__ import annotations

import sys

from tests.house.rules import RULES

prefix = sys.argv[1] if len(sys.argv) > 1 else ""
for name, rule in RULES.items():
    findings = [finding for finding in rule() if finding.startswith(prefix)]
    sys.stdout.write(f"{name}: {len(findings)}\n" + "".join(f"  {line}\n" for line in findings))
