//! Limits of a node's resources that are set while it runs, kept beside the collections.

use ramlet_io::Storage;
use serde::{Deserialize, Serialize};

use crate::beside;
use crate::error::{Error, Result};

/// Percent of the memory budget and of the disk that a node may fill; unset: no limit beside those that always hold.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaConfig {
    pub enabled: bool,
    /// 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_resident_memory_percent: Option<u8>,
    /// 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_disk_usage_percent: Option<u8>,
    /// How far below its limit a resource that has reached it must fall; 5 unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_margin_percent: Option<u8>,
}

impl QuotaConfig {
    /// Its name in the data directory.
    pub const FILE: &'static str = "quotas.json";
    pub const RELEASE_MARGIN_DEFAULT: u8 = 5;

    /// What was stored; `None` when nothing was.
    pub fn load(storage: &dyn Storage) -> Result<Option<QuotaConfig>> {
        let Some(json) = beside::load(storage, QuotaConfig::FILE)? else {
            return Ok(None);
        };
        let what = |error| Error::corrupt(format!("{}: {error}", QuotaConfig::FILE));
        serde_json::from_slice(&json).map(Some).map_err(what)
    }

    /// Keeps it over restarts.
    pub fn store(&self, storage: &dyn Storage) -> Result<()> {
        beside::store(storage, QuotaConfig::FILE, self)
    }
}
