use super::*;
use ramlet::{Fusion, PayloadSelector, QueryKind, QueryVector, RecommendStrategy, Vector, VectorSelector};

fn asked(text: &str) -> ApiResult<ParsedQuery> {
    serde_json::from_str::<WireQueryRequest>(text)
        .map_err(ApiError::format)?
        .into_query()
        .map(ParsedQuery::from)
}
fn query(text: &str) -> QueryRequest {
    match asked(text) {
        Ok(ParsedQuery::Query(query)) => *query,
        other => panic!("{text}: {other:?}"),
    }
}
fn kind(text: &str) -> QueryKind {
    query(&format!("{{\"query\":{text}}}")).query.unwrap()
}
fn nearest(text: &str) -> SearchRequest {
    match asked(text) {
        Ok(ParsedQuery::Nearest(search)) => search,
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
        idf: None,
    };
    assert_eq!((search.params, search.limit, search.offset), (params, 3, 4));
    assert_eq!((search.using.as_str(), search.score_threshold), ("a", Some(0.5)));
    assert_eq!(search.with_vectors, VectorSelector::Names(vec!["a".into()]));
}

#[test]
fn params_have_bounds() {
    for (body, path) in [
        (r#"{"query":[1],"recall":1}"#, "[internal.recall:"),
        (r#"{"query":[1],"recall":0}"#, "[internal.recall:"),
        (
            r#"{"query":[1],"params":{"recall":1.5}}"#,
            "[internal.params.recall:",
        ),
        (
            r#"{"query":[1],"params":{"quantization":{"oversampling":0.99}}}"#,
            "[internal.params.quantization.oversampling: value 0.99 invalid, must be 1.0 or larger]",
        ),
        (
            r#"{"prefetch":[{},{"prefetch":{"limit":0}}]}"#,
            "[internal.prefetch[1].prefetch[0].limit: value 0 invalid, must be 1 or larger]",
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
fn no_query_and_order_by() {
    assert_eq!(query(r#"{"limit":5,"offset":2}"#).query, None);
    let ordered = query(r#"{"query":{"order_by":"a"},"limit":5,"offset":2}"#);
    assert!(matches!(ordered.query, Some(QueryKind::OrderBy(_))));
    assert_eq!((ordered.limit, ordered.offset), (5, 2));
}

#[test]
fn kinds_show_in_their_keys() {
    let id = |n| QueryVector::Id(PointId::Num(n));
    let recommend = kind(r#"{"recommend":{"positive":[1],"negative":[[1.5]],"strategy":"best_score"}}"#);
    let expected = QueryKind::Recommend {
        positive: vec![id(1)],
        negative: vec![QueryVector::Vector(vec![1.5].into())],
        strategy: RecommendStrategy::BestScore,
    };
    assert_eq!(recommend, expected);
    let pair = r#"{"positive":1,"negative":2}"#;
    for context in [pair.to_string(), format!("[{pair}]")] {
        let context = kind(&format!(
            "{{\"discover\":{{\"target\":3,\"context\":{context}}}}}"
        ));
        assert!(
            matches!(context, QueryKind::Discover { target, context } if target == id(3) && context.len() == 1)
        );
    }
    assert!(matches!(kind(&format!("{{\"context\":{pair}}}")), QueryKind::Context(all) if all.len() == 1));
    let rrf = |k, weights| QueryKind::Fusion(Fusion::Rrf { k, weights });
    assert_eq!(kind(r#"{"fusion":"rrf"}"#), rrf(None, None));
    assert_eq!(
        kind(r#"{"rrf":{"k":7,"weights":[1,0.5]}}"#),
        rrf(Some(7), Some(vec![1.0, 0.5]))
    );
    assert_eq!(kind(r#"{"fusion":"dbsf"}"#), QueryKind::Fusion(Fusion::Dbsf));
    assert_eq!(kind(r#"{"sample":"random"}"#), QueryKind::SampleRandom);
    assert_eq!(
        kind(r#"{"given":{"ids":[2,1],"scores":[0.5,-1]}}"#),
        QueryKind::Given(vec![(PointId::Num(2), 0.5), (PointId::Num(1), -1.0)])
    );
    let formula = kind(r#"{"defaults":{"a":[1, 2]},"formula":{"sum":["a"]}}"#);
    assert!(
        matches!(formula, QueryKind::Formula(f) if f.defaults == [("a".to_string(), b"[1, 2]".to_vec())])
    );
    let mmr = kind(r#"{"mmr":{"diversity":0.25},"nearest":[1]}"#);
    assert!(matches!(mmr, QueryKind::NearestWithMmr { mmr, .. } if mmr.diversity == Some(0.25)));
    let text = |json: &str| match kind(json) {
        QueryKind::Text(text) => (text.text, text.k, text.b),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        text(r#"{"text":"some words"}"#),
        ("some words".into(), None, None)
    );
    assert_eq!(text(r#"{"text":{"query":"a"}}"#), ("a".into(), None, None));
    assert_eq!(
        text(r#"{"text":{"query":"a","scoring":{"bm25":{"k":0.5,"b":null}}}}"#),
        ("a".into(), Some(0.5), None)
    );
    let feedback = kind(
        r#"{"relevance_feedback":{"target":1,"feedback":[{"example":2,"score":0.5}],"strategy":{"naive":{"a":1,"b":2,"c":3}}}}"#,
    );
    assert!(matches!(feedback, QueryKind::RelevanceFeedback { strategy, .. } if strategy.c == 3.0));
}

#[test]
fn vectors_of_every_kind() {
    let vector = |text: &str| match nearest(&format!("{{\"query\":{text}}}")).query {
        QueryVector::Vector(vector) => vector,
        id => panic!("{id:?}"),
    };
    for text in [
        r#"{"indices":[3,1],"values":[0.5,2]}"#,
        r#"{"nearest":{"values":[0.5,2],"indices":[3,1]}}"#,
    ] {
        assert!(matches!(vector(text), Vector::Sparse(s) if s.indices == [3, 1] && s.values == [0.5, 2.0]));
    }
    assert!(matches!(vector("[[1,2],[3,4]]"), Vector::Multi(m) if m.dim == 2 && m.values.len() == 4));
    for (text, part) in [
        (r#"{"indices":[1]}"#, "values"),
        ("[1,[2]]", "a list where a number"),
        (r#"{"text":"hello","model":"m"}"#, "InferenceService"),
        (r#"{"text":{"scoring":null}}"#, "an object with `query`"),
        (r#"{"text":"a","fusion":"rrf"}"#, "several kinds"),
        (r#"{"text":{"query":"a"},"model":"m"}"#, "several kinds"),
        (r#"{"fusion":"best"}"#, "best"),
        (r#"{"fusion":"rrf","sample":"random"}"#, "several kinds"),
        (r#"{"sample":"first"}"#, "first"),
        ("{}", "none of the known kinds"),
    ] {
        let e = asked(&format!("{{\"query\":{text}}}")).unwrap_err();
        assert!(
            e.status.as_u16() == 400 && e.message.contains(part),
            "{text}: {e:?}"
        );
    }
    for (text, path) in [
        (
            "[[1],[2,3]]",
            "query.data: all vectors must have the same dimension",
        ),
        ("[[]]", "query.data: all vectors must be non-empty"),
        (r#"{"indices":[1],"values":[]}"#, "query.values"),
        (r#"{"indices":[1,1],"values":[1,1]}"#, "query.indices"),
        (r#"{"rrf":{"k":0}}"#, "query.rrf.k"),
        (
            r#"{"nearest":[1],"mmr":{"diversity":1.5}}"#,
            "query.mmr.diversity",
        ),
        (
            r#"{"nearest":[1],"mmr":{"candidates_limit":99999}}"#,
            "query.mmr.candidates_limit",
        ),
    ] {
        let e = asked(&format!("{{\"query\":{text}}}")).unwrap_err();
        assert!(
            e.status.as_u16() == 422 && e.message.contains(path),
            "{text}: {e:?}"
        );
    }
}

#[test]
fn prefetches_alone_and_in_lists() {
    let leaf = r#"{"query":[1],"limit":3,"filter":{"must":[]},"using":"a","lookup_from":{"collection":"c","vector":"v"}}"#;
    for (prefetch, expected) in [(leaf.to_string(), 1), (format!("[{leaf},{leaf}]"), 2)] {
        let query = query(&format!(
            r#"{{"prefetch":{{"prefetch":{prefetch},"query":2}},"query":{{"fusion":"rrf"}}}}"#
        ));
        assert_eq!(query.prefetch[0].prefetch.len(), expected);
        assert_eq!(query.prefetch[0].limit, 10);
        let leaf = &query.prefetch[0].prefetch[0];
        assert_eq!(
            (leaf.limit, leaf.using.as_str(), leaf.filter.is_some()),
            (3, "a", true)
        );
        assert_eq!(leaf.lookup_from.as_ref().unwrap().vector.as_deref(), Some("v"));
    }
    assert!(asked(r#"{"query":[1],"prefetch":[],"lookup_from":null}"#).is_ok());
    let request: WireQueryRequest = serde_json::from_str(r#"{"query":[1],"shard_key":"a"}"#).unwrap();
    let word = ramlet::ShardKey::Word("a".into());
    assert_eq!(request.shards(), ShardSelection::Keys(vec![word]));
    let none = asked(r#"{"query":{"fusion":"rrf"},"prefetch":{"query":[1],"limit":0}}"#).unwrap_err();
    assert_eq!(none.status.as_u16(), 422);
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
        Ok(ParsedQuery::Query(_))
    ));
}

#[test]
fn legacy_search_takes_plain_and_named_vectors() {
    let parse =
        |text: &str| serde_json::from_str::<WireSearchRequest>(text).map(|wire| wire.into_query().unwrap());
    let plain = parse(r#"{"vector":[1,2],"limit":3}"#).unwrap();
    assert_eq!((plain.using.as_str(), plain.limit), ("", 3));
    let named = parse(r#"{"vector":{"name":"a","vector":[1]},"limit":3}"#).unwrap();
    let vector = QueryKind::Nearest(QueryVector::Vector(vec![1.0].into()));
    assert_eq!((named.using.as_str(), named.query), ("a", Some(vector)));
    let sparse = parse(r#"{"vector":{"name":"a","vector":{"indices":[7],"values":[1]}},"limit":3}"#).unwrap();
    assert!(matches!(
        sparse.query,
        Some(QueryKind::Nearest(QueryVector::Vector(Vector::Sparse(_))))
    ));
    let e = parse(r#"{"vector":[1]}"#).unwrap_err();
    assert!(e.to_string().contains("limit"), "{e}");
}

#[test]
fn older_routes_are_queries() {
    let recommend: WireRecommendRequest =
        serde_json::from_str(r#"{"positive":[1],"using":"a","limit":2,"score_threshold":0.5}"#).unwrap();
    let recommend = recommend.into_query().unwrap();
    assert_eq!((recommend.using.as_str(), recommend.limit), ("a", 2));
    assert!(matches!(recommend.query, Some(QueryKind::Recommend { .. })));
    let discover: WireDiscoverRequest =
        serde_json::from_str(r#"{"context":[{"positive":1,"negative":2}],"limit":2}"#).unwrap();
    assert!(matches!(
        discover.into_query().unwrap().query,
        Some(QueryKind::Context(_))
    ));
    let groups: WireSearchGroups = serde_json::from_str(
        r#"{"vector":[1],"group_by":"g","group_size":4,"limit":2,"with_lookup":{"collection":"c","with_payload":["a"]}}"#,
    )
    .unwrap();
    let groups = groups.into_groups().unwrap();
    assert_eq!((groups.group_by.as_str(), groups.group_size), ("g", 4));
    let lookup = groups.with_lookup.unwrap();
    assert_eq!(lookup.with_payload, PayloadSelector::Include(vec!["a".into()]));
    let groups: WireQueryGroups = serde_json::from_str(r#"{"query":[1],"group_by":"g"}"#).unwrap();
    assert_eq!(groups.into_groups().unwrap().group_size, 3);
    let none: WireQueryGroups =
        serde_json::from_str(r#"{"query":[1],"group_by":"g","group_size":0}"#).unwrap();
    assert_eq!(none.into_groups().unwrap_err().status.as_u16(), 422);
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
