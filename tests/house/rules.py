"""The rules of CONTRIBUTING.md that a program can check: words, names, sizes of files and folders.

Each rule is a function without arguments; it returns its findings as `path: what is wrong`.
`python -m tests.house [prefix]` prints all of them, for one part of the tree while one works on it.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("controlplane", "mirrors", "monitoring", "spark_runner")

FOLDER_LIMIT = 15
HARD_LINES = 600
SMALL_LINES = 60
SMALL_FILES = 60
# Small files that are found by their name and belong nowhere else. Each pattern has its reason.
SMALL_ON_PURPOSE = {
    # A layer with one file per feature: the same word in each layer leads to it.
    r"(mirrors|monitoring)/(views|api|forms|lists)/.+": "one file per feature and layer",
    r"monitoring/channels/(email|pagerduty|slack|teams|webhook)\.py": "one file per channel",
    r"controlplane/bench/systems/.+": "one file per compared system",
    # Loaded by name from settings, or by Django, Celery or Spark.
    r".+/(__main__|admin|apps|urls|wsgi)\.py": "a name that the framework prescribes",
    r".+/templatetags/.+": "templates load it by this name",
    r"controlplane/(admin_site|form_renderer|static_finders)\.py": "settings name it",
    r"controlplane/health\.py": "views of the whole installation, which urls.py names",
    r"controlplane/demo/processes/reaper\.py": "the demo starts it by path",
    r"spark_runner/spark/worker_daemon\.py": "Spark starts it by module name",
}

# Never in prose, each with its replacement. `\b` on both sides is added.
WORDS = {
    "so many": "name the number, or `more than N`",
    "anew": "again; recreated",
    "for good": "permanently",
    "of ours": "our; this program's",
    "is told": "is reported; is notified",
    "are told": "are reported; are notified",
    "tells of": "reports",
    "whoever": "name the actor",
    "who takes": "name the actor",
    "(?<!encryption )(?<!encrypted )at rest": "stopped, paused",
    "in words": "say what: with a reason, as a sentence",
    "nought": "zero",
    "counts no more": "no longer counts",
    "way back": "failback",
    "from beside": "from the same folder",
    "takes no": "rejects, has no",
    "stands still": "is stalled, does not advance",
    "dear": "expensive",
    "throw-?away": "temporary",
    "stranger'?s?": "foreign producer, foreign record; another file",
    "ever longer": "with backoff",
    "nothing proves": "unverified, untested",
    "keeps? in step": "synchronizes",
    "bring along": "copy with it",
    "learns? of": "finds out about, detects",
    "mends?|mended|mending": "fix",
    "is it us or them": "component health",
}

# Words that must stay, by file and in lower case, each with its reason.
STORED_WORDS = {
    ("mirrors/domain/runners/job_files.py", "strangers"): "a field of the status file, which a "
    "worker of another version reads",
    ("mirrors/services/failback/switchover.py", "way back"): "stored reasons of earlier versions",
    ("tests/pages/test_failbacks.py", "way back"): "stored reasons of earlier versions",
}

RULES_FILE = "tests/house/rules.py"
# Words that say nothing to a Kafka engineer, in names of files, classes, functions.
NAMES = frozenset(
    [
        "arena",
        "arenas",
        "asking",
        "backward",
        "book",
        "clerk",
        "desk",
        "ears",
        "endings",
        "feeder",
        "flights",
        "gone",
        "heap",
        "heart",
        "homes",
        "holes",
        "intake",
        "keeping",
        "looking",
        "lookout",
        "lull",
        "office",
        "outlet",
        "parcel",
        "patience",
        "pen",
        "pipe",
        "recall",
        "sightings",
        "stranger",
        "strangers",
        "stride",
        "tally",
        "telling",
        "throwaway",
        "walk",
        "wishes",
        "words",
    ]
)


@functools.cache
def tracked() -> tuple[str, ...]:
    """Paths of the checkout, relative to its root, without what git ignores."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(
        line for line in sorted(set(listing.stdout.splitlines())) if (ROOT / line).is_file()
    )


