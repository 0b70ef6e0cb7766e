"""A TCP proxy between the engine and a broker.

It closes or refuses connections, drops or delays replies, ignores requests, or limits the
bandwidth.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Literal

Mode = Literal["pass", "swallow", "hold", "refuse", "deaf"]


class Proxy:
    """Every connection is served by two threads; `cut` ends those of this moment."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._closed = False
        # What is done with what the broker says; a deaf one does not even hear.
        self.mode: Mode = "pass"
        # How many bytes a second each connection may say to the broker.
        self.rate = 0
        # And how many the broker may answer.
        self.answer_rate = 0
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close every open connection under both sides' hands; `cuts` counts them."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        self.cuts += len(pairs)

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
                if self.mode == "refuse":
                    client.close()
                    continue
                broker = socket.create_connection(self._upstream, timeout=10)
            except OSError:
                continue
            broker.settimeout(None)
            with self._lock:
                self._pairs.append((client, broker))
            threading.Thread(target=self._ask, args=(client, broker), daemon=True).start()
            threading.Thread(target=self._answer, args=(broker, client), daemon=True).start()

    def _ask(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                self._wait_while("deaf")
                if self.rate:
                    time.sleep(len(data) / self.rate)
                broker.sendall(data)
        _end(broker)

    def _answer(self, broker: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := broker.recv(1 << 16):
                self._wait_while("hold", "deaf")
                if self.answer_rate:
                    time.sleep(len(data) / self.answer_rate)
                if self.mode == "pass":
                    client.sendall(data)
        _end(client)

    def _wait_while(self, *modes: Mode) -> None:
        while self.mode in modes and not self._closed:
            time.sleep(0.01)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
