"""In this process the sources run, not the compiled engine, so that a test can inspect objects.

Runners that are started take the machine code, where `make setup` could make it; with the switch
at 1 it runs here too. Said here, since all that tests import comes after this.
"""

import os

import pytest

from spark_runner.native import loader

with pytest.MonkeyPatch.context() as switch:
    switch.setenv(loader.SWITCH, os.environ.get(loader.SWITCH, "0"))
    import spark_runner.engine
    import spark_runner.kafka_protocol  # noqa: F401
