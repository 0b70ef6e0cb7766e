"""Modules of user code: Python files of one directory, whose functions rules may call.

- A rule has the SHA-256 of each module that it calls (`modules`), so no other code runs silently.
- What a module defines is read from its text. Only the Python process that evaluates rules runs it.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from mirrors.domain.transforms.functions import COLUMNS

# The setting of an installation: a directory, the same on each host. Unset: no user code.
FUNCTIONS_DIR: Final = "UNDERSTUDY_FUNCTIONS_DIR"
MOST_BYTES: Final = 1 << 20
MOST_MODULES: Final = 10
# What a function may return: a type as its file writes it, and that of Spark SQL.
RESULT_TYPES: Final = {
    "BinaryType": "binary",
    "StringType": "string",
    "BooleanType": "boolean",
    "IntegerType": "int",
    "LongType": "bigint",
    "FloatType": "float",
    "DoubleType": "double",
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DECORATOR = "arrow_udf"


class Module(NamedTuple):
    """A module that a rule calls, and the SHA-256 of its file in hexadecimal digits."""

    name: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}.py"

    def __str__(self) -> str:
        return f"{self.file} (SHA-256 {self.sha256})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModuleFunction:
    """A function that a module defines. `result`: its Spark SQL type.

    `most`: the number of its arguments, None for any number from `least` on.
    """

    name: str
    least: int
    most: int | None
    result: str

    def takes(self, count: int) -> bool:
        return self.least <= count and (self.most is None or count <= self.most)

    @property
    def arguments(self) -> str:
        """How many it takes, for sentences."""
        if self.most is None:
            return f"{self.least} or more arguments"
        least = "" if self.least == self.most else f"{self.least} to "
        return f"{least}{self.most} argument{'' if self.most == 1 else 's'}"


def is_module_name(name: str) -> bool:
    """Whether a file may have this name; not that of a column, whose fields expressions read."""
    return _NAME.fullmatch(name) is not None and name not in COLUMNS


def digest_of(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


def modules_in(raw: Any) -> tuple[Module, ...]:
    """The modules of a rule, from pairs of name and digest. Raises ValueError with a clause."""
    if not isinstance(raw, tuple) or not all(isinstance(digest, str) for _, digest in raw):
        raise ValueError("must be an object with the SHA-256 of each module by its name")
    found = tuple(sorted(Module(name, digest) for name, digest in raw))
    for name, digest in found:
        if not is_module_name(name):
            raise ValueError(
                f"contains {name[:50]!r}, which is no name of a module: up to 64 small letters, "
                "digits and underscores, and no column"
            )
        if not _SHA256.fullmatch(digest):
            raise ValueError(f"must give {name} the SHA-256 of its file: 64 hexadecimal digits")
    if len({name for name, _ in found}) < len(found):
        raise ValueError("names a module twice")
    if len(found) > MOST_MODULES:
        raise ValueError(f"has {len(found)} modules; the limit is {MOST_MODULES}")
    return found


def functions_of(source: bytes) -> dict[str, ModuleFunction]:
    """The functions that a module defines, by name. Raises ValueError with a clause.

    Each is `arrow_udf` of Spark with a type, such as `BinaryType()`: a text would need a session of
    Spark, which Python workers do not have. Others are for the module itself.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"is not Python: {error.msg}, line {error.lineno}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ValueError("is not Python") from None
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if _called(decorator) == _DECORATOR:
                    found[node.name] = _function(node, decorator)
    return found


def _called(decorator: ast.expr) -> str:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(named, ast.Attribute):
        return named.attr
    return named.id if isinstance(named, ast.Name) else ""


def _function(node: ast.FunctionDef, decorator: ast.expr) -> ModuleFunction:
    result = RESULT_TYPES.get(_type_of_result(decorator))
    if result is None:
        raise ValueError(
            f"must give {node.name} the type of its result, such as @arrow_udf(BinaryType()): one "
            f"of {', '.join(RESULT_TYPES)}"
        )
    places = [*node.args.posonlyargs, *node.args.args]
    is_open = node.args.vararg is not None
    if not places and not is_open:
        raise ValueError(f"must give {node.name} an argument")
    return ModuleFunction(
        name=node.name,
        least=max(len(places) - len(node.args.defaults), 1),
        most=None if is_open else len(places),
        result=result,
    )


def _type_of_result(decorator: ast.expr) -> str:
    """The name of the type that a decorator gives; empty without one."""
    if not isinstance(decorator, ast.Call):
        return ""
    named = [item.value for item in decorator.keywords if item.arg == "returnType"]
    given = [*decorator.args[:1], *named]
    return _called(given[0]) if given and isinstance(given[0], ast.Call) else ""


class ModuleCall(NamedTuple):
    """A call in an expression: the number of the rule from 1, and how many arguments it gives."""

    number: int
    field: str
    module: str
    function: str
    arguments: int


def call_problems(
    calls: Sequence[ModuleCall], functions: dict[str, dict[str, ModuleFunction]]
) -> Iterator[tuple[ModuleCall, str]]:
    """Each call that no function fits, with the reason as a clause."""
    for call in calls:
        defined = functions[call.module]
        function = defined.get(call.function)
        if function is None:
            names = ", ".join(sorted(defined)) or "none"
            yield (
                call,
                f"calls {call.module}.{call.function}, which {call.module}.py does not define "
                f"with @{_DECORATOR}; it defines {names}",
            )
        elif not function.takes(call.arguments):
            yield (
                call,
                f"gives {call.module}.{call.function} {call.arguments} arguments; it takes "
                f"{function.arguments}",
            )
