"""Shards that come and go: moves from node to node, checkpoints, and commands about them.

Read in this order
    folders       the folders of a node's shards: which one is whole
    mover         the steps of a move, on both sides
    checkpoints   a folder from which another node restores a shard
    holding       when a shard is moved, closed or written to a checkpoint
    desk          `scrapy shard`
"""
