//! Which commit the binary is of, for `ramlet --version`: what `RAMLET_COMMIT` says, or git where the source lies in its own clone. A build for
//! development names none, so that a commit alone compiles nothing there.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=RAMLET_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let told = env::var("RAMLET_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = told.or_else(|| is_release.then(of_git).flatten());
    let commit: String = commit.unwrap_or_default().chars().take(12).collect();
    println!("cargo:rustc-env=RAMLET_CLI_COMMIT={commit}");
    println!(
        "cargo:rustc-env=RAMLET_CLI_TARGET={}",
        env::var("TARGET").unwrap_or_default()
    );
}

fn of_git() -> Option<String> {
    // A source that was unpacked inside of somebody else's clone has no commit of that one.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let here = env::current_dir().ok()?;
    let root = here.parent()?.parent()?.canonicalize().ok()?;
    if root != std::path::Path::new(&top).canonicalize().ok()? {
        return None;
    }
    // A commit changes one of these.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
