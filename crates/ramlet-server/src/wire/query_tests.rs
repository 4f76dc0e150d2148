use super::*;
use ramlet::{PayloadSelector, VectorSelector};

fn asked(text: &str) -> ApiResult<Asked> {
    serde_json::from_str::<WireQueryRequest>(text)
        .map_err(ApiError::format)?
        .into_asked()
}
fn nearest(text: &str) -> SearchRequest {
    match asked(text) {
        Ok(Asked::Nearest(search)) => search,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn the_query_takes_its_forms() {
    for text in [
        r#"{"query":[1,2]}"#,
        r#"{"query":{"nearest":[1,2]}}"#,
        r#"{"query":{"nearest":[1,2],"mmr":null}}"#,
    ] {
        assert_eq!(
            nearest(text).query,
            QueryVector::Vector(vec![1.0, 2.0].into()),
            "{text}"
        );
    }
    for text in [r#"{"query":7}"#, r#"{"query":{"nearest":7}}"#] {
        assert_eq!(nearest(text).query, QueryVector::Id(PointId::Num(7)), "{text}");
    }
    let uuid = r#"{"query":"00000000-0000-0000-0000-000000000001"}"#;
    assert_eq!(nearest(uuid).query, QueryVector::Id(PointId::Uuid(1)));
}

#[test]
fn defaults_are_the_api_s() {
    let search = nearest(r#"{"query":[1],"using":null,"filter":null,"limit":null,"params":{"exact":null}}"#);
    assert_eq!((search.limit, search.offset, search.using.as_str()), (10, 0, ""));
    assert_eq!(search.with_payload, PayloadSelector::None);
    assert_eq!(search.with_vectors, VectorSelector::None);
    assert_eq!(search.params, SearchParams::default());
}

#[test]
fn every_field_arrives() {
    let search = nearest(
        r#"{"query":[1],"using":"a","params":{"hnsw_ef":99,"exact":true,"indexed_only":true,"recall":0.9,
            "quantization":{"rescore":true,"oversampling":2.5},"explain":true},"recall":0.5,"score_threshold":0.5,"limit":3,"offset":4,"with_payload":true,
            "with_vector":["a"],"unknown":{"x":[1]}}"#,
    );
    let params = SearchParams {
        exact: true,
        hnsw_ef: Some(99),
        indexed_only: true,
        recall: Some(0.9),
        quantization: QuantizationParams {
            ignore: false,
            rescore: Some(true),
            oversampling: Some(2.5),
        },
        explain: true,
    };
    assert_eq!((search.params, search.limit, search.offset), (params, 3, 4));
    assert_eq!((search.using.as_str(), search.score_threshold), ("a", Some(0.5)));
    assert_eq!(search.with_vectors, VectorSelector::Names(vec!["a".into()]));
}

#[test]
fn params_have_bounds() {
    for (body, path) in [
        (r#"{"query":[1],"recall":1}"#, "[recall:"),
        (r#"{"query":[1],"recall":0}"#, "[recall:"),
        (r#"{"query":[1],"params":{"recall":1.5}}"#, "[params.recall:"),
        (
            r#"{"query":[1],"params":{"quantization":{"oversampling":0.99}}}"#,
            "[params.quantization.oversampling: value 0.99 invalid, must be 1.0 or larger]",
        ),
    ] {
        let e = asked(body).unwrap_err();
        assert_eq!(e.status.as_u16(), 422, "{body}");
        assert!(e.message.contains(path), "{body}: {}", e.message);
    }
    assert_eq!(nearest(r#"{"query":[1],"recall":0.7}"#).params.recall, Some(0.7));
    let edge = nearest(r#"{"query":[1],"params":{"quantization":{"oversampling":1}}}"#);
    assert_eq!(edge.params.quantization.oversampling, Some(1.0));
}

#[test]
fn no_query_and_order_by_scroll() {
    for (text, ordered) in [
        (r#"{"limit":5,"offset":2}"#, false),
        (r#"{"query":{"order_by":"a"},"limit":5,"offset":2}"#, true),
    ] {
        match asked(text) {
            Ok(Asked::Scroll { scroll, skip }) => {
                assert_eq!(
                    (scroll.limit, skip, scroll.order_by.is_some()),
                    (7, 2, ordered),
                    "{text}"
                );
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn unbuilt_kinds_are_refused_by_name() {
    for (query, part) in [
        (r#"{"recommend":{"positive":[1]}}"#, "recommend"),
        (r#"{"discover":{"target":1,"context":[]}}"#, "discover"),
        (r#"{"context":[{"positive":1,"negative":2}]}"#, "context"),
        (r#"{"fusion":"rrf"}"#, "fusion"),
        (r#"{"rrf":{"k":2}}"#, "rrf"),
        (r#"{"formula":{"sum":[]}}"#, "formula"),
        (r#"{"sample":"random"}"#, "sample"),
        (r#"{"nearest":[1],"mmr":{"diversity":0.5}}"#, "mmr"),
        (r#"{"text":"hello","model":"m"}"#, "nference"),
    ] {
        let e = asked(&format!("{{\"query\":{query}}}")).unwrap_err();
        assert_eq!(e.status.as_u16(), 400, "{query}");
        assert!(e.message.contains(part), "{query}: {}", e.message);
    }
    for (field, part) in [
        (r#""prefetch":{"query":[1]}"#, "prefetch"),
        (r#""lookup_from":{"collection":"a"}"#, "lookup_from"),
        (r#""shard_key":"a""#, "shard_key"),
    ] {
        let e = asked(&format!("{{\"query\":[1],{field}}}")).unwrap_err();
        assert!(
            e.status.as_u16() == 400 && e.message.contains(part),
            "{field}: {e:?}"
        );
    }
    assert!(asked(r#"{"query":[1],"prefetch":[],"lookup_from":null}"#).is_ok());
}

#[test]
fn limits_are_checked() {
    assert_eq!(
        asked(r#"{"query":[1],"limit":0}"#).unwrap_err().status.as_u16(),
        422
    );
    assert_eq!(
        asked(r#"{"query":[1],"limit":-1}"#).unwrap_err().status.as_u16(),
        400
    );
    assert!(matches!(
        asked(r#"{"limit":18446744073709551615,"offset":18446744073709551615}"#),
        Ok(Asked::Scroll { .. })
    ));
}

#[test]
fn legacy_search_takes_plain_and_named_vectors() {
    let parse =
        |text: &str| serde_json::from_str::<WireSearchRequest>(text).map(WireSearchRequest::into_search);
    let plain = parse(r#"{"vector":[1,2],"limit":3}"#).unwrap().unwrap();
    assert_eq!((plain.using.as_str(), plain.limit), ("", 3));
    let named = parse(r#"{"vector":{"name":"a","vector":[1]},"limit":3}"#)
        .unwrap()
        .unwrap();
    assert_eq!(
        (named.using.as_str(), named.query),
        ("a", QueryVector::Vector(vec![1.0].into()))
    );
    let sparse = parse(r#"{"vector":{"name":"a","vector":{"indices":[7],"values":[2]}},"limit":3}"#);
    let (indices, values) = (vec![7], vec![2.0]);
    assert_eq!(
        sparse.unwrap().unwrap().query,
        QueryVector::Vector(ramlet::SparseVector { indices, values }.into())
    );
    assert!(
        parse(r#"{"vector":[1]}"#)
            .unwrap_err()
            .to_string()
            .contains("limit")
    );
}

#[test]
fn scrolls_default_to_payload() {
    let parse = |text: &str| serde_json::from_str::<WireScroll>(text).unwrap().into_scroll();
    let scroll = parse("{}").unwrap();
    assert_eq!((scroll.limit, scroll.with_payload), (10, PayloadSelector::All));
    assert_eq!(
        parse(r#"{"offset":1,"order_by":"a"}"#)
            .unwrap_err()
            .status
            .as_u16(),
        400
    );
}
