//! `/quotas`: the memory budget and the free disk, as the API's resource quotas.

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::call::Call;
use crate::dispatch::Answer;
use crate::error::{ApiError, ApiResult};
use crate::strict::resident_percent;

/// The budget is all the memory there is, and it is always enforced.
fn config() -> Value {
    json!({ "enabled": true, "max_resident_memory_percent": 100 })
}

/// `GET /quotas`. The disk's capacity isn't known, only what is free of it.
pub async fn get(call: Call) -> ApiResult<Answer> {
    let budget = call.app.engine.budget();
    call.answer(&json!({
        "config": config(),
        "usage": {
            "resident_memory_percent": resident_percent(&call.app).min(100),
            "disk_usage_percent": null,
        },
        "ramlet": {
            "memory_bytes": budget.memory_bytes,
            "disk_free_bytes": call.app.engine.storage().free_bytes().ok(),
        },
    }))
}

/// The API's limits; null is no limit.
#[derive(Deserialize)]
struct WireQuotas {
    #[serde(rename = "enabled")]
    _enabled: Option<bool>,
    max_resident_memory_percent: Option<u64>,
    max_disk_usage_percent: Option<u64>,
    release_margin_percent: Option<u64>,
}

/// `PUT /quotas`: the budget is set at the start.
pub async fn set(mut call: Call) -> ApiResult<Answer> {
    let wire: WireQuotas = call.parse().await?;
    for (field, value, least) in [
        ("max_resident_memory_percent", wire.max_resident_memory_percent, 1),
        ("max_disk_usage_percent", wire.max_disk_usage_percent, 1),
        ("release_margin_percent", wire.release_margin_percent, 0),
    ] {
        if let Some(n) = value.filter(|n| !(least..=100).contains(n)) {
            let what = format!("value {n} invalid, must be from {least} to 100");
            return Err(ApiError::validation(field, what));
        }
    }
    Err(ApiError::new(
        StatusCode::BAD_REQUEST,
        "Bad request: quotas can't be changed while the server runs: memory is what --memory gave it, and updates are \
         refused when 64 MiB of disk are left",
    ))
}

/// What telemetry tells: nothing is ever over the budget, so nothing is refused for being over it.
pub fn quota_telemetry(app: &App) -> Value {
    let full = !app.engine.writable();
    json!({ "config": config(), "exceeded": { "resident_memory": false, "disk_usage": full } })
}
