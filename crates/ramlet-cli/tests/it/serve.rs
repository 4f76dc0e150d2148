//! What `ramlet serve` and its neighbours refuse before they do anything.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

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
            text.contains(&format!("'{name}' is not a valid collection name")) && text.contains(why),
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

/// A server that runs until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server on a free port; returns that too.
fn serve(data: &str) -> (Running, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ramlet"))
        .args([
            "serve",
            "--memory",
            "64MB",
            "--no-probe",
            "--port",
            "0",
            "--grpc-port",
            "disabled",
            "--data",
            data,
        ])
        .args(["--api-key", "secret"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let listening = lines
        .map_while(Result::ok)
        .find(|line| line.starts_with("listening on"));
    let port = listening.and_then(|line| Some(line.rsplit_once(':')?.1.to_string()));
    (Running(child), port.expect("it listens"))
}

#[test]
fn a_directory_and_a_port_that_are_taken_name_who_has_them() {
    let dir = TempDir::new();
    let data = dir.path("data");
    let (server, port) = serve(&data);
    let holder = format!("process {} (", server.0.id());
    let start = [
        "serve",
        "--memory",
        "64MB",
        "--no-probe",
        "--grpc-port",
        "disabled",
    ];
    let (other, out) = (dir.path("other"), dir.path("c.snapshot"));
    let by_data = [&start[..], &["--port", "0", "--data", &data]].concat();
    let by_port = [&start[..], &["--port", &port, "--data", &other]].concat();
    for arguments in [
        by_data,
        by_port,
        vec!["check", &data],
        vec!["salvage", &data, "c", &out],
    ] {
        let text = refused(&arguments, &[]);
        assert!(text.contains(&holder) && text.contains("ramlet serve)"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn sizes_without_a_unit_are_asked_about() {
    let dir = TempDir::new();
    let data = dir.path("data");
    let text = refused(&["serve", "--memory", "135", "--data", &data], &[]);
    assert!(text.contains("is 135MB meant?"), "{text}");
    let text = refused(&["serve", "--data", &data], &[("RAMLET_MEMORY", "135")]);
    assert!(
        text.contains("RAMLET_MEMORY=135") && text.contains("is 135MB meant?"),
        "{text}"
    );
    let text = refused(
        &["plan", "--points", "1M", "--dim", "100", "--memory", "135"],
        &[],
    );
    assert!(text.contains("is 135MB meant?"), "{text}");
}
