"""The two brokers that every system is measured on: one source, one target, fresh each time."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controlplane.bench.distance.relay import NetworkProfile, Relay, Side, build
from controlplane.bench.page_cache import read_through
from controlplane.bench.workload.content_digests import read_digest_sequences
from controlplane.bench.workload.producer import fill
from controlplane.bench.workload.record_shapes import Shape
from controlplane.bench.workload.topics import Topics
from controlplane.demo.kafka.broker import KafkaBroker, Listener
from controlplane.demo.processes.ports import HOST, free_port

_DAY = datetime.timedelta(days=1)


def write_certificate(directory: Path) -> tuple[Path, Path]:
    """(the brokers' key store, what clients trust), both PEM, good for a week."""
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "understudy-bench")])
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 7 * _DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    trusted = directory / "ca.pem"
    trusted.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    store = directory / "broker.pem"
    store.touch(mode=0o600)
    store.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + trusted.read_bytes()
    )
    return store, trusted


# Data is deleted after each run; a broker that waits a minute with it would fill the disk.
PROPERTIES = {
    "log.segment.delete.delay.ms": "1000",
    "log.retention.ms": "-1",
}
HEAP = "1g"
SECURE = "SECURE"
# The same two listeners, for clients that come through a relay.
FAR, FAR_SECURE = "FAR", "FARSECURE"
SIDES: tuple[Side, Side] = ("source", "target")
_WARM, _WARM_PARTITIONS, _WARM_BYTES = "warm-up", 16, 300_000_000


class Brokers:
    """Source and target; both stop and leave nothing behind."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        store, self.ca = write_certificate(directory / "tls")
        secure = {
            f"listener.name.{name}.ssl.keystore.{key}": value
            for name in (SECURE.lower(), FAR_SECURE.lower())
            for key, value in (("type", "PEM"), ("location", str(store)))
        }
        self._pair = [
            KafkaBroker(
                directory / name,
                name=name,
                properties={**PROPERTIES, **secure},
                listeners=[
                    Listener(name=SECURE, protocol="SSL"),
                    Listener(name=FAR, protocol="PLAINTEXT", advertised=free_port()),
                    Listener(name=FAR_SECURE, protocol="SSL", advertised=free_port()),
                ],
                heap=HEAP,
                environment=environment,
            )
            for name in SIDES
        ]
        self.relays: list[Relay] = []

    def start(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(KafkaBroker.start, self._pair))
        self.source_topics = Topics(self.source)
        self.target_topics = Topics(self.target)

    @property
    def source(self) -> str:
        return self._pair[0].bootstrap

    @property
    def target(self) -> str:
        return self._pair[1].bootstrap

    def addresses(self, line: NetworkProfile | None, *, tls: bool) -> tuple[str, str]:
        """Where a system under test finds source and target: far ones through their relays."""
        near, far = (SECURE, FAR_SECURE) if tls else ("", FAR)
        one, two = (
            broker.bootstrap_of(name) if name else broker.bootstrap
            for side, broker in zip(SIDES, self._pair, strict=True)
            for name in [far if line is not None and line.is_far(side) else near]
        )
        return one, two

    @contextlib.contextmanager
    def through(self, line: NetworkProfile | None, *, tls: bool) -> Iterator[None]:
        """The relays of this line run meanwhile."""
        listener = FAR_SECURE if tls else FAR
        with contextlib.ExitStack() as stack:
            for side, broker in zip(SIDES, self._pair, strict=True):
                if line is not None and line.is_far(side):
                    relay = Relay(
                        build(self._directory),
                        port=int(broker.bootstrap_of(listener).rpartition(":")[2]),
                        broker_port=broker.port_of(listener),
                        line=line,
                    )
                    self.relays.append(stack.enter_context(relay))
            try:
                yield
            finally:
                self.relays.clear()

    @property
    def pids(self) -> tuple[int, int]:
        one, two = (broker.process.pid if broker.process else 0 for broker in self._pair)
        return one, two

    def warm(self, shape: Shape) -> None:
        """Let the target compile what it will do: its first 300 MB cost several times the rest."""
        self.target_topics.create([_WARM], _WARM_PARTITIONS)
        filled = fill(self.target, [_WARM], _WARM_PARTITIONS, shape, _WARM_BYTES)
        read_digest_sequences(self.target, filled.records, deadline_s=60)
        self.target_topics.delete([_WARM])

    def load(self, topics: Iterable[str]) -> int:
        """Have in memory what the source holds of these topics; returns how many bytes that is.

        What was filled in since is newer, so the kernel would give up the source's log first and
        read it from the disk again: the faster a copy is, the more of that it would wait for. Read
        twice, for what was read once only is given up first too, as soon as the copy needs room.
        """
        # Topics of the run before may be leaving the disk: look into these directories only.
        data = self._directory / "source" / "data"
        logs = [path for topic in topics for path in data.glob(f"{topic}-*/*.log")]
        sizes = [read_through(path) for _ in range(2) for path in logs]
        return sum(sizes) // 2

    def stop(self) -> None:
        for broker in self._pair:
            broker.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
