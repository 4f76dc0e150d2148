//! Which codes are built and cached.

use std::collections::BTreeMap;

use ramlet_memory::{BudgetRequest, BudgetTable};

use super::*;
use crate::schema::{Schema, Slots};
use crate::types::{CollectionConfig, Distance, VectorParams};

fn field(dim: usize, quantization: &str) -> VectorField {
    let params = VectorParams {
        size: dim,
        distance: Distance::Cosine,
        datatype: None,
        on_disk: None,
        multivector_config: None,
        other: serde_json::from_str(&format!("{{\"quantization_config\":{quantization}}}"))
            .expect("an object"),
    };
    let config = CollectionConfig {
        vectors: BTreeMap::from([(String::new(), params)]),
        ..CollectionConfig::default()
    };
    let slots = Slots::for_config(&config);
    Schema::new(&config, &slots).expect("a schema").vectors.remove(0)
}

#[test]
fn residual_codes_stand_for_the_vectors_of_a_small_segment() {
    let with = |residual| Parts {
        scanned: Some("signs"),
        extended: Some("extended"),
        low: None,
        product: None,
        residual,
        rows: Some("vectors"),
    };
    let best = |parts: Parts<&'static str>| levels(parts)[0];
    for residual in [Some("residual"), None] {
        let alone = best(with(residual));
        assert_eq!((alone.rows, alone.residual), (Some("vectors"), None));
    }
    let rest = best(with(Some("residual")).of_small_segment(1_352));
    assert_eq!((rest.rows, rest.residual), (None, Some("residual")));
    assert_eq!(rest.extended, Some("extended"));
    assert_eq!(best(with(None).of_small_segment(1_352)).rows, Some("vectors"));
    let few = best(with(Some("residual")).of_small_segment(100));
    assert_eq!(few.rows, Some("vectors"), "all of them are compared");
}

#[test]
fn a_graph_is_for_budgets_where_product_codes_do_not_fit() {
    const ROWS: u32 = 1_000_000;
    let fits = |memory: u64, dim| {
        let budget = BudgetTable::plan(BudgetRequest::in_process(memory, 1)).expect("a budget");
        least_bytes(&field(dim, "null"), ROWS) <= budget.pinned_max()
    };
    assert_eq!(least_bytes(&field(100, "null"), ROWS), 16_500_000);
    assert!(fits(24_000_000, 100) && !fits(16_000_000, 100));
    let kind_in = |most: u64, dim| {
        let room = Room {
            most,
            scratch: 64_000_000,
            centroids: 12_000_000,
            disk_free: u64::MAX,
        };
        kind(&field(dim, "null"), ROWS, &room)
    };
    assert_eq!(kind_in(0, 100), Kind::Graph);
    assert_eq!(kind_in(0, 255), Kind::Graph);
    // One bit a dimension, and 7 bytes; 8,000 centroids of four bits, and what a segment holds beside them.
    let beside = 8_000 * (384 + 12) + 250_000 + BESIDE_BYTES;
    assert_eq!(least_bytes(&field(768, "null"), ROWS), 103_000_000 + beside);
    // In part they serve in any budget.
    assert_eq!(kind_in(0, 256), Kind::Clusters);
    assert_eq!(kind_in(3_000_000, 768), Kind::Clusters);
    // What isn't there can't be read.
    let mut cold = field(768, "null");
    cold.settings.codes = Some(crate::settings::Placement::Cold);
    assert!(!codes_fit(&cold, ROWS, 43_000_000));
}

