"""`scrapy trace`: the steps of the fetch of one URL, for a person to read.

- `tracer`: the steps, their order and their format.
- `loader`: the steps on the network, and the lines of each.
"""
