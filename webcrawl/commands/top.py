"""`scrapy top JOBDIR`: shows in a terminal what a running crawl does, once a second."""

from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Show what a running crawl does, in the terminal")
