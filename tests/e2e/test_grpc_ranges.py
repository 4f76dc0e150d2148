"""Numbers of gRPC messages, unset or zero: refused where the API's table of validations has a range, accepted where it has none.

The messages' fields come from their descriptors, so a field that the API adds is tried too.
"""

import os

import pytest
from google.protobuf.descriptor import FieldDescriptor
from grpc import StatusCode
from qdrant_client import grpc as pb, models

import conftest
from test_grpc import call

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")

NUMBERS = {getattr(FieldDescriptor, f"TYPE_{name}") for name in "UINT32 UINT64 INT32 INT64 FLOAT DOUBLE".split()}

# Fields whose range has a lower bound above zero (`lib/api/build.rs` of the API's server).
AT_LEAST_ONE = {
    "SearchPoints.limit", "SearchPoints.timeout", "SearchBatchPoints.timeout",
    "SearchPointGroups.limit", "SearchPointGroups.group_size", "SearchPointGroups.timeout",
    "RecommendPoints.timeout", "RecommendBatchPoints.timeout",
    "RecommendPointGroups.limit", "RecommendPointGroups.group_size", "RecommendPointGroups.timeout",
    "DiscoverPoints.limit", "DiscoverPoints.timeout", "DiscoverBatchPoints.timeout",
    "QueryPoints.limit", "QueryPoints.timeout", "QueryBatchPoints.timeout",
    "QueryPointGroups.limit", "QueryPointGroups.group_size", "QueryPointGroups.timeout",
    "PrefetchQuery.limit", "ScrollPoints.limit", "FacetCounts.timeout",
    "SearchMatrixPoints.sample", "SearchMatrixPoints.limit", "SearchMatrixPoints.timeout",
    "QuantizationSearchParams.oversampling", "Rrf.k",
    "DeleteCollection.timeout", "UpdateCollection.timeout", "ChangeAliases.timeout",
}  # fmt: skip
# Where zero is refused or said otherwise for a reason of ours.
OURS = {
    # The route of REST takes a timeout from 1 on everywhere.
    "ScrollPoints.timeout", "CountPoints.timeout", "GetPoints.timeout", "UpsertPoints.timeout", "CreateCollection.timeout",
    # A facet of nothing says nothing.
    "FacetCounts.limit",
}  # fmt: skip

ONE = pb.PointId(num=1)
NEAREST = pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=[1, 0, 0, 0])))
SAME = {"limit": 3}


def asked(name):
    """Requests that are accepted: their method, the message, and what is asked of its parts."""
    search = pb.SearchPoints(collection_name=name, vector=[1, 0, 0, 0], params=pb.SearchParams(quantization=pb.QuantizationSearchParams()), **SAME)
    recommend = pb.RecommendPoints(collection_name=name, positive=[ONE], **SAME)
    discover = pb.DiscoverPoints(collection_name=name, target=pb.TargetVector(single=pb.VectorExample(id=ONE)), **SAME)
    query = pb.QueryPoints(collection_name=name, query=NEAREST, **SAME)
    groups = {"group_by": "n", "group_size": 2, **SAME}
    matrix = pb.SearchMatrixPoints(collection_name=name, sample=3, limit=2)
    return {
        "Points/Search": (search, ["", "params.quantization"]),
        "Points/SearchBatch": (pb.SearchBatchPoints(collection_name=name, search_points=[search]), ["", "search_points"]),
        "Points/SearchGroups": (pb.SearchPointGroups(collection_name=name, vector=[1, 0, 0, 0], **groups), [""]),
        "Points/Recommend": (recommend, [""]),
        "Points/RecommendBatch": (pb.RecommendBatchPoints(collection_name=name, recommend_points=[recommend, recommend]), ["", "recommend_points"]),
        "Points/RecommendGroups": (pb.RecommendPointGroups(collection_name=name, positive=[ONE], **groups), [""]),
        "Points/Discover": (discover, [""]),
        "Points/DiscoverBatch": (pb.DiscoverBatchPoints(collection_name=name, discover_points=[discover]), ["", "discover_points"]),
        "Points/Query": (query, [""]),
        "Points/QueryBatch": (pb.QueryBatchPoints(collection_name=name, query_points=[query]), ["", "query_points"]),
        "Points/QueryGroups": (pb.QueryPointGroups(collection_name=name, query=NEAREST, **groups), [""]),
        "Points/Scroll": (pb.ScrollPoints(collection_name=name, limit=3), [""]),
        "Points/Count": (pb.CountPoints(collection_name=name), [""]),
        "Points/Get": (pb.GetPoints(collection_name=name, ids=[ONE]), [""]),
        "Points/Facet": (pb.FacetCounts(collection_name=name, key="n", limit=3), [""]),
        "Points/SearchMatrixPairs": (matrix, [""]),
        "Points/SearchMatrixOffsets": (matrix, [""]),
        "Points/Upsert": (pb.UpsertPoints(collection_name=name, points=[pb.PointStruct(id=ONE, vectors=pb.Vectors(vector=pb.Vector(data=[1, 1, 0, 0])))]), [""]),
        "Collections/Update": (pb.UpdateCollection(collection_name=name), [""]),
        "Collections/Delete": (pb.DeleteCollection(collection_name=f"{name}-none"), [""]),
    }


