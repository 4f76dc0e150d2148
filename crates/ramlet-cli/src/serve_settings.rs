//! The settings of `ramlet serve`: flags, then the environment and files, then defaults.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use ramlet_io::Backend;
use ramlet_io::system::{cgroup_memory_limit, machine};
use ramlet_memory::BudgetRequest;
use ramlet_server::{GrpcPort, SlowQuery};

use crate::args::{self, NodeRole, ServeArgs, SnapshotsStorage};
use crate::settings::audit_settings::AuditSettings;
use crate::settings::tls_settings::TlsFiles;
use crate::settings::{Found, Sources};
use crate::size::ByteSize;

/// All settings of a server, decided.
#[derive(Debug)]
pub struct Settings {
    pub memory: ByteSize,
    /// Where the figure comes from, for the line that is printed at the start.
    pub memory_origin: String,
    pub data: PathBuf,
    /// A directory, or the URL of a store; `None`: a directory within `data`.
    pub snapshots: Option<PathBuf>,
    /// `None`: snapshots go to `snapshots`.
    pub snapshots_s3: Option<SnapshotsS3>,
    pub host: String,
    pub port: u16,
    pub grpc_port: GrpcPort,
    pub api_key: Option<String>,
    pub alt_api_key: Option<String>,
    pub read_only_api_key: Option<String>,
    pub jwt_rbac: bool,
    /// `None`: no audit log.
    pub audit: Option<AuditSettings>,
    pub tls: Option<TlsFiles>,
    /// `None`: if a key is set.
    pub cors: Option<bool>,
    /// `None`: what each route takes.
    pub max_body_bytes: Option<u64>,
    pub insecure: bool,
    pub backend: Backend,
    pub search_threads: usize,
    /// Measure the machine when its profile isn't there.
    pub probe: bool,
    pub snapshots_from_urls: bool,
    pub slow_query: SlowQuery,
    /// `None`: a server on its own.
    pub store: Option<StoreSettings>,
}

/// A bucket for snapshots, and what it is reached with; what isn't said comes from the `AWS_*` variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotsS3 {
    pub bucket: String,
    pub region: Option<String>,
    pub access_key: Option<String>,
    pub secret_key: Option<String>,
    pub endpoint: Option<String>,
}

/// A node over a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    pub url: String,
    pub role: NodeRole,
    pub advertise: Option<String>,
    /// Into how many the store is to be divided, and the one to hold.
    pub shards: Option<u32>,
    pub shard: Option<u32>,
    /// Slots of the log.
    pub backup_every: u64,
    /// Backups; 0: all.
    pub keep: usize,
    pub takeover_after: Duration,
}

impl Settings {
    /// Decides from the flags, the environment and the files.
    pub fn new(args: &ServeArgs, said: &Sources) -> Result<Settings> {
        Settings::decide(args, said, cgroup_memory_limit(), || machine().ram_bytes)
    }

