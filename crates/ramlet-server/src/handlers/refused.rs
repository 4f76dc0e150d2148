//! Parts of the API that aren't built: named, so that nobody searches for the fault at his own side.

use axum::http::StatusCode;

use crate::call::Call;
use crate::dispatch::Answer;
use crate::error::{ApiError, ApiResult};

fn refuse(feature: &str) -> ApiResult<Answer> {
    Err(ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        format!("Not implemented: this version of Ramlet has no {feature} (see docs/compatibility.md)"),
    ))
}

macro_rules! refused {
    ($($name:ident: $feature:literal),* $(,)?) => {
        $(
            #[doc = concat!("501: no ", $feature, ".")]
            pub async fn $name(_: Call) -> ApiResult<Answer> {
                refuse($feature)
            }
        )*
    };
}

refused! {
    snapshots: "snapshots",
    groups: "groups in search results",
    recommend: "recommend search",
    discover: "discover search",
}
