// @qdrant/js-client-grpc against a server: the calls of rest.js, in the messages of gRPC.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { ConnectErrorCode, Distance, FieldType, Fusion, QdrantClient, RecommendStrategy, toDenseVector, toMultiDenseVector, toSparseVector } from '@qdrant/js-client-grpc';

const books = JSON.parse(readFileSync(new URL('../books.json', import.meta.url)));
const collectionName = 'js-grpc';
const client = new QdrantClient({ url: process.env.RAMLET_GRPC });
const [collections, points, snapshots] = ['collections', 'points', 'snapshots'].map((api) => client.api(api));
const near = [1, 0.05, 0, 0];

// A field of a `oneof`.
const one = (kind, value) => ({ case: kind, value });
const pointId = (id) => ({ pointIdOptions: typeof id === 'string' ? one('uuid', id) : one('num', BigInt(id)) });
const plain = (id) => (id.pointIdOptions.case === 'num' ? Number(id.pointIdOptions.value) : id.pointIdOptions.value);
const ids = (found) => found.map((point) => plain(point.id));
const field = (key, check) => ({ conditionOneOf: one('field', { key, ...check }) });
const match = (key, kind, value) => field(key, { match: { matchValue: one(kind, value) } });
const hasId = (...some) => ({ conditionOneOf: one('hasId', { hasId: some.map(pointId) }) });
const must = (...conditions) => ({ must: conditions });
const selector = (...some) => ({ pointsSelectorOneOf: one('points', { ids: some.map(pointId) }) });

// JSON to the values of the API and back.
function value(json) {
    if (json === null) return { kind: one('nullValue', 0) };
    if (Array.isArray(json)) return { kind: one('listValue', { values: json.map(value) }) };
    if (typeof json === 'object') return { kind: one('structValue', { fields: fields(json) }) };
    if (typeof json === 'number' && Number.isInteger(json)) return { kind: one('integerValue', BigInt(json)) };
    return { kind: one({ number: 'doubleValue', string: 'stringValue', boolean: 'boolValue' }[typeof json], json) };
}

const fields = (object) => Object.fromEntries(Object.entries(object).map(([key, json]) => [key, value(json)]));

function json({ kind }) {
    if (kind.case === 'nullValue') return null;
    if (kind.case === 'listValue') return kind.value.values.map(json);
    if (kind.case === 'structValue') return object(kind.value.fields);
    return kind.case === 'integerValue' ? Number(kind.value) : kind.value;
}

const object = (some) => Object.fromEntries(Object.entries(some).map(([key, kept]) => [key, json(kept)]));

function vector(numbers) {
    if (numbers.indices) return { vector: one('sparse', numbers) };
    if (Array.isArray(numbers[0])) return { vector: one('multiDense', { vectors: numbers.map((data) => ({ data })) }) };
    return { vector: one('dense', { data: numbers }) };
}

const vectors = (named) => ({
    vectorsOptions: one('vectors', { vectors: Object.fromEntries(Object.entries(named).map(([key, numbers]) => [key, vector(numbers)])) }),
});

function input(numbers) {
    if (numbers.indices) return { variant: one('sparse', numbers) };
    if (Array.isArray(numbers[0])) return { variant: one('multiDense', { vectors: numbers.map((data) => ({ data })) }) };
    return { variant: one('dense', { data: numbers }) };
}

const nearest = (numbers) => ({ variant: one('nearest', input(numbers)) });
const everything = { selectorOptions: one('enable', true) };

async function create() {
    const scalar = one('scalar', { type: 1, quantile: 0.99, alwaysRam: false });
    await collections.create({
        collectionName,
        vectorsConfig: {
            config: one('paramsMap', {
                map: {
                    text: { size: 4n, distance: Distance.Cosine, quantizationConfig: { quantization: scalar } },
                    parts: { size: 2n, distance: Distance.Dot, multivectorConfig: { comparator: 0 } },
                },
            }),
        },
        sparseVectorsConfig: { map: { words: {} } },
    });
    const kinds = {
        genre: FieldType.FieldTypeKeyword, shelf: FieldType.FieldTypeKeyword, year: FieldType.FieldTypeInteger, price: FieldType.FieldTypeFloat, sold: FieldType.FieldTypeBool,
        place: FieldType.FieldTypeGeo, printed: FieldType.FieldTypeDatetime, isbn: FieldType.FieldTypeUuid, title: FieldType.FieldTypeText,
    };
    for (const [fieldName, fieldType] of Object.entries(kinds)) {
        await points.createFieldIndex({ collectionName, fieldName, fieldType, wait: true });
    }
    const { result } = await collections.get({ collectionName });
    assert.deepEqual(Object.keys(result.payloadSchema).sort(), Object.keys(kinds).sort());
    const { text } = result.config.params.vectorsConfig.config.value.map;
    assert.equal(text.quantizationConfig.quantization.case, 'scalar');
    assert.equal((await collections.collectionExists({ collectionName })).result.exists, true);
    assert.ok((await collections.list({})).collections.some(({ name }) => name === collectionName));
}

