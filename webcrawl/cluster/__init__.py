"""Hubs and their fetchers on several machines, over NATS (docs/cluster.md).

```
hub's machine                                      each other machine
hub.server ── hub.member                           fetching.HubFrontier (a client)
                    │                                     │
            sessions.Sessions ═ streams ══ bus ══ streams
            records.Ownership ── records on the bus
```

The hub is the process with the frontier, and decides everything; its own process fetches too. A
fetcher takes leases from the hub, fetches, archives and releases. It has no state that must
survive. Both ends speak the messages of `hub.wire`, as the processes of one machine do over a
socket pair: server, member and client are the same.

- `address`: CLUSTER; `bus`: subjects and records, by nats-py
- `packets`: what is sent on the subjects
- `streams`: one end of the messages between a hub and a fetcher, carried by one session after
  another; or between two hubs, in one session
- `sessions`: the hub's end of all of them; `fetching`: the fetcher's end of one; `allhubs`: the
  frontiers of several hubs as one
- `records`: which process is the hub; `service`: its rounds; `claims`: its number, in JOBDIR
- `joining`: how a fetcher finds its hub
- with several hubs, `peers`: their sessions with each other; `courier` and `letters`: links to the
  hosts of another; `turns` and `addresses`: IP addresses; `several`: what belongs to one of several
- `whole`: the crawl of all hubs, led by hub 0; `views`: its numbers; `target`: who may fetch how
  many pages, and the end; `steering`: commands
- `checkpoints`: copies of a hub's JOBDIR on another disk, `sentcheckpoints`: in an object store;
  `restoring`: a JOBDIR from one, or empty

A session ends at both ends at a gap, a reconnect, or SILENCE_S without a packet, each by its own
clock. Without a session a fetcher sends no request. The stream goes on in the next session, with
what was not acknowledged: nothing is counted twice. If the fetcher is not back within SILENCE_S and
the longest fetch, its leases go back to the frontier, and its next session has a new stream.
"""
