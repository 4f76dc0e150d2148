//! The heap's free memory, back to the kernel.

/// Gives what the C library's allocator keeps of freed memory back to the kernel; milliseconds. Without effect where another
/// allocator serves, or another C library.
///
/// A build frees megabytes in small pieces, and the GNU allocator keeps them: 10 MB stayed resident after a million rows were
/// indexed inside 32 MB, which no ledger knew of, and codes that then went to RAM exceeded the budget.
pub fn give_back_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes the allocator's own locks, and frees nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
