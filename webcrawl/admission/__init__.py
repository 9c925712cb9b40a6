"""The steps beside the pages: DNS, address guard, robots.txt, HEAD, sitemaps, requisites.

Core: no Scrapy.

In the order to read it:

- `runner`: runs all leases but PAGE, and returns their outcomes.
- `robotspolicy`: the meaning of an answer to a robots.txt request (`parse.robots` reads its rules).
- `guard`: which IP addresses the crawl may connect to.
- `dns`: the resolver and its cache. `dnsclient`: sockets and retries. `dnswire`: DNS messages.
- `outage`: distinguishes an outage of our own network from failures of single hosts.
"""
