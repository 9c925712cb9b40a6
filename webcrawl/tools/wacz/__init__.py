"""`scrapy wacz`: the WARC files of a crawl as one WACZ, or as several that replay together.

- `files`: which WARC files. `captures`: what their records say of pages, originals and revisits.
- `index`: CDXJ files become the index of a WACZ. `package`: writes one WACZ. `parts`: all of them.
"""
