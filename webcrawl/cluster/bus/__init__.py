"""The bus: messages at most once, and entries that change by compare-and-set. Knows not what for.

`base` is the interface, and what CLUSTER says. `natsbus` implements it over NATS, with the modules
`nats*`; it is loaded only for a crawl with CLUSTER. `tests/contracts/memorybus.py` is its twin in
memory, `tests/contracts/test_buses.py` what both do.
"""

from webcrawl.cluster.bus.base import (
    ANSWERS,
    MAX_BYTES,
    Address,
    Bus,
    BusError,
    Entry,
    Refused,
    Server,
    Unreachable,
    bus_from,
)

__all__ = [
    "ANSWERS",
    "MAX_BYTES",
    "Address",
    "Bus",
    "BusError",
    "Entry",
    "Refused",
    "Server",
    "Unreachable",
    "bus_from",
]
