use super::super::name_rules::check_name;
use super::*;
use ramlet::Datatype;

fn create(text: &str) -> ApiResult<CollectionConfig> {
    serde_json::from_str::<WireCreate>(text)
        .map_err(ApiError::format)?
        .into_config()
}
fn update(config: &mut CollectionConfig, text: &str) -> ApiResult<()> {
    serde_json::from_str::<WireUpdate>(text)
        .map_err(ApiError::format)?
        .apply(config)
}

#[test]
fn one_vector_or_many() {
    let single = create(r#"{"vectors":{"size":4,"distance":"Dot"}}"#).unwrap();
    assert_eq!(single.vectors[""].size, 4);
    let named = create(
        r#"{"vectors":{"size":{"size":4,"distance":"Cosine","datatype":"float16","on_disk":true},
                       "b":{"size":8,"distance":"Euclid","hnsw_config":{"m":8}}}}"#,
    )
    .unwrap();
    assert_eq!(named.vectors["size"].datatype, Some(Datatype::Float16));
    assert_eq!(
        named.vectors["b"].other["hnsw_config"],
        serde_json::json!({"m": 8})
    );
    assert!(create("{}").unwrap().vectors.is_empty());
}

#[test]
fn settings_are_kept_as_they_came() {
    let config = create(
        r#"{"vectors":{"size":4,"distance":"Dot"},"shard_number":2,"on_disk_payload":false,
            "hnsw_config":{"m":0,"memory":"cold","unknown":1},"optimizers_config":{"indexing_threshold":0,
            "max_optimization_threads":"auto"},"quantization_config":{"scalar":{"type":"int8","quantile":0.99}},
            "metadata":{"a":[1]},"strict_mode_config":{"enabled":true},"init_from":null,"sparse_vectors":{}}"#,
    )
    .unwrap();
    assert_eq!(
        (config.on_disk_payload, config.indexing_threshold),
        (Some(false), Some(0))
    );
    assert_eq!(
        config.other["hnsw_config"],
        serde_json::json!({"m": 0, "memory": "cold"})
    );
    assert_eq!(
        config.other["optimizers_config"]["max_optimization_threads"],
        "auto"
    );
    assert_eq!(config.other["quantization_config"]["scalar"]["quantile"], 0.99);
    assert_eq!(config.other["metadata"], serde_json::json!({"a": [1]}));
    assert_eq!(config.other["shard_number"], 2);
}

#[test]
fn bad_settings_say_where() {
    let vectors = |inner: &str| format!(r#"{{"vectors":{{"size":4,"distance":"Dot"}},{inner}}}"#);
    for (body, code, part) in [
        (
            r#"{"vectors":{"size":0,"distance":"Dot"}}"#.to_owned(),
            422,
            "vectors.size",
        ),
        (
            r#"{"vectors":{"a":{"size":65537,"distance":"Dot"}}}"#.into(),
            422,
            "vectors.a.size",
        ),
        (
            r#"{"vectors":{"size":4,"distance":"Hamming"}}"#.into(),
            400,
            "Hamming",
        ),
        (r#"{"vectors":{"size":4}}"#.into(), 400, "distance"),
        (
            r#"{"vectors":{"size":"4","distance":"Dot"}}"#.into(),
            400,
            "vectors",
        ),
        (r#"{"vectors":[]}"#.into(), 400, "vectors"),
        (
            r#"{"vectors":{"size":4,"distance":"Dot","datatype":"turbo5"}}"#.into(),
            400,
            "turbo5",
        ),
        (
            r#"{"vectors":{"size":4,"distance":"Dot","multivector_config":{"comparator":"min_sim"}}}"#.into(),
            400,
            "min_sim",
        ),
        (vectors(r#""sparse_vectors":{"a/b":{}}"#), 422, "vector_name"),
        (vectors(r#""init_from":{"collection":"a"}"#), 400, "init_from"),
        (vectors(r#""sharding_method":"some""#), 400, "some"),
        (vectors(r#""shard_number":0"#), 422, "shard_number"),
        (vectors(r#""hnsw_config":{"m":"many"}"#), 400, "many"),
        (
            vectors(r#""quantization_config":{"wavelet":{}}"#),
            400,
            "quantization_config",
        ),
        (
            vectors(r#""quantization_config":{"scalar":{"type":"int8","quantile":0.1}}"#),
            422,
            "quantile",
        ),
        (
            vectors(r#""optimizers_config":{"deleted_threshold":2}"#),
            422,
            "deleted_threshold",
        ),
    ] {
        let e = create(&body).unwrap_err();
        assert_eq!(e.status.as_u16(), code, "{body}: {}", e.message);
        assert!(e.message.contains(part), "{body}: {}", e.message);
    }
}

#[test]
fn changes_are_laid_over() {
    let mut config = create(
        r#"{"vectors":{"size":4,"distance":"Dot"},"hnsw_config":{"m":8,"ef_construct":50},
            "quantization_config":{"binary":{}},"metadata":{"a":1,"b":2}}"#,
    )
    .unwrap();
    update(
        &mut config,
        r#"{"vectors":{"":{"on_disk":true,"hnsw_config":{"m":32}}},"hnsw_config":{"m":9},
            "params":{"replication_factor":2,"on_disk_payload":true},"quantization_config":"Disabled",
            "optimizers_config":{"indexing_threshold":500},"metadata":{"a":null,"c":3}}"#,
    )
    .unwrap();
    assert_eq!(config.vectors[""].on_disk, Some(true));
    assert_eq!(config.vectors[""].other["hnsw_config"]["m"], 32);
    assert_eq!(
        config.other["hnsw_config"],
        serde_json::json!({"m": 9, "ef_construct": 50})
    );
    assert_eq!(
        (config.on_disk_payload, config.indexing_threshold),
        (Some(true), Some(500))
    );
    assert_eq!(config.other["replication_factor"], 2);
    assert_eq!(config.other["metadata"], serde_json::json!({"b": 2, "c": 3}));
    assert!(!config.other.contains_key("quantization_config"));
    let e = update(&mut config, r#"{"vectors":{"x":{}}}"#).unwrap_err();
    assert_eq!(e.message, "Wrong input: Not existing vector name error: x");
}

#[test]
fn names() {
    for good in ["a", "A b-c_d.e", "имя", &"x".repeat(255), "...", "%2e%2e"] {
        assert!(check_name("collection_name", good).is_ok(), "{good}");
    }
    for bad in [
        "",
        ".",
        "..",
        "aliases",
        "a/b",
        "..\\b",
        "a\0",
        "a\n",
        "a:b",
        "a?b",
        "a*",
        "\u{1f}",
        "\u{7f}",
        &"x".repeat(256),
    ] {
        let e = check_name("collection_name", bad).unwrap_err();
        assert_eq!(e.status.as_u16(), 422, "{bad:?}");
        assert!(e.message.contains("collection_name"));
    }
}
