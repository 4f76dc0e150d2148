//! Quotas: shares of the budget and of the disk from which on nothing is added. The budget itself holds whatever they say.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;
use ramlet::{Engine, QuotaConfig};
use ramlet_io::Storage;

use super::strict_guard::resident_percent;
use crate::error::{ApiError, ApiResult};

/// The limits that are set, and which of them were reached when it was last looked.
pub struct Quotas {
    config: Mutex<QuotaConfig>,
    memory_reached: AtomicBool,
    disk_reached: AtomicBool,
}

/// What is said of a resource that has reached its limit.
struct Resource {
    what: &'static str,
    of: &'static str,
    remedy: &'static str,
    field: &'static str,
}

const MEMORY: Resource = Resource {
    what: "Resident memory usage",
    of: "total memory",
    remedy: "Reduce memory usage (e.g. delete points or drop collections)",
    field: "max_resident_memory_percent",
};
const DISK: Resource = Resource {
    what: "Disk usage",
    of: "total capacity",
    remedy: "Reduce disk usage (e.g. delete points or drop collections)",
    field: "max_disk_usage_percent",
};

impl Quotas {
    /// Those that were stored; else the budget is all that is said.
    pub fn load(engine: &Engine) -> Quotas {
        let stored = engine.quotas().unwrap_or_else(|e| {
            tracing::warn!("quotas are reset to their defaults: {e}");
            None
        });
        Quotas {
            config: Mutex::new(stored.unwrap_or(QuotaConfig {
                enabled: true,
                max_resident_memory_percent: Some(100),
                ..QuotaConfig::default()
            })),
            memory_reached: AtomicBool::new(false),
            disk_reached: AtomicBool::new(false),
        }
    }

    pub fn config(&self) -> QuotaConfig {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, and after a restart.
    pub fn set(&self, config: QuotaConfig, engine: &Engine) -> ApiResult<()> {
        let mut current = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        engine.set_quotas(config)?;
        *current = config;
        self.memory_reached.store(false, Relaxed);
        self.disk_reached.store(false, Relaxed);
        Ok(())
    }

    /// Refuses what adds data (507) where a limit is reached.
    pub fn check(&self, engine: &Engine) -> ApiResult<()> {
        let config = self.config();
        let margin = config
            .release_margin_percent
            .unwrap_or(QuotaConfig::RELEASE_MARGIN_DEFAULT);
        if let Some(limit) = memory_limit(&config) {
            let used = resident_percent(engine);
            judge(
                &MEMORY,
                u64::from(limit),
                u64::from(margin),
                used,
                &self.memory_reached,
            )?;
        }
        if let Some(limit) = config.max_disk_usage_percent.filter(|_| config.enabled)
            && let Some(used) = disk_percent(engine.storage().as_ref())
        {
            judge(
                &DISK,
                u64::from(limit),
                u64::from(margin),
                used,
                &self.disk_reached,
            )?;
        }
        Ok(())
    }

    /// Whether updates are refused for memory and for disk; `None`: there is no limit.
    pub fn exceeded(&self, engine: &Engine) -> (Option<bool>, Option<bool>) {
        let config = self.config();
        // Judged anew; what it says is told by the two flags.
        let _ = self.check(engine);
        let memory = config.max_resident_memory_percent.filter(|_| config.enabled);
        let disk = config.max_disk_usage_percent.filter(|_| config.enabled);
        (
            memory.map(|_| self.memory_reached.load(Relaxed)),
            disk.map(|_| self.disk_reached.load(Relaxed)),
        )
    }
}

/// All of the budget is what the ledger sees to, byte by byte.
fn memory_limit(config: &QuotaConfig) -> Option<u8> {
    let limit = config.max_resident_memory_percent.filter(|_| config.enabled);
    limit.filter(|percent| *percent < 100)
}

/// Percent of the disk that can't be written any more, rounded down.
pub fn disk_percent(storage: &dyn Storage) -> Option<u64> {
    let all = storage.capacity_bytes().ok()??;
    let free = storage.free_bytes().ok()?.min(all);
    (all > 0).then(|| ((all - free) as f64 * 100.0 / all as f64) as u64)
}

/// What has reached its limit must fall by the margin, so that it isn't in and out with every byte.
fn judge(resource: &Resource, limit: u64, margin: u64, used: u64, reached: &AtomicBool) -> ApiResult<()> {
    let least = if reached.load(Relaxed) {
        limit.saturating_sub(margin)
    } else {
        limit
    };
    let is_reached = used >= least;
    reached.store(is_reached, Relaxed);
    if !is_reached {
        return Ok(());
    }
    let Resource {
        what,
        of,
        remedy,
        field,
    } = resource;
    let condition = if used >= limit {
        format!("{what} is at {used}% of {of}, exceeding the configured limit of {limit}%")
    } else {
        format!(
            "{what} is at {used}% of {of}. It reached the configured limit of {limit}% and has to fall below {least}% before \
             writes are taken again"
        )
    };
    Err(ApiError::new(
        StatusCode::INSUFFICIENT_STORAGE,
        format!(
            "Insufficient storage: {condition}. Help: {remedy}, or raise `{field}` in the global quota config."
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_reached_is_left_by_the_margin() {
        let reached = AtomicBool::new(false);
        let is_refused = |used| judge(&MEMORY, 50, 5, used, &reached).is_err();
        let seen: Vec<bool> = [49, 50, 46, 45, 44, 49].into_iter().map(is_refused).collect();
        assert_eq!(seen, [false, true, true, true, false, false]);
        let e = judge(&DISK, 1, 0, 3, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(e.status.as_u16(), 507);
        assert!(
            e.message
                .contains("at 3% of total capacity, exceeding the configured limit of 1%")
        );
    }
}
