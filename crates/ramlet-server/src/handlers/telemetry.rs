//! `GET /telemetry`: the API's tree, as deep as `details_level` asks.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use ramlet::filter::format_datetime;
use ramlet::{Collection, CollectionInfo, SegmentReport, ShardInfo};
use ramlet_io::system::machine;
use serde_json::{Map, Value, json};

use super::quotas::quota_telemetry;
use super::service::API_VERSION;
use crate::answers::answer::Answer;
use crate::app::App;
use crate::error::ApiResult;
use crate::limits;
use crate::observability::stats::{Count, Rows};
use crate::request::call::Call;
use crate::request::route::shown_path;
use crate::wire::info::{config_json, optimizer_status, params_json, segment_uuid, status_name};

pub async fn telemetry(call: Call) -> ApiResult<Answer> {
    let level = call.request.query.number("details_level")?.unwrap_or(0);
    let anonymize = call.request.query.boolean("anonymize")?.unwrap_or(false);
    // Counts by collection tell of all of them.
    let by_collection =
        call.request.query.boolean("per_collection")?.unwrap_or(false) && !call.admitted.grant.is_limited();
    let _held = call.gather(by_collection, limits::TELEMETRY_BYTES).await?;
    let app = &call.app;
    let mut out = json!({
        "id": format!("{:016x}", app.started_at),
        "app": app_json(app, level),
        "collections": collections_json(&call, level, anonymize),
    });
    // The rest tells of the whole server: what others ask for, what it has left.
    if call.admitted.grant.is_limited() {
        return call.answer(&out);
    }
    out["cluster"] = cluster_json(level);
    out["requests"] = json!({
        "rest": requests_json(app, false, by_collection, anonymize),
        "grpc": requests_json(app, true, by_collection, anonymize),
    });
    out["quota"] = quota_telemetry(app);
    if level > 0 {
        out["memory"] = json!(app.allocator.map(|stats| memory_json(stats())));
        out["hardware"] = json!({ "collection_data": {} });
        let threads = app.engine.budget().search_threads;
        out["search_pool"] =
            json!({ "mode": "adaptive", "high_cpu_threads": threads, "high_io_threads": threads });
    }
    call.answer(&out)
}

fn memory_json(stats: crate::AllocatorStats) -> Value {
    json!({
        "active_bytes": stats.active, "allocated_bytes": stats.allocated, "metadata_bytes": stats.metadata,
        "resident_bytes": stats.resident, "retained_bytes": stats.retained,
    })
}

