//! Payload bytes: checking, reading, changing.

use ramlet::payload::{self, Json, JsonRef, Number, Path, STEPS_MAX, validate};
use serde_json::Value;

use crate::filter_index::Rng;

fn accepts(text: &str) -> bool {
    validate(text.as_bytes(), 1 << 20).is_ok()
}

#[test]
fn validate_agrees_with_a_full_parser() {
    let tokens = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"b\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\x\"",
        "1",
        "-",
        "0",
        "01",
        "1.5",
        "1.",
        ".5",
        "1e3",
        "1e999",
        "-0",
        "true",
        "false",
        "null",
        "nul",
        " ",
        "\n",
        "\"\t\"",
        "\"open",
        "{\"a\":",
        "18446744073709551616",
        "-9223372036854775809",
    ];
    let mut rng = Rng::new(7);
    let mut valid = 0;
    for _ in 0..60_000 {
        let body: String = (0..rng.below(6))
            .map(|_| tokens[rng.below(tokens.len())])
            .collect();
        let text = if rng.below(3) > 0 {
            format!("{{\"k\":{body}}}")
        } else {
            format!("{{{body}}}")
        };
        let expected = matches!(serde_json::from_str::<Value>(&text), Ok(Value::Object(_)));
        assert_eq!(accepts(&text), expected, "{text}");
        valid += usize::from(expected);
    }
    assert!(valid > 3_000, "{valid} valid texts");
}

#[test]
fn validate_says_what_and_where() {
    let check = |text: &[u8], max: usize, what: &str, at: usize| {
        let e = validate(text, max).unwrap_err();
        assert!(e.what.contains(what) && e.at == at, "{e}");
    };
    check(b"[1]", 100, "must be a JSON object", 0);
    check(b"{\"a\":1} x", 100, "follows", 8);
    check(b"{\"a\":1e400}", 100, "range of a float", 5);
    check(b"{\"a\":\"\xff\"}", 100, "UTF-8", 6);
    check(b"{\"a\":1}", 3, "limit of 3", 3);
    check(b"{\"a\":NaN}", 100, "expected a value", 5);
    let deep = |n: usize| format!("{{\"a\":{}{}}}", "[".repeat(n - 1), "]".repeat(n - 1));
    assert!(accepts(&deep(payload::DEPTH_MAX)));
    assert!(!accepts(&deep(payload::DEPTH_MAX + 1)));
    assert!(!accepts(&"[".repeat(1 << 19)));
    assert!(accepts(""));
}

/// The cursor against a full parser, on each value of each payload.
fn same(cursor: JsonRef<'_>, value: &Value) {
    match (cursor.read().unwrap(), value) {
        (Json::Null, Value::Null) => {}
        (Json::Bool(a), Value::Bool(b)) => assert_eq!(a, *b),
        (Json::Number(Number::I64(a)), b) => assert_eq!(Some(a), b.as_i64()),
        (Json::Number(Number::U64(a)), b) => assert_eq!(Some(a), b.as_u64()),
        (Json::Number(Number::F64(a)), b) => {
            assert!(b.is_f64() && (a - b.as_f64().unwrap()).abs() <= a.abs() * 1e-15)
        }
        (Json::Str(a), Value::String(b)) => assert_eq!(&a, b),
        (Json::Array(a), Value::Array(b)) => {
            let a: Vec<_> = a.collect();
            assert_eq!(a.len(), b.len());
            a.into_iter().zip(b).for_each(|(a, b)| same(a, b));
        }
        (Json::Object(a), Value::Object(b)) => {
            assert_eq!(a.clone().count(), b.len());
            for (key, child) in a {
                same(child, &b[key.as_ref()]);
                same(cursor.get(&key).unwrap(), &b[key.as_ref()]);
            }
        }
        (a, b) => panic!("{a:?} is not {b}"),
    }
}

#[test]
fn the_cursor_reads_what_a_full_parser_reads() {
    for case in crate::filter_cases::filter_cases() {
        let value: Value = serde_json::from_str(case.payload.get()).unwrap();
        let spaced = serde_json::to_string_pretty(&value).unwrap();
        same(JsonRef::new(spaced.as_bytes()).unwrap(), &value);
        let mut compact = Vec::new();
        payload::compact(spaced.as_bytes(), &mut compact);
        assert_eq!(compact, value.to_string().as_bytes());
    }
}

fn walk_all(value: JsonRef<'_>, budget: &mut usize) {
    *budget = budget.checked_sub(1).expect("the cursor goes round in circles");
    match value.read() {
        Some(Json::Array(elements)) => elements.for_each(|e| walk_all(e, budget)),
        Some(Json::Object(members)) => members.for_each(|(_, v)| walk_all(v, budget)),
        _ => {}
    }
}

