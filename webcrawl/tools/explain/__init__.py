"""`scrapy explain`, and the same question on the live page: what has decided about one URL.

- `explanation`: by the settings and by commands of the user; all sentences about a URL.
- `frontier`: by the frontier: caps, robots.txt, queue, delays.
"""
