"""`scrapy botpage`: what the owner of a site may read about the crawler.

- `page`: the page, and the list of addresses. `keys`: key files, and the directory of public keys.
"""
