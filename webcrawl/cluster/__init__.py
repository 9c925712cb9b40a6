"""One crawl on several machines: nodes, shards, and the bus between them."""
