// The official Java client against a server: what a program does with a collection, from its making to its end.

import static io.qdrant.client.ConditionFactory.*;
import static io.qdrant.client.ExpressionFactory.condition;
import static io.qdrant.client.ExpressionFactory.variable;
import static io.qdrant.client.PointIdFactory.id;
import static io.qdrant.client.QueryFactory.*;
import static io.qdrant.client.VectorFactory.multiVector;
import static io.qdrant.client.VectorFactory.vector;
import static io.qdrant.client.VectorInputFactory.vectorInput;
import static io.qdrant.client.VectorsFactory.namedVectors;

import com.google.common.util.concurrent.ListenableFuture;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Timestamp;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.qdrant.client.QdrantClient;
import io.qdrant.client.QdrantGrpcClient;
import io.qdrant.client.ValueFactory;
import io.qdrant.client.VectorOutputHelper;
import io.qdrant.client.WithPayloadSelectorFactory;
import io.qdrant.client.WithVectorsSelectorFactory;
import io.qdrant.client.grpc.Collections.*;
import io.qdrant.client.grpc.Common.*;
import io.qdrant.client.grpc.JsonWithInt.Value;
import io.qdrant.client.grpc.Points.*;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.stream.StreamSupport;

public class Client {
    static final String NAME = "java";
    static final UUID LAST = UUID.fromString("5c56c793-69f3-4fbf-87e6-c4bf54c28c26");
    static final float[] NEAR = {1, 0.05f, 0, 0};
    static QdrantClient client;

    interface Step {
        void run() throws Exception;
    }

