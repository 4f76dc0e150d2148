//! Quotas of a node's resources, set while it runs and kept in the catalog.

use serde::{Deserialize, Serialize};

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
    pub const RELEASE_MARGIN_DEFAULT: u8 = 5;
}
