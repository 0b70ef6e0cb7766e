"""Checks the expressions of rules without Spark: syntax, columns, functions and their arguments.

`sqlglot` parses Spark's dialect. What passes here can still fail in Spark, such as by its types.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokens import Token, TokenType

from mirrors.domain.transforms.functions import (
    COLUMNS,
    HELPERS,
    REFUSED_FUNCTIONS,
    SPARK_FUNCTIONS,
    HelperFunction,
    family_of,
    field_names,
)
from mirrors.domain.transforms.modules import ModuleCall, is_module_name
from mirrors.domain.transforms.preview import PathUse
from mirrors.domain.transforms.rules import InvalidRule, TransformRule

# Words of the grammar that may stand before a parenthesis.
_GRAMMAR_WORDS = """
all and as between both by case char character dec decimal distinct div else escape for from ilike
in interval is leading like not numeric on or over placing regexp rlike then timestampadd
timestampdiff trailing try_cast varchar when
"""
GRAMMAR = frozenset(_GRAMMAR_WORDS.split())
# Functions that Spark also evaluates without parentheses.
_BARE_NAMES = """
current_catalog current_database current_date current_path current_schema current_time
current_timestamp current_user localtime localtimestamp session_user user
"""
_BARE = frozenset(_BARE_NAMES.split())
_SECRET = re.compile(r"(?:env|file|properties):\S+")
# What may stand between two tokens: spaces, and comments of one line.
_BETWEEN = re.compile(r"(?:[ \t\r\n]|--[^\r\n]*(?![^\r\n]))*")
_XML_ARGUMENTS = {"from_xml": 2, "schema_of_xml": 1}
# The argument that says how much these functions make; a sequence has a first and a last number.
_COUNTS = {"repeat": 1, "space": 0, "lpad": 1, "rpad": 1, "array_repeat": 1, "sequence": 1}
_MOST_COPIES = 100_000
_SPECIAL_TIME = re.compile(r"(?i)\s*(?:now|today|tomorrow|yesterday)\b.*", re.DOTALL)
_DIALECT = "spark"
_COLUMN_LIST = ", ".join(COLUMNS)
_KNOWN = sorted(HELPERS.keys() | SPARK_FUNCTIONS)


class _Problem(Exception):
    """A clause that follows the name of the field."""


def rule_problems(rules: Sequence[TransformRule]) -> list[InvalidRule]:
    """Return the first problem of each expression, empty if all can be used."""
    found = []
    for number, rule in enumerate(rules, 1):
        named = [module.name for module in rule.modules]
        problems = []
        for field, text in rule.expressions.items():
            if (problem := expression_problem(field, text, named)) is not None:
                problems.append(InvalidRule(problem, number=number, field=field))
        if not problems and (unused := {*named} - {one.module for one in module_calls([rule])}):
            problem = f"names {', '.join(sorted(unused))}, which no expression calls"
            problems.append(InvalidRule(problem, number=number, field="modules"))
        found += problems
    return found


def expression_problem(field: str, text: str, modules: Collection[str] = ()) -> str | None:
    """Return why an expression cannot be used, as a clause; None if it can be.

    `modules`: those whose functions it may call.
    """
    try:
        tokens = _tokens(text)
        _check_between(tokens, text)
        for token, name in _calls(tokens):
            _check_function(token, name, tokens)
        _check_counts(tokens)
        tree = _tree(tokens, text)
        _check_shape(tree)
        _check_modules(tree, tokens, modules)
        for column in tree.find_all(exp.Column):
            _check_column(column)
        for literal in tree.find_all(exp.Literal):
            _check_literal(literal)
        for call in tree.find_all(exp.Anonymous):
            _check_helper(call)
            _check_xml(call)
        _check_result(field, tree)
    except _Problem as problem:
        return str(problem)
    except RecursionError:
        return "is nested too deeply"
    return None


def secret_references(rules: Sequence[TransformRule]) -> list[tuple[int, str, str]]:
    """Return number, field and reference of each secret in rules without a problem."""
    return [
        (number, field, str(call.expressions[at].this))
        for number, rule in enumerate(rules, 1)
        for field, text in rule.expressions.items()
        for call in _tree(_tokens(text), text).find_all(exp.Anonymous)
        if (helper := HELPERS.get(call.name.lower())) is not None
        for at, kind in enumerate(helper.arguments)
        if kind == "secret"
    ]


def module_calls(rules: Sequence[TransformRule]) -> list[ModuleCall]:
    """Return each call of a function of a module, in order; none of a text that is no expression.

    A call that `rule_problems` refuses may be missing.
    """
    found = []
    for number, rule in enumerate(rules, 1):
        for field, text in rule.expressions.items():
            try:
                tree = _tree(_tokens(text), text)
            except (_Problem, RecursionError):
                continue
            found += [
                ModuleCall(number, field, dot.this.name, name.name, len(name.expressions))
                for dot in tree.find_all(exp.Dot, bfs=False)
                if isinstance(dot.this, exp.Identifier)
                and isinstance(name := dot.expression, exp.Anonymous)
            ]
    return found


def path_uses(rule: TransformRule) -> list[PathUse]:
    """Return each path that a rule without a problem gives to a function, in order."""
    return [
        PathUse(
            field,
            call.name.lower(),
            str(argument.this),
            _column_in(call.expressions[0], family_of(helper.name)),
        )
        for field, text in rule.expressions.items()
        for call in _tree(_tokens(text), text).find_all(exp.Anonymous, bfs=False)
        if (helper := HELPERS.get(call.name.lower())) is not None and "paths" in helper.arguments
        for argument in call.expressions[helper.arguments.index("paths") :]
    ]


def _column_in(argument: exp.Expr, family: str) -> str:
    """The key or value that a function gets, through casts and functions on the same format."""
    inner = argument.unnest()
    if isinstance(inner, exp.Cast):
        return _column_in(inner.this, family)
    if isinstance(inner, exp.Anonymous) and (helper := HELPERS.get(inner.name.lower())):
        is_same = "paths" in helper.arguments and family_of(helper.name) == family
        return _column_in(inner.expressions[0], family) if is_same else ""
    name = inner.name.lower() if isinstance(inner, exp.Column) else ""
    return name if name in ("key", "value") else ""


# --- syntax ---------------------------------------------------------------------------------------


def _tokens(text: str) -> list[Token]:
    try:
        return list(Spark().tokenize(text))
    except TokenError:
        raise _Problem("is not Spark SQL: a quote or comment has no end") from None


def _check_between(tokens: Sequence[Token], text: str) -> None:
    """Refuse what Spark may read otherwise than `sqlglot` does: it would run unchecked."""
    if "${" in text:
        raise _Problem("must not contain ${, which Spark may replace; write '$' || '{'")
    ends = [token.end + 1 for token in tokens]
    starts = [token.start for token in tokens]
    for begin, end in zip([0, *ends], [*starts, len(text)], strict=True):
        if not _BETWEEN.fullmatch(text[begin:end]):
            line = text.count("\n", 0, begin) + 1
            raise _Problem(
                f"must not contain a comment between /* and */, or an unusual space (line {line}); "
                "a comment begins with -- and ends with its line"
            )


def _tree(tokens: list[Token], text: str) -> exp.Expr:
    end = next((token for token in tokens if token.token_type == TokenType.SEMICOLON), None)
    if end is not None:
        raise _Problem(f"must be one expression, without the semicolon {_at(end)}")
    try:
        trees = Spark().parser().parse(tokens, text)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        near = str(first.get("highlight") or "").strip()
        what = str(first.get("description") or "it cannot be parsed").rstrip(".")
        shown = f" near {near[:40]!r}" if near else ""
        place = f"line {first.get('line', 1)}, character {first.get('col', 1)}"
        raise _Problem(f"is not Spark SQL: {_plain(what)}, at {place}{shown}") from None
    except SqlglotError:
        raise _Problem("is not Spark SQL") from None
    if len(trees) != 1 or trees[0] is None:
        raise _Problem("must be one expression")
    return trees[0]


def _plain(description: str) -> str:
    """Without the names of Python's classes."""
    if description.startswith("Required keyword"):
        return "something is missing"
    return description.partition("<class")[0].strip()


