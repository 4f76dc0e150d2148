//! What `ramlet serve` and its neighbours refuse before they do anything.

use std::process::Command;

use crate::import::TempDir;

/// Runs the binary, which is to fail; returns what it wrote.
fn refused(arguments: &[&str], env: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ramlet"))
        .args(arguments)
        .envs(env.iter().copied())
        .output()
        .expect("the binary runs");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    assert!(!output.status.success(), "{arguments:?}: {text}");
    text
}

#[test]
fn no_key_is_not_an_empty_key() {
    let dir = TempDir::new();
    let data = dir.path("data");
    let serve = ["serve", "--memory", "64MB", "--data", &data];
    for flag in ["--api-key", "--alt-api-key", "--read-only-api-key"] {
        let text = refused(&[&serve[..], &["--host", "0.0.0.0", flag, ""]].concat(), &[]);
        assert!(text.contains(&format!("{flag} is empty")), "{text}");
    }
    let text = refused(
        &[&serve[..], &["--host", "0.0.0.0"]].concat(),
        &[("RAMLET_API_KEY", "")],
    );
    assert!(text.contains("without an API key"), "{text}");
    let text = refused(&[&serve[..], &["--jwt-rbac"]].concat(), &[("RAMLET_API_KEY", "")]);
    assert!(text.contains("--jwt-rbac needs --api-key"), "{text}");
    assert!(!std::path::Path::new(&data).exists(), "it wasn't begun");
}

#[test]
fn names_that_no_collection_can_have() {
    let dir = TempDir::new();
    let data = dir.path("data");
    for (name, why) in [
        ("a/b", "'/'"),
        ("", "from 1 to"),
        ("..", "path"),
        ("aliases", "route"),
    ] {
        let snapshot = format!("nothing.snapshot:{name}");
        let text = refused(
            &[
                "serve",
                "--memory",
                "64MB",
                "--port",
                "0",
                "--data",
                &data,
                "--snapshot",
                &snapshot,
            ],
            &[],
        );
        assert!(
            text.contains(&format!("can be called '{name}'")) && text.contains(why),
            "{text}"
        );
    }
}

#[test]
fn directories_that_are_not_there_or_not_ours() {
    let dir = TempDir::new();
    let typo = dir.path("typo");
    let text = refused(
        &["plan", "--points", "1000", "--dim", "8", "--measure", &typo],
        &[],
    );
    assert!(text.contains(&format!("--measure {typo}")), "{text}");
    assert!(!std::path::Path::new(&typo).exists());
    let text = refused(&["check", &dir.path("")], &[]);
    assert!(
        text.contains("no data directory") && !text.contains("damaged"),
        "{text}"
    );
}
