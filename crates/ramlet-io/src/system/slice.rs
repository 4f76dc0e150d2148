//! How soon a thread that wakes gets a core which another one keeps busy.

/// Shorter than what threads have that don't ask, and long enough for an answer.
const SLICE_NS: u64 = 200_000;

/// From now on this thread runs soon after it wakes, for a short time: the scheduler preempts threads for it that compute. Without it, it waits
/// for the end of their turn, up to 4 ms at each sleep. Its share of the processor stays what it is. For a thread that works for many and sleeps
/// often: whoever wakes it is preempted too, so clients on the same machine send less (ADR 0074). False where the kernel refuses; one before
/// Linux 6.12 passes over it.
#[cfg(target_os = "linux")]
pub fn ask_for_short_slice() -> bool {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        runtime: SLICE_NS,
        ..read_attributes()
    };
    // SAFETY: the kernel reads `size` bytes of a struct that outlives the call.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    failed == 0
}

#[cfg(not(target_os = "linux"))]
pub fn ask_for_short_slice() -> bool {
    false
}

/// `struct sched_attr` of the kernel, in its first version. For threads without real time, `runtime` is the length of a slice in nanoseconds.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Of this thread: policy and nice value are to stay.
#[cfg(target_os = "linux")]
fn read_attributes() -> Attributes {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most the bytes that it is told of, to a struct that is of integers alone.
    unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            0,
            &raw mut attributes,
            size_of::<Attributes>() as u32,
            0,
        )
    };
    attributes
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_policy_and_nice_value() {
        let before = read_attributes();
        assert_eq!(before.size as usize, size_of::<Attributes>());
        if !ask_for_short_slice() {
            // Some sandboxes refuse the call.
            return;
        }
        let after = read_attributes();
        assert_eq!((after.policy, after.nice), (before.policy, before.nice));
        // A kernel that knows nothing of it reads 0.
        assert!([SLICE_NS, 0].contains(&after.runtime), "{}", after.runtime);
    }
}