@functools.cache
def python(*, product: bool = False) -> tuple[str, ...]:
    found = []
    for path in tracked():
        parts = PurePosixPath(path).parts
        skipped = "migrations" in parts or "golden" in parts
        if path.endswith(".py") and not skipped and (not product or parts[0] in PROGRAMS):
            found.append(path)
    return tuple(found)


@functools.cache
def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def prose(path: str) -> Iterator[tuple[int, str]]:
    """Lines that people read: documents and templates whole, strings and comments of Python."""
    if not path.endswith(".py"):
        yield from enumerate(read(path).splitlines(), 1)
        return
    kinds = {
        tokenize.STRING,
        tokenize.COMMENT,
        getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
    }
    for token in tokenize.generate_tokens(io.StringIO(read(path)).readline):
        if token.type in kinds:
            lines = token.string.splitlines()
            yield from enumerate(lines, token.start[0])


def forbidden_words() -> list[str]:
    pattern = re.compile("|".join(rf"\b(?:{word})\b" for word in WORDS), re.IGNORECASE)
    # Text that begins with letters is found four times as fast as one behind `\b` in any case.
    quick = [re.compile(re.sub(r"\(\?<!.*?\)", "", word)) for word in WORDS]
    found = []
    for path in tracked():
        if not path.endswith((".py", ".md", ".html", ".txt", ".yml", ".yaml", ".toml", "Makefile")):
            continue
        if (
            path.startswith(("tests/house/", "tests/golden/"))
            or "/migrations/" in path
            or path == "LICENSE"
        ):
            continue
        if path == "CONTRIBUTING.md" or path == "docs/renames.md":  # they name the words
            continue
        text = read(path)
        lower = text.lower()
        if not any(word.search(lower) for word in quick) or not pattern.search(text):
            continue  # most files need no tokens
        for number, line in prose(path):
            found += [
                f"{path}:{number}: {match.group(0)!r}"
                for match in pattern.finditer(line)
                if (path, match.group(0).lower()) not in STORED_WORDS
            ]
    return found


def _has_forbidden_word(name: str) -> bool:
    """Whether a part of the name of a class or function is a forbidden word."""
    return bool(NAMES & {part.lower() for part in re.findall(r"[a-z]+|[A-Z][a-z]*", name)})


def forbidden_names() -> list[str]:
    found = []
    defined = re.compile(r"^\s*(?:class|def)\s+(\w+)", re.MULTILINE)
    for path in python():
        stem = PurePosixPath(path).stem
        if NAMES & set(stem.split("_")):
            found.append(f"{path}: the file's name")
        if not any(_has_forbidden_word(name) for name in defined.findall(read(path))):
            continue
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                if path.startswith("tests/") and node.name.startswith("test_"):
                    continue  # a sentence: `forbidden_words` of its words is enough
                if path != RULES_FILE and _has_forbidden_word(node.name):
                    found.append(f"{path}:{node.lineno}: {node.name}")
    return found


def folders_too_full() -> list[str]:
    counts = Counter(
        str(PurePosixPath(path).parent)
        for path in python(product=True)
        if not path.endswith("__init__.py")
    )
    return [
        f"{folder}: {count} files"
        for folder, count in sorted(counts.items())
        if count > FOLDER_LIMIT
    ]


def files_too_long() -> list[str]:
    return [
        f"{path}: {lines} lines"
        for path in python()
        if (lines := len(read(path).splitlines())) > HARD_LINES
    ]


@dataclasses.dataclass(frozen=True)
class Imports:
    """What a module imports: modules, and names of modules, each with its module in front.

    A dotted name in a string, as in Django's settings, is an import.
    """

    modules: frozenset[str]
    names: frozenset[str]
    dotted: frozenset[str]

    def __contains__(self, name: str) -> bool:
        return name in self.modules or name in self.names or name in self.dotted


