//! `GET /collections/{collection}/projection`: a sample of the vectors in a plane, for a picture.

use ramlet::{CollectionConfig, PointId, QueryKind, QueryRequest, Vector, VectorSelector};
use serde_json::{Value, json};

use crate::answers::answer::Answer;
use crate::dashboard::projection::project;
use crate::error::{ApiError, ApiResult};
use crate::request::call::Call;
use crate::request::params::QueryParams;

/// Points of a picture, and numbers of their vectors at most: the plane is found on a search thread, in tens of milliseconds.
const SAMPLE: u64 = 300;
const SAMPLE_MAX: u64 = 1_000;
const NUMBERS_MAX: u64 = 400_000;
/// What a point of the answer takes as it is made.
const POINT_BYTES: u64 = 512;

/// What is asked of a picture.
pub struct Wanted {
    pub using: String,
    pub dims: usize,
    /// Points, at most.
    pub rows: u64,
}

impl Wanted {
    /// `using` and `sample` of a request.
    pub fn new(config: &CollectionConfig, query: &QueryParams) -> ApiResult<Wanted> {
        let using = query.get("using").unwrap_or("").to_owned();
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
        let dims = vector.size.max(1);
        let asked = query.number("sample")?.unwrap_or(SAMPLE);
        let rows = asked.min(SAMPLE_MAX).min((NUMBERS_MAX / dims as u64).max(2));
        Ok(Wanted { using, dims, rows })
    }

    /// Vectors as the engine hands them over, the same in a row, and the answer.
    pub fn bytes(&self) -> u64 {
        self.rows * (2 * 4 * self.dims as u64 + POINT_BYTES)
    }
}

pub async fn plane(call: Call) -> ApiResult<Answer> {
    let collection = call.collection().await?;
    let wanted = Wanted::new(&collection.config(), &call.request.query)?;
    call.check_read(&collection, None)?;
    let (dims, bytes) = (wanted.dims, wanted.bytes());
    let app = call.app.clone();
    let request = QueryRequest {
        query: Some(QueryKind::SampleRandom),
        limit: wanted.rows as usize,
        with_vectors: VectorSelector::Names(vec![wanted.using]),
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
        out.value(&picture(&ids, &mut numbers, dims));
        Ok(())
    })
    .await
}

/// Points with their vectors in a row, in their plane.
pub fn picture(ids: &[PointId], numbers: &mut [f32], dims: usize) -> Value {
    let plane = project(numbers, dims);
    let points: Vec<Value> = ids
        .iter()
        .zip(&plane.places)
        .map(|(id, [x, y])| json!({"id": id_json(*id), "x": x, "y": y}))
        .collect();
    json!({"points": points, "variance_shown": plane.shown})
}

fn id_json(id: PointId) -> Value {
    match id {
        PointId::Num(number) => json!(number),
        uuid => json!(uuid.to_string()),
    }
}
