"""`scrapy warccheck`: WARC files against WARC 1.1 and HTTP.

- `reader`: the records of a file. `check`: the problems of a file. `indexcheck`: of its index.
"""
