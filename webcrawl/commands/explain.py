"""`scrapy explain JOBDIR URL`: why a URL was fetched, refused, or is waiting."""

from __future__ import annotations

from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Explain why a URL was fetched, refused or is waiting")
