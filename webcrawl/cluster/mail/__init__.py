"""The mail between shards: each row is applied exactly once, whatever the bus loses or repeats.

Read in this order
    messages      a batch of rows, and the watermark that answers it: form and bounds
    offsets       what a courier must not forget when its frontier does
    courier       carries the mail of one shard
`frontier.mailbox` has the rows, and what they mean.
"""
