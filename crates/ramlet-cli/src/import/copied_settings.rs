//! What a copied collection is made with: the settings of the other one, as far as they can be asked for.

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};

/// What a collection is created with, out of what another one says of itself: all but how it was spread over machines.
pub fn settings(config: &Value) -> Value {
    let params = &config["params"];
    let mut out = Map::new();
    for name in [
        "vectors",
        "sparse_vectors",
        "on_disk_payload",
        "payload",
        "id_tracker",
    ] {
        out.insert(name.into(), without_nulls(&params[name]));
    }
    for (name, key) in [
        ("hnsw_config", "hnsw_config"),
        ("optimizers_config", "optimizer_config"),
        ("wal_config", "wal_config"),
        ("quantization_config", "quantization_config"),
        ("metadata", "metadata"),
    ] {
        out.insert(name.into(), without_nulls(&config[key]));
    }
    out.retain(|_, value| !value.is_null());
    Value::Object(out)
}

/// Settings of Ramlet's own, which it tells by vector as they came out: for the collection where all vectors agree, so that they
/// can be changed for all at once as before. Other servers have none, and a default needn't be said.
pub fn add_own(settings: &mut Value, own: &Value) {
    let Some(own) = own.as_object() else { return };
    for key in ["index", "recall"] {
        let value = |of: &Value| short(&of[key]);
        let mut all = own.values().map(value);
        let first = all.next().flatten();
        if all.all(|other| other == first) {
            put(settings, key, first);
            continue;
        }
        for (name, of) in own {
            put(&mut settings["vectors"][name], key, value(of));
        }
    }
}

fn put(place: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        place[key] = value;
    }
}

/// `None` for a default; of 32 bits, as recalls are kept, the digits that were meant.
fn short(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(word) if word == "auto" => None,
        Value::Number(number) => {
            let digits = (number.as_f64()? as f32).to_string();
            Some(json!(digits.parse::<f64>().ok()?))
        }
        other => Some(other.clone()),
    }
}

/// What isn't set is left out: a server may refuse the null of a setting that it doesn't know.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// (name, size, distance) of each vector, and the sparse ones.
fn shape(config: &Value) -> Vec<String> {
    let params = &config["params"];
    let dense = |name: &str, v: &Value| format!("'{name}' of {} {}", v["size"], v["distance"]);
    let vectors = &params["vectors"];
    let mut all: Vec<String> = match vectors.get("size") {
        Some(_) => vec![dense("", vectors)],
        None => {
            let named = vectors.as_object().into_iter().flatten();
            named.map(|(name, v)| dense(name, v)).collect()
        }
    };
    let sparse = params["sparse_vectors"].as_object().into_iter().flatten();
    all.extend(sparse.map(|(name, _)| format!("'{name}' sparse")));
    all.sort();
    all
}

pub fn check_same(name: &str, theirs: &Value, ours: &Value) -> Result<()> {
    let (theirs, ours) = (shape(theirs).join(", "), shape(ours).join(", "));
    match theirs == ours {
        true => Ok(()),
        false => bail!("'{name}' exists with the vectors {ours}; the other server's has {theirs}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_another() {
        let config = json!({
            "params": {
                "vectors": {"a": {"size": 3, "distance": "Dot", "hnsw_config": null, "on_disk": true}},
                "shard_number": 4, "replication_factor": 2, "on_disk_payload": true,
                "sparse_vectors": {"s": {"modifier": "idf", "index": null}}
            },
            "hnsw_config": {"m": 16, "payload_m": null},
            "optimizer_config": {"indexing_threshold": 5, "max_segment_size": null},
            "wal_config": {"wal_capacity_mb": 32},
            "quantization_config": null
        });
        let expected = json!({
            "vectors": {"a": {"size": 3, "distance": "Dot", "on_disk": true}},
            "sparse_vectors": {"s": {"modifier": "idf"}},
            "on_disk_payload": true,
            "hnsw_config": {"m": 16},
            "optimizers_config": {"indexing_threshold": 5},
            "wal_config": {"wal_capacity_mb": 32}
        });
        assert_eq!(settings(&config), expected);
        assert_eq!(shape(&config), ["'a' of 3 \"Dot\"", "'s' sparse"]);
        assert!(check_same("c", &config, &config).is_ok());
        let other = json!({"params": {"vectors": {"size": 3, "distance": "Dot"}}});
        assert!(check_same("c", &config, &other).is_err());
    }

    #[test]
    fn own_settings_of_another() {
        let check = |vectors: Value, own: Value, expected: Value| {
            let mut settings = json!({ "vectors": vectors });
            add_own(&mut settings, &own);
            assert_eq!(settings, expected, "{own}");
        };
        let (one, two) = (json!({"size": 2}), json!({"a": {"size": 2}, "b": {"size": 3}}));
        check(one.clone(), Value::Null, json!({ "vectors": one }));
        check(
            one.clone(),
            json!({"": {"index": "auto", "recall": null}}),
            json!({ "vectors": one }),
        );
        check(
            one.clone(),
            json!({"": {"index": "hnsw", "recall": f64::from(0.9f32)}}),
            json!({ "vectors": one, "index": "hnsw", "recall": 0.9 }),
        );
        check(
            two,
            json!({"a": {"index": "ivf", "recall": f64::from(0.97f32)}, "b": {"index": "ivf", "recall": null}}),
            json!({"vectors": {"a": {"size": 2, "recall": 0.97}, "b": {"size": 3}}, "index": "ivf"}),
        );
    }
}
