//! `/logger`: what the process logs, as the API's logger settings.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::limits::LOG_LEVEL_BYTES;
use crate::request::call::Call;

/// `GET /logger`.
pub async fn get(call: Call) -> ApiResult<Answer> {
    let level = call.app.log_level.as_ref().map(|log| (log.get)());
    call.answer(&json!({
        "log_level": level, "format": "text", "span_events": null, "color": null,
        "on_disk": { "enabled": false },
    }))
}

/// What may be set: the rest of the API's settings are of logs that aren't kept here.
#[derive(Deserialize)]
struct WireLogger {
    log_level: Option<String>,
    format: Option<WireFormat>,
    span_events: Option<Vec<Value>>,
    color: Option<Value>,
    on_disk: Option<WireOnDisk>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum WireFormat {
    Text,
    Json,
}

#[derive(Deserialize)]
struct WireOnDisk {
    enabled: Option<bool>,
}

impl WireLogger {
    fn check(&self) -> ApiResult<()> {
        let refused = [
            ("`format: json`", self.format == Some(WireFormat::Json)),
            (
                "`span_events`",
                self.span_events.as_ref().is_some_and(|events| !events.is_empty()),
            ),
            ("`color`", self.color.is_some()),
            (
                "`on_disk`",
                self.on_disk.as_ref().is_some_and(|of| of.enabled == Some(true)),
            ),
        ];
        match refused.iter().find(|(_, given)| *given) {
            Some((what, _)) => Err(ApiError::unsupported(what)),
            None => Ok(()),
        }
    }
}

/// `POST /logger`: what isn't given stays.
pub async fn set(mut call: Call) -> ApiResult<Answer> {
    let wire: WireLogger = call.parse().await?;
    wire.check()?;
    if let Some(level) = wire.log_level {
        if level.len() > LOG_LEVEL_BYTES {
            let what = format!("has {} bytes, at most {LOG_LEVEL_BYTES} are taken", level.len());
            return Err(ApiError::validation("log_level", what));
        }
        let log = call.app.log_level.as_ref();
        let log = log.ok_or_else(|| ApiError::unsupported("`log_level`"))?;
        (log.set)(&level).map_err(|e| ApiError::wrong_input(format!("log_level: {e}")))?;
    }
    call.answer(&true)
}
