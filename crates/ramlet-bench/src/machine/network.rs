//! TCP within the machine.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::row::{Planned, Unit};
use super::suite::{Options, Report, Setup, Suite, planned};

pub const NETWORK: Suite = Suite {
    name: "network",
    seconds: (2, 10),
    plan,
    run,
};

const OPS: &str = "TCP, writes of 4 KB";
const THROUGHPUT: &str = "TCP, throughput of these";
const LARGE: &str = "TCP, throughput of writes of 64 KB";
const ROUND_TRIP: &str = "TCP, a byte there and back";

fn plan(_: &Options) -> Vec<Planned> {
    vec![
        planned(OPS, Unit::Ops),
        planned(THROUGHPUT, Unit::Gigabits),
        planned(LARGE, Unit::Gigabits),
        planned(ROUND_TRIP, Unit::Microseconds),
    ]
}

fn run(setup: &Setup, report: &mut Report<'_>) -> Result<(), String> {
    let time = setup.pick(Duration::from_millis(500), Duration::from_secs(2));
    let failed = |error: std::io::Error| error.to_string();
    if report.begin(OPS) {
        let writes = stream(4096, time).map_err(failed)?;
        report.found(OPS, writes, &[]);
        report.found(THROUGHPUT, writes * 4096.0 * 8.0 / 1e9, &[]);
    }
    if report.begin(LARGE) {
        report.found(
            LARGE,
            stream(65_536, time).map_err(failed)? * 65_536.0 * 8.0 / 1e9,
            &[],
        );
    }
    if report.begin(ROUND_TRIP) {
        report.found(ROUND_TRIP, round_trip(time).map_err(failed)?, &[]);
    }
    Ok(())
}

/// Both ends of a connection.
fn pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    for stream in [&here, &there] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    }
    Ok((here, there))
}

/// Writes of so many bytes a second, each read by another thread.
fn stream(bytes: usize, time: Duration) -> std::io::Result<f64> {
    let (mut here, mut there) = pair()?;
    let reader = std::thread::spawn(move || {
        let mut buf = vec![0u8; bytes];
        let mut read = 0;
        while let Ok(some @ 1..) = there.read(&mut buf) {
            read += some as u64;
        }
        read
    });
    let buf = vec![7u8; bytes];
    let start = Instant::now();
    while start.elapsed() < time {
        here.write_all(&buf)?;
    }
    drop(here);
    let read = reader
        .join()
        .map_err(|_| std::io::Error::other("the reader panicked"))?;
    Ok(read as f64 / bytes as f64 / start.elapsed().as_secs_f64())
}

/// Microseconds.
fn round_trip(time: Duration) -> std::io::Result<f64> {
    let (mut here, mut there) = pair()?;
    std::thread::spawn(move || {
        let mut byte = [0u8; 1];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let (start, mut trips, mut byte) = (Instant::now(), 0u64, [0u8; 1]);
    while start.elapsed() < time {
        here.write_all(&byte)?;
        here.read_exact(&mut byte)?;
        trips += 1;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / trips as f64)
}