async function write() {
    const made = books.map((book) => ({ id: pointId(book.id), payload: fields(book.payload), vectors: vectors(book.vector) }));
    await points.upsert({ collectionName, wait: true, points: made });
    const withVectors = { selectorOptions: one('enable', true) };
    const kept = await points.get({ collectionName, ids: books.map(({ id }) => pointId(id)), withPayload: everything, withVectors });
    for (const book of books) {
        const point = kept.result.find(({ id }) => plain(id) === book.id);
        assert.deepEqual(object(point.payload), book.payload);
        const named = point.vectors.vectorsOptions.value.vectors;
        assert.deepEqual(Object.keys(named).sort(), Object.keys(book.vector).sort());
        assert.equal(toDenseVector(named.text).data.length, 4);
        if (named.words) assert.deepEqual(toSparseVector(named.words).indices, book.vector.words.indices);
        if (named.parts) assert.deepEqual(toMultiDenseVector(named.parts).vectors.map(({ data }) => data), book.vector.parts);
    }
}

async function query() {
    const ask = async (body) => (await points.query({ collectionName, ...body })).result;
    const uuid = books.at(-1).id;
    const hits = await ask({ query: nearest(near), using: 'text', limit: 3n, withPayload: everything });
    assert.deepEqual(ids(hits), [1, 2, uuid]);
    assert.deepEqual(object(hits[0].payload), books[0].payload);
    const words = { indices: [5, 9], values: [1, 2] };
    assert.deepEqual(ids(await ask({ query: nearest(words), using: 'words' })), [3, 2, uuid, 1]);
    assert.deepEqual((await ask({ query: nearest([[1, 0], [0, 1]]), using: 'parts' })).map(({ score }) => score), [2, 1, 1]);
    const id = (some) => ({ variant: one('id', pointId(some)) });
    const recommend = { positive: [id(1)], negative: [id(3)], strategy: RecommendStrategy.AverageVector };
    assert.deepEqual(ids(await ask({ query: { variant: one('recommend', recommend) }, using: 'text', limit: 1n })), [2]);
    const prefetch = [
        { query: nearest(near), using: 'text', limit: 3n },
        { query: nearest(words), using: 'words', limit: 3n },
    ];
    const fused = await ask({ prefetch, query: { variant: one('fusion', Fusion.RRF) } });
    assert.equal(plain(fused[0].id), 2);
    assert.ok(Math.abs(fused[0].score - 2 / 3) < 1e-6);
    const onShelf = { variant: one('condition', match('shelf', 'keyword', 'b')) };
    const sum = { variant: one('sum', { sum: [{ variant: one('variable', '$score') }, onShelf] }) };
    const formula = { variant: one('formula', { expression: sum }) };
    assert.deepEqual(ids(await ask({ prefetch: [prefetch[0]], query: formula })), [uuid, 1, 2]);
    const orderBy = { variant: one('orderBy', { key: 'year', direction: 1 }) };
    assert.equal(ids(await ask({ query: orderBy, limit: 1n }))[0], 4);
    const both = await points.queryBatch({ collectionName, queryPoints: prefetch.map((each) => ({ collectionName, ...each, limit: 1n })) });
    assert.deepEqual(both.result.map(({ result }) => ids(result)), [[1], [3]]);
    const { result } = await points.queryGroups({ collectionName, query: nearest(near), using: 'text', groupBy: 'shelf', groupSize: 2n, limit: 2n });
    assert.deepEqual(result.groups.map((group) => [group.id.kind.value, ids(group.hits)]), [['a', [1, 2]], ['b', [uuid, 3]]]);
}

async function filter() {
    const uuid = books.at(-1).id;
    const cases = [
        [must(match('genre', 'keyword', 'animal')), [1, 2]],
        [must(match('genre', 'keywords', { strings: ['travel', 'fable'] })), [1, 4, books[4].id]],
        [must(field('year', { range: { gte: -50, lt: 1999 } })), [1, 3]],
        [must(match('sold', 'boolean', true)), [1, 3]],
        [must(field('printed', { datetimeRange: { lt: { seconds: 631152000n } } })), [1]],
        [must(field('place', { geoRadius: { center: { lon: 13.4, lat: 52.5 }, radius: 1000 } })), [1]],
        [must(match('title', 'text', 'brown')), [1, 3]],
        [must(match('title', 'phrase', 'quick brown')), [1]],
        [must(hasId(1, uuid, 77)), [1, uuid]],
        [must({ conditionOneOf: one('isEmpty', { key: 'genre' }) }), [uuid]],
        [must({ conditionOneOf: one('isNull', { key: 'ended' }) }), [1]],
        [must(field('genre', { valuesCount: { gte: 2n } })), [1, 4]],
        [{ mustNot: [match('shelf', 'keyword', 'a'), match('shelf', 'keyword', 'b')] }, [books[4].id]],
    ];
    for (const [condition, expected] of cases) {
        const { result } = await points.scroll({ collectionName, filter: condition });
        assert.deepEqual(ids(result), expected);
        const counted = await points.count({ collectionName, filter: condition, exact: true });
        assert.equal(Number(counted.result.count), expected.length);
    }
}

