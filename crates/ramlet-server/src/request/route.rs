//! A route: what it needs, what it reads and who answers.

use std::pin::Pin;

use super::call::Call;
use crate::access::auth::Access;
use crate::answers::answer::Answer;
use crate::bodies::body_rule::BodyRule;
use crate::error::ApiResult;

pub(crate) type Handler = fn(Call) -> Pin<Box<dyn Future<Output = ApiResult<Answer>> + Send>>;

/// A route. The router is generated from this, and so is the test of identities against routes.
pub struct Route {
    pub method: &'static str,
    /// Pattern; `{name}` is one segment.
    pub path: &'static str,
    /// What it does, as the audit log tells it; none where that isn't told: what needs no key, and figures that are asked for all the time.
    pub name: Option<&'static str>,
    pub access: Access,
    pub(crate) body: BodyRule,
    pub(crate) handler: Handler,
}

/// A pattern with the names that the API gives to its parameters.
pub fn shown_path(path: &str) -> String {
    let mut shown = path.to_owned();
    for (ours, theirs) in [
        ("{collection}", "{collection_name}"),
        ("{field}", "{field_name}"),
        ("{vector}", "{vector_name}"),
        ("{snapshot}", "{snapshot_name}"),
        ("{peer}", "{peer_id}"),
    ] {
        shown = shown.replace(ours, theirs);
    }
    shown
}
