//! Collections and aliases of a divided store. Shard 0 has what is true: a collection is made there last, and deleted there first, so that who failed halfway may do it again.

use axum::http::StatusCode;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ask::{Ask, Divided};
use super::{Setting, keys};
use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};

const COLLECTION: &str = "/collections/{collection}";
const EXISTS: &str = "/collections/{collection}/exists";

pub async fn change(asked: &Divided, setting: Setting, body: Bytes) -> ApiResult<Answer> {
    match setting {
        Setting::Create => create(asked, &body).await,
        Setting::Delete => {
            let done = asked.ask(0, asked.same(Bytes::new())).await?;
            others(asked, || Ok(asked.same(Bytes::new()))).await?;
            asked.answer(&done.read::<Value>()?)
        }
        Setting::Aliases => aliases(asked, body).await,
        Setting::CreateKey => keys::create(asked, body).await,
        Setting::DropKey => {
            let done = asked.ask(0, asked.same(body.clone())).await?;
            others(asked, || Ok(asked.same(body.clone()))).await?;
            asked.answer(&done.read::<Value>()?)
        }
        Setting::Other => {
            let done = others(asked, || Ok(asked.same(body.clone()))).await;
            // What is there already, or is gone already, is no fault: shard 0 says whether it is.
            done.or_else(|e| match asked.route.method {
                "DELETE" => tolerated(e, StatusCode::NOT_FOUND),
                _ => tolerated(e, StatusCode::CONFLICT),
            })?;
            let done = asked.ask(0, asked.same(body)).await?;
            asked.answer(&done.read::<Value>()?)
        }
    }
}

fn tolerated(e: ApiError, kind: StatusCode) -> ApiResult<()> {
    match e.status == kind {
        true => Ok(()),
        false => Err(e),
    }
}

/// All shards but the first, at once.
async fn others(asked: &Divided, ask: impl Fn() -> ApiResult<Ask>) -> ApiResult<()> {
    let asks = (1..asked.count()).map(|shard| ask().map(|ask| (shard, ask)));
    asked.ask_some(asks.collect::<ApiResult<_>>()?).await.map(drop)
}

async fn create(asked: &Divided, body: &Bytes) -> ApiResult<Answer> {
    let mut fields: Map<String, Value> = serde_json::from_slice(body).map_err(ApiError::format)?;
    let shards = asked.count();
    match fields.get("shard_number").filter(|number| !number.is_null()) {
        None => {
            fields.insert("shard_number".to_owned(), json!(shards));
        }
        // What no server takes is refused in its words.
        Some(number) if *number == json!(shards) || *number == json!(0) => {}
        Some(number) => {
            return Err(ApiError::wrong_input(format_args!(
                "shard_number is {number}, and this store has {shards} shards: each of its collections is divided into all of them (see docs/scale-out.md)"
            )));
        }
    }
    let body = Bytes::from(Value::Object(fields).to_string());
    if exists(asked).await? {
        let done = asked.ask(0, asked.same(body)).await?;
        return asked.answer(&done.read::<Value>()?);
    }
    for shard in 1..shards {
        let made = asked.ask(shard, asked.same(body.clone())).await;
        if made
            .map(|_| false)
            .or_else(|e| tolerated(e, StatusCode::CONFLICT).map(|()| true))?
        {
            make_anew(asked, shard, &body).await?;
        }
    }
    let done = asked.ask(0, asked.same(body.clone())).await?;
    // One that was left from before may have had other settings. Whoever made it at shard 0 makes it anew there.
    let wanted = config_of(asked, 0).await?;
    for shard in 1..shards {
        let mut tries = 0;
        while config_of(asked, shard).await? != wanted {
            tries += 1;
            if tries > 3 {
                return Err(ApiError::internal(format_args!(
                    "collection '{}' has other settings at shard {shard} than at shard 0: delete it and create it again",
                    asked.collection()
                )));
            }
            let delete = asked.other(("DELETE", COLLECTION), asked.collection(), Bytes::new())?;
            asked.ask(shard, delete).await?;
            let made = asked.ask(shard, asked.same(body.clone())).await;
            made.map(drop).or_else(|e| tolerated(e, StatusCode::CONFLICT))?;
        }
    }
    asked.answer(&done.read::<Value>()?)
}

/// Whether shard 0 has the collection.
async fn exists(asked: &Divided) -> ApiResult<bool> {
    let ask = asked.other(("GET", EXISTS), asked.collection(), Bytes::new())?;
    let told: Value = asked.ask(0, ask).await?.read()?;
    Ok(told["exists"] == json!(true))
}

