//! Printing. `println!` panics when nobody reads any more (`ramlet check D | head`) and when the disk is full. Here the first is no error, and
//! the second is reported in one line.

use std::fmt::{Arguments, Display};
use std::io::{ErrorKind, Write, stderr, stdout};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

use anyhow::{Context, Result, anyhow};

/// What the standard library's panics say when `println!` and `eprintln!` fail; the error stands behind it.
const PANICS: [&str; 2] = ["failed printing to stdout: ", "failed printing to stderr: "];

/// Prints a line.
pub fn line(line: Arguments<'_>) -> Result<()> {
    text(format_args!("{line}\n"))
}

/// Prints a text as it is. A reader who has gone wanted no more: the command does the rest of its work.
pub fn text(text: impl Display) -> Result<()> {
    let mut out = stdout().lock();
    // At the exit nobody would hear of it.
    let written = write!(out, "{text}").and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing to standard output"),
    }
}

/// For the terminal, on one line: blanks of any kind are one, and a character that would command the terminal is a sign that it
/// was there.
pub fn shown(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace(
        char::is_control,
        char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]),
    )
}

/// `1 point`, `2 points`.
pub fn many(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// To whoever reads standard output: nobody has to.
pub fn say(line: Arguments<'_>) {
    let _ = writeln!(stdout(), "{line}");
}

/// Tells something on standard error, where somebody may read it.
macro_rules! note {
    ($($line:tt)*) => {
        $crate::output::to_stderr(format_args!($($line)*))
    };
}
pub(crate) use note;

pub fn to_stderr(line: Arguments<'_>) {
    let _ = writeln!(stderr(), "{line}");
}

/// Runs a command whose tables are printed by `println!`, of a crate that knows nothing of these rules. It ends at the line that
/// couldn't be printed, by unwinding: servers that it started and files that it made go away.
pub fn guarded(command: impl FnOnce() -> Result<()>) -> Result<()> {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if unprinted(info).is_none() {
            usual(info);
        }
    }));
    match panic::catch_unwind(AssertUnwindSafe(command)) {
        Ok(outcome) => outcome,
        Err(payload) => match payload.downcast_ref::<String>().and_then(|said| why(said)) {
            Some(why) if why.starts_with("Broken pipe") => Ok(()),
            Some(why) => Err(anyhow!("writing to standard output: {why}")),
            None => panic::resume_unwind(payload),
        },
    }
}

fn unprinted<'a>(info: &'a PanicHookInfo<'_>) -> Option<&'a str> {
    info.payload().downcast_ref::<String>().and_then(|said| why(said))
}

fn why(said: &str) -> Option<&str> {
    PANICS.iter().find_map(|panic| said.strip_prefix(panic))
}
