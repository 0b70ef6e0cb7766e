"""Kinds of IP addresses: cloud metadata and link-local, which no connection may reach; private.

An address may contain another one: mapped IPv4, 6to4, Teredo, NAT64. The inner one counts too,
since a gateway would connect to it.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48")))
_COMPATIBLE = ipaddress.IPv6Network("::/96")
# Metadata services of clouds outside the link-local range. The same in `egress.c`.
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            *("100.100.100.200", "168.63.129.16", "192.0.0.192"),  # Alibaba, Azure, Oracle
            *("fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42"),  # Google, Oracle, Scaleway
        ),
    )
)
# AWS: metadata, credentials of pods (EKS), name servers, time.
_AWS = ipaddress.IPv6Network("fd00:ec2::/32")


def contained(address: str) -> tuple[Address, ...]:
    """The address and the IPv4 addresses in it; empty if the text is no address."""
    try:
        ip = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return ()
    if isinstance(ip, ipaddress.IPv4Address):
        return (ip,)
    inner: list[Address | None] = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    low = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if any(ip in network for network in _NAT64):
        inner.append(low)
    if ip in _COMPATIBLE and int(ip) > 1:
        inner.append(low)
    return (ip, *(one for one in inner if one is not None))


def is_forbidden(address: str) -> bool:
    """Whether it is link-local or a cloud's metadata service: no setting allows it."""
    return any(ip.is_link_local or ip in _METADATA or ip in _AWS for ip in contained(address))


def is_public(address: str) -> bool:
    """Whether everybody on the internet reaches it, and nothing internal is behind it."""
    found = contained(address)
    outer = found[:1] if len(found) == 1 else found[1:]
    return bool(found) and all(ip.is_global and not ip.is_multicast for ip in outer)
