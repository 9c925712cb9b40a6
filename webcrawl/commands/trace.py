"""`scrapy trace URL...`: each step of the fetch of a URL, with its time and its result."""

from webcrawl.commands.debugging import DebugCommand
from webcrawl.commands.tool import tool_command

Command = tool_command(__name__, "Show each step of the fetch of a URL", DebugCommand)