async function scroll() {
    const seen = [];
    let offset;
    do {
        const page = await points.scroll({ collectionName, limit: 4, offset });
        seen.push(...ids(page.result));
        offset = page.nextPageOffset;
    } while (offset);
    assert.deepEqual(seen, books.map(({ id }) => id));
    const { hits } = await points.facet({ collectionName, key: 'genre', limit: 2n, exact: true });
    assert.deepEqual(hits.map(({ count }) => count), [2n, 2n]);
}

async function change() {
    const uuid = books.at(-1).id;
    const payload = async (id) => object((await points.get({ collectionName, ids: [pointId(id)], withPayload: everything })).result[0].payload);
    const [wait, pointsSelector] = [true, selector(uuid)];
    await points.setPayload({ collectionName, wait, payload: fields({ more: { a: 1.5 } }), pointsSelector });
    assert.deepEqual(await payload(uuid), { title: '', shelf: 'b', more: { a: 1.5 } });
    await points.deletePayload({ collectionName, wait, keys: ['more'], pointsSelector });
    await points.overwritePayload({ collectionName, wait, payload: fields({ shelf: 'd' }), pointsSelector });
    assert.deepEqual(await payload(uuid), { shelf: 'd' });
    await points.clearPayload({ collectionName, wait, points: pointsSelector });
    assert.deepEqual(await payload(uuid), {});
    await points.updateVectors({ collectionName, wait, points: [{ id: pointId(uuid), vectors: vectors({ parts: [[3, 4]] }) }] });
    await points.deleteVectors({ collectionName, wait, pointsSelector, vectors: { names: ['words'] } });
    const upsert = { points: [{ id: pointId(7), vectors: vectors({ text: [0, 0, 0, 1] }), payload: fields({ n: 1 }) }] };
    const operations = [one('upsert', upsert), one('deletePoints', { points: pointsSelector })];
    const batch = await points.updateBatch({ collectionName, wait, operations: operations.map((operation) => ({ operation })) });
    assert.equal(batch.result.length, 2);
    await points.delete({ collectionName, wait, points: { pointsSelectorOneOf: one('filter', must(match('n', 'integer', 1n))) } });
    assert.equal((await points.count({ collectionName })).result.count, 5n);
}

async function manage() {
    const aliasName = 'js-grpc-alias';
    await collections.updateAliases({ actions: [{ action: one('createAlias', { collectionName, aliasName }) }] });
    assert.equal((await points.count({ collectionName: aliasName })).result.count, 5n);
    await collections.updateAliases({ actions: [{ action: one('deleteAlias', { aliasName }) }] });
    const made = await snapshots.create({ collectionName });
    const { snapshotDescriptions } = await snapshots.list({ collectionName });
    assert.deepEqual(snapshotDescriptions.map(({ name }) => name), [made.snapshotDescription.name]);
    await snapshots.delete({ collectionName, snapshotName: made.snapshotDescription.name });
    const health = await client.api('service').healthCheck({});
    assert.match(health.version, /^1\./);
}

// What is thrown, as a program sees it.
async function refused() {
    const fails = async (call, code, says) => {
        const error = await call.then(() => assert.fail('nothing was thrown'), (thrown) => thrown);
        assert.equal(error.code, code, String(error));
        assert.match(error.message, says);
    };
    await fails(collections.get({ collectionName: 'nowhere' }), ConnectErrorCode.NotFound, /nowhere/);
    await fails(points.query({ collectionName, query: nearest([1, 2]), using: 'text' }), ConnectErrorCode.InvalidArgument, /dim/);
    await fails(collections.create({ collectionName }), ConnectErrorCode.AlreadyExists, /already exists/);
    const large = { collectionName, payload: fields({ text: 'x'.repeat(40 << 20) }), pointsSelector: selector(1) };
    await fails(points.setPayload(large), ConnectErrorCode.ResourceExhausted, /MB|MiB|bytes/);
    assert.equal((await points.count({ collectionName })).result.count, 5n);
}

for (const step of [create, write, query, filter, scroll, change, manage, refused]) {
    await step();
    console.log(`${step.name}: ok`);
}
await collections.delete({ collectionName });
assert.equal((await collections.collectionExists({ collectionName })).result.exists, false);
