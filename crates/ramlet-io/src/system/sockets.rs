//! Options of sockets that the standard library has no function for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The most bytes that a TCP segment carries, both ways. A link with smaller packets has smaller segments anyway.
///
/// Connections that a listener accepts take it over. It is agreed on in the handshake, so a client sets it before it connects.
pub fn set_segment_bytes_max(socket: BorrowedFd<'_>, bytes: u16) -> io::Result<()> {
    let value = libc::c_int::from(bytes);
    // SAFETY: the kernel reads one integer of the length given; the descriptor is borrowed, and so open.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match failed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes of a segment, of a connected socket.
pub fn segment_bytes(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes one integer and its length into those given; the descriptor is borrowed, and so open.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    match failed {
        0 => Ok(u32::try_from(value).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn both_ends_of_a_connection_have_small_segments() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        set_segment_bytes_max(listener.as_fd(), 8192).expect("taken");
        let client = TcpStream::connect(address).expect("connected");
        let (server, _) = listener.accept().expect("accepted");
        for end in [&client, &server] {
            let bytes = segment_bytes(end.as_fd()).expect("told");
            assert!((1024..=8192).contains(&bytes), "{bytes} bytes a segment");
        }
    }
}
