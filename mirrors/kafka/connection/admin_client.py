"""An open AdminClient, and how the results of its many futures are gathered."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, DescribeClusterResult

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.errors import error_of_client

K = TypeVar("K")
V = TypeVar("V")
DEADLINE_S = 15.0


@dataclasses.dataclass
class Partial(Generic[K, V]):
    """Results by key, and the errors of the keys that failed."""

    done: dict[K, V] = dataclasses.field(default_factory=dict)
    failed: dict[K, UnderstudyError] = dataclasses.field(default_factory=dict)

    def raise_first(self) -> Self:
        for error in self.failed.values():
            raise error
        return self


class AdminConnection:
    """One cluster's AdminClient with its spec."""

    def __init__(self, spec: ClusterSpec, *, client_id: str = "understudy-admin") -> None:
        self.spec = spec
        self.client = AdminClient(client_config(spec, client_id=client_id))
        self.client.poll(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        # AdminClient has no close: its threads end when the last reference goes.
        del self.client

    def describe_cluster(self, *, deadline_s: float) -> DescribeClusterResult:
        """The id of the cluster and its live brokers, without any topic."""
        found = self.gather(
            {"cluster": self.client.describe_cluster(request_timeout=deadline_s)},
            doing=lambda _: "list the brokers",
            deadline_s=deadline_s,
            fold=lambda cluster: cluster,
        )
        cluster: DescribeClusterResult = found.raise_first().done["cluster"]
        return cluster

    def gather(
        self,
        futures: Mapping[K, Future[Any]],
        *,
        doing: Callable[[K], str],
        deadline_s: float,
        fold: Callable[[Any], V],
    ) -> Partial[K, V]:
        """Wait for every future until one common deadline."""
        deadline = time.monotonic() + deadline_s + 1.0
        result: Partial[K, V] = Partial()
        for key, future in futures.items():
            try:
                answer = future.result(timeout=max(0.0, deadline - time.monotonic()))
            except (KafkaException, TimeoutError) as error:
                result.failed[key] = error_of_client(error, where=self.spec.alias, doing=doing(key))
            else:
                result.done[key] = fold(answer)
        return result