#[test]
fn damaged_bytes_never_panic_or_loop() {
    let mut rng = Rng::new(11);
    let paths = ["a", "items[].a", "tags[0]", "\"a key\".b", "a[]"].map(|p| Path::parse(p).unwrap());
    for case in crate::filter_cases::filter_cases().iter().take(1_500) {
        let mut bytes = case.payload.get().as_bytes().to_vec();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len());
            match rng.below(3) {
                0 => bytes[at] = rng.next() as u8,
                1 => bytes.truncate(at.max(1)),
                _ => bytes[at] = b"{}[]\":,\\"[rng.below(8)],
            }
        }
        let Some(root) = JsonRef::new(&bytes) else {
            continue;
        };
        walk_all(root, &mut 100_000);
        for path in &paths {
            path.any_value(root, &mut |v| v.read().is_none());
            let _ = payload::set(&bytes, b"{\"x\":1}", Some(path));
            let _ = payload::delete_keys(&bytes, std::slice::from_ref(path));
        }
    }
}

#[test]
fn doubled_keys_read_as_the_last() {
    let text = br#"{"a":1,"b":{"c":1,"c":2},"a":3,"\u0061":4}"#;
    let root = JsonRef::new(text).unwrap();
    assert_eq!(root.get("a").unwrap().raw(), b"4");
    assert_eq!(root.get("b").unwrap().get("c").unwrap().raw(), b"2");
    assert_eq!(
        payload::set(text, b"{}", None).unwrap(),
        br#"{"a":4,"b":{"c":1,"c":2}}"#
    );
}

#[test]
fn edits_keep_every_digit() {
    let text = br#"{"f": 1.0, "u": 18446744073709551615, "long": 0.1234567890123456789012345, "e": 1E5}"#;
    let after = payload::set(text, br#"{"i":-9223372036854775808}"#, None).unwrap();
    let expected = r#"{"e":1E5,"f":1.0,"i":-9223372036854775808,"long":0.1234567890123456789012345,"u":18446744073709551615}"#;
    assert_eq!(String::from_utf8(after).unwrap(), expected);
    assert_eq!(payload::overwrite(b"{ \"a\": null }").unwrap(), b"{\"a\":null}");
    assert_eq!(payload::set(b"", br#"{"a":1}"#, None).unwrap(), br#"{"a":1}"#);
    assert!(payload::set(b"{}", b"[1]", None).is_err());
}

#[test]
fn an_edit_cannot_nest_too_deep() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
    let key = Path::parse(&vec!["k"; 40].join(".")).unwrap();
    assert!(payload::set(b"{}", deep.as_bytes(), None).is_ok());
    assert!(
        payload::set(b"{}", deep.as_bytes(), Some(&key))
            .unwrap_err()
            .what
            .contains("deeper")
    );
}

#[test]
fn paths_parse_and_print() {
    for text in [
        "a",
        "a.b",
        "a[0].b",
        "a[].b",
        "\"a b\".c",
        "a[][1]",
        "\"\"",
        "ünï_c-9",
        "a[18446744073709551615]",
    ] {
        assert_eq!(Path::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(Path::parse("\"plain\".b").unwrap().to_string(), "plain.b");
    for (text, at) in [
        ("", 0),
        (".", 0),
        ("a.", 2),
        ("a..b", 2),
        ("[0]", 0),
        ("a[", 1),
        ("a[x]", 1),
        ("a b", 1),
        ("\"a", 0),
        ("\"a\"b", 3),
        ("a[-1]", 1),
        ("a[18446744073709551616]", 1),
        ("a]", 1),
    ] {
        let e = Path::parse(text).unwrap_err();
        assert_eq!(e.at, at, "{e}");
    }
    assert!(Path::parse(&vec!["a"; STEPS_MAX].join(".")).is_ok());
    assert!(Path::parse(&vec!["a"; STEPS_MAX + 1].join(".")).is_err());
}

#[test]
fn compacting_leaves_strings_as_they_are() {
    let cases = [
        (
            r#" { "a \" b" : "\\" , "c":[ 1 , " x  y" ] } "#,
            r#"{"a \" b":"\\","c":[1," x  y"]}"#,
        ),
        (
            r#"{"\\\"  ":"\\\\","":" \u0022 "}"#,
            r#"{"\\\"  ":"\\\\","":" \u0022 "}"#,
        ),
        ("[\t\"\",\r\n\" \\\\\\\" \"\n]", "[\"\",\" \\\\\\\" \"]"),
    ];
    for (raw, wanted) in cases {
        let mut compact = Vec::new();
        payload::compact(raw.as_bytes(), &mut compact);
        assert_eq!(String::from_utf8(compact).unwrap(), wanted);
    }
}
