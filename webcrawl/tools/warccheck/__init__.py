"""`scrapy warccheck`: WARC files against WARC 1.1 and HTTP.

- `check`: the problems of a file. `indexcheck`: of its index. `warc.reader` reads the records.
"""
