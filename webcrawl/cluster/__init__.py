"""One crawl on several machines (CLUSTER).

A shard is the frontier of some registered domains, held by one node at a time. The shards of a
crawl send one another links and robots.txt tasks over a bus.

Read in this order
    buckets       the shard of a host
    bus           what the nodes of a crawl need of a bus
    mail          the messages between two shards
    courier       carries the mail of one shard
    offsets       what a courier must not forget when its frontier does
    frontier      the shards of a node as one frontier
    nats*         the bus over NATS; `memorybus` is its twin in memory
"""
