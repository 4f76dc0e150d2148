// @qdrant/js-client-rest against a server: what a program in JavaScript does with a collection, from its making to its end.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { QdrantClient } from '@qdrant/js-client-rest';

const books = JSON.parse(readFileSync(new URL('../books.json', import.meta.url)));
const name = 'js-rest';
const far = 9007199254740991;
const uuid = '5c56c793-69f3-4fbf-87e6-c4bf54c28c26';
const client = new QdrantClient({ url: process.env.RAMLET_REST });
const near = [1, 0.05, 0, 0];

const ids = (points) => points.map((point) => point.id);
const must = (...conditions) => ({ must: conditions });

async function create() {
    await client.createCollection(name, {
        vectors: {
            text: {
                size: 4,
                distance: 'Cosine',
                quantization_config: { scalar: { type: 'int8', quantile: 0.99, always_ram: false } },
            },
            parts: { size: 2, distance: 'Dot', multivector_config: { comparator: 'max_sim' } },
        },
        sparse_vectors: { words: {} },
        hnsw_config: { m: 16 },
        metadata: { owner: 'js' },
    });
    const schemas = {
        genre: 'keyword',
        shelf: { type: 'keyword', is_tenant: true },
        year: { type: 'integer', lookup: true, range: true },
        price: 'float',
        sold: 'bool',
        place: 'geo',
        printed: 'datetime',
        isbn: 'uuid',
        title: { type: 'text', tokenizer: 'word', lowercase: true, phrase_matching: true },
    };
    for (const [field_name, field_schema] of Object.entries(schemas)) {
        const done = await client.createPayloadIndex(name, { field_name, field_schema, wait: true });
        assert.equal(done.status, 'completed');
    }
    const { config, payload_schema } = await client.getCollection(name);
    assert.equal(config.params.vectors.text.quantization_config.scalar.type, 'int8');
    assert.deepEqual(config.metadata, { owner: 'js' });
    assert.deepEqual(Object.keys(payload_schema).sort(), Object.keys(schemas).sort());
    assert.equal((await client.collectionExists(name)).exists, true);
    assert.ok((await client.getCollections()).collections.some((one) => one.name === name));
}

async function write() {
    const done = await client.upsert(name, { wait: true, points: books });
    assert.equal(done.status, 'completed');
    const kept = await client.retrieve(name, { ids: ids(books), with_payload: true, with_vector: true });
    for (const book of books) {
        const point = kept.find((one) => one.id === book.id);
        assert.deepEqual(point.payload, book.payload);
        assert.deepEqual(Object.keys(point.vector).sort(), Object.keys(book.vector).sort());
        assert.deepEqual(point.vector.words, book.vector.words);
        assert.deepEqual(point.vector.parts, book.vector.parts);
    }
    const some = await client.retrieve(name, { ids: [1, 99], with_payload: ['year'], with_vector: ['words'] });
    assert.deepEqual(some, [{ id: 1, payload: { year: 1984 }, vector: { words: books[0].vector.words } }]);
}

async function query() {
    const ask = async (body) => (await client.query(name, body)).points;
    const hits = await ask({ query: near, using: 'text', limit: 3, with_payload: true, params: { exact: true } });
    assert.deepEqual(ids(hits), [1, 2, uuid]);
    assert.ok(Math.abs(hits[0].score - 0.998752) < 1e-4);
    assert.deepEqual(hits[0].payload, books[0].payload);
    assert.deepEqual(ids(await ask({ query: 1, using: 'text', limit: 2 })), [2, uuid]);
    const words = { indices: [5, 9], values: [1, 2] };
    const sparse = await ask({ query: words, using: 'words' });
    assert.deepEqual(sparse.map(({ id, score }) => [id, score]), [[3, 3], [2, 2], [uuid, 1.5], [1, 1]]);
    const multi = await ask({ query: [[1, 0], [0, 1]], using: 'parts' });
    assert.deepEqual(multi.map(({ id, score }) => [id, score]), [[1, 2], [2, 1], [3, 1]]);
    const liked = { recommend: { positive: [1], negative: [3] } };
    assert.deepEqual(ids(await ask({ query: liked, using: 'text', limit: 1 })), [2]);
    const best = { recommend: { positive: [[0, 0, 1, 0]], strategy: 'best_score' } };
    assert.deepEqual(ids(await ask({ query: best, using: 'text', limit: 1 })), [far]);
    const discover = { discover: { target: near, context: [{ positive: 2, negative: 3 }] } };
    assert.equal(ids(await ask({ query: discover, using: 'text', limit: 1 }))[0], 1);
    const prefetch = [
        { query: near, using: 'text', limit: 3 },
        { query: words, using: 'words', limit: 3 },
    ];
    const fused = await ask({ prefetch, query: { fusion: 'rrf' } });
    assert.equal(fused[0].id, 2);
    assert.ok(Math.abs(fused[0].score - 2 / 3) < 1e-6);
    assert.equal(ids(await ask({ prefetch, query: { rrf: { k: 60 } } }))[0], 2);
    assert.equal((await ask({ prefetch, query: { fusion: 'dbsf' } })).length, 4);
    const formula = { formula: { sum: ['$score', { key: 'shelf', match: { value: 'b' } }] } };
    assert.deepEqual(ids(await ask({ prefetch: prefetch[0], query: formula })), [uuid, 1, 2]);
    const mmr = { nearest: near, mmr: { diversity: 0.9, candidates_limit: 10 } };
    assert.equal((await ask({ query: mmr, using: 'text', limit: 3 }))[0].id, 1);
    assert.equal((await ask({ query: { sample: 'random' }, limit: 4 })).length, 4);
    const late = await ask({ query: { order_by: { key: 'year', direction: 'desc' } }, limit: 2 });
    assert.deepEqual(ids(late), [4, far]);
    const cut = await ask({ query: near, using: 'text', score_threshold: 0.9, offset: 1 });
    assert.deepEqual(ids(cut), [2]);
    const [first, second] = await client.queryBatch(name, {
        searches: [
            { query: near, using: 'text', limit: 1 },
            { query: words, using: 'words', limit: 1, with_payload: ['title'] },
        ],
    });
    assert.deepEqual([ids(first.points), ids(second.points)], [[1], [3]]);
    assert.deepEqual(second.points[0].payload, { title: 'Brown bread' });
    const { groups } = await client.queryGroups(name, {
        query: near, using: 'text', group_by: 'shelf', group_size: 2, limit: 2,
    });
    assert.deepEqual(groups.map((group) => [group.id, ids(group.hits)]), [['a', [1, 2]], ['b', [uuid, 3]]]);
    const pairs = await client.searchMatrixPairs(name, { using: 'text', sample: 10, limit: 1 });
    assert.equal(pairs.pairs.length, books.length);
}

