"""In this process the sources run, not the compiled engine, so that a test can inspect objects.

Runners that are started take the machine code, where `make setup` could make it; with the switch
at 1 it runs here too. Said here, since all that tests import comes after this.
"""

import os
import sys

from spark_runner.native import loader

# Without pytest: processes that tests start load this too.
_before = os.environ.get(loader.SWITCH)
try:
    os.environ.setdefault(loader.SWITCH, "0")
    import spark_runner.engine
    import spark_runner.kafka_protocol  # noqa: F401
finally:
    if _before is None:
        del os.environ[loader.SWITCH]

# Where it is installed, jsonschema compiles its grammars of addresses, for two seconds of each
# session. No test compares the format of an address with jsonschema.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
