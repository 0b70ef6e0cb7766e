"""The Dockerfile as data: its stages and their steps, in order."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import PurePosixPath


@dataclasses.dataclass(frozen=True)
class Copy:
    """`COPY`: from the context, or from an earlier stage."""

    sources: tuple[str, ...]
    to: str
    stage: str = ""
    owner: str = ""


@dataclasses.dataclass(frozen=True)
class Run:
    """`RUN`: a command of the shell, with what was in force where it stands."""

    command: str
    directory: str
    user: str
    environment: tuple[tuple[str, str], ...]


@dataclasses.dataclass
class Stage:
    """One `FROM`: its base, its steps, and what a container of it begins with."""

    base: str
    name: str = ""
    steps: list[Copy | Run] = dataclasses.field(default_factory=list)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    user: str = "root"
    directory: str = "/"

    def take(self, word: str, text: str) -> None:
        if word == "RUN":
            given = tuple(self.environment.items())
            self.steps.append(Run(text, self.directory, self.user, given))
        elif word == "COPY":
            self.steps.append(self._copy(shlex.split(text)))
        elif word == "ENV":
            pairs = (pair.partition("=") for pair in shlex.split(text))
            self.environment.update((name, value) for name, _, value in pairs)
        elif word == "USER":
            self.user = text
        elif word == "WORKDIR":
            self.directory = self._inside(text)
        elif word not in ("CMD", "ENTRYPOINT", "EXPOSE"):
            raise ValueError(f"The recipe has {word}, which nothing here carries out.")

    def _copy(self, words: list[str]) -> Copy:
        options = dict(word[2:].split("=") for word in words if word.startswith("--"))
        *sources, to = (word for word in words if not word.startswith("--"))
        owner = options.pop("chown", "")
        return Copy(tuple(sources), self._inside(to), options.pop("from", ""), owner, **options)

    def _inside(self, path: str) -> str:
        return str(PurePosixPath(self.directory, path))


def stages_of(text: str) -> list[Stage]:
    """The stages of a Dockerfile's text; ValueError for an instruction that is not known here."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*#", line)]
    found: list[Stage] = []
    defaults: dict[str, str] = {}
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "ARG" and not found:
            name, _, value = rest.strip().partition("=")
            defaults[name] = value
        elif word == "FROM":
            rest = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], rest)
            base, *stage = re.split(r"\s+AS\s+", rest.strip())
            found.append(Stage(base, *stage))
        elif word:
            found[-1].take(word, rest.strip())
    return found
