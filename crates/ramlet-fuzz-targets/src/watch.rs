//! Panics that the code catches itself: of searches, of recoveries. They are faults all the same.

use std::panic::PanicHookInfo;
use std::sync::{Mutex, Once, PoisonError};

/// Libraries on whose panics the engine counts: a word that text analysis fails on is left as it is (ADR 0052).
const GUARDED: [&str; 2] = ["/frostem-", "/icu_"];

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// One at a time, so that a panic of any thread is this one's.
static RUNNING: Mutex<()> = Mutex::new(());

/// Runs `work`, and panics if anything panicked meanwhile, on whatever thread.
pub fn over(work: impl FnOnce()) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // libFuzzer's ends the process at the first panic, also where it is caught and meant to be.
        drop(std::panic::take_hook());
        std::panic::set_hook(Box::new(note));
    });
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    panics().clear();
    work();
    let panics = std::mem::take(&mut *panics());
    assert!(panics.is_empty(), "caught: {}", panics.join("; "));
}

fn note(panic: &PanicHookInfo<'_>) {
    eprintln!("{panic}\n{}", std::backtrace::Backtrace::capture());
    let file = panic.location().map_or("", |location| location.file());
    if !GUARDED.iter().any(|library| file.contains(library)) {
        panics().push(panic.to_string());
    }
}

fn panics() -> std::sync::MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}
