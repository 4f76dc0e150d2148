//! Whether a log that stops ends there, was torn there, or has lost something.

/// Where reading a log stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// Offset in the file of the first bytes that aren't the next record: invalid, cut off by the file's end, or a valid
    /// record whose lsn isn't the last one + 1.
    pub at: u64,
    /// Nothing but zeros, or nothing at all, from there to the end of the file.
    pub blank: bool,
}

/// A valid record of the same log found beyond the stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Later {
    /// In the file.
    pub offset: u64,
    pub lsn: u64,
    pub durable_lsn: u64,
}

/// What the end of a log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// It just ends.
    Clean,
    /// The last write didn't complete and was never acknowledged: truncate (or zero) from `at`, sync, go on.
    Torn { at: u64 },
    /// Acknowledged records are lost: refuse to open, with file and offset.
    Corrupt { at: u64, why: String },
}

/// The rule of the durability protocol, in one place. It errs on the side of refusing: what may have been acknowledged is
/// never dropped silently.
///
/// - `last_valid_lsn`: of the last record before the stop (the file's `first_lsn - 1` if there is none)
/// - `durable_seen`: the greatest durable lsn known from anywhere: this log's valid records, later log files, the manifest
/// - `later`: the first valid record that [`find_possible`](super::find_possible) leads to behind the stop, and from later log files
///
/// Corrupt if the record missing at the stop, `last_valid_lsn + 1`, is at or below a durable lsn, or if a valid record
/// with a higher lsn follows. Otherwise clean if nothing follows, else torn.
pub fn judge_tail(last_valid_lsn: u64, durable_seen: u64, stop: Stop, later: Option<Later>) -> Tail {
    let at = stop.at;
    if durable_seen > last_valid_lsn {
        let why =
            format!("records up to lsn {durable_seen} were durable, the last valid one is {last_valid_lsn}");
        return Tail::Corrupt { at, why };
    }
    if let Some(Later {
        offset,
        lsn,
        durable_lsn,
    }) = later
        && (lsn > last_valid_lsn || durable_lsn > last_valid_lsn)
    {
        let why =
            format!("lsn {last_valid_lsn} is the last valid one, but lsn {lsn} follows at offset {offset}");
        return Tail::Corrupt { at, why };
    }
    if stop.blank {
        Tail::Clean
    } else {
        Tail::Torn { at }
    }
}
