//! The official Rust client against a server: what a program does with a collection, from its making to its end.

use std::collections::HashMap;

use ::qdrant_client::qdrant::vectors_output::VectorsOptions;
use ::qdrant_client::qdrant::*;
use ::qdrant_client::{Payload, Qdrant, QdrantError};
use serde_json::{Value as Json, json};
use tonic::Code;

type Done = Result<(), Box<dyn std::error::Error>>;

const NAME: &str = "rust";
const LAST: &str = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26";
const LARGEST: &str = "9007199254740991";
const NEAR: [f32; 4] = [1.0, 0.05, 0.0, 0.0];

fn books() -> Vec<Json> {
    serde_json::from_str(include_str!("../../books.json")).unwrap()
}

fn id_of(book: &Json) -> PointId {
    book["id"]
        .as_u64()
        .map_or_else(|| PointId::from(LAST), PointId::from)
}

fn floats(json: &Json) -> Vec<f32> {
    json.as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap() as f32)
        .collect()
}

fn vector(json: &Json) -> Vector {
    if let Some(indices) = json.get("indices") {
        let indices = indices
            .as_array()
            .unwrap()
            .iter()
            .map(|index| index.as_u64().unwrap() as u32);
        return Vector::new_sparse(indices.collect::<Vec<_>>(), floats(&json["values"]));
    }
    let values = json.as_array().unwrap();
    if values[0].is_array() {
        Vector::new_multi(values.iter().map(floats).collect::<Vec<_>>())
    } else {
        Vector::new_dense(floats(json))
    }
}

fn point(book: &Json) -> PointStruct {
    let vectors: HashMap<String, Vector> = book["vector"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, json)| (name.clone(), vector(json)))
        .collect();
    PointStruct::new(
        id_of(book),
        vectors,
        Payload::try_from(book["payload"].clone()).unwrap(),
    )
}

fn word(id: &Option<PointId>) -> String {
    match id.as_ref().and_then(|id| id.point_id_options.clone()) {
        Some(point_id::PointIdOptions::Num(number)) => number.to_string(),
        Some(point_id::PointIdOptions::Uuid(word)) => word,
        None => panic!("no id"),
    }
}

fn scored(points: &[ScoredPoint]) -> Vec<String> {
    points.iter().map(|point| word(&point.id)).collect()
}

fn kept(points: &[RetrievedPoint]) -> Vec<String> {
    points.iter().map(|point| word(&point.id)).collect()
}

async fn create(client: &Qdrant) -> Done {
    let mut vectors = VectorsConfigBuilder::default();
    let codes = ScalarQuantizationBuilder::default()
        .quantile(0.99)
        .always_ram(false);
    vectors.add_named_vector_params(
        "text",
        VectorParamsBuilder::new(4, Distance::Cosine).quantization_config(codes),
    );
    let max_sim = MultiVectorConfigBuilder::new(MultiVectorComparator::MaxSim);
    vectors.add_named_vector_params(
        "parts",
        VectorParamsBuilder::new(2, Distance::Dot).multivector_config(max_sim),
    );
    let mut sparse = SparseVectorsConfigBuilder::default();
    sparse.add_named_vector_params("words", SparseVectorParamsBuilder::default());
    client
        .create_collection(
            CreateCollectionBuilder::new(NAME)
                .vectors_config(vectors)
                .sparse_vectors_config(sparse),
        )
        .await?;
    let kinds = [
        ("genre", FieldType::Keyword),
        ("year", FieldType::Integer),
        ("price", FieldType::Float),
        ("sold", FieldType::Bool),
        ("place", FieldType::Geo),
        ("printed", FieldType::Datetime),
        ("isbn", FieldType::Uuid),
        ("title", FieldType::Text),
    ];
    for (field, kind) in kinds {
        client
            .create_field_index(CreateFieldIndexCollectionBuilder::new(NAME, field, kind).wait(true))
            .await?;
    }
    let tenants = KeywordIndexParamsBuilder::default().is_tenant(true);
    client
        .create_field_index(
            CreateFieldIndexCollectionBuilder::new(NAME, "shelf", FieldType::Keyword)
                .field_index_params(tenants)
                .wait(true),
        )
        .await?;
    let info = client.collection_info(NAME).await?.result.unwrap();
    assert_eq!(info.payload_schema.len(), kinds.len() + 1);
    assert!(client.collection_exists(NAME).await?);
    assert!(
        client
            .list_collections()
            .await?
            .collections
            .iter()
            .any(|one| one.name == NAME)
    );
    Ok(())
}

