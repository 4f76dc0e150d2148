//! A sample of the vectors of all shards in a plane.

use ramlet::PointId;
use serde_json::{Map, json};

use super::ask::Divided;
use super::raw::vector_of;
use super::samples::sample;
use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::handlers::projection::{Wanted, picture};
use crate::request::params::QueryParams;
use crate::threads::pool::spawn_blocking;

/// `GET /collections/{collection}/projection`.
pub async fn plane(asked: &Divided) -> ApiResult<Answer> {
    let config = asked.app.collection(asked.collection()).await?.config();
    let wanted = Wanted::new(&config, &QueryParams::parse(&asked.query)?)?;
    let held = asked.hold(wanted.bytes())?;
    let query = Map::from_iter([
        ("query".to_owned(), json!({ "sample": "random" })),
        ("with_vector".to_owned(), json!([wanted.using])),
    ]);
    let points = sample(asked, None, query, wanted.rows as usize).await?;
    let (mut ids, mut numbers) = (Vec::<PointId>::new(), Vec::<f32>::new());
    for point in &points {
        if let Some(vector) = vector_of(point, &wanted.using)? {
            ids.push(point.id);
            numbers.extend(serde_json::from_value::<Vec<f32>>(vector).map_err(ApiError::internal)?);
        }
    }
    let drawn = spawn_blocking(move || {
        let _held = held;
        picture(&ids, &mut numbers, wanted.dims)
    });
    asked.answer(&drawn.await.map_err(ApiError::internal)?)
}
