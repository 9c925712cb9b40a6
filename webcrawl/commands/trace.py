"""`scrapy trace URL...`: each step of the fetch of a URL, with its time and its result."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.debugging import DebugCommand
from webcrawl.commands.tool import ToolCommand


class Command(DebugCommand, ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.trace`."""

    summary = "Show each step of the fetch of a URL"
