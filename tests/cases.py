"""Tables of cases: each row is tried, in one test, and a failure names its row.

As items of their own, 2,500 rows cost a quarter of the gate's CPU time: each is collected by all
workers, set up, and reported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Test = Callable[..., Any]


def each_of(
    names: str | Sequence[str], rows: Iterable[Any], ids: Iterable[str] | None = None
) -> Callable[[Test], Test]:
    """In the place of `pytest.mark.parametrize`, for rows that need no fixtures of their own.

    `ids`: what a failure says of a row; else its values.
    """
    keys = [names] if isinstance(names, str) else [*names]
    cases = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]
    titles = [*ids] if ids is not None else cases
    assert len(titles) == len(cases) > 0

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        others = [one for one in signature.parameters.values() if one.name not in keys]

        def run(*arguments: Any, **fixtures: Any) -> None:
            for case, title in zip(cases, titles, strict=True):
                try:
                    test(*arguments, **fixtures, **case)
                except Exception as error:
                    error.add_note(f"in the case {title}")
                    raise

        async def await_each(*arguments: Any, **fixtures: Any) -> None:
            for case, title in zip(cases, titles, strict=True):
                try:
                    await test(*arguments, **fixtures, **case)
                except Exception as error:
                    error.add_note(f"in the case {title}")
                    raise

        made: Any = await_each if inspect.iscoroutinefunction(test) else run
        made.__dict__ |= test.__dict__
        made.__name__, made.__qualname__, made.__doc__ = (
            test.__name__,
            test.__qualname__,
            test.__doc__,
        )
        made.__module__ = test.__module__
        made.__signature__ = signature.replace(parameters=others)
        return made  # type: ignore[no-any-return]

    return decorate
