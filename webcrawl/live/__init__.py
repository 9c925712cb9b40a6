"""The control server of a running crawl, its live page, and the client of both.

`server` answers HTTP on a Unix socket in JOBDIR and, with LIVE, on 127.0.0.1. `client` asks it from
another process, with the standard library only. `snapshot` is what the crawl shows.
"""
