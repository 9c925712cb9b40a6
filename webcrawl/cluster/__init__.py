"""One crawl on several machines (CLUSTER).

A shard is the frontier of some registered domains, held by one node at a time. The shards of a
crawl send one another links and robots.txt tasks over a bus. docs/architecture.md shows the way of
a link, and a round with the bus.

Read in this order; each imports only what stands above it (`tests/unit/test_house.py`)
    buckets       the shard of a host
    bus/          what the nodes need of a bus, and NATS
    errors        what a node cannot do, in one line each
    views         each node's counts, and their sum
    addresses     the IP addresses of a node: one clock for all its shards
    mail/         the mail between shards
    agreement/    what the nodes agree on
    frontier      the shards of a node as one frontier
    process       what a node needs of the process that crawls
    putting, explaining, notices, nodelog      small services of a node
    keeping, steering      the addresses of a node, and its orders and target, while it runs
    moving/       shards that come and go
    running       the node: its rounds, and what it does in each
"""
