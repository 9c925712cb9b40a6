"""Commands of `scrapy`: Scrapy's own with this project's checks, and a few more.

In reading order:

- `crawl`, `runspider`: Scrapy's commands. `preflight` checks settings, names and seeds, runs the
  crawl and sets the exit code. `epilog` is the end of their `--help`.
- `fetch`, `view`, `shell`, `parse`, `check`, `bench`: Scrapy's debugging commands. `debugging` is
  their common base: they leave no archive, no report and nothing in JOBDIR.
- `trace`: shows each step of the fetch of one URL; `debugging` is its base too.
- `frontier`, `explain`: look into the frontier of a JOBDIR. `top`: shows a running crawl.
- `report`: figures of a crawl, as a page and CSV files.
- `sweep`: runs experiments, each of several crawls.
- `ctl`: steers a running crawl. `hub`: gives a hub whose machine is lost a JOBDIR.
- `warccheck`: checks WARC files. `botpage`: writes the page of the crawler. `simweb`: serves the
  simulated web.

Each module's class `Command` is thin: it reads options and calls the rest of the package.
"""
