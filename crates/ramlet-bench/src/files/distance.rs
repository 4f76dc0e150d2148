//! How vectors are compared.

use clap::ValueEnum;

/// Distances by the API's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Distance {
    Cosine,
    Dot,
    Euclid,
    Manhattan,
}

impl Distance {
    pub fn api_name(self) -> &'static str {
        match self {
            Distance::Cosine => "Cosine",
            Distance::Dot => "Dot",
            Distance::Euclid => "Euclid",
            Distance::Manhattan => "Manhattan",
        }
    }
}