def _at(token: Token) -> str:
    """Where a token begins. Lines and characters count from 1."""
    first = token.col - (token.end - token.start)
    return f"at line {token.line}, character {max(first, 1)}"


def _check_shape(tree: exp.Expr) -> None:
    if isinstance(tree, exp.Alias):
        raise _Problem(f"must not name its result; remove {tree.alias!r} at its end")
    if tree.find(exp.Query):
        why = "a rule sees one record at a time, so that order and exactly once hold"
        raise _Problem(f"must not contain a query: {why}")
    if tree.find(exp.Window):
        raise _Problem(f"must not contain OVER: it {REFUSED_FUNCTIONS['row_number']}")
    if tree.find(exp.Star):
        raise _Problem(f"must name columns instead of *: {_COLUMN_LIST}")
    if tree.find(exp.Placeholder, exp.Parameter):
        raise _Problem("must not contain parameters")
    if not isinstance(tree, exp.Condition):
        raise _Problem("must be an expression, not a statement or list")


# --- columns --------------------------------------------------------------------------------------


def _check_column(column: exp.Column) -> None:
    names = [part.name.lower() for part in column.parts]
    name = names[0]
    if name in _lambda_names(column):
        return
    if name not in COLUMNS:
        meant = difflib.get_close_matches(name, COLUMNS, n=1, cutoff=0.6)
        hint = f" (did you mean {meant[0]}?)" if meant else ""
        shown = column.parts[0].name[:60]
        raise _Problem(f"names {shown!r}, which is no column{hint}; columns are {_COLUMN_LIST}")
    if len(names) > 1 and name != "headers":
        hint = ""
        if name in ("key", "value"):
            path = ".".join(part.name for part in column.parts[1:])
            hint = f"; for JSON: get_json_object(cast({name} as string), '$.{path[:60]}')"
        raise _Problem(f"reads a field of {name}, which is {COLUMNS[name]}{hint}")


