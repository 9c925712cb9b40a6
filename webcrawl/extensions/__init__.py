"""Scrapy extensions of a crawl. `EXTENSIONS_BASE` in `webcrawl.settings` has each.

In reading order:

- `startcheck`: checks names and the contact in the User-Agent before every crawl.
- `live`: runs the control server and the live page.
- `steering`: carries out commands for the running crawl; `steeredseeds` adds seeds.
- `rules`, `budgets`: follow the file of RULES; end the crawl when the archive or a disk is full.
- `statslines`: prints the stats lines and the summary, and copies every number to Scrapy's stats.
- `report`: writes JOBDIR/crawl.json when the spider opens, report.json and report.txt when it
  closes.
- `archivestore`: sends finished files to ARCHIVE_STORE.
- `series`: writes the time series of the counts.
- `processes`: starts and watches the other processes of a crawl; each of them runs `worker`.
- `hub`: serves fetchers on other machines (CLUSTER); each of them runs `fetcher`. `hubprocess`: one
  of several hubs, as the other ones see it.
- `closespider`, `feeds`, `remotecontrol`, `spiderstate`: in place of Scrapy's extensions.
- `tuning`: memory and garbage collection.
"""