@functools.cache
def imports_of(path: str) -> Imports:
    """Reading it costs milliseconds; look for the name in the text of a file before."""
    modules, names, dotted = set(), set(), set()
    pattern = re.compile(rf"({'|'.join(PROGRAMS)})(\.\w+)+")
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and pattern.fullmatch(str(node.value)):
            dotted.update({node.value, node.value.rpartition(".")[0]})
    return Imports(frozenset(modules), frozenset(names), frozenset(dotted))


def importing(*packages: str) -> Iterator[str]:
    """Product modules that import one of the packages, or a module of it."""
    either = "|".join(map(re.escape, packages))
    likely = re.compile(rf"^\s*(?:from|import)\s[^\n]*\b(?:{either})\b", re.MULTILINE)
    exactly = re.compile(rf"(?:{either})(?:\..*)?")
    for path in python(product=True):
        # Most files need not be parsed.
        if likely.search(read(path)) and any(map(exactly.fullmatch, imports_of(path).modules)):
            yield path


def _importers(module: str) -> Iterator[str]:
    """Product modules that import it or a name of it, also one that a package re-exports."""
    for wanted in (module, *_exports(module)):
        package, _, name = wanted.rpartition(".")
        for path in python(product=True):
            text = read(path)
            likely = wanted in text or (f"from {package} import" in text and name in text)
            if likely and wanted in imports_of(path):
                yield path


def _exports(module: str) -> Iterator[str]:
    """Names of the module as packages re-export them, each with its package in front."""
    for path in python(product=True):
        if path.endswith("/__init__.py") and f"from {module} import" in read(path):
            package = str(PurePosixPath(path).parent).replace("/", ".")
            for name in imports_of(path).names:
                if name.rpartition(".")[0] == module:
                    yield f"{package}.{name.rpartition('.')[2]}"


def _small() -> Iterator[tuple[str, int]]:
    """Product files below 60 lines, without those that are small on purpose."""
    on_purpose = re.compile("|".join(SMALL_ON_PURPOSE))
    for path in python(product=True):
        skipped = path.endswith("__init__.py") or "/management/commands/" in path
        if skipped or on_purpose.fullmatch(path):
            continue
        if (lines := len(read(path).splitlines())) < SMALL_LINES:
            yield path, lines


def small_files() -> list[str]:
    """Product files below 60 lines that one other file imports, or none."""
    found = []
    for path, lines in _small():
        users: set[str] = set()
        for user in _importers(path.removesuffix(".py").replace("/", ".")):
            users.add(user)
            if len(users) == 2:  # two are enough
                break
        else:
            found.append(f"{path}: {lines} lines, {len(users)} importers")
    return found


def too_many_small_files() -> list[str]:
    count = len(list(_small()))
    return [f"{count} files below {SMALL_LINES} lines, {SMALL_FILES} may be"] * (
        count > SMALL_FILES
    )


def small_on_purpose_matches_files() -> list[str]:
    """Patterns that match no small file any more."""
    small = [path for path in python(product=True) if len(read(path).splitlines()) < SMALL_LINES]
    return [
        f"{pattern}: matches no small file"
        for pattern in SMALL_ON_PURPOSE
        if not any(re.fullmatch(pattern, path) for path in small)
    ]


def folder_word_repeated() -> list[str]:
    found = []
    for path in python(product=True):
        pure = PurePosixPath(path)
        folder, words = pure.parent.name.rstrip("s"), pure.stem.split("_")
        if len(words) > 1 and folder in {word.rstrip("s") for word in words} and folder != "test":
            found.append(f"{path}: its folder says {pure.parent.name}")
    return found


RULES: dict[str, Callable[[], list[str]]] = {
    rule.__name__: rule
    for rule in (
        forbidden_words,
        forbidden_names,
        folders_too_full,
        files_too_long,
        small_files,
        too_many_small_files,
        small_on_purpose_matches_files,
        folder_word_repeated,
    )
}
