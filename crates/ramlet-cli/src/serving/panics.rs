//! Panics as lines of the log.

use std::panic::{self, PanicHookInfo};
use std::thread;

/// From now on a panic is a line of the log, in the form that all lines have. It has no backtrace, whatever `RUST_BACKTRACE` says: to read
/// the program's symbols took 35 MB, and the kernel killed a server of 64 MB for a panic that it had caught.
pub fn log() {
    panic::set_hook(Box::new(|info| tracing::error!("{}", told(info))));
}

fn told(info: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let place = info.location().map_or_else(String::new, ToString::to_string);
    let text = info.payload().downcast_ref::<String>().map(String::as_str);
    let message = text
        .or_else(|| info.payload().downcast_ref().copied())
        .unwrap_or("no message");
    format!("thread '{name}' panicked at {place}: {message}")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_panic_is_one_line_with_thread_place_and_message() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (usual, kept) = (panic::take_hook(), lines.clone());
        panic::set_hook(Box::new(move |info| {
            kept.lock().expect("nobody panics with it").push(told(info));
        }));
        let search = thread::Builder::new().name("search".into());
        let ended = search
            .spawn(|| panic!("{} of {}", 3, 2))
            .expect("a thread")
            .join();
        panic::set_hook(usual);
        assert!(ended.is_err());
        let lines = lines.lock().expect("nobody panics with it");
        let line = lines
            .iter()
            .find(|line| line.contains("'search'"))
            .expect("a line");
        assert!(
            line.starts_with("thread 'search' panicked at crates/ramlet-cli/src/serving/panics.rs:"),
            "{line}"
        );
        assert!(line.ends_with(": 3 of 2") && !line.contains('\n'), "{line}");
    }
}
