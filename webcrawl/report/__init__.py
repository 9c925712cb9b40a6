"""The output of crawls for their user. `webcrawl.extensions` decides when a crawl writes it.

In reading order:

- `lines`: the text of the stats lines, their legend and the summary, made from counters.
- `series`: the file of the time series, bounded.
- `console`: writes lines to standard output, or to the log if the log is a file.
- `logformatter`: Scrapy's log lines about pages, links and items.
"""
