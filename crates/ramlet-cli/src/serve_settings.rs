//! What `ramlet serve` runs with: flags, then the environment (our names, then Qdrant's), then defaults.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use ramlet_io::Backend;
use ramlet_io::system::{cgroup_memory_limit, machine};
use ramlet_memory::BudgetRequest;
use ramlet_server::GrpcPort;

use crate::args::{self, ServeArgs};
use crate::audit_settings::AuditSettings;
use crate::env::{Env, first, truth};
use crate::size::ByteSize;
use crate::tls_settings::TlsFiles;

/// All settings of a server, decided.
#[derive(Debug)]
pub struct Settings {
    pub memory: ByteSize,
    /// Where the figure comes from, for the line that is printed at the start.
    pub memory_origin: &'static str,
    pub data: PathBuf,
    /// `None`: within `data`.
    pub snapshots: Option<PathBuf>,
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
    pub insecure: bool,
    pub backend: Backend,
    pub search_threads: usize,
    /// Measure the machine when its profile isn't there.
    pub probe: bool,
    pub snapshots_from_urls: bool,
}

const ASYNC_SCORER: &str = "QDRANT__STORAGE__PERFORMANCE__ASYNC_SCORER";

impl Settings {
    /// Decides from the flags and the process's environment.
    pub fn new(args: &ServeArgs) -> Result<Settings> {
        let env = |name: &str| std::env::var(name).ok();
        Settings::decide(args, &env, cgroup_memory_limit(), || machine().ram_bytes)
    }

    fn decide(args: &ServeArgs, env: Env, cgroup: Option<u64>, ram: impl Fn() -> u64) -> Result<Settings> {
        refuse_empty_keys(args)?;
        let (memory, memory_origin) = memory(memory_wish(args.memory, env)?, cgroup, ram)?;
        let cores = available_parallelism().map_or(1, usize::from);
        let text = |flag: &Option<String>, names: &[&str]| {
            flag.clone().or_else(|| first(env, names).map(|(_, v)| v))
        };
        let port = match (
            args.port,
            first(env, &["RAMLET_PORT", "QDRANT__SERVICE__HTTP_PORT"]),
        ) {
            (Some(port), _) => port,
            (None, Some((name, value))) => value
                .parse()
                .with_context(|| format!("{name}={value} is no port"))?,
            (None, None) => 6333,
        };
        let data = data_directory(args.data.as_deref(), env);
        Ok(Settings {
            memory,
            memory_origin,
            audit: AuditSettings::decide(args, env, &data)?,
            data,
            snapshots: args.snapshots_path.clone().or_else(|| {
                let names = ["RAMLET_SNAPSHOTS", "QDRANT__STORAGE__SNAPSHOTS_PATH"];
                first(env, &names).map(|(_, path)| path.into())
            }),
            host: text(&args.host, &["RAMLET_HOST", "QDRANT__SERVICE__HOST"])
                .unwrap_or_else(|| "127.0.0.1".into()),
            port,
            grpc_port: grpc_port(args.grpc_port.as_deref(), env)?,
            api_key: text(&args.api_key, &["RAMLET_API_KEY", "QDRANT__SERVICE__API_KEY"]),
            alt_api_key: text(
                &args.alt_api_key,
                &["RAMLET_ALT_API_KEY", "QDRANT__SERVICE__ALT_API_KEY"],
            ),
            jwt_rbac: match args.jwt_rbac {
                Some(said) => said,
                None => truth(env, &["RAMLET_JWT_RBAC", "QDRANT__SERVICE__JWT_RBAC"])?.unwrap_or(false),
            },
            tls: TlsFiles::decide(args, env)?,
            cors: cors(args.cors, env)?,
            read_only_api_key: text(
                &args.read_only_api_key,
                &["RAMLET_READ_ONLY_API_KEY", "QDRANT__SERVICE__READ_ONLY_API_KEY"],
            ),
            insecure: args.insecure,
            backend: backend(args.backend, env)?,
            probe: !(args.no_probe || truth(env, &["RAMLET_NO_PROBE"])?.unwrap_or(false)),
            snapshots_from_urls: args.snapshots_from_urls
                || truth(env, &["RAMLET_SNAPSHOTS_FROM_URLS"])?.unwrap_or(false),
            search_threads: threads_wish(args.threads, env)?
                .map_or_else(|| BudgetRequest::search_threads_for(memory.0, cores), usize::from),
        })
    }

    /// A sentence when more memory was asked for than this process can get.
    pub fn memory_warning(&self) -> Option<String> {
        too_much(self.memory, cgroup_memory_limit(), machine().ram_bytes)
    }
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
    (memory.0 >= least + ramlet_io::PAGE as u64).then(|| {
        format!(
            "{memory} of memory is more than {what}, {}: the system may end the server before it has used that",
            ByteSize(least)
        )
    })
}

