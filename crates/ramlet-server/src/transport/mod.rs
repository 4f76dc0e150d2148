//! Connections: sockets, TLS, HTTP/1 and HTTP/2, eviction, and a graceful end.

pub mod body_drain;
pub mod connection;
pub mod eviction;
pub mod graceful_close;
pub mod http1;
pub mod http2;
pub mod moving_socket;
pub mod serve;
pub mod timed_io;
pub mod tls;
