//! What connections of HTTP/2 may be sent, and take.

use std::ops::RangeInclusive;

use crate::limits;

/// What a connection may be sent before it is read, and what it takes in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2 {
    pub window: u32,
    /// Bytes of a connection beside its window.
    pub own: u64,
    /// Connections at once.
    pub places: usize,
    /// Calls at once on one.
    pub streams: u32,
    /// Largest head of a call.
    pub head: u32,
    /// Calls that may wait for their first bytes.
    pub waiting: usize,
}

impl Http2 {
    /// Of `elastic` bytes: half for connections at most, taken as they come, and a thousandth for one's window. (Programs have a
    /// connection for each of their processes, and one without a place waits in the kernel until its client gives up: with an eighth
    /// there were 14 places in 135 MB.)
    pub fn new(elastic: u64, encrypted: bool) -> Http2 {
        let within = |n: u64, bounds: RangeInclusive<u64>| n.clamp(*bounds.start(), *bounds.end());
        let window = within(elastic / 1024, limits::WINDOW_BYTES);
        let own = limits::CONNECTION_BYTES_HTTP2 + limits::tls_bytes(encrypted);
        let each = own + window;
        let places = usize::try_from(elastic / 2 / each).unwrap_or(usize::MAX);
        Http2 {
            window: window as u32,
            own,
            places: places.clamp(limits::CONNECTIONS_HTTP2_MIN, limits::CONNECTIONS_DEFAULT),
            streams: within(elastic / limits::STREAM_SHARE, limits::STREAMS) as u32,
            head: within(elastic / 256, limits::HEAD_BYTES_HTTP2) as u32,
            waiting: within(elastic / 32 / limits::CALL_BYTES, limits::CALLS_WAITING) as usize,
        }
    }

    /// Bytes that one connection takes at most, its calls apart.
    pub fn connection_bytes(self) -> u64 {
        self.own + u64::from(self.window)
    }

    pub fn all_bytes(self) -> u64 {
        self.connection_bytes() * self.places as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_server_has_places_for_the_processes_of_a_program() {
        for (elastic, least) in [
            (2 << 20, 8),
            (4_886_528, 20),
            (10_190_848, 45),
            (12_419_072, 56),
            (1 << 30, 256),
        ] {
            let of = Http2::new(elastic, false);
            assert!(of.places >= least, "{} places of {elastic} bytes", of.places);
            assert!(
                of.all_bytes() <= elastic / 2,
                "{} of {elastic} bytes",
                of.all_bytes()
            );
        }
    }
}
