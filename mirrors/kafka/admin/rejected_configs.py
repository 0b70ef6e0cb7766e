"""Finds the topic configs that a cluster rejects, so that the other configs take effect.

Kafka responds per topic: one rejected config fails the creation of the topic, and all other changes
of its configs. Examples: a config that an old broker does not know, tiered storage where it is
disabled, a policy. The message seldom names the config, so validation requests find it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterable, Mapping

from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.connection.admin_client import DEADLINE_S, Partial

# Codes of answers that a single setting may have caused.
_CONFIG_ERRORS = frozenset({"config", "policy", "kafka"})


@dataclasses.dataclass(frozen=True)
class CreateTopicsResult:
    """Created topics, failed topics with the error, and the rejected configs of each created
    topic."""

    done: dict[str, None]
    failed: dict[str, UnderstudyError]
    rejected: dict[str, RejectedConfigs]


@dataclasses.dataclass(frozen=True)
class RejectedConfigs:
    """The configs that a topic was created without, and the cluster's error."""

    settings: dict[str, str]
    error: UnderstudyError

    def sentence(self, topic: str) -> str:
        """Names the topic and the missing configs, with the cluster's error."""
        lacks = ", ".join(f"{key}={value}" for key, value in sorted(self.settings.items()))
        return (
            f"{topic} was created without {lacks}, which the target rejected: {self.error.message}"
        )


def create_topics(
    admin: Admin, topics: Iterable[NewTopicSpec], *, deadline_s: float = DEADLINE_S
) -> CreateTopicsResult:
    """Create topics. A topic with rejected configs is created without those."""
    until = time.monotonic() + deadline_s
    wanted = {topic.name: topic for topic in topics}
    made = admin.create_topics(wanted.values(), deadline_s=deadline_s)
    suspects = [
        wanted[name]
        for name, error in made.failed.items()
        if error.code in _CONFIG_ERRORS and wanted[name].configs
    ]
    accepted = _creatable_topics(admin, suspects, made.failed, until)
    if not accepted:
        return CreateTopicsResult(made.done, made.failed, {})
    again = admin.create_topics(accepted.values(), deadline_s=_left(until))
    rejected = {
        name: RejectedConfigs(
            {
                key: value
                for key, value in wanted[name].configs.items()
                if key not in accepted[name].configs
            },
            made.failed[name],
        )
        for name in again.done
    }
    failed = {name: error for name, error in made.failed.items() if name not in again.done}
    return CreateTopicsResult({**made.done, **again.done}, {**failed, **again.failed}, rejected)


def alter_configs_by_key(
    admin: Admin,
    changes: Mapping[str, Mapping[str, str | None]],
    *,
    deadline_s: float = DEADLINE_S,
) -> Partial[tuple[str, str], None]:
    """Alter configs. The result is per topic and key, so that one rejected key does not stop the
    others."""
    until = time.monotonic() + deadline_s
    whole = admin.alter_configs(changes, deadline_s=deadline_s)
    result: Partial[tuple[str, str], None] = Partial()
    apart: dict[str, list[str]] = {}
    for name, change in changes.items():
        error = whole.failed.get(name)
        if error is None:
            result.done |= dict.fromkeys(((name, key) for key in change), None)
        elif error.code in _CONFIG_ERRORS:
            apart[name] = sorted(change)
        else:
            result.failed |= dict.fromkeys(((name, key) for key in change), error)
    while apart:
        turn = {name: keys.pop(0) for name, keys in apart.items()}
        one = admin.alter_configs(
            {name: {key: changes[name][key]} for name, key in turn.items()}, deadline_s=_left(until)
        )
        for name, key in turn.items():
            if (error := one.failed.get(name)) is None:
                result.done[name, key] = None
            else:
                result.failed[name, key] = _of_key(error, name, key, changes[name][key])
        apart = {name: keys for name, keys in apart.items() if keys}
    return result


def _of_key(error: UnderstudyError, name: str, key: str, value: str | None) -> UnderstudyError:
    """The cluster's error, with the config that caused it."""
    change = f"given the default of {key}" if value is None else f"given {key}={value}"
    return type(error)(f"{name} was not {change}. {error.message}", code=error.code)


def _creatable_topics(
    admin: Admin,
    suspects: Collection[NewTopicSpec],
    errors_by_topic: Mapping[str, UnderstudyError],
    until: float,
) -> dict[str, NewTopicSpec]:
    """The topics that can be created without some of their configs, with the remaining configs."""
    found = _without_one(admin, suspects, errors_by_topic, until)
    rest = [topic for topic in suspects if topic.name not in found]
    return {**found, **_one_by_one(admin, rest, until)}


def _without_one(
    admin: Admin,
    suspects: Collection[NewTopicSpec],
    errors_by_topic: Mapping[str, UnderstudyError],
    until: float,
) -> dict[str, NewTopicSpec]:
    """Try without one config at a time, first those that the error names: two are seldom
    rejected."""
    turns = {
        topic.name: _suspect_order(topic, errors_by_topic[topic.name].message) for topic in suspects
    }
    found: dict[str, NewTopicSpec] = {}
    for number in range(max(map(len, turns.values()), default=0)):
        tried = {
            topic.name: _with(topic, set(topic.configs) - {turns[topic.name][number]})
            for topic in suspects
            if topic.name not in found and number < len(turns[topic.name])
        }
        if not tried or time.monotonic() >= until:
            break
        good = admin.create_topics(tried.values(), deadline_s=_left(until), validate_only=True).done
        found |= {name: tried[name] for name in good}
    return found


def _one_by_one(
    admin: Admin, suspects: Collection[NewTopicSpec], until: float
) -> dict[str, NewTopicSpec]:
    """Start without configs, and add each config that the broker accepts together with those before
    it."""
    bare = {topic.name: _with(topic, ()) for topic in suspects}
    good = admin.create_topics(bare.values(), deadline_s=_left(until), validate_only=True).done
    # Without any setting it is refused as well: it is something else.
    found = {name: bare[name] for name in good}
    wanted = {topic.name: topic for topic in suspects if topic.name in found}
    turns = {name: sorted(topic.configs) for name, topic in wanted.items()}
    for number in range(max(map(len, turns.values()), default=0)):
        tried = {
            name: _with(wanted[name], {*found[name].configs, keys[number]})
            for name, keys in turns.items()
            if number < len(keys)
        }
        if time.monotonic() >= until:
            # A topic must not lack settings because there was no time to ask for them.
            return {}
        good = admin.create_topics(tried.values(), deadline_s=_left(until), validate_only=True).done
        found |= {name: tried[name] for name in good}
    return found


def _suspect_order(topic: NewTopicSpec, errors_by_topic: str) -> list[str]:
    return sorted(topic.configs, key=lambda key: (key not in errors_by_topic, key))


def _with(topic: NewTopicSpec, keys: Collection[str]) -> NewTopicSpec:
    configs = {key: value for key, value in topic.configs.items() if key in keys}
    return dataclasses.replace(topic, configs=configs)


def _left(until: float) -> float:
    return max(0.1, until - time.monotonic())
