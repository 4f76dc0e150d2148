//! Where work that blocks goes: one small pool of threads, whichever thread asks.

use std::cell::OnceCell;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

thread_local! {
    /// The runtime that has the pool, on threads with a runtime of their own.
    static HOME: OnceCell<Handle> = const { OnceCell::new() };
}

/// From now on this thread sends what blocks to the pool of `home`.
pub fn adopt(home: Handle) {
    HOME.with(|cell| {
        let _ = cell.set(home);
    });
}

/// Runs `job` on the pool, to its end even when nobody waits for it any more.
pub fn spawn_blocking<T, F>(job: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    HOME.with(|home| match home.get() {
        Some(home) => home.spawn_blocking(job),
        None => tokio::task::spawn_blocking(job),
    })
}
