"""What every test stands on: no way out of this machine, and the same examples in each run."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# `ci` is what runs by default. `pytest --hypothesis-profile=hunt` looks for new faults.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,  # a slow machine is not a fault
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("hunt", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile("ci")


class OutsideNetwork(Exception):
    """A test tried to leave this machine; it may reach loopback and unix sockets.

    Not an OSError, so that code that survives a lost connection does not hide it.
    """

    def __init__(self, host: object) -> None:
        super().__init__(f"a test tried to reach {host!r}: use a server of your own on 127.0.0.1")
        self.host = host


def is_local(host: object) -> bool:
    """Whether a host is this machine: localhost, a loopback address or the unspecified one."""
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def pytest_configure(config: pytest.Config) -> None:
    """Bars the way out from the first import of a test to the end of the session."""
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    for name in ("connect", "connect_ex", "sendto"):
        patch.setattr(socket.socket, name, _local_only(getattr(socket.socket, name)))
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        patch.setattr(socket, name, _local_lookup(getattr(socket, name)))


def _local_only(connect: Any) -> Any:
    def checked(self: socket.socket, *args: Any) -> Any:
        address = args[-1]  # of sendto(data, [flags,] address) too
        if self.family in (socket.AF_INET, socket.AF_INET6) and not is_local(address[0]):
            raise OutsideNetwork(address[0])
        return connect(self, *args)

    return checked


def _local_lookup(lookup: Any) -> Any:
    def checked(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_local(host):
            raise OutsideNetwork(host)
        return lookup(host, *args, **kwargs)

    return checked
