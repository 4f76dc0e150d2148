//! REST or gRPC. Everything around a measurement goes over REST.

use serde::Serialize;

/// The two protocols of the API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum Wire {
    #[default]
    #[serde(rename = "REST")]
    Rest,
    #[serde(rename = "gRPC")]
    Grpc,
}

impl Wire {
    pub fn name(self) -> &'static str {
        match self {
            Wire::Rest => "REST",
            Wire::Grpc => "gRPC",
        }
    }
}
