"""Types of setting values: parsers and descriptions. An error's text follows the key's name."""

from __future__ import annotations

import dataclasses
import re
from typing import Final, Literal
from urllib.parse import urlsplit

from mirrors.domain.cron import Cron, Zone
from mirrors.domain.patterns.matcher import check_patterns
from mirrors.domain.patterns.renames import RenameList
from mirrors.domain.schemas.subjects import SubjectFormat
from mirrors.domain.settings.references import Reference
from mirrors.domain.settings.run_bounds import RunUntil, StartFrom
from mirrors.domain.transforms.rules import RuleList

# A setting of a cluster: which topics editors of flows may choose, by the labels of the flows.
LABEL_TOPICS: Final = "label.topics"
_ARROW: Final = "->"
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclasses.dataclass(frozen=True)
class Boolean:
    """true or false, in any case, as Java's ConfigDef reads it."""

    description = "true or false"

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in {"true", "false"}:
            raise ValueError(f"must be true or false, not {text!r}")
        return word == "true"


@dataclasses.dataclass(frozen=True)
class Integer:
    """A whole number in a range."""

    low: int
    high: int
    but: int | None = None

    @property
    def description(self) -> str:
        exception = "" if self.but is None else f" other than {self.but}"
        return f"a whole number from {self.low} to {self.high}{exception}"

    def parse(self, text: str) -> int:
        digits = text.strip()
        # int() alone would take "1_000" and Arabic digits, which Java and librdkafka do not.
        if not digits.removeprefix("-").isascii() or not digits.removeprefix("-").isdigit():
            raise ValueError(f"must be {self.description}, not {text!r}")
        if len(digits) > 20 or not self.low <= int(digits) <= self.high or int(digits) == self.but:
            raise ValueError(f"must be {self.description}, not {digits[:25]}")
        return int(digits)


@dataclasses.dataclass(frozen=True)
class OneOf:
    """One of several values; `shown` is a shorter description where there are many spellings."""

    names: tuple[str, ...]
    shown: str = ""

    @property
    def description(self) -> str:
        if self.shown:
            return self.shown
        *others, last = self.names
        return f"{', '.join(others)} or {last}" if others else last

    def parse(self, text: str) -> str:
        if (word := text.strip()) not in self.names:
            raise ValueError(f"must be {self.description}, not {text!r}")
        return word


@dataclasses.dataclass(frozen=True)
class SomeOf:
    """A comma-separated list of at least one of several values, each once."""

    names: tuple[str, ...]

    @property
    def description(self) -> str:
        return f"{', '.join(self.names)}, or several of these once each with commas between them"

    def parse(self, text: str) -> tuple[str, ...]:
        found = tuple(name.strip() for name in text.split(","))
        if not set(found) <= set(self.names) or len(set(found)) < len(found):
            raise ValueError(f"must be {self.description}, not {text[:60]!r}")
        return found


@dataclasses.dataclass(frozen=True)
class Text:
    """Printable text up to a length."""

    longest: int

    @property
    def description(self) -> str:
        return f"printable text of 1 to {self.longest} characters"

    def parse(self, text: str) -> str:
        word = text.strip()
        if not 1 <= len(word) <= self.longest or not word.isprintable():
            raise ValueError(f"must be {self.description}")
        return word


@dataclasses.dataclass(frozen=True)
class Url:
    """An HTTP URL; never a file, which Java's clients would read."""

    description = "a URL that begins with https:// or http:// and has a host"

    def parse(self, text: str) -> str:
        word = text.strip()
        try:
            parts = urlsplit(word)
            named = parts.scheme in {"http", "https"} and bool(parts.hostname)
            usable = named and "@" not in parts.netloc and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable or len(word) > 2000 or not word.isprintable() or " " in word:
            raise ValueError(f"must be {self.description}")
        return word


@dataclasses.dataclass(frozen=True)
class Urls:
    """HTTP URLs of one service, separated by commas; without a query."""

    description = "one URL or more, each with https:// or http:// and a host, separated by commas"

    def parse(self, text: str) -> str:
        try:
            urls = [Url().parse(url) for url in text.split(",")]
        except ValueError:
            urls = []
        if not urls or len(text) > 2000 or any("?" in url or "#" in url for url in urls):
            raise ValueError(f"must be {self.description}")
        return ",".join(urls)


