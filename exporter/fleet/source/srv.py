"""Agents by SRV records of DNS (RFC 2782): every target of a name, whatever its priority and weight."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from exporter.bounds.text import without_credentials

if TYPE_CHECKING:
    from dns.resolver import Resolver

SCHEMES = {"dns+srv": "http", "dns+srv+https": "https"}
DNS_TIMEOUT = 10.0


class SrvError(ValueError):
    """The place cannot be used, or is not answered. The text says why."""


class SrvRecords:
    """The records at ``dns+srv://NAME/PREFIX``; ``dns+srv+https://`` for agents with TLS. The name is a whole one:
    search domains are not tried. ``resolver`` is that of the machine where it is None.
    """

    def __init__(self, place: str, resolver: Resolver | None = None) -> None:
        """Raises SrvError."""
        try:
            # The extra `dns`.
            from dns.exception import DNSException  # noqa: PLC0415
            from dns.name import from_text  # noqa: PLC0415
        except ImportError:
            raise SrvError("dns+srv:// needs dnspython: pip install 'kafka-eos-exporter[dns]'") from None
        parts = urlsplit(place)
        name, scheme = parts.netloc, SCHEMES.get(parts.scheme)
        if not name or scheme is None or not {"@", ":"}.isdisjoint(name) or parts.query or parts.fragment:
            raise SrvError(
                f"{without_credentials(place)!r:.80} is not as dns+srv://_http._tcp.eos-exporter.example.com"
            )
        try:
            self._name = from_text(name)
        except (DNSException, UnicodeError):
            raise SrvError(f"{without_credentials(place)!r:.80} has no name of DNS") from None
        self._scheme, self._prefix, self._resolver, self._failed = scheme, parts.path, resolver, DNSException
        self.place = place

    def urls(self) -> list[str]:
        """The URLs of all targets, as they are now. Raises SrvError."""
        from dns.resolver import Resolver  # noqa: PLC0415 -- the extra `dns`

        try:
            resolver = self._resolver or Resolver()  # it reads resolv.conf anew: name servers change
            found = resolver.resolve(self._name, "SRV", lifetime=DNS_TIMEOUT)
        except self._failed as error:
            raise SrvError(f"{self.place}: {error}") from None
        except OSError as error:
            raise SrvError(f"{self.place}: {error.strerror or 'no answer'}") from None
        # The target "." says that there is no service.
        targets = sorted((record.target.to_text(omit_final_dot=True), record.port) for record in found)
        return [f"{self._scheme}://{host}:{port}{self._prefix}" for host, port in targets if host != "."]
