"""The steps of the Dockerfile in a clean root of Debian, where no engine builds images.

    python -m tests.image.clean_root DIRECTORY

The base of an official Python image is Debian's smallest system with a Python of its own below
/usr/local: here `debootstrap` and a copy of the Python that runs this program, which must be of
the same version. What a step needs and the recipe does not install is missing here too.
Needs root, `debootstrap` and a registry of Debian packages; takes some ten minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.image.recipe import Copy, Run, Stage, stages_of

ROOT = Path(__file__).resolve().parents[2]
# What the Python of an official image is linked with, and what its base has (names of Debian 13).
_LIBRARIES = (
    "ca-certificates,netbase,tzdata,libbz2-1.0,libexpat1,libffi8,liblzma5,libncursesw6,"
    "libreadline8t64,libsqlite3-0,libssl3t64,libuuid1,zlib1g"
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How this machine reaches its registries.
_REACH = re.compile(r"(?i)(PIP_\w+|\w+_PROXY|SSL_CERT_\w+|REQUESTS_CA_BUNDLE)")
_OF_THE_MACHINE = ("/etc/resolv.conf", "/etc/pip.conf", "/etc/hosts")
_AUTHORITIES = Path("/usr/local/share/ca-certificates")
_BASE = re.compile(r"python:(\d+\.\d+)-slim-(\w+)")
_STEP_S = 1800


def inside(
    root: Path,
    command: Sequence[str],
    *,
    user: str = "root",
    directory: str = "/",
    environment: Mapping[str, str],
    shared: Sequence[Path] = (),
    read_only: bool = False,
) -> list[str]:
    """The command line that runs a command with `root` as its system.

    `shared` are folders of this machine that it finds under the same paths; with `read_only` it
    can write to these and to /tmp alone.
    """
    at = root.resolve()
    script = [f"mount --bind {at} {at}", f"mount -t proc proc {at}/proc"]
    script.append(f"mount --rbind /dev {at}/dev")
    for path in shared:
        (at / path.relative_to("/")).mkdir(parents=True, exist_ok=True)
    if read_only:
        script += [f"mount -o remount,bind,ro {at}", f"mount -t tmpfs -o mode=1777 tmp {at}/tmp"]  # noqa: S108
        script.append(f"mkdir -p {' '.join(f'{at}{path}' for path in shared)}")
    script += [f"mount --bind {path} {at}{path}" for path in shared]
    script.append(f'exec chroot --userspec={user} {at} env -i "$@"')
    pairs = [f"{name}={value}" for name, value in {"PATH": _PATH, **environment}.items()]
    own = ["env", f"--chdir={directory}", *command]
    return ["unshare", "--mount", "sh", "-ec", "\n".join(script), "sh", *pairs, *own]


class Build:
    """All stages of the recipe below one directory; the last one is the image."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stages = stages_of((ROOT / "Dockerfile").read_text(encoding="utf-8"))
        self._context = directory / "context"

    def run(self) -> Path:
        """Carry out all steps; the root of the image."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._context.mkdir(parents=True)
        tracked = subprocess.run(
            ["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x"], cwd=self._context, input=tracked.stdout, check=True)
        for number, stage in enumerate(self._stages):
            self._make_base(stage, self._root(number))
            for step in stage.steps:
                self._carry_out(step, self._root(number))
        return self._root(len(self._stages) - 1)

    def _root(self, number: int) -> Path:
        return self._directory / f"stage-{number}"

    def _make_base(self, stage: Stage, root: Path) -> None:
        made = _BASE.fullmatch(stage.base)
        running = f"{sys.version_info.major}.{sys.version_info.minor}"
        if made is None or made[1] != running:
            raise SystemExit(
                f"The recipe begins with {stage.base}, and here runs Python {running}: "
                "run this with the Python of the recipe."
            )
        base = self._directory / f"base-{made[2]}"
        if not base.exists():
            arguments = ["--variant=minbase", f"--include={_LIBRARIES}", made[2], str(base)]
            _checked(["debootstrap", *arguments])
            _copy_python(base)
        _checked(["cp", "-a", str(base), str(root)])

    def _carry_out(self, step: Copy | Run, root: Path) -> None:
        if isinstance(step, Run):
            sys.stdout.write(f"RUN {step.command[:150]}\n")
            sys.stdout.flush()
            reach = {name: text for name, text in os.environ.items() if _REACH.fullmatch(name)}
            reach.pop("PIP_FIND_LINKS", None)
            _checked(
                inside(
                    root,
                    ["/bin/sh", "-c", step.command],
                    user=step.user,
                    directory=step.directory,
                    environment={**reach, **dict(step.environment)},
                )
            )
            return
        names = [stage.name for stage in self._stages]
        source = self._root(names.index(step.stage)) if step.stage else self._context
        to = root / step.to.lstrip("/")
        to.mkdir(parents=True, exist_ok=True)
        for name in step.sources:
            whole = source / name.lstrip("/")
            if whole.is_dir():
                # Of a folder its content is copied.
                destination = to if len(step.sources) == 1 else to / whole.name
                shutil.copytree(whole, destination, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(whole, to)
        if step.owner:
            _checked(["chroot", str(root), "chown", "-R", step.owner, step.to])


def _copy_python(base: Path) -> None:
    """The Python of this machine, without what people have installed in it."""
    source, to = Path(sys.base_prefix), base / "usr" / "local"
    library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    ignored = shutil.ignore_patterns("site-packages", "test", "idlelib", "__pycache__", "tkinter")
    shutil.copytree(source / library, to / library, ignore=ignored, dirs_exist_ok=True)
    shutil.copytree(source / "include", to / "include", symlinks=True, dirs_exist_ok=True)
    for shared in (source / "lib").glob("libpython*.so*"):
        shutil.copy2(shared, to / "lib", follow_symlinks=False)
    (to / library / "site-packages").mkdir()
    binary = to / "bin" / Path(sys.executable).resolve().name
    shutil.copy2(Path(sys.executable).resolve(), binary)
    for name in ("python3", "python"):
        (to / "bin" / name).symlink_to(binary.name)
    for name in _OF_THE_MACHINE:
        if os.path.exists(name):
            shutil.copy2(name, base / name.lstrip("/"))
    # Before Java comes, which makes its own list from this one.
    if _AUTHORITIES.is_dir():
        shutil.copytree(_AUTHORITIES, base / _AUTHORITIES.relative_to("/"), dirs_exist_ok=True)
    environment = {"HOME": "/root"}
    _checked(inside(base, ["update-ca-certificates"], environment=environment))
    _checked(inside(base, ["ldconfig"], environment=environment))
    _checked(inside(base, ["python3", "-m", "ensurepip", "--upgrade"], environment=environment))


def _checked(command: Sequence[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_STEP_S
    )
    if done.returncode:
        said = (done.stdout + done.stderr)[-4000:]
        raise SystemExit(f"{said}\nA step of the image's recipe failed in the clean root.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("Give the directory to build in: python -m tests.image.clean_root DIR")
    sys.stdout.write(f"The root of the image: {Build(Path(sys.argv[1])).run()}\n")
