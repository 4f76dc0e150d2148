//! REST or gRPC: how a search is asked and how its answer is read. Everything around a measurement goes over REST.

use std::io::Result;
use std::time::Duration;

use serde::Serialize;

use crate::grpc::Channel;
use crate::http::{Answer, Connection, Target};
use crate::requests::Requests;
use crate::{grpc, requests};

/// The two protocols of the API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum Wire {
    #[default]
    #[serde(rename = "REST")]
    Rest,
    #[serde(rename = "gRPC")]
    Grpc,
}

/// A connection of either.
#[derive(Debug)]
pub enum Line {
    Rest(Connection),
    Grpc(Channel),
}

impl Wire {
    pub fn name(self) -> &'static str {
        match self {
            Wire::Rest => "REST",
            Wire::Grpc => "gRPC",
        }
    }

    pub fn connect(self, target: &Target, timeout: Duration) -> Result<Line> {
        Ok(match self {
            Wire::Rest => Line::Rest(target.connect(timeout)?),
            Wire::Grpc => Line::Grpc(Channel::open(target, timeout)?),
        })
    }

    /// Replaces `ids` with those in the answer, best first.
    pub fn read_ids(self, body: &[u8], ids: &mut Vec<u64>) {
        match self {
            Wire::Rest => requests::read_ids(body, ids),
            Wire::Grpc => grpc::read_ids(body, ids),
        }
    }
}

impl Line {
    pub fn is_open(&self) -> bool {
        match self {
            Line::Rest(connection) => connection.is_open(),
            Line::Grpc(channel) => channel.is_open(),
        }
    }

    /// Sends one of the requests, which must be rendered for this wire, and waits for its answer.
    pub fn ask(&mut self, requests: &Requests, at: usize) -> Result<Answer<'_>> {
        match self {
            Line::Rest(connection) => connection.ask(requests.get(at)),
            Line::Grpc(channel) => channel.ask(requests.header(), requests.get(at)),
        }
    }
}