    fn decide(
        args: &ServeArgs,
        said: &Sources,
        cgroup: Option<u64>,
        ram: impl Fn() -> u64,
    ) -> Result<Settings> {
        refuse_empty_keys(args)?;
        let (memory, memory_origin) = memory(args.memory, said, cgroup, ram)?;
        let cores = available_parallelism().map_or(1, usize::from);
        let text = |flag: &Option<String>, key: &str| {
            flag.clone().or_else(|| said.find(key).map(|found| found.value))
        };
        let truth = |flag: Option<bool>, key: &str| match flag {
            Some(told) => Ok(Some(told)),
            None => said.truth(key),
        };
        // A flag that is there says yes, and none says nothing.
        let switch =
            |flag: bool, key: &str| Ok::<bool, anyhow::Error>(flag || said.truth(key)?.unwrap_or(false));
        let data = data_directory(args.data.as_deref(), said);
        Ok(Settings {
            memory,
            memory_origin,
            audit: AuditSettings::decide(args, said, &data)?,
            data,
            snapshots: args
                .snapshots_path
                .clone()
                .or_else(|| said.find("snapshots_path").map(|found| found.value.into())),
            snapshots_s3: snapshots_s3(args, said)?,
            host: text(&args.host, "host").unwrap_or_else(|| "127.0.0.1".into()),
            port: port(args.port, said)?,
            grpc_port: grpc_port(args.grpc_port.as_deref(), said)?,
            api_key: text(&args.api_key, "api_key"),
            alt_api_key: text(&args.alt_api_key, "alt_api_key"),
            jwt_rbac: truth(args.jwt_rbac, "jwt_rbac")?.unwrap_or(false),
            tls: TlsFiles::decide(Some(args), said)?,
            cors: truth(args.cors, "cors")?,
            max_body_bytes: max_body(args.max_body, said)?,
            read_only_api_key: text(&args.read_only_api_key, "read_only_api_key"),
            insecure: switch(args.insecure, "insecure")?,
            backend: backend(args.backend, said)?,
            probe: !switch(args.no_probe, "no_probe")?,
            snapshots_from_urls: switch(args.snapshots_from_urls, "snapshots_from_urls")?,
            slow_query: slow_query(args.slow_query.as_deref(), said)?,
            store: store(args, said)?,
            search_threads: threads_wish(args.threads, said)?
                .map_or_else(|| BudgetRequest::search_threads_for(memory.0, cores), usize::from),
        })
    }

    /// A sentence when more memory was asked for than this process can get.
    pub fn memory_warning(&self) -> Option<String> {
        too_much(self.memory, cgroup_memory_limit(), machine().ram_bytes)
    }
}

/// Where this machine reaches the server that runs with the same environment and files.
#[derive(Debug, PartialEq, Eq)]
pub struct Reached {
    pub url: String,
    /// Only clients with a certificate are let in.
    pub asks_certificates: bool,
}

/// See [`Reached`].
pub fn reached(said: &Sources) -> Result<Reached> {
    let host = said
        .find("host")
        .map_or_else(|| "127.0.0.1".to_owned(), |found| found.value);
    // What listens on all addresses listens on this one.
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "0.0.0.0" => "127.0.0.1".to_owned(),
        "::" => "[::1]".to_owned(),
        bare if bare.contains(':') => format!("[{bare}]"),
        bare => bare.to_owned(),
    };
    let tls = TlsFiles::decide(None, said)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    Ok(Reached {
        url: format!("{scheme}://{host}:{}", port(None, said)?),
        asks_certificates: tls.is_some_and(|files| files.asks_certificates()),
    })
}

/// A bucket for snapshots, where that is asked for.
fn snapshots_s3(args: &ServeArgs, said: &Sources) -> Result<Option<SnapshotsS3>> {
    let storage = match (args.snapshots_storage, said.find("snapshots_storage")) {
        (Some(storage), _) => storage,
        (None, None) => SnapshotsStorage::Local,
        (None, Some(found)) => SnapshotsStorage::from_str(&found.value, true)
            .map_err(|_| found.wrong(&"it is neither local nor s3"))?,
    };
    let text = |flag: &Option<String>, key: &str| {
        let told = flag.clone().or_else(|| said.find(key).map(|found| found.value));
        told.filter(|told| !told.is_empty())
    };
    let bucket = text(&args.snapshots_s3_bucket, "snapshots_s3_bucket");
    match (storage, bucket) {
        (SnapshotsStorage::Local, _) => Ok(None),
        (SnapshotsStorage::S3, None) => Err(anyhow!(
            "snapshots go to S3, and no bucket is named: --snapshots-s3-bucket, or storage.snapshots_config.s3_config.bucket"
        )),
        (SnapshotsStorage::S3, Some(bucket)) => Ok(Some(SnapshotsS3 {
            bucket,
            region: text(&args.snapshots_s3_region, "snapshots_s3_region"),
            access_key: text(&args.snapshots_s3_access_key, "snapshots_s3_access_key"),
            secret_key: text(&args.snapshots_s3_secret_key, "snapshots_s3_secret_key"),
            endpoint: text(&args.snapshots_s3_endpoint, "snapshots_s3_endpoint"),
        })),
    }
}

