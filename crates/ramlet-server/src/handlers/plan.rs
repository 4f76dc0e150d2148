//! `POST /plan`: what a collection needs and how fast it will be, before it exists or for one that does.

use axum::http::StatusCode;
use ramlet::CollectionInfo;
use ramlet::plan::{Machine, Memory, PlanError, Spec, Wish, Wishes, plan};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::request::call::Call;

/// What isn't the specification itself. Everything else in the body is a field of [`Spec`], and wins over what the
/// collection says.
#[derive(Deserialize)]
struct WirePlan {
    /// A collection that the specification is taken from.
    collection: Option<String>,
    /// Its vector, when it has several.
    using: Option<String>,
    /// Default: this server's.
    memory_bytes: Option<u64>,
    search_threads: Option<usize>,
    in_process: Option<bool>,
    #[serde(flatten)]
    spec: Map<String, Value>,
}

/// Search threads of a plan at most.
const THREADS_MAX: usize = 256;

pub async fn make(mut call: Call) -> ApiResult<Answer> {
    let wire: WirePlan = call.parse().await?;
    let spec = spec_of(&call, &wire).await?;
    let own = call.app.engine.budget();
    let mut memory = match wire.in_process.unwrap_or(false) {
        true => Memory::in_process(own.memory_bytes),
        false => Memory::of_server(own.memory_bytes),
    };
    memory.search_threads = wire.search_threads.map(check_threads).transpose()?;
    match wire.memory_bytes {
        Some(bytes) => memory.bytes = bytes,
        None if memory.search_threads.is_none() => memory.search_threads = Some(own.search_threads),
        None => {}
    }
    let measured = call.app.machine.get();
    let machine = measured.cloned().unwrap_or_else(Machine::default);
    let plan = plan(&spec, &machine, &memory).map_err(refused)?;
    call.answer(&json!({ "plan": plan, "machine": machine, "machine_measured": measured.is_some() }))
}

fn check_threads(threads: usize) -> ApiResult<usize> {
    match threads {
        1..=THREADS_MAX => Ok(threads),
        _ => Err(ApiError::validation(
            "search_threads",
            format!("value {threads} invalid, must be from 1 to {THREADS_MAX}"),
        )),
    }
}

fn refused(why: PlanError) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, why.to_string())
}

async fn spec_of(call: &Call, wire: &WirePlan) -> ApiResult<Spec> {
    let mut fields = match &wire.collection {
        Some(name) => {
            let info = call.app.collection(name).await?.info();
            let spec = of_collection(&info, wire.using.as_deref().unwrap_or(""))?;
            match serde_json::to_value(spec).map_err(ApiError::internal)? {
                Value::Object(fields) => fields,
                _ => Map::new(),
            }
        }
        None => Map::new(),
    };
    // As everywhere in the API, null is what isn't there.
    let given = wire.spec.iter().filter(|(_, value)| !value.is_null());
    fields.extend(given.map(|(name, value)| (name.clone(), value.clone())));
    serde_json::from_value(Value::Object(fields)).map_err(ApiError::format)
}

/// What a collection is and asks for.
pub fn of_collection(info: &CollectionInfo, using: &str) -> ApiResult<Spec> {
    let config = &info.config;
    let chosen = match config.vectors.len() {
        1 if using.is_empty() => config.vectors.values().next(),
        _ => config.vectors.get(using),
    };
    let vector = chosen.ok_or_else(|| {
        let names: Vec<&str> = config.vectors.keys().map(String::as_str).collect();
        let message = format!("`using` must name one of the vectors {}", names.join(", "));
        ApiError::new(StatusCode::BAD_REQUEST, message)
    })?;
    let payload = info.memory.iter().filter(|part| part.component == "payload");
    let payload_bytes: u64 = payload.map(|part| part.disk_bytes).sum();
    // Settings of the vector win over those of the collection.
    let setting = |name: &str| vector.other.get(name).or(config.other.get(name)).cloned();
    let plain = Spec::new(info.points_count, vector.size as u64);
    Ok(Spec {
        recall: setting("recall")
            .and_then(|recall| recall.as_f64())
            .unwrap_or(plain.recall),
        index: setting("index")
            .and_then(|index| serde_json::from_value(index).ok())
            .unwrap_or_default(),
        element: vector.datatype.unwrap_or_default(),
        metric: vector.distance,
        payload_bytes: payload_bytes / info.points_count.max(1),
        wishes: Wishes {
            vectors: wish(setting("memory").as_ref()).or(vector.on_disk.map(on_disk)),
            codes: always_ram(setting("quantization_config").as_ref()),
            payload: config.on_disk_payload.map(on_disk),
        },
        ..plain
    })
}

/// `on_disk: false` is the default of most clients, so it wishes for nothing; `true` is meant.
fn on_disk(on_disk: bool) -> Wish {
    if on_disk { Wish::Cold } else { Wish::Cached }
}

/// `{"scalar": {"always_ram": true}}`, whatever the kind.
fn always_ram(quantization: Option<&Value>) -> Option<Wish> {
    let settings = quantization?.as_object()?.values().next()?;
    wish(settings.get("memory"))
        .or((settings.get("always_ram")? == &Value::Bool(true)).then_some(Wish::Pinned))
}

fn wish(word: Option<&Value>) -> Option<Wish> {
    serde_json::from_value(word?.clone()).ok()
}
