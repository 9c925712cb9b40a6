"""One HTTP exchange: its bytes, its times, its limits. Core: no Scrapy.

Knows nothing of hosts' clocks, queues and robots.txt. In the order to read it:

- `exchange`: the values that come out, `Exchange` and `FetchFailed` with its reasons.
- `client`: sockets, TLS, time-outs. `Client.fetch` is the way in.
- `http1`: the framing of a response, without I/O.
- `connections`: keep-alive.
- `requesthead`: the parts of a URL, the bytes of a request, and which requests may be sent.
- `tls`: contexts, and the verdict on a certificate. `signing`: signatures of requests.
- `proxy`: the proxy of a whole crawl, and the meaning of its answers.
- `decode`: content codings. `mediatypes`: which bodies are read. `retryafter`: Retry-After.
"""
