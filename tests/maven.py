"""Programs of tests that come from Maven: fetched once a machine, and verified."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

_ATTEMPTS = 3


def fetched(artifact: str, *, name: str, sha256: str) -> Path:
    """The file of an artifact (`group:id:version:type[:classifier]`), in a folder of this name."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(root) / "understudy" / name
    if not folder.is_dir():
        maven = shutil.which("mvn")
        assert maven is not None, f"{artifact} comes from Maven: install mvn"
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = folder.with_name(f"{name}-{os.getpid()}.new")
        goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={new}"]
        for attempt in range(_ATTEMPTS):
            done = subprocess.run([maven, "-q", "-B", *goal], timeout=600, cwd=Path(root))
            if done.returncode == 0:
                break
            time.sleep(2**attempt)
        assert done.returncode == 0, f"Maven cannot fetch {artifact}"
        if not folder.is_dir():
            new.rename(folder)
        else:
            shutil.rmtree(new)
    [path] = folder.iterdir()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256, f"{path} has another checksum"
    return path
