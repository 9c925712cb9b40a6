"""One frontier for several processes; with CRAWL_PROCESSES = 1 for the first process only.

```
first process                                    worker, one of several
scheduler ── server.FrontierServer               scheduler ── client.RemoteFrontier
                 │        └── member.Member ══ socket pair ══ wire.Channel
             the frontier (on disk or in memory)
```

Read `server` (which process gets leases, the target), `member` (one worker as the server sees it),
`client` (the frontier as a worker sees it), `wire` (messages and frames).

Messages of a worker: Calls (of the frontier's interface, with changes of the counters and processor
time used), Heartbeat once a second, Steered (orders are carried out), Exit as the last one.
Messages of the server: Answers (to one Calls), WakeUp (an `acquire` may give leases now), Steer
(orders, as the user steers the crawl), NewRules, GiveBack (leases whose requests are not sent),
Allowed (requests may be sent until then), End (the crawl ends, with the reason).

A fetcher of a crawl with CLUSTER is served like a worker: a stream over the bus is in place of the
socket pair (`cluster.streams`).

A worker's leases go back to the frontier when it exits or disconnects. `extensions.processes` kills
a worker without heartbeats, and starts workers again.
"""
