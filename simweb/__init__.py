"""A simulated web: DNS and HTTP for thousands of hosts on loopback, and a ledger that judges.

A seed determines the whole web: the same arguments make the same hosts, pages, links and faults.
The package imports nothing of the crawler, so that it can judge the crawler. Its command line is
`python -m simweb` (`--help`).

In reading order:

- `spec`: the arguments of a world, and the names of its parts.
- `features`: the draw of behaviours. `addresses`, `origins`, `robots`, `hosts`, `pagekinds`
  (`documents`, `failures`, `hostile`) and `links` are the tables of behaviours.
- `model`: the world; `site` and `weaving` make its pages and links, `words` their text.
- `reach`: the pages that a crawl must find. `survey`: a long list of seeds.
- `ledger`: judges each request.
- `server`: runs `listeners`, `http`, `secure`, `dns` and `control`.
- `cli`, `launch`: for the command line, and for tests. `options`: fields that are options.
"""

from simweb.launch import Running, running
from simweb.ledger import faults

__all__ = ["Running", "faults", "running"]
