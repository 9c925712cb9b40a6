"""Spiders: seeds go in, `Page` items come out.

Read `seeds` first (the meaning of `-a seeds=`; no Scrapy in it), then `broad` (the spider, and the
base class of a user's own spider).
"""
