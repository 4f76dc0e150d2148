//! Distances among random points, for maps and graphs of a collection.

use ramlet_index::Query;

use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::filter::{Condition, Filter};
use crate::limits::MATRIX_SAMPLE_MAX;
use crate::query::{self, Scratch, compile};
use crate::read::lookup::Lookup;
use crate::read::sample::sample;
use crate::read::view::{Place, View};
use crate::request::{QueryVector, SearchParams, SearchRequest};
use crate::schema::{VectorField, VectorKind};
use crate::types::{PayloadSelector, PointId, VectorSelector};
use crate::write::encoding::{decode_vector, prepare_query};

/// For `sample` points picked at random the nearest `limit` of the others.
#[derive(Debug, Clone)]
pub struct MatrixRequest {
    pub sample: usize,
    pub limit: usize,
    /// Only points that match are picked.
    pub filter: Option<Filter>,
    /// Name of the vector; points without it aren't picked.
    pub using: String,
}

/// The points that were picked, in the order of their ids, and the nearest others of each with their scores, best first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    pub ids: Vec<PointId>,
    /// As many as `ids`: (place in `ids`, score).
    pub nearest: Vec<Vec<(u32, f32)>>,
}

impl Collection {
    /// Compares every two of the picked points, exactly: `sample` reads, `sample` squared comparisons. `seed` decides which are
    /// picked. Empty when fewer than two match.
    pub fn search_matrix(&self, request: &MatrixRequest, seed: u64, scratch: &mut Scratch) -> Result<Matrix> {
        scratch.begin();
        let view = self.live_view()?;
        matrix(&view, request, seed, scratch)
    }
}

fn matrix(view: &View, request: &MatrixRequest, seed: u64, scratch: &mut Scratch) -> Result<Matrix> {
    if request.sample == 0 || request.limit == 0 {
        return Ok(Matrix::default());
    }
    let field = view.schema.vector(&request.using)?;
    let mut filter = request.filter.clone().unwrap_or_default();
    filter.must.push(Condition::HasVector(request.using.clone()));
    let filter = compile(view, Some(&filter))?;
    let wanted = request.sample.min(MATRIX_SAMPLE_MAX + 1);
    let places = sample(view, filter.as_ref(), wanted, seed, &mut scratch.lookup)?;
    if places.len() > MATRIX_SAMPLE_MAX {
        return Err(Error::bad_input(format!(
            "Wrong input: sample is {}, at most {MATRIX_SAMPLE_MAX} points are compared with each other",
            request.sample
        )));
    }
    if places.len() < 2 {
        return Ok(Matrix::default());
    }
    let mut points = Vec::with_capacity(places.len());
    for place in places {
        points.push((view.id_of(place, &mut scratch.lookup)?.0, place));
    }
    points.sort_unstable_by_key(|(id, _)| *id);
    let nearest = match field.kind {
        VectorKind::Dense => nearest(view, field, &points, request.limit, &mut scratch.lookup)?,
        VectorKind::Multi | VectorKind::Sparse => {
            let ids: Vec<PointId> = points.iter().map(|(id, _)| *id).collect();
            nearest_by_search(view, &request.using, &ids, request.limit, scratch)?
        }
    };
    Ok(Matrix {
        ids: points.into_iter().map(|(id, _)| id).collect(),
        nearest,
    })
}

/// The same for vectors whose rows differ in length: a search among the others for each.
fn nearest_by_search(
    view: &View,
    using: &str,
    ids: &[PointId],
    limit: usize,
    scratch: &mut Scratch,
) -> Result<Vec<Vec<(u32, f32)>>> {
    let filter = Filter {
        must: vec![Condition::HasId(ids.to_vec())],
        ..Filter::default()
    };
    let mut request = SearchRequest {
        query: QueryVector::Id(ids[0]),
        using: using.to_owned(),
        filter: Some(filter),
        params: SearchParams {
            exact: true,
            ..SearchParams::default()
        },
        limit: limit.min(ids.len() - 1),
        offset: 0,
        score_threshold: None,
        with_payload: PayloadSelector::None,
        with_vectors: VectorSelector::None,
    };
    let mut all = Vec::with_capacity(ids.len());
    let mut hits = Vec::new();
    for id in ids {
        request.query = QueryVector::Id(*id);
        hits.clear();
        query::search(view, &request, scratch, &mut hits, None)?;
        scratch
            .lookup
            .reserve_returned(hits.len() * size_of::<(u32, f32)>())?;
        let found = hits.iter().filter_map(|hit| {
            let place = ids.binary_search(&hit.id).ok()?;
            Some((place as u32, hit.score))
        });
        all.push(found.collect());
    }
    Ok(all)
}

/// For each point the nearest of the others.
fn nearest(
    view: &View,
    field: &VectorField,
    points: &[(PointId, Place)],
    limit: usize,
    lookup: &mut Lookup,
) -> Result<Vec<Vec<(u32, f32)>>> {
    let n = points.len();
    let limit = limit.min(n - 1);
    // Distances of one point, and what is handed out; rows as they come.
    let mut held = lookup.rare.reserve((n * (field.row_bytes() + 32)) as u64)?;
    lookup.reserve_returned(n * limit * size_of::<(u32, f32)>())?;
    let mut bytes = Vec::with_capacity(n * field.row_bytes());
    let mut spans = Vec::with_capacity(n);
    for (id, place) in points {
        let start = bytes.len();
        if !view.encoded_vector_of(*place, field.slot, lookup, &mut bytes)? {
            return Err(Error::corrupt(format!(
                "point {id} has lost its vector `{}`",
                field.name
            )));
        }
        // Rows of a length of their own were not foreseen.
        let taken = (n * 32 + bytes.len()) as u64;
        if taken > held.bytes() {
            held.grow((taken - held.bytes()).next_multiple_of(1 << 16))?;
        }
        spans.push(start..bytes.len());
    }
    let mut distances: Vec<(f32, u32)> = Vec::with_capacity(n);
    let mut query = Query::new(field.metric, field.element, &vec![0.0; field.dim]);
    let mut all = Vec::with_capacity(n);
    for (own, span) in spans.iter().enumerate() {
        let vector = decode_vector(field, &bytes[span.clone()])?;
        prepare_query(&mut query, field, &vector)?;
        distances.clear();
        let others = spans
            .iter()
            .zip(0u32..)
            .filter(|(_, other)| *other as usize != own);
        distances.extend(others.map(|(span, other)| (query.distance_of_row(&bytes[span.clone()]), other)));
        // Sparse vectors that share nothing are not near at all.
        distances.retain(|(distance, _)| query.sparse().is_none() || *distance < f32::INFINITY);
        let order = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if limit < distances.len() {
            distances.select_nth_unstable_by(limit, order);
            distances.truncate(limit);
        }
        distances.sort_unstable_by(order);
        all.push(
            distances
                .iter()
                .map(|(distance, other)| (*other, field.metric.score(*distance)))
                .collect(),
        );
    }
    Ok(all)
}