#[test]
fn a_part_of_a_collection_has_codes_that_all_rows_have_room_for() {
    let kinds = |field: &VectorField, here, all, most| -> Vec<CodeKind> {
        let codes = codes(field, Rows { here, all }, most);
        codes.into_iter().map(|(_, kind)| kind).collect()
    };
    let is_extended = |kind: &CodeKind| matches!(kind, CodeKind::Extended { .. });
    const MOST: u64 = 40_000_000;
    let wide = field(768, "null");
    let alone = kinds(&wide, 20_000, 20_000, MOST);
    assert!(alone.iter().any(is_extended), "{alone:?}");
    assert_eq!(kinds(&wide, 20_000, 1_000_000, MOST), [CodeKind::OneBit]);
    // There is room for all of them.
    assert_eq!(kinds(&wide, 20_000, 50_000, MOST), alone);
    // Most of the collection is what its plan says.
    let most_of_it = kinds(&wide, 600_000, 1_000_000, MOST);
    assert_eq!(most_of_it, kinds(&wide, 600_000, 600_000, MOST));
    assert!(most_of_it.contains(&CodeKind::Sq8));
    // What was asked for stays, and narrow vectors have product codes to train, which cost more than they spare.
    for other in [
        field(768, r#"{"binary":{}}"#),
        field(768, r#"{"scalar":{"type":"int8"}}"#),
        field(100, "null"),
    ] {
        assert_eq!(
            kinds(&other, 20_000, 1_000_000, MOST),
            kinds(&other, 20_000, 20_000, MOST)
        );
    }
    // Neither is written anew as long as the other rows are there.
    let part = Rows {
        here: 20_000,
        all: 1_000_000,
    };
    assert!(!was_built_for_another_budget(
        &wide,
        part,
        &[CodeKind::OneBit],
        MOST
    ));
    assert!(!was_built_for_another_budget(&wide, part, &alone, MOST));
    assert!(was_built_for_another_budget(
        &wide,
        Rows::alone(20_000),
        &[CodeKind::OneBit],
        MOST
    ));
}

/// Of vectors from 256 dimensions on, whose 1-bit codes are enough to be searched by: a million rows of 384 dimensions had nothing more in RAM in 135 MB than in 96.
#[test]
fn extended_codes_of_wide_vectors_serve_in_part() {
    const ROWS: u32 = 1_000_000;
    let built = |dim: usize, room: u64| -> Vec<CodeKind> {
        let field = field(dim, "null");
        let codes = fitted(codes_of(&field), &field, ROWS, room);
        codes.into_iter().map(|(_, kind)| kind).collect()
    };
    let short = CodeKind::Extended { bits: 2 };
    for (dim, longest) in [(256, 3), (384, 3), (768, 3), (1536, 2)] {
        let bytes = |kind: CodeKind| kind.bytes_for(ROWS, dim, ROWS);
        let (signs, longest) = (bytes(CodeKind::OneBit), CodeKind::Extended { bits: longest });
        let none = built(dim, signs + bytes(short) / 20);
        assert_eq!(none, [CodeKind::OneBit, CodeKind::Sq8], "{dim}");
        let part = built(dim, signs + bytes(short) / 7);
        assert_eq!(part, [CodeKind::OneBit, short, CodeKind::Sq8], "{dim}");
        if longest != short {
            let has = |room: u64| built(dim, room).contains(&longest);
            let whole = bytes(longest);
            assert!(
                !has(signs + whole / 4 * 3) && has(signs + whole / 100 * 85),
                "{dim}"
            );
        }
        // What a build in that room made is what it wants there.
        let most = signs + bytes(short) / 7 + beside_codes(dim as u64, ROWS.into());
        let field = field(dim, "null");
        assert!(
            !was_built_for_another_budget(&field, Rows::alone(ROWS), &part, most),
            "{dim}"
        );
        assert!(
            was_built_for_another_budget(&field, Rows::alone(ROWS), &none, most),
            "{dim}"
        );
    }
    let whole =
        CodeKind::OneBit.bytes_for(ROWS, 255, ROWS) + CodeKind::extended(255).bytes_for(ROWS, 255, ROWS);
    assert!(built(255, whole).contains(&CodeKind::extended(255)));
    assert!(
        !built(255, whole - 1).contains(&CodeKind::extended(255)),
        "narrower ones only whole"
    );
}

#[test]
fn product_codes_have_as_many_subquantizers_as_there_is_room_for() {
    const ROWS: u32 = 1_000_000;
    let subquantizers = |dim, settings, memory: u64, threads| {
        let field = field(dim, settings);
        let budget = BudgetTable::plan(BudgetRequest::in_process(memory, threads)).expect("a budget");
        let most = budget.pinned_max();
        let room = room_for_codes(dim as u64, u64::from(ROWS), most);
        let codes = fitted(codes_of(&field), &field, ROWS, room);
        let bytes = |kind: CodeKind| kind.bytes_for(ROWS, dim, ROWS);
        let (_, kind) = codes
            .into_iter()
            .find(|(c, _)| matches!(c, Component::Product { .. }))?;
        match kind {
            CodeKind::Product { m, row_ids: false } => {
                assert!(bytes(kind) <= room || usize::from(m) == dim.div_ceil(8) || settings != "null");
                Some(m)
            }
            _ => None,
        }
    };
    assert!(subquantizers(100, "null", 32_000_000, 2) >= Some(48));
    assert!(subquantizers(100, "null", 32_000_000, 4) >= Some(46));
    assert!(subquantizers(100, "null", 16_000_000, 2) >= Some(16));
    // No fewer than tell something.
    assert_eq!(subquantizers(200, "null", 16_000_000, 2), Some(25));
    assert_eq!(subquantizers(256, "null", 1_000_000_000, 2), None);
    // What was asked for stays.
    let asked = r#"{"product":{"compression":"x16"}}"#;
    assert_eq!(subquantizers(100, asked, 16_000_000, 2), Some(50));
}

#[test]
fn product_codes_have_ids_where_extended_codes_do_not_fit_and_there_is_room() {
    const ROWS: u32 = 1_000_000;
    let built = |field: &VectorField, room: u64| -> Vec<CodeKind> {
        let codes = fitted(codes_of(field), field, ROWS, room);
        codes.into_iter().map(|(_, kind)| kind).collect()
    };
    let plain = field(100, "null");
    let of_room = |room| built(&plain, room);
    let (scanned, extended, residual) = (
        CodeKind::OneBit,
        CodeKind::extended(100),
        CodeKind::residual(100, 6),
    );
    let with_ids = |m| vec![CodeKind::Product { m, row_ids: true }];
    let plain_products = CodeKind::Product {
        m: 50,
        row_ids: false,
    };
    let whole = vec![
        scanned,
        extended,
        CodeKind::Extended { bits: 3 },
        plain_products,
        residual,
    ];
    assert_eq!(of_room(86_500_000), whole, "extended codes fit");
    assert_eq!(
        of_room(83_999_999),
        with_ids(100),
        "a sub-quantizer for each dimension at most"
    );
    // A sixteenth is left.
    assert_eq!(of_room(50_240_000), with_ids(88));
    assert_eq!(of_room(35_200_000), with_ids(60));
    // What there is no room for isn't written.
    assert_eq!(
        of_room(35_199_000),
        [plain_products, CodeKind::Sq8],
        "too few sub-quantizers to be worth a number"
    );
    for (field, what) in [
        (
            field(100, r#"{"scalar":{"type":"int8"}}"#),
            "others were asked for",
        ),
        (field(256, "null"), "signs tell enough"),
        (
            VectorField {
                metric: ramlet_index::Metric::Euclid,
                ..field(100, "null")
            },
            "words don't reach",
        ),
    ] {
        let codes = built(&field, 50_000_000);
        let has_numbers = codes
            .iter()
            .any(|kind| matches!(kind, CodeKind::Product { row_ids: true, .. }));
        assert!(!has_numbers, "{what}: {codes:?}");
    }
}

/// Where rows are read by the dozen, and vectors take much more.
#[test]
fn sq8_rows_are_written_where_searches_would_read_them() {
    const ROWS: u32 = 1_000_000;
    let f16 = |dim| VectorField {
        element: ramlet_index::Element::F16,
        ..field(dim, "null")
    };
    let u8 = VectorField {
        element: ramlet_index::Element::U8,
        ..field(100, "null")
    };
    let asked = |dim, quantization: &str| field(dim, quantization);
    let (product, binary) = (r#"{"product":{"compression":"x16"}}"#, r#"{"binary":{}}"#);
    for (field, room, is_written, what) in [
        (field(100, "null"), 25_000_000, true, "product codes"),
        (
            field(100, "null"),
            50_000_000,
            false,
            "product codes with numbers",
        ),
        (field(100, "null"), 90_000_000, false, "extended codes"),
        (f16(100), 25_000_000, true, "half floats"),
        (f16(20), 5_000_000, false, "half floats that take hardly more"),
        (u8, 25_000_000, false, "bytes already"),
        (field(768, "null"), 120_000_000, true, "signs"),
        (field(768, "null"), 400_000_000, false, "codes of three bits"),
        (field(1536, "null"), 450_000_000, true, "codes of two bits"),
        (field(1536, "null"), 2_000_000_000, false, "small segments too"),
        (
            asked(100, product),
            300_000_000,
            true,
            "product codes that were asked for",
        ),
        (asked(100, product), 500_000_000, false, "and vectors beside them"),
        (
            asked(768, binary),
            1_000_000_000,
            true,
            "one bit that was asked for",
        ),
        (asked(768, binary), 4_000_000_000, false, "and vectors beside it"),
    ] {
        let codes = fitted(codes_of(&field), &field, ROWS, room);
        let kinds: Vec<CodeKind> = codes.into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(kinds.contains(&CodeKind::Sq8), is_written, "{what}: {kinds:?}");
        // A build in that room made what it wants there.
        assert!(
            !was_built_for_another_budget(&field, Rows::alone(ROWS), &kinds, room),
            "{what}"
        );
    }
    let (plain, most) = (field(100, "null"), 26_000_000);
    let mut before = fitted(
        codes_of(&plain),
        &plain,
        ROWS,
        room_for_codes(100, ROWS.into(), most),
    );
    let kinds =
        |codes: &[(Component, CodeKind)]| -> Vec<CodeKind> { codes.iter().map(|(_, kind)| *kind).collect() };
    assert!(!was_built_for_another_budget(
        &plain,
        Rows::alone(ROWS),
        &kinds(&before),
        most
    ));
    before.retain(|(_, kind)| *kind != CodeKind::Sq8);
    assert!(
        was_built_for_another_budget(&plain, Rows::alone(ROWS), &kinds(&before), most),
        "by an earlier version"
    );
}

#[test]
fn codes_are_rewritten_when_others_are_asked_for() {
    let settings = [
        "null",
        r#"{"scalar":{"type":"int8"}}"#,
        r#"{"product":{"compression":"x8"}}"#,
        r#"{"product":{"compression":"x64"}}"#,
        r#"{"binary":{}}"#,
        r#"{"turbo":{"bits":"bits2"}}"#,
    ];
    let kinds = |field: &VectorField| -> Vec<CodeKind> {
        codes_of(field).into_iter().map(|(_, kind)| kind).collect()
    };
    for dim in [1, 3, 100, 400, 1536, 40_000] {
        let fields = settings.map(|settings| field(dim, settings));
        for (asked, settings) in fields.iter().zip(settings) {
            for other in &fields {
                let (wanted, built) = (kinds(asked), kinds(other));
                assert!(built.len() <= 5, "as many as an index has");
                let is_product = |kind: &&CodeKind| matches!(kind, CodeKind::Product { .. });
                let serve = match settings {
                    "null" => built
                        .iter()
                        .all(|kind| is_product(&kind) || wanted.contains(kind)),
                    _ => wanted == built,
                };
                assert_eq!(
                    needs_other_codes(asked, &built),
                    !serve,
                    "{dim}: {built:?}, {settings}"
                );
                // Of nothing that is asked for the room decides.
                if settings == "null" && dim >= 100 {
                    let rewritten =
                        was_built_for_another_budget(asked, Rows::alone(10_000), &built, u64::MAX / 2);
                    assert_eq!(
                        rewritten,
                        !wanted[..2].iter().all(|kind| built.contains(kind)),
                        "{dim}: {built:?}"
                    );
                }
            }
        }
    }
}
