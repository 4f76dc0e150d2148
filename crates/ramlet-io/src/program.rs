//! The program's own pages, which are pages of a file too, and its entry where it lies in a library.

use std::fs;
use std::io;

/// Bytes of code that a page fault reads at most. Each so many are a mapping of their own, for which the kernel holds 200 bytes.
const AT_ONCE: usize = 64 << 10;

/// Has the program's code read in small portions from now on, without reading far ahead.
///
/// In a small memory cgroup code that wasn't used for a while is dropped and comes back by page faults, and each reads as much
/// around it as the disk's `read_ahead_kb` says. Where that is megabytes, one fault drops what the others just brought in: a
/// server in 32 MB with 8 MB of read-ahead read 3 GB a query.
///
/// Code is advised to be read at random. Linux from 6.16 on doesn't heed that for what can be executed, but reads to the end of
/// its mapping at most: so that every other portion has one more flag (`MADV_DONTDUMP`), which keeps mappings apart.
pub fn read_code_in_portions() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    for file in maps.lines().filter_map(of_file) {
        advise(file.start, file.end - file.start, libc::MADV_RANDOM)?;
        let portions = (file.start..file.end).step_by(AT_ONCE).skip(1).step_by(2);
        for start in portions.filter(|_| file.is_code) {
            advise(start, AT_ONCE.min(file.end - start), libc::MADV_DONTDUMP)?;
        }
    }
    Ok(())
}

/// Exports `$run`, a function that says whether all went well, as the C function `ramlet_main`, which ends the process with an exit code.
///
/// A library that other programs load can then hold the program as well: a small one loads it and calls this. It is a macro because an
/// exported name needs `unsafe`, and is kept only if the library's own crate has it.
#[macro_export]
macro_rules! export_program {
    ($run:path) => {
        /// Runs the program with the arguments of the process. It ends there: what is written last would stay in its buffer otherwise.
        // SAFETY: no library that this one is loaded with has the name.
        #[unsafe(no_mangle)]
        extern "C" fn ramlet_main() -> ! {
            std::process::exit(i32::from(!$run()))
        }
    };
}

fn advise(start: usize, bytes: usize, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: the advice is about how to read and what to dump, and changes no byte; for what is mapped no more it is refused.
    match unsafe { libc::madvise(start as *mut libc::c_void, bytes, advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[derive(Debug, PartialEq)]
struct Mapping {
    start: usize,
    end: usize,
    is_code: bool,
}

/// A line of `/proc/PID/maps`, if what is mapped there is a file that isn't written.
fn of_file(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let may = words.next().filter(|may| may.starts_with("r-"))?;
    words.nth(3).filter(|path| path.starts_with('/'))?;
    let number = |hex| usize::from_str_radix(hex, 16).ok();
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        is_code: may.contains('x'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files() {
        let code = "55d0c8a00000-55d0c8b00000 r-xp 00100000 fe:00 1234   /usr/bin/ramlet";
        let of_code = Mapping {
            start: 0x55d0_c8a0_0000,
            end: 0x55d0_c8b0_0000,
            is_code: true,
        };
        assert_eq!(of_file(code), Some(of_code));
        let constants = code.replace("r-x", "r--");
        assert!(of_file(&constants).is_some_and(|mapping| !mapping.is_code));
        for other in [
            "7ffc0000-7ffd0000 rw-p 00000000 fe:00 1234 /usr/bin/ramlet",
            "7ffc0000-7ffd0000 r-xp 00000000 00:00 0 [vdso]",
            "7ffc0000-7ffd0000 r--p 00000000 00:00 0",
            "",
        ] {
            assert_eq!(of_file(other), None, "{other}");
        }
    }

    #[test]
    fn our_own_code_lies_in_portions() {
        read_code_in_portions().expect("advice is taken");
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let code = maps.lines().filter_map(of_file).filter(|mapping| mapping.is_code);
        let longest = code.map(|mapping| mapping.end - mapping.start).max();
        assert_eq!(longest, Some(AT_ONCE));
    }
}
