"""In this process the sources run, so that a test can look inside.

Runners that are started take the machine code, where `make setup` could make it; with the switch
at 1 it runs here too. Said here, since all that tests import comes after this.
"""

import os

import pytest

from spark_runner import compiled

with pytest.MonkeyPatch.context() as switch:
    switch.setenv(compiled.SWITCH, os.environ.get(compiled.SWITCH, "0"))
    import spark_runner.lanes
    import spark_runner.wire  # noqa: F401
