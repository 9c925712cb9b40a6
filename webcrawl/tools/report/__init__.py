"""What a crawl collected, and what it missed: `scrapy report`.

Reads the crawl log, the time series, the frontier on disk and the WARC files of a running, finished
or killed crawl, and changes none of them. Knows nothing of Scrapy.

In reading order:

- `folder`: finds the files of a crawl.
- `logtable`: the crawl log as tables of DuckDB; `tables`: the value that each figure is.
- `state`: counts, time series and frontier.
- `summary`, `questions`, `webhosts`, `distributions`: the figures.
- `archive`: tokens and links of the pages in WARC files.
- `report`: all figures of a crawl; `tables`, `plots`, `page`, `printed`: how they are written.
  `static/page.html` has the page's text; `columns`: the headings of tables.
"""
