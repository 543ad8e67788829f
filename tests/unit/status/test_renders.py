"""Pages that are rendered on a thread, once for all who ask for the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from exporter.status.renders import MOST_KEPT, Renders


class Page:
    """A page that is rendered once ``go`` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = 0

    def make(self) -> Iterator[bytes]:
        self.begun += 1
        assert self.go.wait(30)
        yield b"pa"
        yield b"ge"


def test_readers_of_the_same_page_share_it_and_one_who_leaves_takes_it_from_nobody() -> None:
    async def ask() -> None:
        renders, page = Renders(3600.0), Page()
        first, second = (asyncio.ensure_future(renders.get("a", page.make)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        page.go.set()
        assert await second == await renders.get("a", page.make) == b"page"
        assert page.begun == 1
        renders.close()

    asyncio.run(ask())


def test_a_page_that_fails_is_rendered_again_for_the_next_reader() -> None:
    async def ask() -> None:
        renders, page = Renders(3600.0), Page()
        page.go.set()

        def fails() -> Iterator[bytes]:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await renders.get("a", fails)
        assert await renders.get("a", page.make) == b"page"
        renders.close()

    asyncio.run(ask())


def test_few_pages_are_kept_and_for_a_time() -> None:
    async def ask() -> None:
        renders, page = Renders(0.05), Page()
        page.go.set()
        for number in range(2 * MOST_KEPT):
            await renders.get(number, page.make)
        assert len(renders._known) <= MOST_KEPT
        while renders._known:  # noqa: ASYNC110 -- a timer of the loop; the test's time limit ends this
            await asyncio.sleep(0.01)
        renders.close()

    asyncio.run(ask())
