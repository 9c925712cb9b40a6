"""The template of a page that a tool writes: `static/page.html` in the folder of the tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


def page_template(tool: str, **filters: Callable[..., Any]) -> Template:
    """The template of `tool`, the name of its package. Every value is escaped."""
    environment = Environment(
        autoescape=True,
        extensions=["jinja2.ext.do"],
        loader=PackageLoader(tool, "static"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters |= filters
    return environment.get_template("page.html")
