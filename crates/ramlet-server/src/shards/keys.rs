//! Shard keys of a divided store: every shard has all of them, and in each the points of its ids.
//!
//! So an id is in one shard, under however many keys. Each shard gives an id once, and lists of several shards never have the same. Where lists of one shard meet
//! here (prefetches), copies of an id couldn't be told apart: such a query is about one key.

use axum::http::StatusCode;
use bytes::Bytes;
use ramlet::{Collection, ShardKey, ShardSelection};
use serde::Deserialize;
use serde_json::Value;

use super::ask::Divided;
use super::refused;
use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};

/// Refuses what is done of several lists here, where an id may be several points.
pub fn one_key(
    collection: &Collection,
    selection: &ShardSelection,
    what: impl std::fmt::Display,
) -> ApiResult<()> {
    let Some(all) = collection.shard_infos() else {
        return Ok(());
    };
    let is_one = match selection {
        ShardSelection::All => all.len() < 2,
        ShardSelection::Keys(keys) => keys.iter().all(|key| *key == keys[0]),
        ShardSelection::WithFallback { .. } => true,
    };
    match is_one {
        true => Ok(()),
        false => Err(refused(format_args!(
            "{what} over several shard keys (say one by `shard_key`)"
        ))),
    }
}

#[derive(Deserialize)]
struct Place {
    shard_key: Option<ShardKey>,
    points_count: u64,
}

/// The points that a shard has under a key; `None`: it doesn't have the key.
async fn points_under(asked: &Divided, shard: u32, key: &ShardKey) -> ApiResult<Option<u64>> {
    #[derive(Deserialize)]
    struct Places {
        local_shards: Vec<Place>,
    }
    let path = ("GET", "/collections/{collection}/cluster");
    let ask = asked.other(path, asked.collection(), Bytes::new())?;
    let places: Places = asked.ask(shard, ask).await?.read()?;
    let mut all = places.local_shards.into_iter();
    let found = all.find(|place| place.shard_key.as_ref() == Some(key));
    Ok(found.map(|place| place.points_count))
}

/// At all shards, at shard 0 last: a key exists where it has it.
pub async fn create(asked: &Divided, body: Bytes) -> ApiResult<Answer> {
    #[derive(Deserialize)]
    struct New {
        shard_key: ShardKey,
    }
    // What isn't understood is refused there, and so is a key that is there.
    if let Ok(New { shard_key: key }) = serde_json::from_slice(&body)
        && points_under(asked, 0, &key).await?.is_none()
    {
        for shard in 1..asked.count() {
            create_at(asked, shard, &key, &body).await?;
        }
    }
    let done = asked.ask(0, asked.same(body)).await?;
    asked.answer(&done.read::<Value>()?)
}

async fn create_at(asked: &Divided, shard: u32, key: &ShardKey, body: &Bytes) -> ApiResult<()> {
    match points_under(asked, shard, key).await? {
        // Of who began before, or makes it now.
        Some(0) => Ok(()),
        // What has points is never removed unasked.
        Some(points) if points_under(asked, 0, key).await?.is_none() => Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            format!(
                "Bad request: shard {shard} still has {points} points of shard key {key}, which was dropped in part: drop it once more, then create it"
            ),
        )),
        Some(_) => Ok(()),
        None => {
            let made = asked.ask(shard, asked.same(body.clone())).await;
            let Err(e) = made else { return Ok(()) };
            // Somebody else was quicker.
            match e.status.is_client_error() && points_under(asked, shard, key).await?.is_some() {
                true => Ok(()),
                false => Err(e),
            }
        }
    }
}
