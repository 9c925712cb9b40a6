"""Any bytes of a DNS server give an Answer with addresses or a problem, never an exception."""

from __future__ import annotations

import ipaddress
import struct

from hypothesis import given
from hypothesis import strategies as st

from webcrawl.admission.dnswire import TYPE_A, TYPE_AAAA, question, read_answer

SHORT = st.integers(0, 0xFFFF)
HEADERS = st.one_of(
    st.binary(max_size=12),
    st.builds(
        lambda flags, counts: struct.pack("!HHHH", 1, flags, *counts) + bytes(4),
        st.sampled_from([0x8180, 0x8380, 0x8183]),
        st.tuples(st.integers(0, 2), st.integers(0, 3)),
    ),
)
NAMES = st.sampled_from([b"\xc0\x0c", b"\xff\xff", b"\0", b"\x01a\0", b"\x3f"])
RECORDS = st.builds(
    lambda name, record_type, size, data: (
        name + struct.pack("!HHIH", record_type, 1, 9, size) + data
    ),
    NAMES,
    st.sampled_from([TYPE_A, TYPE_AAAA, 5, 41]),
    st.one_of(st.sampled_from([4, 16]), SHORT),
    st.binary(min_size=2, max_size=17),
)


@given(st.sampled_from([TYPE_A, TYPE_AAAA]), HEADERS, st.lists(RECORDS, max_size=3), st.booleans())
def test_read_answer_never_raises(
    record_type: int, header: bytes, records: list[bytes], echoed: bool
) -> None:
    asked = question("a.br", record_type)
    answer = read_answer(header + asked * echoed + b"".join(records), asked)
    assert bool(answer.problem) is not bool(answer.addresses)
    version = 4 if record_type == TYPE_A else 6
    for address in answer.addresses:
        assert ipaddress.ip_address(address).version == version
