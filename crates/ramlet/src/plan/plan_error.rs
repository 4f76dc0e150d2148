//! Why there is no plan.

use std::fmt;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanError {
    /// The specification makes no sense: a sentence that names the field.
    BadSpec(String),
    /// What was asked for needs more memory than there is.
    DoesNotFit {
        what: String,
        memory_bytes: u64,
        memory_bytes_min: u64,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::BadSpec(why) => f.write_str(why),
            PlanError::DoesNotFit {
                what,
                memory_bytes,
                memory_bytes_min,
            } => {
                // Up for the one and down for the other, so that the numbers never look alike.
                let min = (*memory_bytes_min as f64 / 1e5).ceil() / 10.0;
                let given = match *memory_bytes {
                    bytes @ 0..1_000 => format!("{bytes} bytes"),
                    bytes @ 1_000..100_000 => format!("{} kB", bytes / 1_000),
                    bytes => format!("{} MB", (bytes as f64 / 1e5).floor() / 10.0),
                };
                write!(f, "a budget of {given} is below the {min} MB that {what} needs")
            }
        }
    }
}

impl std::error::Error for PlanError {}
