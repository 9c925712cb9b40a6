"""One frontier for several processes (CRAWL_PROCESSES above 1, or a crawl with a target).

```
main process                                     worker process, one of several
scheduler ── server.FrontierServer               scheduler ── client.RemoteFrontier
                 │        └── member.Member ══ socket pair ══ wire.Channel
             the frontier (on disk or in memory)
```

Read `server` (which process gets leases, the target), `member` (one worker as the server sees it),
`client` (the frontier as a worker sees it), `wire` (messages and frames).

Messages of a worker: Calls (of the frontier's interface, with changes of the counters and processor
time used), Heartbeat once a second, Exit as the last one. Messages of the server: Answers (to
one Calls), WakeUp (an `acquire` may give leases now), End (the crawl ends, and why).

A worker's leases go back to the frontier when it exits or disconnects. The watchdog that kills a
silent worker, and restarts, are `extensions.processes`.
"""
