"""Pages are rendered one at a time, once for all who ask for the same, and not for those who left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from exporter.status.renders import MOST_WAITING, BusyError, Renders


class Page:
    """A page that is not finished before it may be."""

    def __init__(self, text: bytes = b"page") -> None:
        self.text = text
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.pieces = self.times = 0

    def make(self) -> Iterator[bytes]:
        self.times += 1
        self.begun.set()
        while not self.may_end.wait(0.001):
            self.pieces += 1
            yield b""
        yield self.text


async def begun(page: Page) -> None:
    await asyncio.to_thread(page.begun.wait)


def ready(text: bytes) -> Page:
    page = Page(text)
    page.may_end.set()
    return page


def test_one_render_serves_all_who_ask_for_the_same() -> None:
    async def ask() -> None:
        renders, page = Renders(3600.0), Page()
        asking = [asyncio.ensure_future(renders.get("a", page.make, "x", whole=True)) for _ in range(5)]
        await begun(page)
        page.may_end.set()
        assert await asyncio.gather(*asking) == [b"page"] * 5
        assert await renders.get("a", page.make, "x", whole=True) == b"page"
        assert page.times == 1

    asyncio.run(ask())


def test_a_render_whose_readers_left_ends_and_one_that_waits_never_begins() -> None:
    async def ask() -> None:
        renders, running, waiting = Renders(3600.0), Page(), Page()
        first = asyncio.ensure_future(renders.get("a", running.make, "x", whole=True))
        await begun(running)
        second = asyncio.ensure_future(renders.get("b", waiting.make, "x", whole=False))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        assert await renders.get("c", ready(b"c").make, "x", whole=False) == b"c"  # not before the first has ended
        assert waiting.times == 0

    asyncio.run(ask())


def test_a_page_that_was_given_up_is_rendered_for_the_next_reader() -> None:
    async def ask() -> None:
        renders, left = Renders(3600.0), Page()
        first = asyncio.ensure_future(renders.get("a", left.make, "x", whole=True))
        await begun(left)
        first.cancel()
        await asyncio.sleep(0)
        assert await renders.get("a", ready(b"anew").make, "x", whole=True) == b"anew"

    asyncio.run(ask())


def test_the_whole_page_goes_before_filtered_ones_and_one_client_does_not_take_all_places() -> None:
    async def ask() -> None:
        renders, running = Renders(3600.0), Page()
        order: list[str] = []

        async def get(key: str, client: str, *, whole: bool = False) -> None:
            await renders.get(key, ready(b"").make, client, whole=whole)
            order.append(key)

        first = asyncio.ensure_future(renders.get("running", running.make, "attacker", whole=False))
        await begun(running)
        attacks = [asyncio.ensure_future(get(f"attack {at}", "attacker")) for at in range(MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await get("one too many", "attacker")
        honest = [asyncio.ensure_future(get("filtered", "honest")), asyncio.ensure_future(get("/", "x", whole=True))]
        await asyncio.sleep(0)
        running.may_end.set()
        await asyncio.gather(first, *honest)
        results = await asyncio.gather(*attacks, return_exceptions=True)
        assert [type(result) for result in results if result] == [BusyError]
        assert order[0] == "/"
        assert "filtered" in order

    asyncio.run(ask())


@pytest.mark.parametrize("client", ["attacker", "honest"])
def test_pages_whose_readers_left_take_no_place_of_others(client: str) -> None:
    async def ask() -> None:
        renders, running = Renders(3600.0), Page()
        first = asyncio.ensure_future(renders.get("running", running.make, "attacker", whole=False))
        await begun(running)
        left = [
            asyncio.ensure_future(renders.get(at, ready(b"").make, "attacker", whole=False))
            for at in range(MOST_WAITING)
        ]
        await asyncio.sleep(0)
        for reader in left:
            reader.cancel()
        await asyncio.wait(left)
        honest = [
            asyncio.ensure_future(renders.get(f"honest {at}", ready(b"page").make, client, whole=False))
            for at in range(MOST_WAITING)
        ]
        await asyncio.sleep(0)
        running.may_end.set()
        assert await asyncio.gather(first, *honest) == [b"page"] * (1 + MOST_WAITING)

    asyncio.run(ask())


def test_whole_pages_take_turns_with_filtered_ones_and_clients_with_few_come_first() -> None:
    async def ask() -> None:
        renders, running = Renders(3600.0), Page()
        order: list[str] = []

        async def get(key: str, client: str, *, whole: bool = False) -> None:
            await renders.get(key, ready(b"").make, client, whole=whole)
            order.append(key)

        first = asyncio.ensure_future(renders.get("running", running.make, "x", whole=True))
        await begun(running)
        whole = (get(f"whole {at}", "x", whole=True) for at in range(3))
        waiting = asyncio.gather(*whole, get("a", "many"), get("b", "many"), get("c", "one"))
        await asyncio.sleep(0)
        running.may_end.set()
        await asyncio.gather(first, waiting)
        assert order == ["c", "whole 0", "a", "whole 1", "b", "whole 2"]

    asyncio.run(ask())


def test_a_page_that_fails_fails_for_its_readers_and_is_tried_again() -> None:
    def fails() -> Iterator[bytes]:
        raise ValueError("no page")

    async def ask() -> None:
        renders = Renders(3600.0)
        with pytest.raises(ValueError, match="no page"):
            await renders.get("a", fails, "x", whole=True)
        assert await renders.get("a", ready(b"a").make, "x", whole=True) == b"a"

    asyncio.run(ask())


def test_a_page_is_dropped_when_its_time_is_over() -> None:
    async def ask() -> None:
        renders = Renders(0.01)
        await renders.get("a", ready(b"a").make, "x", whole=True)
        while renders._known:  # noqa: ASYNC110 -- the test's own time limit ends this
            await asyncio.sleep(0.01)

    asyncio.run(ask())
