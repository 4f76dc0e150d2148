//! `GET /collections/{collection}/projection`: a sample of the vectors in a plane, for a picture.

use ramlet::{PointId, QueryKind, QueryRequest, Vector, VectorSelector};
use serde_json::{Value, json};

use crate::answers::answer::Answer;
use crate::dashboard::projection::project;
use crate::error::{ApiError, ApiResult};
use crate::request::call::Call;

/// Points of a picture, and numbers of their vectors at most: the plane is found on a search thread, in tens of milliseconds.
const SAMPLE: u64 = 300;
const SAMPLE_MAX: u64 = 1_000;
const NUMBERS_MAX: u64 = 400_000;
/// What a point of the answer takes as it is made.
const POINT_BYTES: u64 = 512;

pub async fn plane(call: Call) -> ApiResult<Answer> {
    let collection = call.collection().await?;
    let using = call.request.query.get("using").unwrap_or("").to_owned();
    let config = collection.config();
    let Some(vector) = config.vectors.get(&using) else {
        let names: Vec<&str> = config.vectors.keys().map(String::as_str).collect();
        return Err(ApiError::wrong_input(format!(
            "`using` must name one of the dense vectors: {}",
            names.join(", ")
        )));
    };
    if vector.multivector_config.is_some() {
        return Err(ApiError::wrong_input(
            "points of several vectors have no place in a plane",
        ));
    }
    call.check_read(&collection, None)?;
    let dims = vector.size.max(1);
    let asked = call.request.query.number("sample")?.unwrap_or(SAMPLE);
    let rows = asked.min(SAMPLE_MAX).min((NUMBERS_MAX / dims as u64).max(2));
    // Vectors as the engine hands them over, and the same in a row.
    let bytes = rows * (2 * 4 * dims as u64 + POINT_BYTES);
    let app = call.app.clone();
    let request = QueryRequest {
        query: Some(QueryKind::SampleRandom),
        limit: rows as usize,
        with_vectors: VectorSelector::Names(vec![using]),
        ..QueryRequest::default()
    };
    call.read(bytes, move |scratch, out| {
        let hits = collection.query(request, &app.engine, scratch)?.hits;
        let (mut ids, mut numbers) = (
            Vec::with_capacity(hits.len()),
            Vec::with_capacity(hits.len() * dims),
        );
        for hit in &hits {
            if let Some([(_, Vector::Dense(vector))]) = hit.vectors.as_deref() {
                ids.push(hit.id);
                numbers.extend(vector);
            }
        }
        let plane = project(&mut numbers, dims);
        let points: Vec<Value> = ids
            .iter()
            .zip(&plane.places)
            .map(|(id, [x, y])| json!({"id": id_json(*id), "x": x, "y": y}))
            .collect();
        out.value(&json!({"points": points, "variance_shown": plane.shown}));
        Ok(())
    })
    .await
}

fn id_json(id: PointId) -> Value {
    match id {
        PointId::Num(number) => json!(number),
        uuid => json!(uuid.to_string()),
    }
}
