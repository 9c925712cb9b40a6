"""`scrapy explain JOBDIR URL`: why a URL was fetched, refused, or is waiting."""

from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Explain why a URL was fetched, refused or is waiting")
