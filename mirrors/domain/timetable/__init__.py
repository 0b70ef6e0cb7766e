"""When bounded flows run: what one does now, when its next run begins, and in words why."""

from mirrors.domain.timetable.runs import Runs
from mirrors.domain.timetable.standing import Standing, standing_of
from mirrors.domain.timetable.window import Window

__all__ = ["Runs", "Standing", "Window", "standing_of"]
