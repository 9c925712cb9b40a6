"""`scrapy top`: what a running crawl does, in a terminal.

- `screen`: a snapshot as tables of rich. `command`: asks the crawl, and draws.
"""
