//! Redis by its own benchmark, as Debian has it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use super::row::{Also, Planned, Unit};
use super::suite::{Options, Report, Setup, Suite, planned};
use super::tool::Tool;

pub const REDIS: Suite = Suite {
    name: "redis",
    seconds: (8, 100),
    plan,
    run,
};

const PACKAGE: &str = "redis-server";
/// As redis-benchmark takes and prints them, in its order. Those of lists fill a list first, which is a line of its own.
const TESTS: [(&str, &str); 20] = [
    ("ping_inline", "PING_INLINE"),
    ("ping_mbulk", "PING_MBULK"),
    ("set", "SET"),
    ("get", "GET"),
    ("incr", "INCR"),
    ("lpush", "LPUSH"),
    ("rpush", "RPUSH"),
    ("lpop", "LPOP"),
    ("rpop", "RPOP"),
    ("sadd", "SADD"),
    ("hset", "HSET"),
    ("spop", "SPOP"),
    ("zadd", "ZADD"),
    ("zpopmin", "ZPOPMIN"),
    ("lrange_100", "LPUSH (needed to benchmark LRANGE)"),
    ("lrange_100", "LRANGE_100 (first 100 elements)"),
    ("lrange_300", "LRANGE_300 (first 300 elements)"),
    ("lrange_500", "LRANGE_500 (first 500 elements)"),
    ("lrange_600", "LRANGE_600 (first 600 elements)"),
    ("mset", "MSET (10 keys)"),
];

fn plan(_: &Options) -> Vec<Planned> {
    TESTS
        .into_iter()
        .map(|(_, name)| planned(name, Unit::Requests))
        .collect()
}

fn run(setup: &Setup, report: &mut Report<'_>) -> Result<(), String> {
    let scratch = setup.scratch()?;
    let port = free_port().map_err(|error| format!("no port is free: {error}"))?;
    report.begin("starting the server");
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"])
        .arg(scratch.path());
    let mut server = Tool::start(&mut command, PACKAGE)?;
    if !answers(port) {
        return Err(server.complaint());
    }
    let requests: u32 = setup.pick(10_000, 100_000);
    for (at, (test, name)) in TESTS.into_iter().enumerate() {
        if at > 0 && TESTS[at - 1].0 == test {
            continue;
        }
        if !report.begin(name) {
            break;
        }
        // One after the other: its output comes all at once at the end.
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-t", test, "--csv"]);
        benchmark.args(["-n", &requests.to_string(), "-c", "50", "-d", "3"]);
        let mut found = Vec::new();
        let ended = Tool::start(&mut benchmark, "redis-tools")?
            .lines(setup.left(), &mut |line| found.extend(parse(line)));
        if let Err(why) = ended {
            report.missing(name, &why);
        }
        // The filling of a list counts where it stands before the first of them.
        let wanted = |name: &str| TESTS.iter().any(|(t, n)| *t == test && *n == name);
        for (name, value, also) in found.into_iter().filter(|(name, ..)| wanted(name)) {
            report.found(&name, value, &also);
        }
    }
    Ok(())
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn answers(port: u16) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// `"SET","186915.88","0.142","0.040","0.135","0.231","0.375","1.415"`: name, rate, then latencies in ms: mean, least, p50, p95, p99, most.
/// A name may hold commas and is in quotes. Versions before 6.2 print the first two alone.
fn parse(line: &str) -> Option<(String, f64, Vec<Also>)> {
    let (name, figures) = line.strip_prefix('"')?.split_once("\",\"")?;
    let figures: Vec<f64> = figures
        .trim_end_matches('"')
        .split("\",\"")
        .map_while(|text| text.parse().ok())
        .collect();
    let also = [(3, "us p50"), (4, "us p95"), (5, "us p99"), (6, "us most")];
    let also = also
        .into_iter()
        .filter_map(|(at, unit)| Some((figures.get(at)? * 1e3, unit)))
        .collect();
    Some((name.to_owned(), *figures.first()?, also))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_redis_benchmark() {
        let line = r#""SET","186915.88","0.142","0.040","0.135","0.231","0.375","1.415""#;
        let (name, value, also) = parse(line).expect("sound");
        assert_eq!(
            (name.as_str(), value, also),
            (
                "SET",
                186_915.88,
                vec![
                    (135.0, "us p50"),
                    (231.0, "us p95"),
                    (375.0, "us p99"),
                    (1415.0, "us most")
                ]
            )
        );
        let (name, value, also) = parse(r#""MSET (10 keys)","5.5""#).expect("sound");
        assert_eq!((name.as_str(), value, also), ("MSET (10 keys)", 5.5, vec![]));
        for other in [r#""test","rps","avg_latency_ms""#, "", "\"", "SET,1", r#""SET""#] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
