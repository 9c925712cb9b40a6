"""Options of the command line: a field of a dataclass that `option` makes is one."""

from __future__ import annotations

import argparse
from dataclasses import field, fields
from typing import Any


def option(default: Any, placeholder: str, meaning: str, name: str = "") -> Any:
    """A field with an option: `--name`, by default the field's name without its unit."""
    return field(default=default, metadata={"name": name, "metavar": placeholder, "help": meaning})


def add_options(group: argparse._ArgumentGroup, kind: type[Any]) -> None:
    """Add an option for each field of the dataclass `kind` that has one."""
    for each in fields(kind):
        if not each.metadata:
            continue
        name = each.metadata["name"] or each.name.removesuffix("_s").replace("_", "-")
        more: dict[str, Any] = {"action": "store_true", "help": each.metadata["help"]}
        if each.default is not False:
            shown = " (%(default)s)" if each.default != "" else ""
            more = {"type": type(each.default), "default": each.default}
            more |= {"metavar": each.metadata["metavar"], "help": each.metadata["help"] + shown}
        group.add_argument(f"--{name}", dest=each.name, **more)


def values(args: argparse.Namespace, kind: type[Any]) -> dict[str, Any]:
    """The values of these options, by the names of the fields."""
    return {each.name: getattr(args, each.name) for each in fields(kind) if each.metadata}