async fn write(client: &Qdrant) -> Done {
    let points: Vec<_> = books().iter().map(point).collect();
    let ids: Vec<_> = books().iter().map(id_of).collect();
    let answer = client
        .upsert_points(UpsertPointsBuilder::new(NAME, points).wait(true))
        .await?;
    assert_eq!(answer.result.unwrap().status(), UpdateStatus::Completed);
    let found = client
        .get_points(
            GetPointsBuilder::new(NAME, ids)
                .with_payload(true)
                .with_vectors(true),
        )
        .await?
        .result;
    assert_eq!(found.len(), books().len());
    for book in books() {
        let point = found.iter().find(|point| point.id == Some(id_of(&book))).unwrap();
        assert_eq!(Json::from(Payload::from(point.payload.clone())), book["payload"]);
        let Some(VectorsOptions::Vectors(named)) = point.vectors.clone().unwrap().vectors_options else {
            panic!("no names")
        };
        assert_eq!(named.vectors.len(), book["vector"].as_object().unwrap().len());
    }
    Ok(())
}

async fn query(client: &Qdrant) -> Done {
    let words = Query::new_nearest(VectorInput::new_sparse(vec![5, 9], vec![1.0, 2.0]));
    let near = || Query::new_nearest(NEAR.to_vec());
    let ask = || QueryPointsBuilder::new(NAME);
    let hits = client
        .query(ask().query(near()).using("text").limit(3).with_payload(true))
        .await?
        .result;
    assert_eq!(scored(&hits), ["1", "2", LAST]);
    assert_eq!(
        scored(
            &client
                .query(ask().query(words.clone()).using("words"))
                .await?
                .result
        ),
        ["3", "2", LAST, "1"]
    );
    let multi = Query::new_nearest(VectorInput::new_multi(vec![vec![1.0, 0.0], vec![0.0, 1.0]]));
    assert_eq!(
        client.query(ask().query(multi).using("parts")).await?.result[0].score,
        2.0
    );
    let liked = RecommendInputBuilder::default()
        .add_positive(PointId::from(1))
        .add_negative(PointId::from(3));
    let hits = client
        .query(ask().query(Query::new_recommend(liked)).using("text").limit(1))
        .await?
        .result;
    assert_eq!(scored(&hits), ["2"]);
    let first = || {
        PrefetchQueryBuilder::default()
            .query(near())
            .using("text")
            .limit(3u64)
    };
    let second = PrefetchQueryBuilder::default()
        .query(words.clone())
        .using("words")
        .limit(3u64);
    let fused = client
        .query(
            ask()
                .add_prefetch(first())
                .add_prefetch(second)
                .query(Fusion::Rrf),
        )
        .await?
        .result;
    assert_eq!(scored(&fused)[0], "2");
    assert!((fused[0].score - 2.0 / 3.0).abs() < 1e-6);
    let sum = Expression::sum_with([
        Expression::score(),
        Condition::matches("shelf", "b".to_string()).into(),
    ]);
    let boosted = client
        .query(ask().add_prefetch(first()).query(FormulaBuilder::new(sum)))
        .await?
        .result;
    assert_eq!(scored(&boosted), [LAST, "1", "2"]);
    let late = OrderByBuilder::new("year").direction(Direction::Desc as i32);
    assert_eq!(
        scored(
            &client
                .query(ask().query(Query::new_order_by(late)).limit(1))
                .await?
                .result
        ),
        ["4"]
    );
    let both = vec![
        ask().query(near()).using("text").limit(1).build(),
        ask().query(words).using("words").limit(1).build(),
    ];
    let batch = client
        .query_batch(QueryBatchPointsBuilder::new(NAME, both))
        .await?
        .result;
    assert_eq!(
        [scored(&batch[0].result), scored(&batch[1].result)],
        [["1"], ["3"]]
    );
    let grouped = QueryPointGroupsBuilder::new(NAME, "shelf")
        .query(near())
        .using("text")
        .group_size(2u64)
        .limit(2u64);
    let groups = client.query_groups(grouped).await?.result.unwrap().groups;
    assert_eq!(
        [scored(&groups[0].hits), scored(&groups[1].hits)],
        [["1", "2"], [LAST, "3"]]
    );
    Ok(())
}

