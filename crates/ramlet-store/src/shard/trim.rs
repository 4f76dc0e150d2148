//! Slots that the newest manifests make superfluous are deleted, as docs/adr/0076-the-log-is-trimmed.md decides.
//!
//! A seal stays for ever, and so does a record that counts for nothing: an owner who is late finds its slot taken. The others were created by the only owner
//! who could. Anybody may trim at any time, also somebody who is no owner any more: what may go is what a published manifest says.

use std::future::Future;
use std::ops::RangeInclusive;

use super::protocol::{Kind, Logged, Rule, Slots};

/// The store, as a trimmer asks it.
pub trait Trim: Slots {
    /// The first slots behind `after` that are there, up to `last`, in order; none only if there are none.
    fn present(&self, after: u64, last: u64) -> impl Future<Output = Result<Vec<u64>, Self::LogError>>;

    /// Deletes slots; that one isn't there any more is no failure.
    fn delete(&self, slots: Vec<u64>) -> impl Future<Output = Result<(), Self::LogError>>;
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trimmed {
    pub deleted: u64,
    /// Seals, and records that count for nothing.
    pub kept: u64,
}

/// Deletes what counts up to `last`, which a published manifest says may be deleted. `own`: slots that the caller filled with records that count; they aren't
/// read again.
pub async fn trim<S: Trim>(slots: &S, last: u64, own: &RangeInclusive<u64>) -> Result<Trimmed, S::LogError> {
    let (mut trimmed, mut after, mut epoch) = (Trimmed::default(), 0, 0);
    while after < last {
        let present = slots.present(after, last).await?;
        let Some(end) = present.last() else {
            break;
        };
        after = *end;
        let mut dead = Vec::new();
        for slot in present {
            let counts = own.contains(&slot)
                || match slots.get(slot).await?.as_ref().map(Logged::kind) {
                    Some(Kind::Seal { epoch: sealed }) => {
                        epoch = epoch.max(sealed);
                        slots.breaks(Rule::KeptSeals)
                    }
                    Some(Kind::Record { epoch: of }) => of == epoch || slots.breaks(Rule::KeptVoid),
                    // Another one trims too.
                    None => continue,
                };
            match counts {
                true => dead.push(slot),
                false => trimmed.kept += 1,
            }
        }
        trimmed.deleted += dead.len() as u64;
        if !dead.is_empty() {
            slots.delete(dead).await?;
        }
    }
    Ok(trimmed)
}
