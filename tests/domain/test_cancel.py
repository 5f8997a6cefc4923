"""Cancel tokens: a tree, and scopes that leave the task as it was."""

import asyncio

import pytest

from tinsmith.domain.cancel import CancelToken
from tinsmith.domain.errors import Cancelled


def test_a_child_follows_its_parent_and_not_the_other_way_round():
    parent = CancelToken()
    with parent.child("a") as first, parent.child("b") as second:
        first.cancel()
        assert (parent.is_cancelled, first.is_cancelled, second.is_cancelled) == (False, True, False)
        assert parent.find("b") is second
        parent.cancel()
        assert second.is_cancelled
    assert parent.find("a") is None


def test_a_child_of_a_cancelled_token_is_cancelled():
    parent = CancelToken()
    parent.cancel()
    with parent.child("a") as child:
        assert child.is_cancelled


def test_reactions_run_once_and_can_be_taken_back():
    token, seen = CancelToken(), []
    token.on_cancel(lambda: seen.append("kept"))
    token.on_cancel(lambda: seen.append("taken back"))()
    token.cancel()
    token.cancel()
    token.on_cancel(lambda: seen.append("late"))
    assert seen == ["kept", "late"]


async def test_a_scope_interrupts_its_await_and_the_task_lives_on():
    token = CancelToken()
    asyncio.get_running_loop().call_later(0.01, token.cancel)
    with pytest.raises(Cancelled), token.scope():
        await asyncio.sleep(60)
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0


async def test_a_cancel_by_the_task_itself_interrupts_the_next_await_of_the_scope():
    token = CancelToken()
    with pytest.raises(Cancelled), token.scope():
        token.cancel()
        await asyncio.sleep(60)
    await asyncio.sleep(0)


async def test_a_cancel_by_the_task_itself_does_not_outlive_the_scope():
    token = CancelToken()
    with pytest.raises(KeyError), token.scope():
        token.cancel()
        raise KeyError
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0


async def test_grace_lets_the_block_end_by_itself():
    token = CancelToken()
    asyncio.get_running_loop().call_later(0.01, token.cancel)
    with token.scope(grace=60):
        done = asyncio.Event()
        token.on_cancel(done.set)
        await done.wait()
    assert token.is_cancelled


async def test_a_cancellation_from_elsewhere_passes_through():
    token = CancelToken()

    async def work():
        with token.scope():
            await asyncio.sleep(60)

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
