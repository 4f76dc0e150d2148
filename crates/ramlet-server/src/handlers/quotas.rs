//! `/quotas`: shares of the memory budget and of the disk, as the API's resource quotas.

use ramlet::{Engine, QuotaConfig};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answers::answer::Answer;
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::guards::quotas::disk_percent;
use crate::guards::strict_guard::resident_percent;
use crate::request::call::Call;

/// `GET /quotas`.
pub async fn get(call: Call) -> ApiResult<Answer> {
    let engine = &call.app.engine;
    call.answer(&json!({
        "config": call.app.quotas.config(),
        "usage": {
            "resident_memory_percent": resident_percent(engine).min(100),
            "disk_usage_percent": disk_percent(engine.storage().as_ref()),
        },
        "ramlet": {
            "memory_bytes": engine.budget().memory_bytes,
            "disk_free_bytes": engine.storage().free_bytes().ok(),
        },
    }))
}

/// The API's limits; null is no limit.
#[derive(Deserialize)]
struct WireQuotas {
    enabled: Option<bool>,
    max_resident_memory_percent: Option<u64>,
    max_disk_usage_percent: Option<u64>,
    release_margin_percent: Option<u64>,
}

impl WireQuotas {
    fn into_config(self) -> ApiResult<QuotaConfig> {
        Ok(QuotaConfig {
            enabled: self.enabled.unwrap_or(false),
            max_resident_memory_percent: percent(
                "max_resident_memory_percent",
                1,
                self.max_resident_memory_percent,
            )?,
            max_disk_usage_percent: percent("max_disk_usage_percent", 1, self.max_disk_usage_percent)?,
            release_margin_percent: percent("release_margin_percent", 0, self.release_margin_percent)?,
        })
    }
}

fn percent(field: &str, least: u8, value: Option<u64>) -> ApiResult<Option<u8>> {
    let Some(n) = value else { return Ok(None) };
    match u8::try_from(n) {
        Ok(percent) if (least..=100).contains(&percent) => Ok(Some(percent)),
        _ => {
            let what = format!("value {n} invalid, must be from {least} to 100");
            Err(ApiError::validation(field, what))
        }
    }
}

/// `PUT /quotas`: replaces all of it. The budget is set at the start; these are shares of it.
pub async fn set(mut call: Call) -> ApiResult<Answer> {
    let config = call.parse::<WireQuotas>().await?.into_config()?;
    let app = call.app.clone();
    let store = move |engine: &Engine| app.quotas.set(config, engine);
    call.block(&call.app.managing, store).await?;
    call.answer(&true)
}

/// What telemetry tells.
pub fn quota_telemetry(app: &App) -> Value {
    let (memory, disk) = app.quotas.exceeded(&app.engine);
    json!({ "config": app.quotas.config(), "exceeded": { "resident_memory": memory, "disk_usage": disk } })
}
