"""Commands of `scrapy`: Scrapy's own with this project's checks, and a few more.

In reading order:

- `crawl`, `runspider`: Scrapy's commands. `preflight` checks settings, names and seeds, runs the
  crawl and sets the exit code; it also has the end of their `--help`.
- `fetch`, `view`, `shell`, `parse`, `check`, `bench`: Scrapy's debugging commands. `debugging` is
  their common base: they leave no archive, no report and nothing in JOBDIR.
- `ctl`: steers a running crawl. `hub`: gives a hub whose machine is lost a JOBDIR.
- `simweb`: serves the simulated web.
- `report`, `explain`, `frontier`, `top`, `trace`, `sweep`, `warccheck`, `warcrecover`, `wacz`,
  `corpus`, `botpage`: carried out by `webcrawl.tools`; `tool` is their common base.

Each module's class `Command` is thin: it reads options and calls the rest of the package.
"""
