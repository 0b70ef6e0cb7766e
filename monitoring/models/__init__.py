"""The rows of monitoring: what was measured, what is wrong, whom it was told."""

from monitoring.models.history import Feed, LagSample

__all__ = ["Feed", "LagSample"]