/// Where the data is, and the machine's profile beside it: the same for every command.
pub fn data_directory(flag: Option<&Path>, env: Env) -> PathBuf {
    let named = || first(env, &["RAMLET_DATA", "QDRANT__STORAGE__STORAGE_PATH"]).map(|(_, v)| v.into());
    flag.map(Path::to_owned)
        .or_else(named)
        .unwrap_or_else(|| "./ramlet-data".into())
}

/// A port or "disabled"; when nothing is said, 6334 if it can be had.
fn grpc_port(flag: Option<&str>, env: Env) -> Result<GrpcPort> {
    let named = || first(env, &["RAMLET_GRPC_PORT", "QDRANT__SERVICE__GRPC_PORT"]);
    let (name, value) = match flag {
        Some(value) => ("--grpc-port".to_owned(), value.to_owned()),
        None => match named() {
            Some(said) => said,
            None => return Ok(GrpcPort::IfFree(6334)),
        },
    };
    if ["disabled", "off", "null"].contains(&value.to_ascii_lowercase().as_str()) {
        return Ok(GrpcPort::Off);
    }
    let port = value
        .parse()
        .with_context(|| format!("{name}={value} is no port, and not `disabled`"))?;
    Ok(GrpcPort::At(port))
}

fn cors(flag: Option<bool>, env: Env) -> Result<Option<bool>> {
    match flag {
        Some(said) => Ok(Some(said)),
        None => truth(env, &["RAMLET_CORS", "QDRANT__SERVICE__ENABLE_CORS"]),
    }
}

/// The flag, our name, the API server's: there `async_scorer` is io_uring or not.
fn backend(flag: Option<args::Backend>, env: Env) -> Result<Backend> {
    let chosen = match (flag, first(env, &["RAMLET_BACKEND", ASYNC_SCORER])) {
        (Some(backend), _) => backend,
        (None, None) => args::Backend::Auto,
        (None, Some((name, _))) if name == ASYNC_SCORER => match truth(env, &[ASYNC_SCORER])? {
            Some(false) => args::Backend::Pread,
            // As there, the server starts without it where the kernel refuses it, and says so.
            _ => args::Backend::Auto,
        },
        (None, Some((name, value))) => args::Backend::from_str(&value, true)
            .map_err(|_| anyhow!("{name}={value} is not auto, io_uring, pread or mmap"))?,
    };
    Ok(match chosen {
        args::Backend::Auto => Backend::Auto,
        args::Backend::IoUring => Backend::Uring,
        args::Backend::Pread => Backend::Pread,
        args::Backend::Mmap => Backend::Mmap,
    })
}

fn memory_wish(flag: Option<ByteSize>, env: Env) -> Result<Option<ByteSize>> {
    match (flag, first(env, &["RAMLET_MEMORY"])) {
        (None, Some((name, value))) => match value.parse() {
            Ok(size) => Ok(Some(size)),
            Err(why) => Err(anyhow!("{name}={value}: {why}")),
        },
        (flag, _) => Ok(flag),
    }
}

fn threads_wish(flag: Option<u16>, env: Env) -> Result<Option<u16>> {
    match (flag, first(env, &["RAMLET_THREADS"])) {
        (None, Some((name, value))) => match args::threads(&value) {
            Ok(threads) => Ok(Some(threads)),
            Err(why) => Err(anyhow!("{name}={value}: {why}")),
        },
        (flag, _) => Ok(flag),
    }
}

/// What was wished for, the cgroup's limit, a quarter of the machine.
fn memory(
    flag: Option<ByteSize>,
    cgroup: Option<u64>,
    ram: impl Fn() -> u64,
) -> Result<(ByteSize, &'static str)> {
    if let Some(memory) = flag {
        return Ok((memory, "as told"));
    }
    if let Some(limit) = cgroup {
        return Ok((ByteSize(limit), "the cgroup's limit"));
    }
    match ram() {
        0 => Err(anyhow!(
            "the machine's RAM can't be told; say how much to use: --memory 135MB"
        )),
        bytes => Ok((
            ByteSize(bytes / 4),
            "a quarter of the machine's RAM; --memory sets another",
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn decide(line: &str, env: &[(&str, &str)], cgroup: Option<u64>) -> Result<Settings> {
        let Command::Serve(args) = Cli::try_parse_from(line.split(' '))?.command else {
            panic!("{line} is no serve");
        };
        let env = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        Settings::decide(&args, &env, cgroup, || 8_000_000_000)
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
