//! Processes and threads as a measurement wants them.

use std::io;
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel kill the process that `command` will start when the thread that starts it ends, however it ends.
pub fn dies_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id() as libc::pid_t;
    let before_exec = move || die_with(parent);
    // SAFETY: between fork and exec only prctl and getppid are called.
    unsafe { command.pre_exec(before_exec) }
}

/// Of the calling process; an error when `parent` has ended already.
pub(super) fn die_with(parent: libc::pid_t) -> io::Result<()> {
    // SAFETY: sets one flag of this process.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it only answers.
    match unsafe { libc::getppid() } == parent {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// Keeps the calling thread, and the threads and processes that it starts, on one processor: the one where it runs.
pub fn pin_to_one_cpu() -> io::Result<()> {
    // SAFETY: it only answers.
    let cpu = unsafe { libc::sched_getcpu() };
    if cpu < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a set of zeros is an empty one.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the kernel's number of a processor lies within the set, or the macro does nothing.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: the set is one of the size that is told.
    match unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
