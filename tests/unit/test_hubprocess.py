"""Commands of another hub: hub 0 tests them as those of its own user."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from webcrawl.extensions.hubprocess import HubProcess
from webcrawl.hub.wire import SteeringError


@pytest.mark.parametrize(
    ("command", "argument", "said"),
    [
        ("deny", "re:((((", "not a regular expression"),
        ("deny", "@/etc/hostname", "and no file"),
        ("allow", " @/etc/hostname", "and no file"),
        ("seeds", "/etc/hostname", "seeds is of one hub alone"),
        ("status", "", "status is of one hub alone"),
    ],
)
def test_what_another_hub_must_not_order_is_refused(command: str, argument: str, said: str) -> None:
    process = HubProcess(cast("Any", None), lambda: 0)
    with pytest.raises(SteeringError, match=said):
        asyncio.run(process._do_for_another(command, [argument], "scrapy ctl at hub 1"))
