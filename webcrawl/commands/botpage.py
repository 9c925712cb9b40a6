"""`scrapy botpage`: the page that explains the crawler, its key directory and its addresses."""

from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Write the page that explains the crawler to the owners of sites")
