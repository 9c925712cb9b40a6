"""Scrapy's scheduler interface on the frontier. Read in this order:

- `opening`: opens the frontier, with the commands of earlier runs
- `scheduler`: turns leases into Requests, and ends of Requests into outcomes
- `pump`: the task that moves leases between the frontier and the engine
- `target`: decides which answers count towards CLOSESPIDER_PAGECOUNT
- `controls`: carries out the orders by which a running crawl is steered

The objects that the scheduler shares with other parts are in `webcrawl.crawl`.
"""

from webcrawl.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