async fn filter(client: &Qdrant) -> Done {
    let range = |gte, lt| Range {
        gte,
        lt,
        ..Default::default()
    };
    let before = DatetimeRange {
        lt: Some(Timestamp {
            seconds: 631_152_000,
            nanos: 0,
        }),
        ..Default::default()
    };
    let around = GeoRadius {
        center: Some(GeoPoint { lon: 13.4, lat: 52.5 }),
        radius: 1000.0,
    };
    let in_one = Filter::must([
        Condition::matches("name", "one".to_string()),
        Condition::range("words", range(Some(100.5), None)),
    ]);
    let cases: Vec<(Condition, Vec<&str>)> = vec![
        (Condition::matches("genre", "animal".to_string()), vec!["1", "2"]),
        (
            Condition::matches("genre", ["travel", "fable"]),
            vec!["1", "4", LARGEST],
        ),
        (Condition::matches("year", 9_007_199_254_740_991i64), vec!["4"]),
        (
            Condition::range("year", range(Some(-50.0), Some(1999.0))),
            vec!["1", "3"],
        ),
        (Condition::matches("sold", true), vec!["1", "3"]),
        (Condition::datetime_range("printed", before), vec!["1"]),
        (
            Condition::matches("isbn", "550e8400-e29b-41d4-a716-446655440002".to_string()),
            vec!["2"],
        ),
        (Condition::geo_radius("place", around), vec!["1"]),
        (Condition::matches_text("title", "brown"), vec!["1", "3"]),
        (Condition::matches_phrase("title", "quick brown"), vec!["1"]),
        (Condition::matches_text_any("title", "dog bread"), vec!["2", "3"]),
        (Condition::matches_prefix("genre", "trav"), vec!["4", LARGEST]),
        (Condition::matches_substring("shelf", "c"), vec![LARGEST]),
        (Condition::nested("chapters", in_one), vec!["1"]),
        (
            Condition::has_id([PointId::from(1), PointId::from(LAST)]),
            vec!["1", LAST],
        ),
        (Condition::has_vector("parts"), vec!["1", "2", "3"]),
        (Condition::is_empty("genre"), vec![LAST]),
        (Condition::is_null("ended"), vec!["1"]),
        (
            Condition::values_count(
                "genre",
                ValuesCount {
                    gte: Some(2),
                    ..Default::default()
                },
            ),
            vec!["1", "4"],
        ),
    ];
    for (condition, expected) in cases {
        let filter = Filter::must([condition]);
        let page = client
            .scroll(ScrollPointsBuilder::new(NAME).filter(filter.clone()))
            .await?
            .result;
        assert_eq!(kept(&page), expected, "{filter:?}");
        let count = client
            .count(CountPointsBuilder::new(NAME).filter(filter).exact(true))
            .await?
            .result
            .unwrap()
            .count;
        assert_eq!(count, expected.len() as u64);
    }
    // The parts of a collection that workers share among them.
    let mut seen = 0;
    for index in 0..3 {
        let slice = Filter::must([Condition::slice(3, index)]);
        seen += client
            .count(CountPointsBuilder::new(NAME).filter(slice).exact(true))
            .await?
            .result
            .unwrap()
            .count;
    }
    assert_eq!(seen, books().len() as u64);
    Ok(())
}

async fn scroll(client: &Qdrant) -> Done {
    let (mut seen, mut offset) = (Vec::new(), None::<PointId>);
    loop {
        let mut page = ScrollPointsBuilder::new(NAME).limit(4);
        if let Some(next) = offset {
            page = page.offset(next);
        }
        let answer = client.scroll(page).await?;
        seen.extend(kept(&answer.result));
        offset = answer.next_page_offset;
        if offset.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["1", "2", "3", "4", LARGEST, LAST]);
    let hits = client
        .facet(FacetCountsBuilder::new(NAME, "genre").exact(true))
        .await?
        .hits;
    assert_eq!(hits.iter().map(|hit| hit.count).collect::<Vec<_>>(), [2, 2, 2, 1]);
    Ok(())
}

async fn payload(client: &Qdrant, id: PointId) -> Result<Json, QdrantError> {
    let found = client
        .get_points(GetPointsBuilder::new(NAME, [id]).with_payload(true))
        .await?
        .result;
    Ok(Json::from(Payload::from(found[0].payload.clone())))
}

fn fields(json: Json) -> Payload {
    Payload::try_from(json).unwrap()
}