def _check_literal(literal: exp.Literal) -> None:
    """Spark reads `timestamp'now'` as the time of the evaluation."""
    parent = literal.parent
    is_special = literal.is_string and _SPECIAL_TIME.fullmatch(literal.name)
    to_time = isinstance(parent, exp.Cast) and parent.to.is_type(*exp.DataType.TEMPORAL_TYPES)
    called = isinstance(parent, exp.Func) and re.search(r"(?i)date|time", parent.sql(_DIALECT))
    if is_special and (to_time or called):
        why = REFUSED_FUNCTIONS["now"]
        raise _Problem(f"must not use {literal.name[:30]!r} as a time: it {why}")


def _lambda_names(node: exp.Expr) -> set[str]:
    found: set[str] = set()
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.Lambda):
            found |= {name.name.lower() for name in parent.expressions}
        parent = parent.parent
    return found


# --- functions ------------------------------------------------------------------------------------


_LIKE = (TokenType.LIKE, TokenType.ILIKE)


def _calls(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    """Yield each name that Spark would call, with its token."""
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        name = token.text.lower()
        if token.token_type == TokenType.STRING or not re.fullmatch(r"[a-z_]\w*", name):
            continue
        opens = after is not None and after.token_type == TokenType.L_PAREN
        follows = None if before is None else before.token_type
        if opens and follows == TokenType.DOT:
            # `_check_modules` checks it in the tree.
            continue
        quantifies = follows in _LIKE and name in ("any", "some", "all")
        if (opens and name not in GRAMMAR and not quantifies) or (
            not opens and name in _BARE and follows != TokenType.DOT
        ):
            yield token, name


def _check_modules(tree: exp.Expr, tokens: list[Token], modules: Collection[str]) -> None:
    """Refuse all calls with a name before the function, except those of these modules."""
    named = [
        token
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if before.token_type == TokenType.DOT and after.token_type == TokenType.L_PAREN
    ]
    calls = [dot for dot in tree.find_all(exp.Dot) if isinstance(dot.expression, exp.Func)]
    for token in named if len(named) != len(calls) else ():
        raise _Problem(f"must call {token.text[:60]} without a name before it ({_at(token)})")
    for call in calls:
        function, module = call.expression, call.this
        if not isinstance(function, exp.Anonymous) or not isinstance(module, exp.Identifier):
            name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()
            raise _Problem(f"must call {name.lower()[:60]} without a name before it")
        name = f"{module.name}.{function.name}"[:80]
        if module.name not in modules or not is_module_name(module.name):
            raise _Problem(
                f"calls {name}, but the rule names no module {module.name[:50]} with the SHA-256 "
                "of its file in modules"
            )
        if call.find_ancestor(exp.Lambda):
            raise _Problem(f"must not call {name} for the elements of a list; give it the list")
        if any(isinstance(one.expression, exp.Func) for one in function.find_all(exp.Dot)):
            raise _Problem(
                f"must give {name} no result of another function of a module: call that one in "
                "the function"
            )
        if not function.expressions or isinstance(function.expressions[0], exp.Distinct):
            raise _Problem(f"must give {name} an argument")
        if any(isinstance(one, exp.Kwarg | exp.PropertyEQ) for one in function.expressions):
            raise _Problem(f"must give {name} its arguments without names")


def _check_function(token: Token, name: str, tokens: list[Token]) -> None:
    if name in REFUSED_FUNCTIONS:
        raise _Problem(f"must not use {name} ({_at(token)}): it {REFUSED_FUNCTIONS[name]}")
    if name == "unix_timestamp":
        at = tokens.index(token)
        if at + 2 < len(tokens) and tokens[at + 2].token_type == TokenType.R_PAREN:
            raise _Problem(f"must not use unix_timestamp() ({_at(token)}): give it a time")
    if name not in SPARK_FUNCTIONS and name not in HELPERS:
        meant = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.7)
        hint = f" (did you mean {meant[0]}?)" if meant else ""
        raise _Problem(f"uses {token.text[:60]!r} ({_at(token)}), which is no function{hint}")


