"""A DNS server on UDP and TCP of this machine, whose messages dnspython reads and writes."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dns.flags import AA, TC
from dns.message import from_wire, make_response
from dns.rcode import NXDOMAIN
from dns.rdatatype import SRV
from dns.resolver import Resolver
from dns.rrset import from_text_list

UDP_BYTES = 512


class DnsServer:
    """``records`` are those of SRV by name, such as ``{"_http._tcp.eos.": ["0 0 10618 eos-1."]}``; every other name
    does not exist. With ``silent`` nothing is answered.
    """

    def __init__(self) -> None:
        self.records: dict[str, list[str]] = {}
        self.silent = False
        self.asked = 0
        self.resolver = Resolver(configure=False)
        self.resolver.nameservers = ["127.0.0.1"]

    def answer(self, wire: bytes, most: int) -> bytes:
        question = from_wire(wire)
        self.asked += 1
        name = question.question[0].name.to_text()
        answer = make_response(question)
        answer.flags |= AA
        if name in self.records:
            if self.records[name]:
                answer.answer.append(from_text_list(name, 5, "IN", SRV, self.records[name]))
        else:
            answer.set_rcode(NXDOMAIN)
        if len(answer.to_wire()) > most:
            answer.answer.clear()
            answer.flags |= TC
        return bytes(answer.to_wire())

    @contextmanager
    def serving(self) -> Iterator[DnsServer]:
        """Serve until the end."""
        server = self

        class Udp(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                if not server.silent:
                    self.request[1].sendto(server.answer(self.request[0], UDP_BYTES), self.client_address)

        class Tcp(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                (size,) = struct.unpack("!H", self.rfile.read(2))
                found = server.answer(self.rfile.read(size), 65_535)
                self.wfile.write(struct.pack("!H", len(found)) + found)

        tcp = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tcp)
        udp = socketserver.ThreadingUDPServer(tcp.server_address, Udp)
        self.resolver.port = tcp.server_address[1]
        threads = [threading.Thread(target=one.serve_forever, args=(0.02,)) for one in (tcp, udp)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            for one in (tcp, udp):
                one.shutdown()
                one.server_close()
            for thread in threads:
                thread.join()
