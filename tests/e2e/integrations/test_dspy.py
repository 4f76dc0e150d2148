"""dspy-qdrant: a retriever of DSPy, over named and unnamed vectors."""

import numpy as np
import pytest
from dspy_qdrant import QdrantRM
from qdrant_client import models

from integrations.conftest import TEXTS, dense, nearest

QUERY = "cold water in the winter sea"


def vectorizer(texts):
    return np.array([dense(text) for text in texts], dtype=np.float32)


@pytest.mark.parametrize("vector", [None, "meaning"])
def test_retrieved(client, name, dense_params, vector):
    client.create_collection(name, vectors_config={vector: dense_params} if vector else dense_params)
    points = [
        models.PointStruct(id=n, vector={vector: dense(text)} if vector else dense(text), payload={"document": text, "n": n})
        for n, text in enumerate(TEXTS)
    ]
    client.upsert(name, points, wait=True)
    retriever = QdrantRM(name, client, k=3, vectorizer=vectorizer)
    assert [passage.long_text for passage in retriever.forward(QUERY)] == nearest(QUERY)[:3]
    both = retriever.forward([TEXTS[0], TEXTS[7]], k=1)
    assert [passage.long_text for passage in both][0] in (TEXTS[0], TEXTS[7])
    few = models.Filter(must=[models.FieldCondition(key="n", range=models.Range(lt=2))])
    assert {passage.long_text for passage in retriever.forward(QUERY, k=5, filter=few)} == set(TEXTS[:2])
