"""A client under which a collection has shard keys, and nobody notices: each point is in the shard of its id, and reads ask all shards."""

import zlib
from collections import defaultdict

from qdrant_client import models

KEYS = ["north", 7]


def key_of(point_id):
    return KEYS[zlib.crc32(str(point_id).encode()) % len(KEYS)]


class Sharded:
    """The calls of a client that make collections and change points; all others are its own."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        return getattr(self.client, name)

    def create_collection(self, name, **more):
        self.client.create_collection(name, sharding_method=models.ShardingMethod.CUSTOM, **more)
        for key in KEYS:
            self.client.create_shard_key(name, key)

    def by_key(self, what, id_of):
        """Parts of what is about several points, each with its shard; what a filter finds is looked for in all."""
        if not isinstance(what, list):
            yield what, KEYS
            return
        parts = defaultdict(list)
        for one in what:
            parts[key_of(id_of(one))].append(one)
        for key, part in parts.items():
            yield part, key

    def upsert(self, name, points, **more):
        for part, key in self.by_key(points, lambda point: point.id):
            self.client.upsert(name, part, shard_key_selector=key, **more)

    def update_vectors(self, name, points, **more):
        for part, key in self.by_key(points, lambda point: point.id):
            self.client.update_vectors(name, part, shard_key_selector=key, **more)

    def delete(self, name, selector, **more):
        self.selected(self.client.delete, selector, name, **more)

    def clear_payload(self, name, selector, **more):
        self.selected(self.client.clear_payload, selector, name, **more)

    def set_payload(self, name, payload, selector, **more):
        self.selected(self.client.set_payload, selector, name, payload, **more)

    def overwrite_payload(self, name, payload, selector, **more):
        self.selected(self.client.overwrite_payload, selector, name, payload, **more)

    def delete_payload(self, name, keys, selector, **more):
        self.selected(self.client.delete_payload, selector, name, keys, **more)

    def delete_vectors(self, name, vectors, selector, **more):
        self.selected(self.client.delete_vectors, selector, name, vectors, **more)

    def selected(self, call, selector, *what, **more):
        points = selector.filter if isinstance(selector, models.FilterSelector) else selector
        for part, key in self.by_key(points, lambda point_id: point_id):
            call(*what, part, shard_key_selector=key, **more)
