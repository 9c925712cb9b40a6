"""`scrapy wacz`: the WARC files of a crawl as one WACZ, or as several that replay together.

- `captures`: what their records say of pages, originals and revisits.
- `index`: CDXJ files become the index of a WACZ. `package`: writes one WACZ. `parts`: all of them,
  of which WARC files.
"""