/// A node takes over when it hears nothing of the writer for so long.
const TAKEOVER_AFTER: Duration = Duration::from_secs(10);

/// A URL and what belongs to it, or nothing.
fn store(args: &ServeArgs, said: &Sources) -> Result<Option<StoreSettings>> {
    let text =
        |flag: &Option<String>, key: &str| flag.clone().or_else(|| said.find(key).map(|found| found.value));
    let role = match (args.role, said.find("role")) {
        (Some(role), _) => Some(role),
        (None, None) => None,
        (None, Some(found)) => {
            let role = NodeRole::from_str(&found.value, true);
            Some(role.map_err(|_| found.wrong(&"it is none of auto, writer, reader and build"))?)
        }
    };
    let backup_every = match (args.store_backup_every, said.find("store_backup_every")) {
        (Some(slots), _) => slots,
        (None, None) => 1_000,
        (None, Some(found)) => {
            let slots = found.value.parse();
            slots.map_err(|_| found.wrong(&"it is not a number of slots"))?
        }
    };
    let keep = match (args.store_keep, said.find("store_keep")) {
        (Some(backups), _) => backups,
        (None, None) => 8,
        (None, Some(found)) => {
            let backups = found.value.parse();
            backups.map_err(|_| found.wrong(&"it is not a number of backups"))?
        }
    };
    let number = |flag: Option<u32>, key: &str| match (flag, said.find(key)) {
        (Some(number), _) => Ok(Some(number)),
        (None, None) => Ok(None),
        (None, Some(found)) => {
            let number = found.value.parse::<u32>();
            number.map(Some).map_err(|_| found.wrong(&"it is not a number"))
        }
    };
    let (shards, shard) = (number(args.shards, "shards")?, number(args.shard, "shard")?);
    match (text(&args.store, "store"), role) {
        (None, _) if shards.or(shard).is_some() => Err(anyhow!(
            "--shards and --shard are for nodes over a store: --store URL"
        )),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(anyhow!("--role is for a node over a store: --store URL")),
        (Some(url), role) => Ok(Some(StoreSettings {
            url,
            role: role.unwrap_or(NodeRole::Auto),
            takeover_after: takeover_after(args, said)?,
            advertise: text(&args.advertise, "advertise"),
            shards,
            shard,
            backup_every: backup_every.max(1),
            keep,
        })),
    }
}

fn takeover_after(args: &ServeArgs, said: &Sources) -> Result<Duration> {
    match (args.takeover_after.as_deref(), said.find("takeover_after")) {
        (Some(told), _) => takeover_from(told).map_err(|why| anyhow!("--takeover-after {told}: {why}")),
        (None, Some(found)) => takeover_from(&found.value).map_err(|why| found.wrong(&why)),
        (None, None) => Ok(TAKEOVER_AFTER),
    }
}

fn takeover_from(told: &str) -> Result<Duration, &'static str> {
    let after =
        time_from(told).filter(|after| (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(after));
    after.ok_or("expected a time from 1s to 3600s")
}

fn slow_query(flag: Option<&str>, said: &Sources) -> Result<SlowQuery> {
    match (flag, said.find("slow_query")) {
        (Some(told), _) => slow_from(told).map_err(|why| anyhow!("--slow-query {told}: {why}")),
        (None, Some(found)) => slow_from(&found.value).map_err(|why| found.wrong(&why)),
        (None, None) => Ok(SlowQuery::Unset),
    }
}