    static void same(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    static <T> T of(ListenableFuture<T> answer) throws Exception {
        return answer.get();
    }

    static List<JsonObject> books() throws Exception {
        JsonArray books = JsonParser.parseString(Files.readString(Path.of("../books.json"))).getAsJsonArray();
        return StreamSupport.stream(books.spliterator(), false).map(JsonElement::getAsJsonObject).toList();
    }

    static PointId idOf(JsonObject book) {
        String word = book.get("id").getAsString();
        return word.contains("-") ? id(UUID.fromString(word)) : id(Long.parseLong(word));
    }

    static Value value(JsonElement json) {
        if (json.isJsonNull()) {
            return ValueFactory.nullValue();
        } else if (json.isJsonArray()) {
            return ValueFactory.list(StreamSupport.stream(json.getAsJsonArray().spliterator(), false).map(Client::value).toList());
        } else if (json.isJsonObject()) {
            return ValueFactory.value(fields(json.getAsJsonObject()));
        }
        var plain = json.getAsJsonPrimitive();
        if (plain.isBoolean()) {
            return ValueFactory.value(plain.getAsBoolean());
        } else if (plain.isString()) {
            return ValueFactory.value(plain.getAsString());
        }
        boolean whole = plain.getAsString().matches("-?\\d+");
        return whole ? ValueFactory.value(plain.getAsLong()) : ValueFactory.value(plain.getAsDouble());
    }

    static Map<String, Value> fields(JsonObject object) {
        Map<String, Value> fields = new HashMap<>();
        object.entrySet().forEach(field -> fields.put(field.getKey(), value(field.getValue())));
        return fields;
    }

    static float[] floats(JsonElement json) {
        JsonArray array = json.getAsJsonArray();
        float[] numbers = new float[array.size()];
        for (int n = 0; n < numbers.length; n++) {
            numbers[n] = array.get(n).getAsFloat();
        }
        return numbers;
    }

    static Vector vectorOf(JsonElement json) {
        if (json.isJsonObject()) {
            List<Integer> indices = new ArrayList<>();
            List<Float> values = new ArrayList<>();
            json.getAsJsonObject().getAsJsonArray("indices").forEach(index -> indices.add(index.getAsInt()));
            json.getAsJsonObject().getAsJsonArray("values").forEach(weight -> values.add(weight.getAsFloat()));
            return vector(values, indices);
        } else if (json.getAsJsonArray().get(0).isJsonArray()) {
            List<float[]> parts = new ArrayList<>();
            json.getAsJsonArray().forEach(part -> parts.add(floats(part)));
            return multiVector(parts.toArray(float[][]::new));
        }
        return vector(floats(json));
    }

    static PointStruct pointOf(JsonObject book) {
        Map<String, Vector> vectors = new HashMap<>();
        book.getAsJsonObject("vector").entrySet().forEach(named -> vectors.put(named.getKey(), vectorOf(named.getValue())));
        return PointStruct.newBuilder()
            .setId(idOf(book))
            .setVectors(namedVectors(vectors))
            .putAllPayload(fields(book.getAsJsonObject("payload")))
            .build();
    }

    static String word(PointId id) {
        return id.hasUuid() ? id.getUuid() : Long.toString(id.getNum());
    }

    static List<String> scored(List<ScoredPoint> points) {
        return points.stream().map(point -> word(point.getId())).toList();
    }

    static void create() throws Exception {
        var codes = QuantizationConfig.newBuilder().setScalar(ScalarQuantization.newBuilder().setType(QuantizationType.Int8));
        var text = VectorParams.newBuilder().setSize(4).setDistance(Distance.Cosine).setQuantizationConfig(codes).build();
        var maxSim = MultiVectorConfig.newBuilder().setComparator(MultiVectorComparator.MaxSim);
        var parts = VectorParams.newBuilder().setSize(2).setDistance(Distance.Dot).setMultivectorConfig(maxSim).build();
        var words = SparseVectorConfig.newBuilder().putMap("words", SparseVectorParams.getDefaultInstance());
        of(client.createCollectionAsync(CreateCollection.newBuilder()
            .setCollectionName(NAME)
            .setVectorsConfig(VectorsConfig.newBuilder().setParamsMap(VectorParamsMap.newBuilder().putMap("text", text).putMap("parts", parts)))
            .setSparseVectorsConfig(words)
            .build()));
        Map<String, PayloadSchemaType> kinds = new LinkedHashMap<>();
        kinds.put("genre", PayloadSchemaType.Keyword);
        kinds.put("shelf", PayloadSchemaType.Keyword);
        kinds.put("year", PayloadSchemaType.Integer);
        kinds.put("price", PayloadSchemaType.Float);
        kinds.put("sold", PayloadSchemaType.Bool);
        kinds.put("place", PayloadSchemaType.Geo);
        kinds.put("printed", PayloadSchemaType.Datetime);
        kinds.put("isbn", PayloadSchemaType.Uuid);
        kinds.put("title", PayloadSchemaType.Text);
        for (var kind : kinds.entrySet()) {
            of(client.createPayloadIndexAsync(NAME, kind.getKey(), kind.getValue(), null, true, null, null));
        }
        CollectionInfo info = of(client.getCollectionInfoAsync(NAME));
        same(info.getPayloadSchemaMap().keySet(), kinds.keySet());
        same(info.getConfig().getParams().getVectorsConfig().getParamsMap().getMapOrThrow("text").getQuantizationConfig().hasScalar(), true);
        same(of(client.collectionExistsAsync(NAME)), true);
        same(of(client.listCollectionsAsync()).contains(NAME), true);
    }

    static void write() throws Exception {
        List<PointStruct> points = books().stream().map(Client::pointOf).toList();
        var upsert = UpsertPoints.newBuilder().setCollectionName(NAME).addAllPoints(points).setWait(true).build();
        same(of(client.upsertAsync(upsert)).getStatus(), UpdateStatus.Completed);
        var kept = of(client.retrieveAsync(NAME, points.stream().map(PointStruct::getId).toList(), true, true, null));
        same(kept.size(), points.size());
        for (RetrievedPoint point : kept) {
            var written = points.stream().filter(one -> one.getId().equals(point.getId())).findFirst().orElseThrow();
            same(point.getPayloadMap(), written.getPayloadMap());
            var named = point.getVectors().getVectors().getVectorsMap();
            same(named.keySet(), written.getVectors().getVectors().getVectorsMap().keySet());
            same(VectorOutputHelper.getDenseVector(named.get("text")).getDataCount(), 4);
            if (named.containsKey("words")) {
                var words = written.getVectors().getVectors().getVectorsMap().get("words").getSparse();
                same(VectorOutputHelper.getSparseVector(named.get("words")), words);
            }
        }
    }

    static QueryPoints.Builder ask(Query query, String using) {
        return QueryPoints.newBuilder().setCollectionName(NAME).setQuery(query).setUsing(using);
    }

    static List<String> found(QueryPoints.Builder query) throws Exception {
        return scored(of(client.queryAsync(query.build())));
    }

    static void query() throws Exception {
        Query sparse = nearest(List.of(1f, 2f), List.of(5, 9));
        same(found(ask(nearest(NEAR), "text").setLimit(3)), List.of("1", "2", LAST.toString()));
        same(found(ask(sparse, "words")), List.of("3", "2", LAST.toString(), "1"));
        same(of(client.queryAsync(ask(nearest(new float[][] {{1, 0}, {0, 1}}), "parts").build())).get(0).getScore(), 2f);
        var liked = RecommendInput.newBuilder().addPositive(vectorInput(1)).addNegative(vectorInput(3)).build();
        same(found(ask(recommend(liked), "text").setLimit(1)), List.of("2"));
        var first = PrefetchQuery.newBuilder().setQuery(nearest(NEAR)).setUsing("text").setLimit(3).build();
        var second = PrefetchQuery.newBuilder().setQuery(sparse).setUsing("words").setLimit(3).build();
        var fused = QueryPoints.newBuilder().setCollectionName(NAME).addPrefetch(first).addPrefetch(second).setQuery(fusion(Fusion.RRF));
        var best = of(client.queryAsync(fused.build())).get(0);
        same(word(best.getId()), "2");
        same(Math.round(best.getScore() * 3e5), 200_000L);
        var sum = SumExpression.newBuilder().addSum(variable("$score")).addSum(condition(matchKeyword("shelf", "b"))).build();
        var boosted = formula(Formula.newBuilder().setExpression(io.qdrant.client.ExpressionFactory.sum(sum)).build());
        same(found(QueryPoints.newBuilder().setCollectionName(NAME).addPrefetch(first).setQuery(boosted)), List.of(LAST.toString(), "1", "2"));
        var late = orderBy(OrderBy.newBuilder().setKey("year").setDirection(Direction.Desc).build());
        same(found(QueryPoints.newBuilder().setCollectionName(NAME).setQuery(late).setLimit(1)), List.of("4"));
        var both = List.of(ask(nearest(NEAR), "text").setLimit(1).build(), ask(sparse, "words").setLimit(1).build());
        same(of(client.queryBatchAsync(NAME, both)).stream().map(one -> scored(one.getResultList())).toList(), List.of(List.of("1"), List.of("3")));
        var groups = of(client.queryGroupsAsync(QueryPointGroups.newBuilder()
            .setCollectionName(NAME).setQuery(nearest(NEAR)).setUsing("text").setGroupBy("shelf").setGroupSize(2).setLimit(2).build()));
        same(groups.stream().map(group -> scored(group.getHitsList())).toList(), List.of(List.of("1", "2"), List.of(LAST.toString(), "3")));
    }

    static void filters() throws Exception {
        var inOne = Filter.newBuilder().addMust(matchKeyword("name", "one")).addMust(range("words", Range.newBuilder().setGt(100).build())).build();
        var before = DatetimeRange.newBuilder().setLt(Timestamp.newBuilder().setSeconds(631152000)).build();
        Map<Condition, List<String>> cases = new LinkedHashMap<>();
        cases.put(matchKeyword("genre", "animal"), List.of("1", "2"));
        cases.put(matchKeywords("genre", List.of("travel", "fable")), List.of("1", "4", "9007199254740991"));
        cases.put(matchExceptKeywords("genre", List.of("animal", "cooking")), List.of("1", "4", "9007199254740991"));
        cases.put(match("year", 9007199254740991L), List.of("4"));
        cases.put(range("year", Range.newBuilder().setGte(-50).setLt(1999).build()), List.of("1", "3"));
        cases.put(match("sold", true), List.of("1", "3"));
        cases.put(datetimeRange("printed", before), List.of("1"));
        cases.put(matchKeyword("isbn", "550e8400-e29b-41d4-a716-446655440002"), List.of("2"));
        cases.put(geoRadius("place", 52.5, 13.4, 1000), List.of("1"));
        cases.put(matchText("title", "brown"), List.of("1", "3"));
        cases.put(matchPhrase("title", "quick brown"), List.of("1"));
        cases.put(matchTextAny("title", "dog bread"), List.of("2", "3"));
        cases.put(nested("chapters", inOne), List.of("1"));
        cases.put(hasId(List.of(id(1), id(LAST))), List.of("1", LAST.toString()));
        cases.put(hasVector("parts"), List.of("1", "2", "3"));
        cases.put(isEmpty("genre"), List.of(LAST.toString()));
        cases.put(isNull("ended"), List.of("1"));
        cases.put(valuesCount("genre", ValuesCount.newBuilder().setGte(2).build()), List.of("1", "4"));
        for (var one : cases.entrySet()) {
            var filter = Filter.newBuilder().addMust(one.getKey()).build();
            var page = of(client.scrollAsync(ScrollPoints.newBuilder().setCollectionName(NAME).setFilter(filter).build()));
            same(page.getResultList().stream().map(point -> word(point.getId())).toList(), one.getValue());
            same(of(client.countAsync(NAME, filter, true)), (long) one.getValue().size());
        }
    }

    static void scroll() throws Exception {
        List<String> seen = new ArrayList<>();
        var ask = ScrollPoints.newBuilder().setCollectionName(NAME).setLimit(4);
        for (ScrollResponse page = null; page == null || page.hasNextPageOffset(); ) {
            page = of(client.scrollAsync(ask.build()));
            page.getResultList().forEach(point -> seen.add(word(point.getId())));
            ask.setOffset(page.getNextPageOffset());
        }
        same(seen, List.of("1", "2", "3", "4", "9007199254740991", LAST.toString()));
        var hits = of(client.facetAsync(FacetCounts.newBuilder().setCollectionName(NAME).setKey("genre").setExact(true).build()));
        same(hits.stream().map(FacetHit::getCount).toList(), List.of(2L, 2L, 2L, 1L));
    }

    static Map<String, Value> payload(PointId point) throws Exception {
        return of(client.retrieveAsync(NAME, List.of(point), WithPayloadSelectorFactory.enable(true), WithVectorsSelectorFactory.enable(false), null)).get(0).getPayloadMap();
    }

    static void change() throws Exception {
        PointId last = id(LAST);
        var more = ValueFactory.value(Map.of("a", ValueFactory.value(1.5)));
        of(client.setPayloadAsync(NAME, Map.of("more", more), last, true, null, null));
        same(payload(last).get("more"), more);
        of(client.deletePayloadAsync(NAME, List.of("more"), last, true, null, null));
        of(client.overwritePayloadAsync(NAME, Map.of("shelf", ValueFactory.value("d")), last, true, null, null));
        same(payload(last), Map.of("shelf", ValueFactory.value("d")));
        of(client.clearPayloadAsync(NAME, last, true, null, null));
        same(payload(last), Map.of());
        var parts = namedVectors(Map.of("parts", multiVector(new float[][] {{3, 4}})));
        of(client.updateVectorsAsync(NAME, List.of(PointVectors.newBuilder().setId(last).setVectors(parts).build())));
        of(client.deleteVectorsAsync(NAME, List.of("words"), List.of(last)));
        var seven = PointStruct.newBuilder()
            .setId(id(7)).setVectors(namedVectors(Map.of("text", vector(0f, 0f, 0f, 1f)))).putPayload("n", ValueFactory.value(1));
        var add = PointsUpdateOperation.PointStructList.newBuilder().addPoints(seven);
        var only = PointsSelector.newBuilder().setPoints(PointsIdsList.newBuilder().addIds(last));
        var drop = PointsUpdateOperation.DeletePoints.newBuilder().setPoints(only);
        same(of(client.batchUpdateAsync(NAME, List.of(
            PointsUpdateOperation.newBuilder().setUpsert(add).build(), PointsUpdateOperation.newBuilder().setDeletePoints(drop).build()))).size(), 2);
        of(client.deleteAsync(NAME, Filter.newBuilder().addMust(match("n", 1)).build()));
        same(of(client.countAsync(NAME)), 5L);
    }

    static void manage() throws Exception {
        of(client.createAliasAsync("java-alias", NAME));
        of(client.renameAliasAsync("java-alias", "java-other"));
        same(of(client.listCollectionAliasesAsync(NAME)), List.of("java-other"));
        same(of(client.countAsync("java-other")), 5L);
        of(client.deleteAliasAsync("java-other"));
        var made = of(client.createSnapshotAsync(NAME));
        same(of(client.listSnapshotAsync(NAME)).get(0).getName(), made.getName());
        of(client.deleteSnapshotAsync(NAME, made.getName()));
        same(of(client.healthCheckAsync()).getVersion().startsWith("1."), true);
    }

    // What a program is told: the code, and the words.
    static void fails(ListenableFuture<?> answer, Status.Code code, String says) throws Exception {
        try {
            answer.get();
        } catch (ExecutionException thrown) {
            same(((StatusRuntimeException) thrown.getCause()).getStatus().getCode(), code);
            same(thrown.getMessage().contains(says), true);
            return;
        }
        throw new AssertionError("nothing was thrown");
    }

    static void refused() throws Exception {
        fails(client.getCollectionInfoAsync("nowhere"), Status.Code.NOT_FOUND, "nowhere");
        fails(client.queryAsync(ask(nearest(1, 2), "text").build()), Status.Code.INVALID_ARGUMENT, "dim");
        var again = CreateCollection.newBuilder().setCollectionName(NAME).build();
        fails(client.createCollectionAsync(again), Status.Code.ALREADY_EXISTS, "already exists");
        var large = Map.of("text", ValueFactory.value("x".repeat(40 << 20)));
        fails(client.setPayloadAsync(NAME, large, id(1), true, null, null), Status.Code.RESOURCE_EXHAUSTED, "smaller batches");
        same(of(client.countAsync(NAME)), 5L);
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(System.getenv("RAMLET_GRPC_PORT"));
        client = new QdrantClient(QdrantGrpcClient.newBuilder("127.0.0.1", port, false).build());
        Map<String, Step> steps = new LinkedHashMap<>();
        steps.put("create", Client::create);
        steps.put("write", Client::write);
        steps.put("query", Client::query);
        steps.put("filter", Client::filters);
        steps.put("scroll", Client::scroll);
        steps.put("change", Client::change);
        steps.put("manage", Client::manage);
        steps.put("refused", Client::refused);
        for (var step : steps.entrySet()) {
            step.getValue().run();
            System.out.println(step.getKey() + ": ok");
        }
        of(client.deleteCollectionAsync(NAME));
        same(of(client.collectionExistsAsync(NAME)), false);
        client.close();
    }
}
