//! What the words of a query are weighed by: counts over all shards, which are asked for first. Then each shard weighs alike.

use ramlet::{
    CollectionConfig, Modifier, Prefetch, QueryKind, QueryVector, SparseStatistics, TextStatistics, Vector,
};
use serde_json::{Value, json};

use super::ask::Divided;
use super::raw::{Object, Query, inputs, objects_mut};
use crate::error::ApiResult;

const STATISTICS: (&str, &str) = ("POST", "/collections/{collection}/statistics");

/// Puts the statistics of all shards into each stage that weighs words.
pub async fn weigh(asked: &Divided, config: &CollectionConfig, query: &mut Query) -> ApiResult<()> {
    let Query { typed, raw, .. } = query;
    let keys = raw.get("shard_key").cloned();
    let keys = keys.as_ref();
    let mut stages = Vec::new();
    gather(
        (typed.query.as_ref(), &typed.using, &typed.prefetch),
        raw,
        &mut stages,
    );
    for (kind, using, raw) in stages {
        match kind {
            QueryKind::Text(_) => text(asked, (using, keys), raw).await?,
            kind => {
                let sparse = config.sparse_vectors.get(using);
                if sparse.is_some_and(|sparse| sparse.modifier == Some(Modifier::Idf)) {
                    sparse_vectors(asked, kind, (using, keys), raw).await?;
                }
            }
        }
    }
    Ok(())
}

/// Stages with a query, each with its own JSON, from which those below are taken out for the time being.
fn gather<'t, 'r>(
    (kind, using, prefetch): (Option<&'t QueryKind>, &'t str, &'t [Prefetch]),
    raw: &'r mut Object,
    all: &mut Vec<(&'t QueryKind, &'t str, Fields<'r>)>,
) {
    let mut fields = Fields::default();
    for (name, value) in raw.iter_mut() {
        match name.as_str() {
            "query" => fields.query = Some(value),
            "params" => fields.params = Some(value),
            "prefetch" => {
                for (raw, typed) in objects_mut(Some(value)).into_iter().zip(prefetch) {
                    let stage = (typed.query.as_ref(), typed.using.as_str(), &typed.prefetch[..]);
                    gather(stage, raw, all);
                }
            }
            _ => {}
        }
    }
    if let Some(kind) = kind {
        all.push((kind, using, fields));
    }
}

/// Those of a stage that change.
#[derive(Default)]
struct Fields<'r> {
    query: Option<&'r mut Value>,
    params: Option<&'r mut Value>,
}

async fn text(asked: &Divided, (using, keys): (&str, Option<&Value>), raw: Fields<'_>) -> ApiResult<()> {
    let Some(text) = raw.query.and_then(|query| query.get_mut("text")) else {
        return Ok(());
    };
    let body = json!({ "using": using, "text": text, "shard_key": keys }).to_string();
    let parts = asked
        .ask_all(|| asked.other(STATISTICS, asked.collection(), body.clone()))
        .await?;
    let mut all = TextStatistics {
        documents: 0,
        tokens: 0,
        frequencies: Vec::new(),
    };
    for (_, part) in &parts {
        let one: TextStatistics = part.read()?;
        all.documents += one.documents;
        all.tokens += one.tokens;
        all.frequencies
            .resize(all.frequencies.len().max(one.frequencies.len()), 0);
        for (sum, frequency) in all.frequencies.iter_mut().zip(one.frequencies) {
            *sum += frequency;
        }
    }
    if !text.is_object() {
        *text = json!({ "query": text });
    }
    text["statistics"] = json!(all);
    Ok(())
}

async fn sparse_vectors(
    asked: &Divided,
    kind: &QueryKind,
    (using, keys): (&str, Option<&Value>),
    mut raw: Fields<'_>,
) -> ApiResult<()> {
    // Vectors as they came, also those that a model makes of texts, ...
    let mut dims: Vec<u32> = ramlet::query_inputs(kind)
        .into_iter()
        .filter_map(|input| match input {
            QueryVector::Vector(Vector::Sparse(sparse)) => Some(&sparse.indices),
            _ => None,
        })
        .flatten()
        .copied()
        .collect();
    // ... and those of points.
    for input in inputs(raw.query.as_deref_mut()) {
        let indices = input.get("indices").and_then(Value::as_array);
        let each = indices.into_iter().flatten().filter_map(Value::as_u64);
        dims.extend(each.filter_map(|dim| u32::try_from(dim).ok()));
    }
    dims.sort_unstable();
    dims.dedup();
    let idf = raw.params.as_ref().and_then(|params| params.get("idf"));
    let body = json!({ "using": using, "indices": dims, "idf": idf, "shard_key": keys }).to_string();
    let parts = asked
        .ask_all(|| asked.other(STATISTICS, asked.collection(), body.clone()))
        .await?;
    let mut all = SparseStatistics::default();
    for (_, part) in &parts {
        let one: SparseStatistics = part.read()?;
        all.points += one.points;
        for (dim, frequency) in one.frequencies {
            *all.frequencies.entry(dim).or_default() += frequency;
        }
    }
    if let Some(params) = raw.params {
        if !params.is_object() {
            *params = json!({});
        }
        params["idf"] = json!({ "statistics": all });
    }
    Ok(())
}
