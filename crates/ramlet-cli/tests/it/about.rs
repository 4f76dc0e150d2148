//! What the program says about itself, and whether a server is ready.

use std::process::{Command, Stdio};

use crate::import::TempDir;

/// The exit code, and what was written.
fn ramlet(arguments: &[&str], env: &[(&str, &str)]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ramlet"))
        .args(arguments)
        .envs(env.iter().copied())
        .output()
        .expect("the binary runs");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    (output.status.success(), text)
}

#[test]
fn completions_are_scripts_of_their_shells() {
    for (shell, word) in [
        ("bash", "complete -F _ramlet"),
        ("zsh", "#compdef ramlet"),
        ("fish", "complete -c ramlet"),
    ] {
        let (done, script) = ramlet(&["completion", shell], &[]);
        assert!(
            done && script.contains(word) && script.contains("salvage"),
            "{shell}: {script}"
        );
        assert!(
            script.contains("memory") || script.contains("--memory"),
            "{shell} knows the flags"
        );
        // Where the shell is, it takes the script.
        let Ok(mut child) = Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn() else {
            continue;
        };
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), script.as_bytes()).expect("read");
        assert!(child.wait().expect("it ends").success(), "{shell}");
    }
    assert!(!ramlet(&["completion", "cmd"], &[]).0);
}

#[test]
fn each_command_has_a_page_of_the_manual() {
    let dir = TempDir::new();
    let (done, said) = ramlet(&["man", &dir.path("man")], &[]);
    assert!(done, "{said}");
    let page = |name: &str| std::fs::read_to_string(dir.path(&format!("man/{name}.1"))).expect(name);
    assert!(page("ramlet").contains("ramlet\\-serve(1)"), "{}", page("ramlet"));
    assert!(page("ramlet-serve").contains("RAMLET_MEMORY"));
    assert!(page("ramlet-bench-ram").contains(".SH OPTIONS"));
    assert!(
        !std::path::Path::new(&dir.path("man/ramlet-man.1")).exists(),
        "it is hidden"
    );
}

#[test]
fn the_version_says_what_was_built() {
    let (_, short) = ramlet(&["-V"], &[]);
    assert_eq!(short.trim(), format!("ramlet {}", env!("CARGO_PKG_VERSION")));
    let (_, long) = ramlet(&["--version"], &[]);
    assert!(
        long.starts_with(short.trim()) && long.contains("\ncommit: ") && long.contains("\ntarget: "),
        "{long}"
    );
    assert_eq!(long.contains("parquet"), cfg!(feature = "parquet"), "{long}");
}

#[test]
fn health_tells_of_servers_that_are_not_there() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port")
        .port();
    let (ready, text) = ramlet(&["health"], &[("RAMLET_PORT", &port.to_string())]);
    assert!(
        !ready && text.contains(&format!("http://127.0.0.1:{port}/readyz")),
        "{text}"
    );
}
