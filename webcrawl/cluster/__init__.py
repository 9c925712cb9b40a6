"""One crawl on several machines (CLUSTER).

A shard is the frontier of some registered domains, held by one node at a time. The shards of a
crawl send one another links and robots.txt tasks.

Read in this order
    buckets       the shard of a host
    mail          the messages between two shards
    courier       carries the mail of one shard
    offsets       what a courier must not forget when its frontier does
"""
