"""The output of a crawl for its user. `webcrawl.extensions` decides when it is written.

In reading order:

- `lines`: the text of the stats lines, their legend and the summary, made from counters.
- `series`: the file of the time series, bounded.
- `console`: writes lines to standard output, or to the log if the log is a file.
- `logformatter`: Scrapy's log lines about pages, links and items.
"""