async function filter() {
    const cases = [
        [must({ key: 'genre', match: { value: 'animal' } }), [1, 2]],
        [must({ key: 'genre', match: { any: ['travel', 'fable'] } }), [1, 4, far]],
        [must({ key: 'genre', match: { except: ['animal', 'cooking'] } }), [1, 4, far]],
        [must({ key: 'year', range: { gte: -50, lt: 1999 } }), [1, 3]],
        [must({ key: 'year', match: { value: 9007199254740991 } }), [4]],
        [must({ key: 'price', range: { gt: 0.5 } }), [1, 2]],
        [must({ key: 'sold', match: { value: true } }), [1, 3]],
        [must({ key: 'printed', range: { lt: '1990-01-01T00:00:00Z' } }), [1]],
        [must({ key: 'isbn', match: { value: '550e8400-e29b-41d4-a716-446655440002' } }), [2]],
        [must({ key: 'place', geo_radius: { center: { lon: 13.4, lat: 52.5 }, radius: 1000 } }), [1]],
        [must({ key: 'title', match: { text: 'brown' } }), [1, 3]],
        [must({ key: 'title', match: { phrase: 'quick brown' } }), [1]],
        [must({ key: 'title', match: { text_any: 'dog bread' } }), [2, 3]],
        [must({ nested: { key: 'chapters', filter: must({ key: 'name', match: { value: 'one' } }, { key: 'words', range: { gt: 100 } }) } }), [1]],
        [must({ key: 'chapters[].words', range: { gt: 100 } }), [1, 2]],
        [must({ key: 'deep.er.est[]', match: { value: 'x' } }), [far]],
        [must({ has_id: [1, uuid, 77] }), [1, uuid]],
        [must({ has_vector: 'parts' }), [1, 2, 3]],
        [must({ is_empty: { key: 'genre' } }), [uuid]],
        [must({ is_null: { key: 'ended' } }), [1]],
        [must({ key: 'genre', values_count: { gte: 2 } }), [1, 4]],
        [{ should: [{ has_id: [3] }, { key: 'shelf', match: { value: 'c' } }] }, [3, far]],
        [{ must_not: [{ key: 'shelf', match: { any: ['a', 'b'] } }] }, [far]],
        [{ min_should: { conditions: [{ has_id: [1, 2] }, { key: 'sold', match: { value: true } }], min_count: 2 } }, [1]],
    ];
    for (const [filter, expected] of cases) {
        const { points } = await client.scroll(name, { filter, with_payload: false });
        assert.deepEqual(ids(points), expected, JSON.stringify(filter));
        assert.equal((await client.count(name, { filter, exact: true })).count, expected.length);
    }
}

async function scroll() {
    const seen = [];
    let offset;
    do {
        const page = await client.scroll(name, { limit: 4, offset, with_payload: false, with_vector: false });
        seen.push(...ids(page.points));
        offset = page.next_page_offset;
    } while (offset);
    assert.deepEqual(seen, [1, 2, 3, 4, far, uuid]);
    const cheap = await client.scroll(name, { order_by: { key: 'price', direction: 'asc' }, limit: 2 });
    assert.deepEqual(ids(cheap.points), [4, 3]);
    const { hits } = await client.facet(name, { key: 'genre', limit: 2, exact: true });
    assert.deepEqual(hits.map((hit) => hit.count), [2, 2]);
}

