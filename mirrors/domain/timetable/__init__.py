"""When bounded flows run: what one does now, when its next run begins, and in words why."""

from mirrors.domain.timetable.standing import Standing, standing_of

__all__ = ["Standing", "standing_of"]
