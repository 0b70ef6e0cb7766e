"""Servers that are not Kafka, told by the first bytes they say."""

from __future__ import annotations

import socket

# Harmless to Kafka (a frame far too long, so it hangs up), and most servers answer it.
GREETING = b"GET / HTTP/1.0\r\n\r\n"
SIGNS: tuple[tuple[bytes, str], ...] = (
    (b"HTTP/", "HTTP"),
    (b"<", "HTML or XML"),
    (b"-ERR", "the protocol of Redis"),
    (b"-NOAUTH", "the protocol of Redis"),
    (b"-DENIED", "the protocol of Redis"),
    (b"SSH-", "SSH"),
    (b"220 ", "the greeting of a mail or FTP server"),
    (b"\x15\x03", "TLS"),
    (b"\x16\x03", "TLS"),
    (b"AMQP", "AMQP"),
)


def name_stranger(said: bytes) -> str:
    """What the bytes are a sign of; empty when they say nothing."""
    for sign, name in SIGNS:
        if said.startswith(sign):
            return name
    return ""


def greet(host: str, port: int, seconds: float) -> bytes:
    """The first bytes a server answers to a greeting that nearly every text protocol answers."""
    try:
        with socket.create_connection((host, port), seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(GREETING)
            return connection.recv(64)
    except OSError:
        return b""