async function change() {
    const payload = async (id) => (await client.retrieve(name, { ids: [id] }))[0].payload;
    const wait = true;
    await client.setPayload(name, { wait, payload: { sold: true, more: { a: 1 } }, points: [uuid] });
    await client.setPayload(name, { wait, payload: { b: [2] }, key: 'more', points: [uuid] });
    assert.deepEqual(await payload(uuid), { title: '', shelf: 'b', sold: true, more: { a: 1, b: [2] } });
    await client.deletePayload(name, { wait, keys: ['sold', 'more.a'], points: [uuid] });
    assert.deepEqual(await payload(uuid), { title: '', shelf: 'b', more: { b: [2] } });
    // A null takes a key away.
    await client.setPayload(name, { wait, payload: { title: null }, points: [uuid] });
    assert.deepEqual(await payload(uuid), { shelf: 'b', more: { b: [2] } });
    await client.overwritePayload(name, { wait, payload: { shelf: 'd' }, filter: must({ has_id: [uuid] }) });
    assert.deepEqual(await payload(uuid), { shelf: 'd' });
    await client.clearPayload(name, { wait, points: [uuid] });
    assert.deepEqual(await payload(uuid), {});
    await client.updateVectors(name, { wait, points: [{ id: uuid, vector: { parts: [[3, 4]] } }] });
    await client.deleteVectors(name, { wait, points: [uuid], vector: ['words'] });
    const [point] = await client.retrieve(name, { ids: [uuid], with_vector: true });
    assert.deepEqual(Object.keys(point.vector).sort(), ['parts', 'text']);
    const batch = await client.batchUpdate(name, {
        wait,
        operations: [
            { upsert: { points: [{ id: 7, vector: { text: [0, 0, 0, 1] }, payload: { n: 1 } }] } },
            { set_payload: { payload: { m: 2 }, points: [7] } },
            { delete: { points: [uuid] } },
        ],
    });
    assert.equal(batch.length, 3);
    assert.deepEqual(await payload(7), { n: 1, m: 2 });
    await client.delete(name, { wait, filter: must({ key: 'n', match: { value: 1 } }) });
    assert.equal((await client.count(name)).count, 5);
}

async function manage() {
    const alias_name = 'js-rest-alias';
    await client.updateCollectionAliases({ actions: [{ create_alias: { collection_name: name, alias_name } }] });
    assert.equal((await client.count(alias_name)).count, 5);
    assert.deepEqual((await client.getCollectionAliases(name)).aliases, [{ alias_name, collection_name: name }]);
    await client.updateCollectionAliases({ actions: [{ delete_alias: { alias_name } }] });
    await client.updateCollection(name, { optimizers_config: { indexing_threshold: 20000 } });
    await client.createVectorName(name, 'later', { dense: { size: 2, distance: 'Dot' } }, { wait: true });
    await client.deleteVectorName(name, 'later', { wait: true });
    await client.deletePayloadIndex(name, 'sold', { wait: true });
    const made = await client.createSnapshot(name);
    assert.match(made.checksum, /^[0-9a-f]{64}$/);
    assert.deepEqual((await client.listSnapshots(name)).map((one) => one.name), [made.name]);
    assert.equal(await client.deleteSnapshot(name, made.name), true);
    assert.match((await client.versionInfo()).version, /^1\./);
}

// What is thrown, as a program sees it.
async function refused() {
    const fails = async (call, status, says) => {
        const error = await call.then(() => assert.fail('nothing was thrown'), (thrown) => thrown);
        assert.equal(error.status, status, String(error));
        assert.match(JSON.stringify(error.data), says);
    };
    await fails(client.getCollection('nowhere'), 404, /nowhere/);
    await fails(client.query(name, { query: [1, 2], using: 'text' }), 400, /dim/);
    await fails(client.query(name, { query: near, using: 'none' }), 400, /none/);
    await fails(client.upsert(name, { points: [{ id: -1, vector: {} }] }), 400, /-1/);
    await fails(client.createCollection(name, { vectors: { size: 4, distance: 'Dot' } }), 409, /already exists/);
    await fails(client.query(name, { query: near, using: 'text', limit: 0 }), 422, /limit/);
    const large = { payload: { text: 'x'.repeat(40 << 20) }, points: [1] };
    await fails(client.setPayload(name, large), 413, /MB|MiB|bytes/);
}

for (const step of [create, write, query, filter, scroll, change, manage, refused]) {
    await step();
    console.log(`${step.name}: ok`);
}
await client.deleteCollection(name);
assert.equal((await client.collectionExists(name)).exists, false);
