"""Reads foreign bytes: URLs, pages, robots.txt, sitemaps. Pure, except for `largebodies`.

All input is hostile: every reader is linear in its input and raises nothing for any bytes
(tests/unit/test_linear_time.py, tests/fuzz). In the order to read it:

- `urls`: the canonical form of a URL. All other modules identify a page by it.
- `domains`: the registered domain of a host.
- `page`: from the payload of a page to its links. It calls `charset` (the character set), `links`
  (which elements are links), `markup` (tags and attributes) and `references` (`&amp;`).
- `requisites`: the files that a page or style sheet shows.
- `detection`: the language of a text. It is loaded only for LANGUAGES and `scrapy corpus`.
- `likeness`: whether two texts are nearly the same. `sketch` makes what it compares: it is loaded
  only for FOLLOW_NEAR_DUPLICATES and `scrapy corpus`. `maintext`: the text of a page.
- `scan/`: the scanner of `markup` in C. It is built as the separate module `webcrawl_scan`.
- `robots`: the rules of a robots.txt. `jointrules`: those of several names at once.
- `body`: all that a page says, with the settings of a crawl. `sitemapfile`: the same of a sitemap,
  from the `fetch`ed bytes; `sitemaps` has the formats.
- `largebodies`: the queue of bodies that take long, and `bodyprocess`, the process that reads them.
  Knows nothing of the frontier.
"""
