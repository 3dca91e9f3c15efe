"""A probe asks one server whether it does what one parameter promises, whole and streamed."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import anthropic
import openai

SDK_ERRORS = (anthropic.APIError, openai.APIError)
YES, NO, NO_ANSWER = "yes", "no", "no answer"
Ask = Callable[[Any], Awaitable[bool]]
Opening = Callable[[bool], AbstractAsyncContextManager[Any]]
"""Opens a server with an engine that was asked nothing before; its answers are streamed or not."""


@dataclass(frozen=True)
class Probe:
    """A parameter, and the question whether a server does what it promises."""

    parameter: str
    asks: Ask
    documented: str = YES
    """What the documentation of the hosted API says; not tried."""
    ways: tuple[bool, ...] = (False, True)
    """Whether it is asked for whole answers, streamed ones, or both."""


async def verdict(asks: Ask, desk: Any) -> str:
    """Return whether a server does what a parameter promises, or how it refuses."""
    try:
        return YES if await asks(desk) else NO
    except SDK_ERRORS as error:
        return str(getattr(error, "status_code", NO_ANSWER))
    except TimeoutError:
        return NO_ANSWER
    except (AttributeError, TypeError, ValueError, IndexError, KeyError):
        return NO  # an answer without what was promised


async def cell_of(probe: Probe, opening: Opening) -> str:
    """Return the verdict for whole and streamed answers, one word if they agree."""
    found = []
    for streams in probe.ways:
        async with opening(streams) as desk:
            found.append(await verdict(probe.asks, desk))
    if len(set(found)) == 1:
        return found[0]
    return f"{found[0]}, streamed {found[1]}"