/// A shard has points of a collection that shard 0 doesn't have: it is what a delete left that didn't get so far. An empty one is of whoever makes it now.
async fn make_anew(asked: &Divided, shard: u32, body: &Bytes) -> ApiResult<()> {
    let has_points = info_of(asked, shard).await?["points_count"].as_u64() != Some(0);
    if !has_points || exists(asked).await? {
        return Ok(());
    }
    let delete = asked.other(("DELETE", COLLECTION), asked.collection(), Bytes::new())?;
    asked.ask(shard, delete).await?;
    asked.ask(shard, asked.same(body.clone())).await.map(drop)
}

async fn info_of(asked: &Divided, shard: u32) -> ApiResult<Value> {
    let ask = asked.other(("GET", COLLECTION), asked.collection(), Bytes::new())?;
    asked.ask(shard, ask).await?.read()
}

/// The settings that a collection was made with.
async fn config_of(asked: &Divided, shard: u32) -> ApiResult<Value> {
    Ok(info_of(asked, shard).await?["config"].take())
}

/// Shard 0 decides. The others are then given the aliases that it has.
async fn aliases(asked: &Divided, body: Bytes) -> ApiResult<Answer> {
    let done = asked.ask(0, asked.same(body)).await;
    let list = || -> ApiResult<Ask> {
        Ok(Ask {
            route: super::ask::route("GET", "/aliases")?,
            params: Vec::new(),
            query: String::new(),
            body: Bytes::new(),
            told_from: None,
        })
    };
    // A key that opens some collections only doesn't see all: it changed what it could.
    let wanted = named(asked.ask(0, list()?).await?.read()?);
    for shard in 1..asked.count() {
        let there = named(asked.ask(shard, list()?).await?.read()?);
        let mut actions = Vec::new();
        for (alias, _) in there.iter().filter(|one| !wanted.contains(one)) {
            actions.push(json!({ "delete_alias": { "alias_name": alias } }));
        }
        for (alias, collection) in wanted.iter().filter(|one| !there.contains(one)) {
            let fields = json!({ "collection_name": collection, "alias_name": alias });
            actions.push(json!({ "create_alias": fields }));
        }
        if !actions.is_empty() {
            let body = json!({ "actions": actions }).to_string();
            asked.ask(shard, asked.same(body)).await?;
        }
    }
    asked.answer(&done?.read::<Value>()?)
}

/// Aliases and their collections, of a list of them.
fn named(listed: Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = listed["aliases"].as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|one| (text(&one["alias_name"]), text(&one["collection_name"])))
        .collect()
}

/// `GET /collections/{collection}`: of all shards. Numbers are summed, and the worst state is told.
pub async fn info(asked: &Divided) -> ApiResult<Answer> {
    let parts = asked.ask_all(|| Ok(asked.same(Bytes::new()))).await?;
    let mut all = Vec::with_capacity(parts.len());
    for (_, part) in &parts {
        all.push(part.read::<Value>()?);
    }
    let mut infos = all.into_iter();
    let mut whole = infos.next().unwrap_or_default();
    for one in infos {
        add(&mut whole, &one);
    }
    asked.answer(&whole)
}

/// Points of all shards.
pub async fn points_count(asked: &Divided) -> ApiResult<usize> {
    #[derive(Deserialize)]
    struct Info {
        points_count: usize,
    }
    let ask = || asked.other(("GET", COLLECTION), asked.collection(), Bytes::new());
    let mut points = 0usize;
    for (_, part) in &asked.ask_all(ask).await? {
        points = points.saturating_add(part.read::<Info>()?.points_count);
    }
    Ok(points)
}

fn add(whole: &mut Value, one: &Value) {
    let Value::Object(fields) = whole else { return };
    for name in [
        "points_count",
        "indexed_vectors_count",
        "vectors_count",
        "segments_count",
    ] {
        if let (Some(sum), Some(more)) = (
            fields.get(name).and_then(Value::as_u64),
            one.get(name).and_then(Value::as_u64),
        ) {
            fields.insert(name.to_owned(), json!(sum + more));
        }
    }
    let rank = |status: &Value| {
        let known = ["green", "grey", "yellow", "red"];
        known.iter().position(|name| status == name)
    };
    if rank(&one["status"]) > fields.get("status").and_then(rank) {
        fields.insert("status".to_owned(), one["status"].clone());
    }
    if fields.get("optimizer_status") == Some(&json!("ok")) {
        fields.insert("optimizer_status".to_owned(), one["optimizer_status"].clone());
    }
    if let (Some(Value::Object(schema)), Some(more)) = (
        fields.get_mut("payload_schema"),
        one["payload_schema"].as_object(),
    ) {
        for (field, index) in schema {
            let points = |index: &Value| index["points"].as_u64().unwrap_or_default();
            let sum = points(index) + more.get(field).map_or(0, points);
            index["points"] = json!(sum);
        }
    }
    if let Some(length) = one["update_queue"]["length"].as_u64()
        && let Some(sum) = fields.get_mut("update_queue")
    {
        sum["length"] = json!(sum["length"].as_u64().unwrap_or_default() + length);
    }
}
