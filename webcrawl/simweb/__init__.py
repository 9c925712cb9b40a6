"""A simulated web: DNS and HTTP for thousands of hosts on loopback, and a ledger that judges.

It is a function of its seed: the same arguments make the same hosts, pages, links and misbehaviour.
It imports nothing of the crawler, so that it can judge it. `python -m webcrawl.simweb --help`.
"""

from webcrawl.simweb.launch import Running, running
from webcrawl.simweb.ledger import faults

__all__ = ["Running", "faults", "running"]
