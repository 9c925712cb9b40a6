"""DNS messages."""

from __future__ import annotations

import socket
import struct

from tests.cases import each_of
from webcrawl.admission.dnswire import TYPE_A, TYPE_AAAA, DnsAnswer, query, question, read_answer

ASKED = question("a.br", TYPE_A)
NAME = b"\xc0\x0c"  # a pointer to the question's name


def record(data: bytes, record_type: int = TYPE_A, ttl_s: int = 60, name: bytes = NAME) -> bytes:
    return name + struct.pack("!HHIH", record_type, 1, ttl_s, len(data)) + data


def address(text: str, ttl_s: int = 60, name: bytes = NAME) -> bytes:
    return record(socket.inet_aton(text), ttl_s=ttl_s, name=name)


def message(*records: bytes, flags: int = 0x8180, asked: bytes = ASKED) -> bytes:
    return struct.pack("!HHHHHH", 7, flags, 1, len(records), 0, 0) + asked + b"".join(records)


def test_question_and_query() -> None:
    assert ASKED == b"\x01a\x02br\x00\x00\x01\x00\x01"
    assert question("a.br.", TYPE_AAAA) == b"\x01a\x02br\x00\x00\x1c\x00\x01"
    assert query(0x1234, ASKED) == b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + ASKED


def test_addresses_in_order_with_the_least_ttl() -> None:
    answer = read_answer(message(address("192.0.2.2", 90), address("192.0.2.1", 30)), ASKED)
    assert answer == DnsAnswer(("192.0.2.2", "192.0.2.1"), 30)


def test_aliases_count_by_their_ttl() -> None:
    alias = record(b"\x01x\xc0\x0e", record_type=5, ttl_s=10)
    answer = read_answer(message(alias, address("192.0.2.1", name=b"\x01x\xc0\x0e")), ASKED)
    assert answer == DnsAnswer(("192.0.2.1",), 10)


def test_ipv6() -> None:
    asked = question("a.br", TYPE_AAAA)
    data = socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    assert read_answer(message(record(data, TYPE_AAAA), asked=asked), asked).addresses == (
        "2001:db8::1",
    )


def test_the_echoed_question_may_be_in_another_case() -> None:
    echoed = message(address("192.0.2.1"), asked=ASKED.replace(b"a", b"A"))
    assert read_answer(echoed, ASKED).addresses == ("192.0.2.1",)


@each_of(
    ("octets", "problem"),
    [
        (message(), "nodata"),
        (message(record(b"x", record_type=16)), "nodata"),
        (message(flags=0x8183), "nxdomain"),
        (message(flags=0x8182), "servfail"),
        (message(flags=0x8185), "refused"),
        (message(flags=0x8181), "rcode"),
        (struct.pack("!HHHHHH", 7, 0x8185, 0, 0, 0, 0), "refused"),  # no question repeated
        (message(flags=0x8380), "truncated"),
        (message(address("192.0.2.1")[:-1], flags=0x8380), "truncated"),
        (b"", "garbage"),
        (message()[:9], "garbage"),
        (message(flags=0x0180), "garbage"),  # a query
        (message(asked=question("b.br", TYPE_A)), "garbage"),
        (message(address("192.0.2.1"))[:-1], "garbage"),
        (message(record(b"12345")), "garbage"),
        (message(b"\x3fx"), "garbage"),
    ],
)
def test_problems(octets: bytes, problem: str) -> None:
    assert read_answer(octets, ASKED) == DnsAnswer(problem=problem)


def test_the_addresses_of_a_truncated_answer_are_enough() -> None:
    whole = message(address("192.0.2.1"), address("192.0.2.2"), flags=0x8380)
    assert read_answer(whole[:-3], ASKED).addresses == ("192.0.2.1",)