def part_of(message, path):
    for step in filter(None, path.split(".")):
        message = getattr(message, step)
        message = message[0] if not hasattr(message, "DESCRIPTOR") else message
    return message


def test_zero_is_refused_where_the_api_has_a_range(server):
    client = conftest.client_of(server, prefer_grpc=True)
    name = f"ranges-{os.getpid()}"
    client.delete_collection(name)
    client.create_collection(name, vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT))
    client.create_payload_index(name, "n", models.PayloadSchemaType.INTEGER, wait=True)
    client.upsert(name, [models.PointStruct(id=n, vector=[n, 1, 0, 0], payload={"n": n}) for n in range(1, 9)], wait=True)
    tried, wrong = 0, []
    for method, (message, paths) in asked(name).items():
        code, details, _ = call(server, f"/qdrant.{method}", message.SerializeToString())
        assert code == StatusCode.OK, (method, details)
        for path in paths:
            for field in part_of(message, path).DESCRIPTOR.fields:
                called = f"{field.containing_type.name}.{field.name}"
                if field.type not in NUMBERS or field.is_repeated or called in OURS:
                    continue
                changed = type(message)()
                changed.CopyFrom(message)
                part = part_of(changed, path)
                # Set to zero where that can be told from unset.
                setattr(part, field.name, 0)
                code, details, _ = call(server, f"/qdrant.{method}", changed.SerializeToString())
                expected = StatusCode.INVALID_ARGUMENT if called in AT_LEAST_ONE else StatusCode.OK
                tried += 1
                if code != expected:
                    wrong.append((method, called, code.name))
    assert not wrong
    assert tried > 40
    client.delete_collection(name)


def test_a_recommendation_without_a_limit_is_empty(server):
    client = conftest.client_of(server, prefer_grpc=True)
    name = f"no-limit-{os.getpid()}"
    client.delete_collection(name)
    client.create_collection(name, vectors_config=models.VectorParams(size=4, distance=models.Distance.DOT))
    client.upsert(name, [models.PointStruct(id=n, vector=[n, 1, 0, 0]) for n in range(1, 9)], wait=True)
    none = pb.RecommendPoints(collection_name=name, positive=[ONE])
    some = pb.RecommendPoints(collection_name=name, positive=[ONE], limit=3)
    code, answer, _ = call(server, "/qdrant.Points/Recommend", none.SerializeToString())
    assert code == StatusCode.OK and list(pb.RecommendResponse.FromString(answer).result) == []
    batch = pb.RecommendBatchPoints(collection_name=name, recommend_points=[some, none])
    code, answer, _ = call(server, "/qdrant.Points/RecommendBatch", batch.SerializeToString())
    assert code == StatusCode.OK
    assert [len(of.result) for of in pb.RecommendBatchResponse.FromString(answer).result] == [3, 0]
    http = server.http()
    with pytest.raises(Exception) as refused:
        http.call("POST", f"/collections/{name}/points/recommend", {"positive": [1], "limit": 0})
    assert refused.value.status == 422
    http.close()
    client.delete_collection(name)
