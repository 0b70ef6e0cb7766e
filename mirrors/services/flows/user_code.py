"""User code in the rules of a flow: which files it is, and who may save it.

User code runs with the rights of the runner, so only an admin of everything lets it in. The SHA-256
of its file is part of the rule, and so of the flow's history and its audit entries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from django.core.exceptions import PermissionDenied

from mirrors.domain.access.grants import INSTALLATION
from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.transforms.modules import (
    Module,
    ModuleCall,
    call_problems,
    digest_of,
    functions_of,
)
from mirrors.domain.transforms.rules import (
    TRANSFORMS,
    InvalidRule,
    TransformRule,
    format_rules,
    parse_rules,
)
from mirrors.function_modules import ModuleRefused, checked_module, read_module
from mirrors.models.access.grants import demand_here


def with_digests(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties, with the SHA-256 of each module that a rule calls without one.

    Rules that cannot be used stay as they are. Raises InvalidSettings for a missing file.
    """
    try:
        rules = parse_rules(properties.get(TRANSFORMS, ""))
    except InvalidRule:
        return dict(properties)
    if not (calls := _module_calls(rules)):
        return dict(properties)
    found = []
    for number, rule in enumerate(rules, 1):
        missing = {call.module for call in calls if call.number == number}
        missing -= {module.name for module in rule.modules}
        try:
            added = [Module(name, digest_of(read_module(name))) for name in sorted(missing)]
        except ModuleRefused as error:
            raise _refused(number, error.message) from None
        modules = tuple(sorted((*rule.modules, *added)))
        found.append(dataclasses.replace(rule, modules=modules) if added else rule)
    return (
        {**properties, TRANSFORMS: format_rules(found)} if found != list(rules) else {**properties}
    )


def check_user_code(before: Sequence[TransformRule], after: Sequence[TransformRule]) -> None:
    """An edit may leave user code as it is, or remove it; anything else is checked.

    Raises PermissionDenied in a request of somebody who is no admin, InvalidSettings for a file
    that is missing, is another one, or does not have the functions.
    """
    if before == after or not any(rule.modules for rule in after):
        return
    demand_code(after)
    calls = _module_calls(after)
    for number, rule in enumerate(after, 1):
        found = {}
        for module in rule.modules:
            try:
                found[module.name] = functions_of(checked_module(module))
            except ModuleRefused as error:
                raise _refused(number, error.message) from None
            except ValueError as error:
                raise _refused(number, f"{module.file} {error}.") from None
        for call, problem in call_problems([one for one in calls if one.number == number], found):
            raise InvalidSettings(
                {TRANSFORMS: [f"{TRANSFORMS}, rule {number}, {call.field}: {problem}."]}
            )


def demand_code(rules: Sequence[TransformRule]) -> None:
    """In a request: PermissionDenied unless the person is an admin of everything."""
    named = sorted({str(module) for rule in rules for module in rule.modules})
    try:
        if named:
            demand_here(INSTALLATION, Right.ADMINISTER)
    except PermissionDenied as error:
        raise PermissionDenied(
            f"The rules run user code with the rights of the runner: {', '.join(named)}. Only an "
            f"admin saves or tries such rules. {error}"
        ) from None


def code_sentence(before: Sequence[TransformRule], after: Sequence[TransformRule]) -> str:
    """Which user code an edit lets in, for its audit entry; empty without."""
    known = {module for rule in before for module in rule.modules}
    added = sorted(
        {str(module) for rule in after for module in rule.modules if module not in known}
    )
    return f"User code: {', '.join(added)}." if added else ""


def _module_calls(rules: Sequence[TransformRule]) -> list[ModuleCall]:
    if not rules:
        return []
    # Without rules, a program does not load the parser.
    from mirrors.domain.transforms.sql import module_calls  # noqa: PLC0415

    return module_calls(rules)


def _refused(number: int, sentence: str) -> InvalidSettings:
    return InvalidSettings({TRANSFORMS: [f"{TRANSFORMS}, rule {number}: {sentence}"]})
