"""Scrapy signals of this project, beside Scrapy's own."""

# Sent with `exchange` (fetch.exchange.Exchange) for each robots.txt that was answered: these do not
# pass through Scrapy's engine, but belong in the archive.
exchange_recorded = object()

# Sent when the crawl begins to close, for whatever reason: nothing new is fetched from now on.
crawl_closing = object()

# Sent when the crawl is closing and its grace is over: what is still being fetched is cut off. With
# `urls` only these are, since they are slow and the crawl has no place to ask others.
fetches_cut = object()
