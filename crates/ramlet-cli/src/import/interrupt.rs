//! Ctrl-C and SIGTERM: an import stops and says how to continue. The second signal ends it at once.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal is the process's, so this is too.
static WANTED: AtomicBool = AtomicBool::new(false);
/// As shells have it for SIGINT.
const EXIT_CODE: i32 = 130;

/// The end was wanted.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Listens from now on.
pub fn listen() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("listening for signals")?;
    let listening = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let listen = move || runtime.block_on(hear(listening));
    thread::Builder::new()
        .name("signals".to_string())
        .spawn(listen)
        .context("starting a thread to listen for signals")?;
    Ok(())
}

async fn hear((mut interrupt, mut terminate): (Signal, Signal)) {
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if WANTED.swap(true, Ordering::Relaxed) {
            std::process::exit(EXIT_CODE);
        }
    }
}

/// Fails once the end is wanted.
pub fn check() -> Result<()> {
    match WANTED.load(Ordering::Relaxed) {
        true => Err(Interrupted.into()),
        false => Ok(()),
    }
}
