"""A simulated web: DNS and HTTP for thousands of hosts on loopback, and a ledger that judges.

It is a function of its seed: the same arguments make the same hosts, pages, links and misbehaviour.
It imports nothing of the crawler, so that it can judge it. `python -m simweb --help`.
"""

from simweb.launch import Running, running
from simweb.ledger import faults

__all__ = ["Running", "faults", "running"]