async fn change(client: &Qdrant) -> Done {
    let last = || PointsIdsList {
        ids: vec![LAST.into()],
    };
    let more = SetPayloadPointsBuilder::new(NAME, fields(json!({"more": {"a": 1.5}})))
        .points_selector(last())
        .wait(true);
    client.set_payload(more).await?;
    let drop = DeletePayloadPointsBuilder::new(NAME, vec!["title".to_string()])
        .points_selector(last())
        .wait(true);
    client.delete_payload(drop).await?;
    assert_eq!(
        payload(client, LAST.into()).await?,
        json!({"shelf": "b", "more": {"a": 1.5}})
    );
    let whole = SetPayloadPointsBuilder::new(NAME, fields(json!({"shelf": "d"})))
        .points_selector(last())
        .wait(true);
    client.overwrite_payload(whole).await?;
    assert_eq!(payload(client, LAST.into()).await?, json!({"shelf": "d"}));
    client
        .clear_payload(ClearPayloadPointsBuilder::new(NAME).points(last()).wait(true))
        .await?;
    assert_eq!(payload(client, LAST.into()).await?, json!({}));
    let parts = PointVectors {
        id: Some(LAST.into()),
        vectors: Some(HashMap::from([("parts".to_string(), Vector::new_multi(vec![vec![3.0, 4.0]]))]).into()),
    };
    client
        .update_vectors(UpdatePointVectorsBuilder::new(NAME, vec![parts]).wait(true))
        .await?;
    let words = DeletePointVectorsBuilder::new(NAME)
        .points_selector(last())
        .vectors(VectorsSelector {
            names: vec!["words".into()],
        });
    client.delete_vectors(words.wait(true)).await?;
    let seven = PointStruct::new(
        7,
        HashMap::from([("text".to_string(), vec![0.0, 0.0, 0.0, 1.0])]),
        fields(json!({"n": 1})),
    );
    use points_update_operation::{DeletePoints, Operation, PointStructList};
    let add = Operation::Upsert(PointStructList {
        points: vec![seven],
        ..Default::default()
    });
    let drop = Operation::DeletePoints(DeletePoints {
        points: Some(PointsSelector::from(last().ids)),
        ..Default::default()
    });
    let operations: Vec<_> = [add, drop]
        .map(|operation| PointsUpdateOperation {
            operation: Some(operation),
        })
        .into();
    assert_eq!(
        client
            .update_points_batch(UpdateBatchPointsBuilder::new(NAME, operations).wait(true))
            .await?
            .result
            .len(),
        2
    );
    let first = Filter::must([Condition::matches("n", 1)]);
    client
        .delete_points(DeletePointsBuilder::new(NAME).points(first).wait(true))
        .await?;
    assert_eq!(
        client
            .count(CountPointsBuilder::new(NAME))
            .await?
            .result
            .unwrap()
            .count,
        5
    );
    Ok(())
}

async fn manage(client: &Qdrant) -> Done {
    client
        .create_alias(CreateAliasBuilder::new(NAME, "rust-alias"))
        .await?;
    client
        .rename_alias(RenameAliasBuilder::new("rust-alias", "rust-other"))
        .await?;
    assert_eq!(
        client.list_collection_aliases(NAME).await?.aliases[0].alias_name,
        "rust-other"
    );
    assert_eq!(
        client
            .count(CountPointsBuilder::new("rust-other"))
            .await?
            .result
            .unwrap()
            .count,
        5
    );
    client.delete_alias("rust-other").await?;
    let made = client.create_snapshot(NAME).await?.snapshot_description.unwrap();
    assert_eq!(
        client.list_snapshots(NAME).await?.snapshot_descriptions[0].name,
        made.name
    );
    client
        .delete_snapshot(DeleteSnapshotRequestBuilder::new(NAME, made.name))
        .await?;
    assert!(client.health_check().await?.version.starts_with("1."));
    Ok(())
}

/// What a program is told: the code, and the words.
fn fails<T>(answer: Result<T, QdrantError>, code: Code, says: &str) {
    let Err(QdrantError::ResponseError { status }) = answer else {
        panic!("no refusal")
    };
    assert_eq!(status.code(), code);
    assert!(status.message().contains(says), "{status}");
}

async fn refused(client: &Qdrant) -> Done {
    fails(client.collection_info("nowhere").await, Code::NotFound, "nowhere");
    let short = QueryPointsBuilder::new(NAME)
        .query(Query::new_nearest(vec![1.0, 2.0]))
        .using("text");
    fails(client.query(short).await, Code::InvalidArgument, "dim");
    fails(
        client.create_collection(CreateCollectionBuilder::new(NAME)).await,
        Code::AlreadyExists,
        "already exists",
    );
    let large = fields(json!({"text": "x".repeat(40 << 20)}));
    let large =
        SetPayloadPointsBuilder::new(NAME, large).points_selector(PointsIdsList { ids: vec![1.into()] });
    fails(
        client.set_payload(large).await,
        Code::ResourceExhausted,
        "smaller batches",
    );
    assert_eq!(
        client
            .count(CountPointsBuilder::new(NAME))
            .await?
            .result
            .unwrap()
            .count,
        5
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Done {
    let client = Qdrant::from_url(&std::env::var("RAMLET_GRPC")?).build()?;
    create(&client).await?;
    write(&client).await?;
    query(&client).await?;
    filter(&client).await?;
    scroll(&client).await?;
    change(&client).await?;
    manage(&client).await?;
    refused(&client).await?;
    client.delete_collection(NAME).await?;
    assert!(!client.collection_exists(NAME).await?);
    println!("all steps: ok");
    Ok(())
}