def _check_counts(tokens: Sequence[Token]) -> None:
    """Refuse functions that make much of little: a record of them would end the runner.

    What grows with a record, such as nested loops over its fields, is not limited here.
    """
    product = 1
    for at, token in enumerate(tokens):
        name = token.text.lower()
        place = _COUNTS.get(name)
        if place is None or token.token_type == TokenType.STRING or not _opens(tokens, at):
            continue
        arguments = _arguments(tokens, at + 1)
        if name == "sequence":
            numbers = [_whole_number(argument) for argument in arguments[:2]]
            first, last = numbers if len(numbers) == 2 else (None, None)
            count = None if first is None or last is None else abs(last - first) + 1
        else:
            count = _whole_number(arguments[place]) if place < len(arguments) else None
        if count is None:
            raise _Problem(
                f"must give {name} ({_at(token)}) whole numbers, so that the size of its result "
                "is known"
            )
        product *= max(count, 1)
    if product > _MOST_COPIES:
        raise _Problem(
            f"makes up to {product:,} copies with {', '.join(sorted(_COUNTS))}; at most "
            f"{_MOST_COPIES:,} are allowed"
        )


def _opens(tokens: Sequence[Token], at: int) -> bool:
    return at + 1 < len(tokens) and tokens[at + 1].token_type == TokenType.L_PAREN


def _arguments(tokens: Sequence[Token], at: int) -> list[list[Token]]:
    """The arguments of the call whose parenthesis opens at this token."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[at:]:
        depth += token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET)
        depth -= token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET)
        if depth == 0:
            break
        if depth == 1 and token.token_type == TokenType.COMMA:
            found.append([])
        elif not (depth == 1 and token.token_type == TokenType.L_PAREN):
            found[-1].append(token)
    return found


def _whole_number(argument: Sequence[Token]) -> int | None:
    """The value of a number as it is written; None for anything else."""
    text = "".join(token.text for token in argument)
    return int(text) if re.fullmatch(r"-?[0-9]{1,12}", text) else None


def _check_helper(call: exp.Anonymous) -> None:
    helper = HELPERS.get(call.name.lower())
    if helper is None:
        return
    least, repeats = len(helper.arguments), helper.arguments[-1] == "paths"
    given = call.expressions
    if len(given) < least or (len(given) > least and not repeats):
        raise _Problem(f"has a wrong number of arguments: write {helper.signature}")
    kinds = [*helper.arguments, *["paths"] * (len(given) - least)]
    for argument, kind in zip(given, kinds, strict=True):
        if kind in ("text", "secret", "path", "paths", "replacement"):
            _check_text(helper, argument, kind)


def _check_xml(call: exp.Anonymous) -> None:
    most = _XML_ARGUMENTS.get(call.name.lower())
    if most is not None and len(call.expressions) > most:
        raise _Problem(f"must give {call.name.lower()} no options: one of them reads a file")


def _check_text(helper: HelperFunction, argument: exp.Expr, kind: str) -> None:
    if kind == "replacement" and isinstance(argument, exp.Null):
        return
    if not (isinstance(argument, exp.Literal) and argument.is_string) and not isinstance(
        argument, exp.RawString
    ):
        raise _Problem(
            f"must give {helper.name} texts in quotes, so that they are the same for each record: "
            f"{helper.signature}"
        )
    text = str(argument.this)
    if kind == "secret" and not _SECRET.fullmatch(text):
        raise _Problem(
            f"must give {helper.name} a reference to a secret, such as 'env:NAME' or "
            "'file:/path', never the secret"
        )
    if kind in ("path", "paths"):
        try:
            field_names(text)
        except ValueError as error:
            raise _Problem(f"gives {helper.name} a text that {error}") from None


# --- results --------------------------------------------------------------------------------------

_WANTED: Final = {
    "where": ("boolean",),
    "topic": ("string",),
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": (COLUMNS["headers"],),
}


def _check_result(field: str, tree: exp.Expr) -> None:
    """Refuse a result whose type is plain to see and wrong; Spark checks the others."""
    found = _type_of(tree)
    if found is not None and found not in _WANTED[field]:
        wanted = " or ".join(_WANTED[field])
        raise _Problem(f"must be {wanted}; this is {found}")


def _type_of(tree: exp.Expr) -> str | None:
    inner = tree.unnest()
    if isinstance(inner, exp.Column) and len(inner.parts) == 1:
        return COLUMNS.get(inner.name.lower())
    if isinstance(inner, exp.Literal):
        return "string" if inner.is_string else "a number"
    if isinstance(inner, exp.Boolean | exp.Predicate | exp.Connector | exp.Not):
        return "boolean"
    if isinstance(inner, exp.Anonymous) and (helper := HELPERS.get(inner.name.lower())):
        first = inner.expressions[0]
        return _type_of(first) if helper.result == "value" else helper.result
    return None