/// A collection's name, or what stands for it when names are not to be told.
pub fn shown_name(name: &str, anonymize: bool) -> String {
    if !anonymize {
        return name.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn app_json(app: &App, level: u64) -> Value {
    let mut out = json!({
        "name": "qdrant", "version": API_VERSION, "startup": format_datetime(app.started_at),
    });
    if level > 0 {
        let machine = machine();
        out["features"] = json!({
            "debug": cfg!(debug_assertions), "service_debug_feature": false, "recovery_mode": false, "gpu": false,
            "rocksdb": false, "staging": false,
        });
        out["system"] = json!({
            "is_docker": false, "container_runtime": "none", "cores": machine.cores,
            "ram_size": machine.ram_bytes / 1024, "cpu_flags": "",
            "cpu_endian": if cfg!(target_endian = "little") { "little" } else { "big" },
        });
        out["jwt_rbac"] = json!(app.keys.takes_tokens());
        out["hide_jwt_dashboard"] = json!(false);
    }
    out
}

fn cluster_json(level: u64) -> Value {
    match level {
        0 => json!({ "enabled": false }),
        _ => json!({ "enabled": false, "resharding_enabled": false }),
    }
}

fn collections_json(call: &Call, level: u64, anonymize: bool) -> Value {
    let app = &call.app;
    let names = call.collection_names();
    let mut out = json!({ "number_of_collections": names.len() });
    if level > 0 {
        let loaded = app.engine.loaded_collections().into_iter();
        let may_see = |name: &str| call.admitted.grant.may_see(name);
        let all = loaded
            .filter(|(name, _)| may_see(name))
            .map(|(name, collection)| {
                let segments = if level > 3 {
                    collection.segment_reports()
                } else {
                    Vec::new()
                };
                let name = shown_name(&name, anonymize);
                let mut out = collection_json(
                    &name,
                    collection.id(),
                    &collection.info(),
                    &segments,
                    (level, anonymize),
                );
                if let Some(shards) = collection.shard_infos().filter(|_| level > 2) {
                    let shards = shards
                        .iter()
                        .filter_map(|shard| keyed_shard_json(&collection, shard, level));
                    out["shards"] = Value::Array(shards.collect());
                }
                out
            });
        out["collections"] = Value::Array(all.collect());
        out["snapshots"] = json!([]);
    }
    out
}

fn collection_json(
    name: &str,
    id: &str,
    info: &CollectionInfo,
    segments: &[SegmentReport],
    (level, anonymize): (u64, bool),
) -> Value {
    if level == 1 {
        let vectors: u64 = info.vectors_count.iter().map(|(_, n)| n).sum();
        return json!({
            "vectors": vectors, "optimizers_status": optimizer_status(info), "params": params_json(&info.config),
        });
    }
    let mut config = config_json(&info.config);
    if anonymize && let Value::Object(config) = &mut config {
        config.remove("metadata");
    }
    let mut out = json!({ "id": name, "init_time_ms": 0, "config": config });
    if level > 2 {
        out["shards"] = json!([{
            "id": 0, "key": null, "local": shard_json(id, info, segments, level), "remote": [],
            "replicate_states": { "0": "Active" }, "partial_snapshot": null,
        }]);
        out["transfers"] = json!([]);
        out["resharding"] = json!([]);
    }
    out
}

/// A shard of a collection with shard keys; nothing of one that was dropped meanwhile.
fn keyed_shard_json(collection: &Arc<Collection>, shard: &ShardInfo, level: u64) -> Option<Value> {
    let own = collection.within_shard(shard.number).ok()?;
    let segments = match level > 3 {
        true => own.segment_reports(),
        false => Vec::new(),
    };
    let id = format!("{}-{}", collection.id(), shard.number);
    Some(json!({
        "id": shard.number, "key": shard.key, "local": shard_json(&id, &own.info(), &segments, level), "remote": [],
        "replicate_states": { "0": "Active" }, "partial_snapshot": null,
    }))
}

fn shard_json(id: &str, info: &CollectionInfo, segments: &[SegmentReport], level: u64) -> Value {
    let by_name: Map<String, Value> = info
        .vectors_count
        .iter()
        .map(|(name, n)| (name.clone(), json!(n)))
        .collect();
    let disk = |component: &str| -> u64 {
        let of = info.memory.iter().filter(|m| m.component.starts_with(component));
        of.map(|m| m.disk_bytes + if m.kind == "buffer" { m.heap_bytes } else { 0 })
            .sum()
    };
    let mut out = json!({
        "variant_name": "local shard", "status": status_name(info.status),
        "total_optimized_points": info.indexed_vectors_count, "vectors_size_bytes": disk("vector"),
        "payloads_size_bytes": disk("payload"), "num_points": info.points_count,
        "num_vectors": info.vectors_count.iter().map(|(_, n)| n).sum::<u64>(), "num_vectors_by_name": by_name,
        "optimizations": { "status": optimizer_status(info), "optimizations": { "count": 0 } },
        "async_scorer": true, "update_queue": { "length": info.update_queue, "op_num": info.last_operation_id },
    });
    if level > 3 {
        let mut all: Vec<Value> = segments.iter().map(|s| segment_json(id, s)).collect();
        all.extend(buffer_json(id, info, segments));
        out["segments"] = all.into();
        out["indexed_only_excluded_vectors"] = json!({});
    }
    out
}

/// What isn't in a segment yet, as the one that takes changes.
fn buffer_json(id: &str, info: &CollectionInfo, segments: &[SegmentReport]) -> Option<Value> {
    let stored: u64 = segments.iter().map(|s| u64::from(s.rows - s.deleted)).sum();
    let points = info.points_count.saturating_sub(stored);
    (info.segments_count > segments.len() as u64).then(|| {
        json!({
            "info": {
                "uuid": segment_uuid(id, u64::MAX), "segment_type": "plain", "num_vectors": points,
                "num_points": points, "num_indexed_vectors": 0, "num_deleted_vectors": 0, "vectors_size_bytes": 0,
                "payloads_size_bytes": 0, "ram_usage_bytes": 0, "disk_usage_bytes": 0, "is_appendable": true,
                "index_schema": {}, "vector_data": {},
            },
            "config": { "payload_storage_type": { "type": "in_memory" } },
            "vector_index_searches": [],
            "payload_field_indices": [],
        })
    })
}

fn segment_json(id: &str, segment: &SegmentReport) -> Value {
    let vectors: u64 = segment.vectors.iter().map(|v| u64::from(v.rows)).sum();
    let indexed = segment.vectors.iter().filter(|v| v.index != "flat");
    let parts = || segment.vectors.iter().flat_map(|v| &v.report.parts);
    let data = |v: &ramlet::VectorReport| {
        let counts = json!({ "num_vectors": v.rows, "num_indexed_vectors": if v.index == "flat" { 0 } else { v.rows }, "num_deleted_vectors": 0 });
        (v.vector.clone(), counts)
    };
    json!({
        "info": {
            "uuid": segment_uuid(id, segment.segment), "segment_type": if vectors > 0 { "indexed" } else { "plain" },
            "num_vectors": vectors, "num_points": segment.rows - segment.deleted,
            "num_indexed_vectors": indexed.map(|v| u64::from(v.rows)).sum::<u64>(),
            "num_deleted_vectors": segment.deleted,
            "vectors_size_bytes": parts().map(|p| p.disk_bytes).sum::<u64>(), "payloads_size_bytes": 0,
            "ram_usage_bytes": parts().map(|p| p.heap_bytes + p.pinned_bytes).sum::<u64>(),
            "disk_usage_bytes": parts().map(|p| p.disk_bytes).sum::<u64>(),
            "is_appendable": false, "index_schema": {},
            "vector_data": segment.vectors.iter().map(data).collect::<Map<String, Value>>(),
        },
        "config": { "payload_storage_type": { "type": "mmap" } },
        "vector_index_searches": [],
        "payload_field_indices": [],
    })
}

/// `{endpoint: {status: durations}}`.
fn requests_json(app: &App, grpc: bool, by_collection: bool, anonymize: bool) -> Value {
    let mut out = json!({ "responses": responses_json(&app.stats.rows(), grpc) });
    if by_collection {
        let all = app.stats.rows_by_collection();
        let of = all
            .iter()
            .map(|(name, rows)| (shown_name(name, anonymize), responses_json(rows, grpc)));
        out["per_collection_responses"] = Value::Object(of.collect());
    }
    out
}

fn responses_json(rows: &Rows, grpc: bool) -> Value {
    let mut out = Map::new();
    for (endpoint, count) in rows
        .iter()
        .filter(|(endpoint, _)| endpoint.method.is_empty() == grpc)
    {
        let path = shown_path(endpoint.path);
        let name = if grpc {
            path
        } else {
            format!("{} {path}", endpoint.method)
        };
        let by_status = out.entry(name).or_insert_with(|| json!({}));
        by_status[endpoint.status.to_string()] = count_json(count);
    }
    Value::Object(out)
}

fn count_json(count: &Count) -> Value {
    let micros = |seconds: f64| seconds * 1e6;
    let last = count.last.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "count": count.requests,
        "avg_duration_micros": micros(count.total.as_secs_f64() / count.requests as f64),
        "min_duration_micros": micros(count.shortest.as_secs_f64()),
        "max_duration_micros": micros(count.longest.as_secs_f64()),
        "total_duration_micros": count.total.as_micros() as u64,
        "last_responded": format_datetime(last.as_micros() as i64),
    })
}
