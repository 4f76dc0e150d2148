//! A connection of either protocol: how a search is sent and how its answer is read.

use std::io::Result;
use std::time::Duration;

use super::grpc::Channel;
use super::http::{Answer, Connection, Target};
use super::requests::Requests;
use super::wire::Wire;
use super::{grpc, requests};

/// A connection of either.
#[derive(Debug)]
pub enum Client {
    Rest(Connection),
    Grpc(Channel),
}

impl Client {
    pub fn connect(wire: Wire, target: &Target, timeout: Duration) -> Result<Client> {
        Ok(match wire {
            Wire::Rest => Client::Rest(target.connect(timeout)?),
            Wire::Grpc => Client::Grpc(Channel::open(target, timeout)?),
        })
    }

    pub fn is_open(&self) -> bool {
        match self {
            Client::Rest(connection) => connection.is_open(),
            Client::Grpc(channel) => channel.is_open(),
        }
    }

    /// Sends one of the requests, which must be rendered for this protocol, and waits for its answer.
    pub fn ask(&mut self, requests: &Requests, at: usize) -> Result<Answer<'_>> {
        match self {
            Client::Rest(connection) => connection.ask(requests.get(at)),
            Client::Grpc(channel) => channel.ask(requests.header(), requests.get(at)),
        }
    }
}

/// Replaces `ids` with those in an answer, best first.
pub fn read_ids(wire: Wire, body: &[u8], ids: &mut Vec<u64>) {
    match wire {
        Wire::Rest => requests::read_ids(body, ids),
        Wire::Grpc => grpc::read_ids(body, ids),
    }
}
