"""Reads Java's key stores (JKS, PKCS12) as PEM texts, without Java.

JKS is a list of certificates and keys with a digest of its own, after `sun.security.provider.
JavaKeyStore`: 20 bytes of SHA-1 over the password, a constant text and the content. A key in it is
XORed with a chain of SHA-1 digests.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import struct
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    pkcs12,
)

from mirrors.kafka.security import live_secrets
from mirrors.kafka.security.secrets import Secret, SecretUnavailable, read_bytes, resolve

SCHEME = "store:"
_JKS = b"\xfe\xed\xfe\xed"
_JCEKS = b"\xce\xce\xce\xce"
_WHITENER = b"Mighty Aphrodite"
_DIGEST = 20


class UnreadableStore(Exception):
    """A clause that follows the name of the store."""


@dataclasses.dataclass(frozen=True)
class KeyStore:
    """The content as PEM texts. `certificates` has all of a truststore, or the key's chain."""

    certificates: str
    key: Secret | None


def certificates_of(reference: str) -> str:
    """Return PEM certificates behind a reference of any kind. Raises SecretUnavailable."""
    if not reference:
        return ""
    if reference.startswith(SCHEME):
        return _resolved(reference).certificates
    return resolve(reference).reveal()


def key_of(reference: str) -> Secret | None:
    """Return the PEM key behind a reference of any kind. Raises SecretUnavailable."""
    if not reference:
        return None
    if not reference.startswith(SCHEME):
        return resolve(reference)
    key = _resolved(reference).key
    if key is None:
        raise SecretUnavailable(
            f"The key store of {reference} contains no key, only certificates: use it as ssl_ca."
        )
    live_secrets.note(key.reveal())
    return key


def _resolved(reference: str) -> KeyStore:
    path, _, password = reference.removeprefix(SCHEME).partition(":")
    raw = read_bytes(reference, path)
    try:
        return read_store(raw, resolve(password) if password else None)
    except UnreadableStore as error:
        raise SecretUnavailable(f"The key store of {reference} {error}.") from None


def read_store(raw: bytes, password: Secret | None) -> KeyStore:
    """Return the content of a store. Raises UnreadableStore.

    Without a password only the certificates of a JKS store, or of a PKCS12 store that has none,
    can be read.
    """
    if raw.startswith(_JCEKS):
        raise UnreadableStore(
            "is a JCEKS store; convert it with `keytool -importkeystore -deststoretype PKCS12`"
        )
    read = _read_jks if raw.startswith(_JKS) else _read_pkcs12
    found = read(raw, password)
    if not found.certificates:
        raise UnreadableStore("contains no certificate")
    return found


def _read_pkcs12(raw: bytes, password: Secret | None) -> KeyStore:
    try:
        found = pkcs12.load_pkcs12(raw, password.reveal().encode() if password else None)
    except (ValueError, TypeError):
        raise UnreadableStore(
            "cannot be opened: it is not a JKS or PKCS12 store, or the password is wrong"
        ) from None
    own = [found.cert.certificate] if found.cert else []
    chain = [*own, *(entry.certificate for entry in found.additional_certs)]
    key = None
    if found.key is not None:
        key = _pem_key(found.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))
    return KeyStore(_pem(chain), key)


def _read_jks(raw: bytes, password: Secret | None) -> KeyStore:
    if password is not None:
        digest = hashlib.sha1(_utf16(password) + _WHITENER + raw[:-_DIGEST], usedforsecurity=False)
        if not hmac.compare_digest(digest.digest(), raw[-_DIGEST:]):
            raise UnreadableStore("cannot be opened: the password is wrong, or it is damaged")
    try:
        trusted, chains = _entries(raw)
    except (struct.error, ValueError, IndexError):
        raise UnreadableStore("is damaged: it ends within an entry") from None
    if not chains:
        return KeyStore(_pem(trusted), None)
    if password is None:
        raise UnreadableStore("contains a key, so it needs its password")
    sealed, chain = chains[0]
    return KeyStore(_pem(chain), _pem_key(_unsealed(sealed, password)))


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 4

    def number(self, form: str = ">I") -> int:
        (found,) = struct.unpack_from(form, self._raw, self._at)
        self._at += struct.calcsize(form)
        return int(found)

    def block(self, form: str = ">I") -> bytes:
        length = self.number(form)
        found = self._raw[self._at : self._at + length]
        if len(found) < length:
            raise ValueError
        self._at += length
        return found


Chain = list[x509.Certificate]


def _entries(raw: bytes) -> tuple[Chain, list[tuple[bytes, Chain]]]:
    """Return the trusted certificates, and each sealed key with its chain."""
    reader = _Reader(raw)
    version = reader.number()
    trusted: Chain = []
    keys: list[tuple[bytes, Chain]] = []
    for _ in range(reader.number()):
        tag = reader.number()
        reader.block(">H")  # the alias
        reader.number(">Q")  # the time of creation
        if tag == 1:
            sealed = reader.block()
            chain = [_certificate(reader, version) for _ in range(reader.number())]
            keys.append((sealed, chain))
        elif tag == 2:
            trusted.append(_certificate(reader, version))
        else:
            raise ValueError
    return trusted, keys


def _certificate(reader: _Reader, version: int) -> x509.Certificate:
    if version == 2:
        reader.block(">H")  # the type, which is X.509
    return x509.load_der_x509_certificate(reader.block())


def _unsealed(sealed: bytes, password: Secret) -> bytes:
    """Return a key of JKS in DER. `sealed` is an EncryptedPrivateKeyInfo of RFC 5208."""
    body = _octets(sealed)
    salt, cipher, check = body[:_DIGEST], body[_DIGEST:-_DIGEST], body[-_DIGEST:]
    word, stream, last = _utf16(password), b"", salt
    while len(stream) < len(cipher):
        last = hashlib.sha1(word + last, usedforsecurity=False).digest()
        stream += last
    plain = bytes(one ^ other for one, other in zip(cipher, stream, strict=False))
    digest = hashlib.sha1(word + plain, usedforsecurity=False).digest()
    if not hmac.compare_digest(digest, check):
        raise UnreadableStore(
            "has a key with another password than the store. Give both the same with "
            "`keytool -keypasswd`"
        )
    return plain


def _octets(sealed: bytes) -> bytes:
    """Return the octet string behind the algorithm in a DER sequence."""
    try:
        _, at, _ = _header(sealed, 0)
        _, inner, length = _header(sealed, at)
        _, begin, length = _header(sealed, inner + length)
    except IndexError:
        raise UnreadableStore("has a damaged key") from None
    return sealed[begin : begin + length]


def _header(raw: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag, the start and the length of a DER element."""
    tag, length, at = raw[at], raw[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(raw[at : at + count], "big")
        at += count
    return tag, at, length


def _utf16(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be")


def _pem(certificates: Sequence[x509.Certificate]) -> str:
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates).decode("ascii")


def _pem_key(der: bytes) -> Secret:
    try:
        key = load_der_private_key(der, None)
    except (ValueError, TypeError):
        raise UnreadableStore("has a key of a kind that is not supported") from None
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Secret(pem.decode("ascii"))
