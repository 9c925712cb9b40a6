"""What a node cannot do: each text is one line for the user.

They stand apart from the modules that raise them, since only a crawl with CLUSTER loads those.
"""

from __future__ import annotations


class NodeError(Exception):
    """The node must end."""


class OffsetsError(Exception):
    """The file of a courier cannot be read or written."""


class CopyError(Exception):
    """A copy of a shard cannot be made or read."""


class MoveError(Exception):
    """A shard was not moved. It stays where it was."""


class NoAnswerError(Exception):
    """A URL is not explained."""


def one_line(error: Exception) -> str:
    """`error` as a line that names the setting."""
    line = str(error)
    return line if line.startswith("CLUSTER") else f"CLUSTER: {line}"
