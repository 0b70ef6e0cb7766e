"""TLS 1.3 for the control connection: a certificate of this start, and a stream in memory.

- The driver creates key and certificate when it starts; the key is never on a disk. A task gets the
  certificate with its work, over Spark's authenticated and encrypted connection, and trusts nothing
  else. So nobody without Spark's secret reads the connection or poses as the driver.
- A stream of Python's `ssl` may not be read and written by two threads at once. This one is in
  memory, and a lock covers each call; the sockets stay with their owners.
"""

from __future__ import annotations

import datetime
import os
import ssl
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# Clocks of executors may be wrong: the certificate ends with its driver, not at a time.
_FROM = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(2999, 12, 31, tzinfo=datetime.UTC)
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "understudy-driver")])
_CHUNK = 1 << 16


class Identity:
    """The driver's key and certificate. `certificate`: PEM, for the tasks."""

    def __init__(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            x509.CertificateBuilder(_NAME, _NAME, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_FROM)
            .not_valid_after(_UNTIL)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        self.certificate = made.public_bytes(serialization.Encoding.PEM).decode()
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        self._context = _context(ssl.PROTOCOL_TLS_SERVER)
        # load_cert_chain reads files only: an anonymous file in memory never reaches a disk.
        descriptor = os.memfd_create("control-certificate", os.MFD_CLOEXEC)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as stream:
                stream.write(self.certificate.encode() + private)
            self._context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def accept(self) -> TlsStream:
        """The driver's end of one connection."""
        return TlsStream(self._context, server_side=True)


def connect(certificate: str) -> TlsStream:
    """The task's end: it trusts this certificate only. Raises ssl.SSLError if it is not one."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    return TlsStream(context, server_side=False)


def _context(protocol: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        # A new connection is a new task; tickets would only cost bytes.
        context.num_tickets = 0
    return context


class TlsStream:
    """One end of a TLS connection in memory. Safe for a reading and a writing thread."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server_side)
        self._lock = threading.Lock()
        self.is_ready = False

    def start(self) -> bytes:
        """The first bytes to send, if this end speaks first."""
        return self.receive(b"")[1]

    def receive(self, data: bytes) -> tuple[bytes, bytes]:
        """Take bytes from the peer; return what they say, and bytes to send back.

        Raises OSError (ssl.SSLError) if the peer is not the expected one, or its bytes are no TLS.
        """
        with self._lock:
            self._in.write(data)
            said = bytearray()
            try:
                if not self.is_ready:
                    self._tls.do_handshake()
                    self.is_ready = True
                while chunk := self._tls.read(_CHUNK):
                    said += chunk
            except ssl.SSLWantReadError:
                pass
            return bytes(said), self._out.read()

    def encrypt(self, data: bytes) -> bytes:
        """The bytes to send for this data. The caller sends them in the order of its calls."""
        with self._lock:
            self._tls.write(data)
            return self._out.read()
