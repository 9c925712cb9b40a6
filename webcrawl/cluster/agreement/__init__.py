"""What the nodes of a crawl agree on, by records on the bus that change by compare-and-set.

Knows no frontier and no mail. The bus may lose all records at any time: what must not be forgotten
is in the node's file.

Read in this order
    records       the records, and how one is changed
    nodefile      `node.json`: what a node knows when the bus knows nothing
    registry      one crawl: joining, settings that must agree, and the loss of all records
    members       heartbeats: which nodes are alive, and whether this one may send requests
    shards        which node has which shard
    node          one round of all of these
    tenancy       which node may ask at which IP address
    target        how many pages each shard may still answer
    orders        pause, allow and deny
    ending        the end of the crawl
"""
