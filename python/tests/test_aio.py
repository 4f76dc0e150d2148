"""The twin for asyncio."""

import asyncio

import numpy as np
import pytest
import ramlet
import ramlet.aio


def test_calls_are_awaited_and_the_loop_goes_on(tmp_path):
    async def run():
        async with await ramlet.aio.open(tmp_path / "data", memory="64MB") as db:
            docs = await db.create("docs", dim=16)
            rows = np.random.default_rng(0).standard_normal((5_000, 16), dtype=np.float32)
            turns = 0

            async def count_turns():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0.001)

            counter = asyncio.create_task(count_turns())
            await docs.add(rows, ids=range(5_000), payload={"n": list(range(5_000))})
            hits = await asyncio.gather(*(docs.search(rows[at : at + 100], limit=1, exact=True) for at in range(0, 5_000, 100)))
            assert np.concatenate([each.ids[:, 0] for each in hits]).tolist() == list(range(5_000))
            counter.cancel()
            assert turns > 10
            assert [point.id async for point in docs.scroll(where={"n": {"lt": 700}}, batch=256)] == list(range(700))
            assert await docs.count() == 5_000 and (await docs.info())["status"] in ("green", "yellow")
            assert [each.name for each in await db.collections()] == ["docs"]
            assert (await db.memory())["budget"]["memory_bytes"] == 64_000_000
            client = db.qdrant()
            assert (await client.count("docs")).count == 5_000
            with pytest.raises(ramlet.NotFoundError):
                await db.collection("nope")
        assert db.closed
        with pytest.raises((ramlet.ClosedError, RuntimeError)):
            await docs.count()

    asyncio.run(run())
    with ramlet.open(tmp_path / "data", memory="64MB") as db:
        assert db["docs"].count() == 5_000


def test_every_method_has_its_twin():
    def public(kind):
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(ramlet.Collection) - {"name"} <= public(ramlet.aio.AsyncCollection)
    assert public(ramlet.Database) - {"path", "async_qdrant"} <= public(ramlet.aio.AsyncDatabase)
