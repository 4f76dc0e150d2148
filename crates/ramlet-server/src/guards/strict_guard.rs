//! Strict mode on the way in: the engine's checks, and the rates, which need a clock.

use std::ops::Deref;

use axum::http::StatusCode;
use ramlet::{Collection, Engine, Strict, UpdateOp};
use ramlet_io::system::process_memory;

use super::rates::{Kind, Rates};
use crate::error::{ApiError, ApiResult};

/// The strict mode of a collection that has it.
pub struct Guard<'a> {
    strict: Strict,
    rates: &'a Rates,
    engine: &'a Engine,
    collection: &'a Collection,
}

impl Deref for Guard<'_> {
    type Target = Strict;
    fn deref(&self) -> &Strict {
        &self.strict
    }
}

impl<'a> Guard<'a> {
    /// `None`: not enabled. One atomic load.
    pub fn of(rates: &'a Rates, engine: &'a Engine, collection: &'a Collection) -> Option<Guard<'a>> {
        collection.strict_mode().map(|strict| Guard {
            strict,
            rates,
            engine,
            collection,
        })
    }

    /// Counts reads that cost so much.
    pub fn read(&self, cost: u64) -> ApiResult<()> {
        self.rate(Kind::Read, self.settings().read_rate_limit, cost)
    }

    /// Counts writes that cost so much.
    pub fn write(&self, cost: u64) -> ApiResult<()> {
        self.rate(Kind::Write, self.settings().write_rate_limit, cost)
    }

    /// Whether writes are counted at all.
    pub fn has_write_rate(&self) -> bool {
        self.settings().write_rate_limit.is_some()
    }

    fn rate(&self, kind: Kind, limit: Option<u64>, cost: u64) -> ApiResult<()> {
        match limit {
            None => Ok(()),
            Some(per_minute) => self.rates.take(self.collection.id(), kind, per_minute, cost),
        }
    }

    /// A change, without its rate.
    pub fn change(&self, op: &UpdateOp) -> ApiResult<()> {
        self.update(op)?;
        match self.settings().max_resident_memory_percent {
            Some(limit) if adds(op) => self.check_resident(limit),
            _ => Ok(()),
        }
    }

    fn check_resident(&self, limit: u64) -> ApiResult<()> {
        let used = resident_percent(self.engine);
        if used < limit {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            format!(
                "Bad request: Resident memory usage is at {used}% of total memory, exceeding the configured limit of \
                 {limit}%. Help: Reduce memory usage (e.g. delete points or drop collections), or raise \
                 `max_resident_memory_percent` in the strict mode config of this collection."
            ),
        ))
    }
}

/// Whether a change may make a collection larger.
pub fn adds(op: &UpdateOp) -> bool {
    !matches!(
        op,
        UpdateOp::Delete(_)
            | UpdateOp::ClearPayload(_)
            | UpdateOp::DeletePayload { .. }
            | UpdateOp::DeleteVectors { .. }
    )
}

/// Resident memory in percent of the budget: that is all the memory there is for this process.
pub fn resident_percent(engine: &Engine) -> u64 {
    process_memory().rss.saturating_mul(100) / engine.budget().memory_bytes.max(1)
}
