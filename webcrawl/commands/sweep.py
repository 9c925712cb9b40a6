"""`scrapy sweep`: how fast, how large and how long, by experiment."""

from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Measure crawls by concurrency, by kind of frontier, or over time")
