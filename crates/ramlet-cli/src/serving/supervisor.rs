//! Notifies the service manager (sd_notify(3)): a datagram to the socket that it names.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::Result;

/// `READY=1` once it listens, `STOPPING=1` when it ends. Nothing where no manager asks for it.
pub fn tell(state: &str) {
    let Some(socket) = std::env::var("NOTIFY_SOCKET")
        .ok()
        .filter(|name| !name.is_empty())
    else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!("can't notify the service manager at {socket} of {state}: {error:#}");
    }
}

fn send(socket: &str, state: &str) -> Result<()> {
    // A name of the kernel's, not of a file, begins with @.
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_a_name_of_the_kernel() {
        let path = std::env::temp_dir().join(format!("ramlet-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let name = format!("ramlet-notify-{}", std::process::id());
        let of_file = path.display().to_string();
        let of_kernel = format!("@{name}");
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        for (socket, listener) in [
            (of_file, UnixDatagram::bind(&path).expect("a file")),
            (of_kernel, UnixDatagram::bind_addr(&address).expect("a name")),
        ] {
            send(&socket, "READY=1").expect("somebody listens");
            let mut told = [0; 16];
            let len = listener.recv(&mut told).expect("a datagram");
            assert_eq!(&told[..len], b"READY=1", "{socket}");
        }
        std::fs::remove_file(&path).expect("it was there");
        assert!(send("/nowhere/at/all", "READY=1").is_err());
    }
}
