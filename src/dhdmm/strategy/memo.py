"""A method's results, kept per object and per arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def memoised(method: Method) -> Method:
    """A method of hashable arguments that is computed once for each of them, and object.

    Unlike `functools.cache`, results go when the object does.
    """
    place = f"_results_of_{method.__name__}"

    @wraps(method)
    def remembering(self: Any, *arguments: Any) -> Any:
        results = vars(self).setdefault(place, {})
        if arguments not in results:
            results[arguments] = method(self, *arguments)
        return results[arguments]

    return remembering  # type: ignore[return-value]
