"""Points with a time to live, asked for through plain fields of the official client."""

import datetime
import os
import time

import pytest
from qdrant_client import models

import conftest

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")


def until(holds, seconds=30):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_points_are_gone_when_their_time_is_over(remote):
    name = f"expiry-{os.getpid()}"
    remote.delete_collection(name)
    ttl = {"ramlet_ttl": {"field": "created_at", "seconds": 3600}}
    remote.create_collection(name, vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT), metadata=ttl)
    remote.create_payload_index(name, "created_at", models.PayloadSchemaType.DATETIME, wait=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    old = now - datetime.timedelta(hours=2)
    points = [models.PointStruct(id=n, vector=[n, 1], payload={"created_at": (old if n % 2 else now).isoformat()}) for n in range(1, 21)]
    points.append(models.PointStruct(id=30, vector=[30, 1], payload={}))
    remote.upsert(name, points, wait=True)
    left = [*range(2, 21, 2), 30]
    until(lambda: remote.count(name).count == len(left))
    assert [p.id for p in remote.scroll(name, limit=100)[0]] == left
    assert sorted(h.id for h in remote.query_points(name, query=[1.0, 0.0], limit=100).points) == left
    assert remote.retrieve(name, [1, 2]) == remote.retrieve(name, [2])
    # A shorter time by an update of the collection, and none.
    remote.update_collection(name, metadata={"ramlet_ttl": {"field": "created_at", "seconds": 0}})
    until(lambda: [p.id for p in remote.scroll(name, limit=100)[0]] == [30])
    with pytest.raises(Exception, match="ramlet_ttl"):
        remote.update_collection(name, metadata={"ramlet_ttl": {"field": "created_at", "days": 1}})
    remote.delete_collection(name)