@dataclasses.dataclass(frozen=True)
class Extensions:
    """SASL extensions of RFC 7628: `name=value` pairs with commas between them."""

    description = "pairs like logicalCluster=lkc-1 with commas between them"

    def parse(self, text: str) -> dict[str, str]:
        found = {}
        for pair in text.split(","):
            name, equals, value = pair.strip().partition("=")
            is_name = name.isascii() and name.isalpha() and name.lower() != "auth"
            if not equals or not is_name or not value.strip().isprintable() or not value.strip():
                raise ValueError(f"must be {self.description}; a name has only letters")
            found[name] = value.strip()
        if len(text) > 1000:
            raise ValueError("must have at most 1000 characters")
        return found


@dataclasses.dataclass(frozen=True)
class Patterns:
    """A comma-separated list of Java regular expressions, each for a whole name."""

    description = "a comma-separated list of regular expressions"

    def parse(self, text: str) -> tuple[str, ...]:
        elements = split_list(text)
        check_patterns(elements)
        return elements


@dataclasses.dataclass(frozen=True)
class Separator:
    """The separator between alias and topic: characters that a topic name can have."""

    description = "1 to 8 of the characters a-z, A-Z, 0-9, dot, underscore and dash"

    def parse(self, text: str) -> str:
        word = text.strip()
        if not 1 <= len(word) <= 8 or not is_topic_text(word):
            raise ValueError(f"must be {self.description}, not {text!r}")
        return word


@dataclasses.dataclass(frozen=True)
class TopicName:
    """The name of a topic."""

    description = "the name of a topic: 1 to 249 of the characters a-z, A-Z, 0-9, dot, _ and -"

    def parse(self, text: str) -> str:
        word = text.strip()
        if not 1 <= len(word) <= 249 or not is_topic_text(word) or word in {".", ".."}:
            raise ValueError(f"must be {self.description}, not {text[:60]!r}")
        return word


def split_list(text: str) -> tuple[str, ...]:
    """Parse Kafka's LIST as MM2 4.2 and later: no empty element, each once; blank is empty."""
    if not text.strip():
        return ()
    elements = tuple(element.strip() for element in text.split(","))
    if "" in elements:
        raise ValueError("has an empty element: two commas in a row, or one at an end")
    return tuple(dict.fromkeys(elements))


def is_topic_text(text: str) -> bool:
    return text.isascii() and all(letter.isalnum() or letter in "._-" for letter in text)


@dataclasses.dataclass(frozen=True)
class LabelTopics:
    """Rules as in `topic.rename`: each has a label, and an expression for whole topic names.

    No expression has a comma.
    """

    description = f"rules `label {_ARROW} expression` with commas between them"

    def parse(self, text: str) -> dict[str, tuple[str, ...]]:
        """The expressions of each label."""
        found: dict[str, list[str]] = {}
        for number, rule in enumerate(text.split(","), 1):
            label, _, pattern = (part.strip() for part in rule.partition(_ARROW))
            if not pattern or not _LABEL.fullmatch(label):
                raise ValueError(
                    f"has no `label {_ARROW} expression` as rule {number}; rules look like "
                    r"payments -> payments\..*, orders -> orders, with commas between them"
                )
            found.setdefault(label, []).append(pattern)
        for patterns in found.values():
            check_patterns(patterns)
        return {label: tuple(patterns) for label, patterns in found.items()}


Kind = (
    Boolean
    | Integer
    | OneOf
    | SomeOf
    | Text
    | Url
    | Urls
    | Reference
    | Extensions
    | Patterns
    | Separator
    | TopicName
    | StartFrom
    | RunUntil
    | Cron
    | Zone
    | RuleList
    | SubjectFormat
    | RenameList
    | LabelTopics
)


Verdict = Literal["honoured", "different", "ours", "fixed", "refused"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Key:
    """One setting of a flow. `default` is Understudy's and `mm2` is MM2's, as text.

    - honoured: as in MM2.
    - different: as in MM2 except for what `why` says.
    - ours: MM2 has no such key.
    - fixed: only the values in `only` are accepted.
    - refused: rejected, for the reason in `why`.
    """

    name: str
    verdict: Verdict
    meaning: str
    default: str | None = None
    mm2: str = ""
    why: str = ""
    only: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting(Key):
    """A supported setting, and the type of its value."""

    kind: Kind

    @property
    def field(self) -> str:
        return self.name.replace(".", "_").replace("-", "_")
