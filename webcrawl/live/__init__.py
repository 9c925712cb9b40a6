"""The control server of a running crawl, its live page, and the client of both (docs/watching.md).

In reading order:

- `snapshot`, `metrics`: what the crawl shows, as JSON values and in Prometheus' text format.
- `livecrawl`: all that the server answers with, from the state of the crawl.
- `explanation`, `frontierexplanation`: what has decided about one URL, also for `scrapy explain`.
- `access`: which requests over TCP are answered. `server`: HTTP. `events`: server-sent events.
- `listening`: the Unix socket in JOBDIR and the port of 127.0.0.1.
- `client`: asks a crawl from another process, with the standard library only.
- `page/`: the page.
"""
