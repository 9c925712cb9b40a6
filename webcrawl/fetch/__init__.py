"""One HTTP exchange: its bytes, its times, its limits. Core: no Scrapy.

Knows nothing of hosts' clocks, queues and robots.txt. In the order to read it:

- `exchange`: the values that come out, `Exchange` and `FetchFailed` with its reasons.
- `request`: the values that go in, `FetchRequest` and `Limits`.
- `client`: all fetches of a crawl. `Client.fetch` is the way in. `gate`: when none may begin.
- `transfer`: one request on one connection: socket, TLS, time-outs.
- `http1`: the framing of a response, without I/O.
- `connections`: keep-alive.
- `requesthead`: the parts of a URL, the bytes of a request, and which requests may be sent.
- `tls`: contexts, and the verdict on a certificate. `signing`: signatures of requests.
- `proxy`: the proxy of a whole crawl, and the meaning of its answers.
- `conditions`: conditional requests.
- `decode`: content codings. `mediatypes`: which bodies are read. `retryafter`: Retry-After.
"""
