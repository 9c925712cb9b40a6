"""Tools that look at a crawl from outside. A crawl imports none of them.

Each folder carries out the command of its name, in `command`. `webcrawl.commands` has the names,
and imports a tool when its command is given. The live page asks `explain` for its sentences. The
libraries that only tools need are the extra `tools` of the package.

- `report`: what a crawl collected and what it missed, as a page, CSV files and JSON.
- `explain`: why a URL was fetched, refused, or is waiting.
- `frontier`: looks into the frontier of a JOBDIR, and mends it.
- `top`: shows a running crawl in a terminal.
- `trace`: each step of the fetch of one URL.
- `sweep`: experiments of several crawls, with plots.
- `warccheck`: checks WARC files and their indexes.
- `warcrecover`: finishes the WARC files of a killed crawl.
- `wacz`: the WARC files of a crawl as a WACZ, one file to hand on.
- `corpus`: the captures and texts of WARC files as tables.
- `botpage`: the page that explains the crawler to owners of sites, and the keys of its signatures.
- `template`: the HTML of `report` and `botpage`. `progress`: the bar of `wacz` and `corpus`.
  `words`: the text and the tokens of a page, for `report` and `wacz`. `pool`: the processes of
  `report` and `corpus`. `stored`: the files of an object store, for both.
"""