/// `100ms`, `1.5s`, `off`.
fn slow_from(told: &str) -> Result<SlowQuery, &'static str> {
    const WRONG: &str = "expected a time with a unit, such as 100ms or 2s, or off";
    if told.eq_ignore_ascii_case("off") {
        return Ok(SlowQuery::Off);
    }
    match time_from(told) {
        Some(threshold) if threshold <= Duration::from_secs(3600) => Ok(SlowQuery::From(threshold)),
        _ => Err(WRONG),
    }
}

/// `100ms`, `1.5s`.
fn time_from(told: &str) -> Option<Duration> {
    let (number, scale) = match (told.strip_suffix("ms"), told.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, number) => (number?, 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok()? * scale;
    Duration::try_from_secs_f64(seconds).ok()
}

/// An empty key is an unset variable of whoever starts the server, and would leave it open.
fn refuse_empty_keys(args: &ServeArgs) -> Result<()> {
    let keys = [
        ("--api-key", &args.api_key),
        ("--alt-api-key", &args.alt_api_key),
        ("--read-only-api-key", &args.read_only_api_key),
    ];
    match keys
        .iter()
        .find(|(_, key)| key.as_deref().is_some_and(|key| key.trim().is_empty()))
    {
        Some((flag, _)) => Err(anyhow!(
            "{flag} is empty: give it a key, or leave the flag out to run without one"
        )),
        None => Ok(()),
    }
}

/// A machine whose RAM can't be told (0) has no say. A cgroup's limit is cut to whole pages by the kernel: less than a page is no
/// difference.
fn too_much(memory: ByteSize, cgroup: Option<u64>, ram: u64) -> Option<String> {
    let limits = [
        (cgroup.unwrap_or(0), "the limit of this process's memory cgroup"),
        (ram, "the RAM of this machine"),
    ];
    let (least, what) = limits
        .into_iter()
        .filter(|(bytes, _)| *bytes > 0)
        .min_by_key(|(bytes, _)| *bytes)?;
    (memory.0 >= least + ramlet_memory::page_bytes() as u64).then(|| {
        format!(
            "{memory} of memory is more than {what}, {}: the kernel may kill the server before it uses that",
            ByteSize(least)
        )
    })
}

/// Where the data is, and the machine's profile beside it: the same for every command.
pub fn data_directory(flag: Option<&Path>, said: &Sources) -> PathBuf {
    let named = || said.find("data").map(|found| found.value.into());
    flag.map(Path::to_owned)
        .or_else(named)
        .unwrap_or_else(|| "./ramlet-data".into())
}

fn port(flag: Option<u16>, said: &Sources) -> Result<u16> {
    match (flag, said.find("port")) {
        (Some(port), _) => Ok(port),
        (None, Some(found)) => found.value.parse().map_err(|_| found.wrong(&"it is not a port")),
        (None, None) => Ok(6333),
    }
}

/// A port or "disabled"; when nothing is said, 6334 if it can be had.
fn grpc_port(flag: Option<&str>, said: &Sources) -> Result<GrpcPort> {
    let told = flag.map(|value| Found {
        name: "--grpc-port".to_owned(),
        value: value.to_owned(),
        by_qdrants_name: false,
    });
    let Some(found) = told.or_else(|| said.find("grpc_port")) else {
        return Ok(GrpcPort::IfFree(6334));
    };
    if ["disabled", "off", "null"].contains(&found.value.to_ascii_lowercase().as_str()) {
        return Ok(GrpcPort::Off);
    }
    let port = found.value.parse();
    Ok(GrpcPort::At(port.map_err(|_| {
        found.wrong(&"it is neither a port nor `disabled`")
    })?))
}

/// Theirs is a number of MiB.
fn max_body(flag: Option<ByteSize>, said: &Sources) -> Result<Option<u64>> {
    let bytes = match (flag, said.find("max_body")) {
        (Some(size), _) => size.0,
        (None, None) => return Ok(None),
        (None, Some(found)) if found.by_qdrants_name => {
            let mib: u64 = found
                .value
                .parse()
                .map_err(|_| found.wrong(&"it is not a number of megabytes"))?;
            mib.saturating_mul(1 << 20)
        }
        (None, Some(found)) => {
            found
                .value
                .parse::<ByteSize>()
                .map_err(|why| found.wrong(&why))?
                .0
        }
    };
    match bytes {
        0 => Err(anyhow!(
            "a maximum body of 0 bytes allows no requests: give at least 1MiB, or omit it"
        )),
        bytes => Ok(Some(bytes)),
    }
}

/// The flag, our name, the API server's: there `async_scorer` is io_uring or not.
fn backend(flag: Option<args::Backend>, said: &Sources) -> Result<Backend> {
    let chosen = match (flag, said.find("backend")) {
        (Some(backend), _) => backend,
        (None, None) => args::Backend::Auto,
        (None, Some(found)) if found.by_qdrants_name => match found.truth()? {
            false => args::Backend::Pread,
            // As there, the server starts without it where the kernel refuses it, and says so.
            true => args::Backend::Auto,
        },
        (None, Some(found)) => args::Backend::from_str(&found.value, true)
            .map_err(|_| found.wrong(&"it is not auto, io_uring, pread or mmap"))?,
    };
    Ok(match chosen {
        args::Backend::Auto => Backend::Auto,
        args::Backend::IoUring => Backend::Uring,
        args::Backend::Pread => Backend::Pread,
        args::Backend::Mmap => Backend::Mmap,
    })
}

fn threads_wish(flag: Option<u16>, said: &Sources) -> Result<Option<u16>> {
    match (flag, said.find("threads")) {
        // Theirs for "choose".
        (None, Some(found)) if found.by_qdrants_name && found.value == "0" => Ok(None),
        (None, Some(found)) => match args::threads(&found.value) {
            Ok(threads) => Ok(Some(threads)),
            Err(why) => Err(found.wrong(&why)),
        },
        (flag, _) => Ok(flag),
    }
}

/// What was wished for, the cgroup's limit, a quarter of the machine; and which of them it was.
fn memory(
    flag: Option<ByteSize>,
    said: &Sources,
    cgroup: Option<u64>,
    ram: impl Fn() -> u64,
) -> Result<(ByteSize, String)> {
    if let Some(memory) = flag {
        return Ok((memory, "as told".to_owned()));
    }
    if let Some(found) = said.find("memory") {
        let memory = found.value.parse().map_err(|why: String| found.wrong(&why))?;
        return Ok((memory, format!("as told by {}", found.name)));
    }
    if let Some(limit) = cgroup {
        return Ok((ByteSize(limit), "the cgroup's limit".to_owned()));
    }
    match ram() {
        0 => Err(anyhow!(
            "the machine's RAM is unknown; say how much to use: --memory 135MB"
        )),
        bytes => Ok((
            ByteSize(bytes / 4),
            "a quarter of the machine's RAM; --memory sets another".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::settings::environment;

    const ASYNC_SCORER: &str = "QDRANT__STORAGE__PERFORMANCE__ASYNC_SCORER";

    fn decide(line: &str, env: &[(&str, &str)], cgroup: Option<u64>) -> Result<Settings> {
        let Command::Serve(args) = Cli::try_parse_from(line.split(' '))?.command else {
            panic!("{line} is no serve");
        };
        Settings::decide(&args, &environment(env), cgroup, || 8_000_000_000)
    }

    #[test]
    fn flags_win_over_our_names_over_qdrants() {
        let all = [
            ("RAMLET_PORT", "7000"),
            ("QDRANT__SERVICE__HTTP_PORT", "8000"),
            ("QDRANT__SERVICE__HOST", "0.0.0.0"),
            ("QDRANT__SERVICE__API_KEY", "k"),
            ("QDRANT__STORAGE__STORAGE_PATH", "q"),
        ];
        let settings = decide("ramlet serve --port 9000", &all, None).unwrap();
        assert_eq!(settings.port, 9000);
        let settings = decide("ramlet serve", &all, None).unwrap();
        assert_eq!((settings.port, settings.host.as_str()), (7000, "0.0.0.0"));
        assert_eq!(settings.api_key.as_deref(), Some("k"));
        assert_eq!(settings.data, PathBuf::from("q"));
        assert_eq!(settings.snapshots, None);
        let named = [("QDRANT__STORAGE__SNAPSHOTS_PATH", "s")];
        let snapshots = |line: &str| decide(line, &named, None).unwrap().snapshots.unwrap();
        assert_eq!(snapshots("ramlet serve"), PathBuf::from("s"));
        assert_eq!(snapshots("ramlet serve --snapshots-path t"), PathBuf::from("t"));
        let settings = decide("ramlet serve", &all[1..], None).unwrap();
        assert_eq!(settings.port, 8000);
        let settings = decide("ramlet serve", &[("RAMLET_PORT", "")], None).unwrap();
        assert_eq!((settings.port, settings.host.as_str()), (6333, "127.0.0.1"));
        assert!(settings.api_key.is_none());
    }

    #[test]
    fn where_the_server_is_reached() {
        let check = |env: &[(&str, &str)], url: &str, asks_certificates| {
            let seen = reached(&environment(env)).unwrap();
            assert_eq!(
                (seen.url.as_str(), seen.asks_certificates),
                (url, asks_certificates)
            );
        };
        check(&[], "http://127.0.0.1:6333", false);
        let all = [("RAMLET_HOST", "0.0.0.0"), ("QDRANT__SERVICE__HTTP_PORT", "7000")];
        check(&all, "http://127.0.0.1:7000", false);
        check(&[("RAMLET_HOST", "::")], "http://[::1]:6333", false);
        check(&[("RAMLET_HOST", "10.1.2.3")], "http://10.1.2.3:6333", false);
        let tls = [
            ("QDRANT__SERVICE__ENABLE_TLS", "1"),
            ("QDRANT__SERVICE__VERIFY_HTTPS_CLIENT_CERTIFICATE", "1"),
        ];
        check(&tls[..1], "https://127.0.0.1:6333", false);
        check(&tls, "https://127.0.0.1:6333", true);
    }

    #[test]
    fn the_largest_body_by_every_name() {
        let body = |line: &str, env: &[(&str, &str)]| decide(line, env, None).map(|s| s.max_body_bytes);
        let theirs = [("QDRANT__SERVICE__MAX_REQUEST_SIZE_MB", "16")];
        assert_eq!(body("ramlet serve", &[]).unwrap(), None);
        assert_eq!(body("ramlet serve", &theirs).unwrap(), Some(16 << 20));
        assert_eq!(
            body("ramlet serve --max-body 2MB", &theirs).unwrap(),
            Some(2_000_000)
        );
        assert!(body("ramlet serve --max-body 0MB", &[]).is_err());
        assert!(body("ramlet serve", &[("QDRANT__SERVICE__MAX_REQUEST_SIZE_MB", "big")]).is_err());
    }

    #[test]
    fn their_words_for_choose() {
        let env = [("QDRANT__STORAGE__PERFORMANCE__MAX_SEARCH_THREADS", "0")];
        let by_default = decide("ramlet serve", &[], None).unwrap().search_threads;
        assert_eq!(
            decide("ramlet serve", &env, None).unwrap().search_threads,
            by_default
        );
        let env = [("QDRANT__STORAGE__PERFORMANCE__MAX_SEARCH_THREADS", "3")];
        assert_eq!(decide("ramlet serve", &env, None).unwrap().search_threads, 3);
        assert!(decide("ramlet serve", &[("RAMLET_THREADS", "0")], None).is_err());
    }

    #[test]
    fn the_grpc_port_by_every_name() {
        let port = |line: &str, env: &[(&str, &str)]| decide(line, env, None).map(|s| s.grpc_port);
        let both = [
            ("RAMLET_GRPC_PORT", "7001"),
            ("QDRANT__SERVICE__GRPC_PORT", "8001"),
        ];
        assert_eq!(port("ramlet serve", &[]).unwrap(), GrpcPort::IfFree(6334));
        assert_eq!(
            port("ramlet serve --grpc-port 9001", &both).unwrap(),
            GrpcPort::At(9001)
        );
        assert_eq!(port("ramlet serve", &both).unwrap(), GrpcPort::At(7001));
        assert_eq!(port("ramlet serve", &both[1..]).unwrap(), GrpcPort::At(8001));
        assert_eq!(
            port("ramlet serve --grpc-port disabled", &both).unwrap(),
            GrpcPort::Off
        );
        assert!(port("ramlet serve --grpc-port soon", &[]).is_err());
    }

    #[test]
    fn the_backend_by_every_name() {
        let check = |line: &str, env: &[(&str, &str)], expected| {
            assert_eq!(
                decide(line, env, None).unwrap().backend,
                expected,
                "{line} {env:?}"
            );
        };
        check("ramlet serve", &[], Backend::Auto);
        check("ramlet serve", &[(ASYNC_SCORER, "true")], Backend::Auto);
        check("ramlet serve", &[(ASYNC_SCORER, "false")], Backend::Pread);
        check(
            "ramlet serve",
            &[(ASYNC_SCORER, "false"), ("RAMLET_BACKEND", "mmap")],
            Backend::Mmap,
        );
        check(
            "ramlet serve --backend io_uring",
            &[("RAMLET_BACKEND", "mmap")],
            Backend::Uring,
        );
        for (name, value) in [(ASYNC_SCORER, "maybe"), ("RAMLET_BACKEND", "floppy")] {
            let error = decide("ramlet serve", &[(name, value)], None)
                .unwrap_err()
                .to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn memory_when_nothing_is_said() {
        let memory = |line: &str, cgroup| decide(line, &[], cgroup).unwrap().memory.0;
        assert_eq!(
            memory("ramlet serve --memory 135MB", Some(64_000_000)),
            135_000_000
        );
        assert_eq!(memory("ramlet serve", Some(64_000_000)), 64_000_000);
        assert_eq!(memory("ramlet serve", None), 2_000_000_000);
    }

    #[test]
    fn empty_keys_are_refused_as_flags_and_unset_in_the_environment() {
        for flag in ["--api-key", "--alt-api-key", "--read-only-api-key"] {
            // Splitting at blanks leaves an empty argument behind the last one.
            let error = decide(&format!("ramlet serve --host 0.0.0.0 {flag} "), &[], None)
                .unwrap_err()
                .to_string();
            assert!(error.contains(&format!("{flag} is empty")), "{error}");
        }
        let settings = decide("ramlet serve", &[("RAMLET_API_KEY", "")], None).unwrap();
        assert_eq!(settings.api_key, None);
    }

    #[test]
    fn what_is_empty_in_the_environment_is_unset() {
        let empty = [
            ("RAMLET_MEMORY", ""),
            ("RAMLET_THREADS", ""),
            ("RAMLET_NO_PROBE", ""),
        ];
        let settings = decide("ramlet serve", &empty, Some(64_000_000)).unwrap();
        assert_eq!((settings.memory.0, settings.probe), (64_000_000, true));
        let set = [
            ("RAMLET_MEMORY", "100MB"),
            ("RAMLET_THREADS", "3"),
            ("RAMLET_NO_PROBE", "yes"),
        ];
        let settings = decide("ramlet serve", &set, Some(64_000_000)).unwrap();
        assert_eq!((settings.memory.0, settings.search_threads), (100_000_000, 3));
        assert!(!settings.probe && !settings.snapshots_from_urls);
        let flags = decide("ramlet serve --memory 90MB --threads 2", &set, None).unwrap();
        assert_eq!((flags.memory.0, flags.search_threads), (90_000_000, 2));
        for (name, value) in [("RAMLET_MEMORY", "much"), ("RAMLET_THREADS", "257")] {
            let error = decide("ramlet serve", &[(name, value)], None)
                .unwrap_err()
                .to_string();
            assert!(error.contains(&format!("{name}={value}")), "{error}");
        }
    }

    #[test]
    fn from_when_on_a_request_is_slow() {
        let slow =
            |line: &str, env: &[(&str, &str)]| decide(line, env, None).map(|settings| settings.slow_query);
        let from = |ms| SlowQuery::From(Duration::from_millis(ms));
        for (line, value, expected) in [
            ("ramlet serve", "", SlowQuery::Unset),
            ("ramlet serve", "250ms", from(250)),
            ("ramlet serve", "1.5s", from(1_500)),
            ("ramlet serve", "Off", SlowQuery::Off),
            ("ramlet serve --slow-query 0ms", "2s", from(0)),
        ] {
            assert_eq!(
                slow(line, &[("RAMLET_SLOW_QUERY", value)]).unwrap(),
                expected,
                "{line} {value}"
            );
        }
        for value in ["100", "-1s", "much", "s", "nans", "3601s"] {
            let error = slow("ramlet serve", &[("RAMLET_SLOW_QUERY", value)])
                .unwrap_err()
                .to_string();
            assert!(error.contains(value) && error.contains("100ms or 2s"), "{error}");
        }
    }

    #[test]
    fn booleans_are_read_in_one_way() {
        let from_urls = |value: &str| {
            let env = [("RAMLET_SNAPSHOTS_FROM_URLS", value)];
            decide("ramlet serve", &env, None).map(|settings| settings.snapshots_from_urls)
        };
        for yes in ["true", "1", "yes", "On"] {
            assert!(from_urls(yes).unwrap(), "{yes}");
        }
        for no in ["false", "0", "no", "off", ""] {
            assert!(!from_urls(no).unwrap(), "{no}");
        }
        for name in [
            "RAMLET_SNAPSHOTS_FROM_URLS",
            "RAMLET_NO_PROBE",
            "RAMLET_CORS",
            "RAMLET_JWT_RBAC",
        ] {
            let error = decide("ramlet serve", &[(name, "maybe")], None)
                .unwrap_err()
                .to_string();
            assert!(error.contains(&format!("{name}=maybe")), "{error}");
        }
        assert!(!decide("ramlet serve --jwt-rbac off", &[], None).unwrap().jwt_rbac);
    }

    #[test]
    fn more_memory_than_there_is() {
        let warned = |memory, cgroup, ram| too_much(ByteSize(memory), cgroup, ram);
        assert_eq!(warned(1_000_000_000, None, 8_000_000_000), None);
        assert_eq!(warned(1_000_000_000, None, 0), None, "nobody knows");
        let said = warned(20_000_000_000, None, 8_000_000_000).unwrap();
        assert!(
            said.contains("20.0 GB") && said.contains("RAM of this machine, 8000 MB"),
            "{said}"
        );
        let said = warned(100_000_000, Some(64_000_000), 8_000_000_000).unwrap();
        assert!(
            said.contains("100 MB") && said.contains("cgroup, 64 MB"),
            "{said}"
        );
        let in_pages = Some(32_000_000 / 4096 * 4096);
        assert_eq!(warned(32_000_000, in_pages, 8_000_000_000), None, "the same");
    }

    #[test]
    fn nonsense_is_named() {
        let error = decide("ramlet serve", &[("QDRANT__SERVICE__HTTP_PORT", "http")], None).unwrap_err();
        assert!(
            error.to_string().contains("QDRANT__SERVICE__HTTP_PORT=http"),
            "{error}"
        );
    }
}
