//! `ramlet serve`: the budget, the storage, the engine, the server, in this order, and down again.

use std::io::IsTerminal;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use ramlet::{Engine, EngineOptions};
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger};
use ramlet_server::{AllocatorStats, Bound, LogLevel, ServerOptions, check_exposure, is_loopback, limits};
#[cfg(feature = "store")]
use ramlet_server::{Forwarder, Shards};
use tikv_jemalloc_ctl::{epoch, stats};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::args::{LogFormat, ServeArgs};
use crate::output::{many, say};
use crate::serve_settings::Settings;
use crate::serving::descriptors;
use crate::serving::log_lines::JsonLines;
use crate::serving::panics;
use crate::serving::profile;
use crate::serving::snapshots;
use crate::serving::supervisor;
use crate::settings::Sources;
use crate::settings::tls_settings::TlsFiles;
use crate::size::ByteSize;
#[cfg(feature = "store")]
use crate::store::{forward, node, restore};

/// Threads of the engine beside the search slots: writer and jobs.
const ENGINE_THREADS: usize = 2;
/// Threads of a node over a store: one follows the log or makes backups, one says that the node lives.
const NODE_THREADS: usize = 2;
/// Of the elastic memory, such a part for answers of other shards.
#[cfg(feature = "store")]
const GATHERED_SHARE: u64 = 2;

/// Serves until SIGTERM or SIGINT.
pub fn run(args: &ServeArgs) -> Result<()> {
    let said = Sources::new(&args.config, args.config_dir.as_deref())?;
    let log_level = begin_log(args, &said)?;
    panics::log();
    for file in said.files() {
        tracing::info!("settings of {}", file.display());
    }
    for notice in said.notices() {
        tracing::warn!("{notice}");
    }
    tell_flags_without_effect(args);
    descriptors::raise()?;
    if let Err(error) = ramlet_io::read_code_in_portions() {
        tracing::warn!("the program's code is read ahead of, as the disk is set: {error}");
    }
    let settings = Settings::new(args, &said)?;
    let has_key = settings.api_key.is_some() || settings.alt_api_key.is_some();
    check_exposure(&settings.host, has_key, settings.insecure).map_err(|e| anyhow!(e))?;
    if !has_key && !is_loopback(&settings.host) {
        tracing::warn!(
            "no key is set: whoever reaches {}:{} reads and deletes all data; --api-key sets one",
            settings.host,
            settings.port
        );
    }
    if settings.jwt_rbac && !has_key {
        return Err(anyhow!("--jwt-rbac needs --api-key: tokens are signed with it"));
    }
    // Before all that takes time: a file that isn't there is told at once.
    let tls = settings.tls.clone().map(TlsFiles::load).transpose()?;
    let budget = budget(&settings)?;
    if let Some(warning) = settings.memory_warning() {
        tracing::warn!("{warning}");
    }
    say(format_args!(
        "memory {} ({})",
        settings.memory, settings.memory_origin
    ));
    for line in budget.to_string().lines() {
        say(format_args!("  {line}"));
    }

    let path = &settings.data;
    if path.join("raft_state.json").exists() {
        tracing::warn!(
            "{} holds the storage of a Qdrant server, whose files aren't read. `ramlet import --from URL` copies from one that runs",
            path.display()
        );
    }
    let (storage, fallback) = ramlet_io::open_best(path, settings.backend)
        .with_context(|| format!("opening {}", path.display()))?;
    if let Some(why) = fallback {
        tracing::warn!("reading by pread, not by io_uring: {why}");
    }
    let ledger = Ledger::new(budget.ledger_limit());
    // What the machine's profile is measured on.
    let local = storage.clone();
    #[cfg(feature = "store")]
    let restore = restore::prepare(args.restore.as_deref(), path, &ledger)?;
    #[cfg(feature = "store")]
    let storage = restore
        .as_ref()
        .map_or(storage.clone(), |restore| restore.over(storage));
    #[cfg(not(feature = "store"))]
    if args.restore.is_some() {
        return Err(anyhow!(
            "--restore: this program was built without the feature `store`"
        ));
    }
    let of_store = settings.store.as_ref();
    if of_store.is_some() && (!args.snapshot.is_empty() || args.storage_snapshot.is_some()) {
        return Err(anyhow!(
            "a snapshot is restored on a server without --store, whose directory then becomes that of the first writer"
        ));
    }
    #[cfg(feature = "store")]
    let mut prepared = of_store
        .map(|store| node::prepare(store, path, (settings.memory.0, &ledger)))
        .transpose()?;
    #[cfg(not(feature = "store"))]
    if of_store.is_some() {
        return Err(anyhow!(
            "--store: this program was built without the feature `store`"
        ));
    }
    #[cfg(feature = "store")]
    let gathered_bytes = budget.elastic / GATHERED_SHARE;
    let options = EngineOptions {
        ledger,
        budget,
        seed: seed(),
        log_file_bytes: None,
    };
    #[cfg(feature = "store")]
    let builds_elsewhere = prepared.as_ref().is_some_and(node::Prepared::expects_builder);
    #[cfg(not(feature = "store"))]
    let builds_elsewhere = false;
    let engine = Engine::open_without(storage, options, &args.skip_collection, builds_elsewhere)
        .with_context(|| format!("opening {}", path.display()))?;
    snapshots::prepare(&engine, &settings, args)?;
    say(format_args!(
        "{} in {}",
        many(engine.collection_count() as u64, "collection"),
        path.display()
    ));

    if let unseen @ 1.. = engine.unseen_collections() {
        say(format_args!(
            "{unseen} of them are opened when they are asked for, or one by one meanwhile: those that are damaged are told of then"
        ));
    }
    for (name, _) in engine.closed_collections() {
        if let Err(e) = engine.collection(&name) {
            say(format_args!("CLOSED: {e}"));
        }
    }

    let mut options = ServerOptions::new(engine.clone());
    if let Some(tls) = tls {
        options = options.encrypted(tls);
    }
    options.host = settings.host;
    options.port = settings.port;
    options.grpc_port = settings.grpc_port;
    options.api_key = settings.api_key;
    options.alt_api_key = settings.alt_api_key;
    options.read_only_api_key = settings.read_only_api_key;
    options.jwt_rbac = settings.jwt_rbac;
    options.cors = settings.cors;
    if let Some(bytes) = settings.max_body_bytes {
        if bytes > limits::VECTOR_BODY_BYTES {
            let most = limits::VECTOR_BODY_BYTES;
            tracing::warn!("a largest body of {bytes} bytes is more than the {most} that are ever taken");
        }
        options.body_bytes_max = bytes;
    }
    options.allocator = Some(allocator_stats);
    options.slow_query = settings.slow_query;
    options.log_level = Some(log_level);
    options.fetch = settings.snapshots_from_urls.then(snapshots::fetch);
    let audit = settings.audit.map(|audit| audit.start(&engine)).transpose()?;
    options.audit.clone_from(&audit);
    profile::provide(local, engine.ledger(), settings.probe, &options.machine);
    #[cfg(feature = "store")]
    let directory = prepared.as_mut().and_then(node::Prepared::directory);
    #[cfg(feature = "store")]
    let shared = prepared.map(node::NodeLog::new);
    #[cfg(feature = "store")]
    let advertise = settings.store.and_then(|store| store.advertise);
    #[cfg(feature = "store")]
    if let Some(shared) = &shared {
        let bytes = limits::FORWARD_THREADS as u64 * limits::FORWARD_CONNECTION_BYTES;
        let held = engine
            .ledger()
            .consumer("forwarded writes", bytes)
            .reserve(bytes)?;
        let shards = directory
            .as_ref()
            .map_or(0, |directory| directory.count() as usize);
        let send = forward::send_on(limits::FORWARDS * (1 + shards));
        let forwarder = Forwarder::new(send.clone(), held);
        let node = ramlet_server::Node::new(shared.clone(), Some(forwarder));
        options.node = Some(match &directory {
            None => node,
            Some(directory) => {
                let shards = (directory.own(), directory.count());
                let gathered = engine.ledger().consumer("answers of shards", gathered_bytes);
                node.divided(Shards::new(shards, directory.clone(), &send, gathered)?)
            }
        });
    }
    let runtime = ramlet_server::runtime()?;
    let (bound, url) = runtime.block_on(bind(options))?;
    // The ports are taken, and nobody is answered before this node has all that is in the log.
    #[cfg(feature = "store")]
    let following = match &shared {
        Some(shared) => {
            let replayer = bound.replayer()?;
            let begun = shared.begin(&engine, &replayer, advertise.as_ref().unwrap_or(&url));
            if let Some(directory) = &directory {
                directory.hand_over();
            }
            let begun = begun.and_then(|()| shared.run(&engine, replayer));
            let begun = begun.inspect_err(|_| engine.close());
            if shared.is_behind() {
                return Err(begin_anew(LACKING));
            }
            Some(begun?)
        }
        None => None,
    };
    #[cfg(feature = "store")]
    let looking = match (&directory, &shared) {
        (Some(directory), Some(shared)) => {
            let shared = shared.clone();
            Some(directory.run(move || shared.standing())?)
        }
        _ => None,
    };
    #[cfg(feature = "store")]
    let restore = restore.map(restore::Restore::run).transpose()?;
    let ends = async {
        #[cfg(feature = "store")]
        match (&shared, &directory) {
            (Some(shared), None) => return shared.falls_behind().await,
            (Some(shared), Some(directory)) => {
                return tokio::select! {
                    () = shared.falls_behind() => {}
                    () = directory.leaves() => {}
                };
            }
            (None, _) => {}
        }
        std::future::pending().await
    };
    let (served, signals) = runtime.block_on(serve(bound, &url, ends))?;
    #[cfg(feature = "store")]
    if let Some(shared) = &shared {
        shared.stop();
    }
    #[cfg(feature = "store")]
    if let Some(directory) = &directory {
        directory.stop();
    }
    // What still runs for requests hears of it, before the runtime waits for it.
    engine.close();
    #[cfg(feature = "store")]
    if let Some(restore) = restore {
        restore.stop();
    }
    // Who was told to end doesn't begin anew, whenever that was said.
    #[cfg(feature = "store")]
    let is_told = runtime.block_on(signals.came());
    #[cfg(not(feature = "store"))]
    drop(signals);
    drop(runtime);
    if let Some(audit) = audit {
        audit.close();
    }
    #[cfg(feature = "store")]
    if let (Some(shared), Some(following)) = (shared, following) {
        for thread in following.into_iter().chain(looking) {
            let _ = thread.join();
        }
        if shared.is_behind() && !is_told {
            return Err(begin_anew(LACKING));
        }
        shared.close();
        // Alive to the end: it says where this node will be.
        if let Some(place) = directory.as_ref().and_then(|directory| directory.goes_to())
            && !is_told
        {
            shared.leave_for(place)?;
            return Err(begin_anew("this node goes to another shard"));
        }
    }
    served
}

#[cfg(feature = "store")]
const LACKING: &str = "slots that the data directory lacks are deleted";

/// This program in its own place, with its arguments: nothing of what it held stays. Returns only where that fails.
#[cfg(feature = "store")]
fn begin_anew(why: &'static str) -> anyhow::Error {
    use std::os::unix::process::CommandExt;

    let failed = match std::env::current_exe() {
        Ok(program) => std::process::Command::new(program)
            .args(std::env::args_os().skip(1))
            .exec(),
        Err(e) => e,
    };
    anyhow!(failed).context(format!("{why}: start the server again"))
}

/// Logs to standard error, what `--log` says, or `/logger` of the server.
fn begin_log(args: &ServeArgs, said: &Sources) -> Result<LogLevel> {
    // The library of HTTP/2 tells of each connection that it ends for an attack: 700 lines a second from 24 clients.
    let filter = match (&args.log, said.find("log")) {
        (Some(told), _) => log_filter(told).map_err(|why| anyhow!("--log {told}: {why}"))?,
        (None, Some(found)) => match found.value.to_ascii_lowercase().as_str() {
            "info" => EnvFilter::new("info,h2=error"),
            _ => log_filter(&found.value).map_err(|why| found.wrong(&why))?,
        },
        (None, None) => EnvFilter::new("info,h2=error"),
    };
    let log = tracing_subscriber::fmt()
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // Each form of lines is a type of its own.
    macro_rules! begun {
        ($log:expr) => {{
            let log = $log.with_filter_reloading();
            let (seen, changed) = (log.reload_handle(), log.reload_handle());
            log.init();
            LogLevel {
                get: Arc::new(move || seen.with_current(ToString::to_string).unwrap_or_default()),
                set: Arc::new(move |level| {
                    let filter = log_filter(level)?;
                    changed.reload(filter).map_err(|e| e.to_string())
                }),
            }
        }};
    }
    Ok(match log_format(args, said)? {
        LogFormat::Text => begun!(log),
        LogFormat::Json => begun!(log.event_format(JsonLines)),
    })
}

/// The library takes a level with a slip in it for a module, and logs nothing else any more, not even errors.
fn log_filter(told: &str) -> Result<EnvFilter, String> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let is_own = |word: &str| word.contains(['=', '[', ':']) || word.starts_with("ramlet");
    let mut words = told.split(',').map(str::trim);
    match words.find(|word| !is_level(word) && !is_own(word)) {
        Some(word) => Err(format!(
            "'{word}' is not a level; levels are error, warn, info, debug, trace and off; a module has one behind it (h2=warn)"
        )),
        None => EnvFilter::try_new(told).map_err(|why| why.to_string()),
    }
}

fn log_format(args: &ServeArgs, said: &Sources) -> Result<LogFormat> {
    match (args.log_format, said.find("log_format")) {
        (Some(told), _) => Ok(told),
        (None, None) => Ok(LogFormat::Text),
        (None, Some(found)) => {
            LogFormat::from_str(&found.value, true).map_err(|_| found.wrong(&"it is neither text nor json"))
        }
    }
}

/// Flags of the API's server. Nothing is sent to anybody, with or without `--disable-telemetry`.
fn tell_flags_without_effect(args: &ServeArgs) {
    let flags = [
        (
            "--uri",
            args.uri.is_some(),
            "there is no such cluster: nodes share a `store`",
        ),
        (
            "--bootstrap",
            args.bootstrap.is_some(),
            "there is no such cluster: nodes share a `store`",
        ),
        (
            "--reinit",
            args.reinit,
            "there is no such cluster: nodes share a `store`",
        ),
        ("--stacktrace", args.stacktrace, "`/issues` says what is wrong"),
    ];
    for (flag, given, why) in flags {
        if given {
            tracing::warn!("{flag} is without effect here: {why}");
        }
    }
}

/// Takes the ports; the address that the API is answered at.
async fn bind(options: ServerOptions) -> Result<(Bound, String)> {
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let server = ramlet_server::bind(options).await?;
    let url = format!("{scheme}://{}", server.local_addr()?);
    Ok((server, url))
}

/// SIGTERM and SIGINT, since they were asked for.
struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn new() -> Result<Signals> {
        Ok(Signals {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
        })
    }

    async fn come(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }

    /// Whether one came so far.
    #[cfg(feature = "store")]
    async fn came(mut self) -> bool {
        tokio::select! {
            biased;
            () = self.come() => true,
            () = std::future::ready(()) => false,
        }
    }
}

/// Until a signal, or `ends`. What came of it, and who hears further signals.
async fn serve(server: Bound, url: &str, ends: impl Future<Output = ()>) -> Result<(Result<()>, Signals)> {
    let (mut signals, later) = (Signals::new()?, Signals::new()?);
    say(format_args!("listening on {url}"));
    if let Some(addr) = server.grpc_addr() {
        say(format_args!("gRPC on {addr}"));
    }
    supervisor::tell("READY=1");
    let stop = async move {
        tokio::select! {
            () = signals.come() => supervisor::tell("STOPPING=1"),
            // The process goes on as another start of the program.
            () = ends => {}
        }
        tracing::info!("stopping");
    };
    let served = server.serve(stop).await;
    Ok((served.map_err(Into::into), later))
}

fn budget(settings: &Settings) -> Result<BudgetTable> {
    let mut request = BudgetRequest::new(settings.memory.0, settings.search_threads);
    let cores = available_parallelism().map_or(1, usize::from);
    request.slots_outside =
        BudgetRequest::slots_outside_for(settings.memory.0, settings.search_threads, cores);
    let connections = limits::ASYNC_THREADS.saturating_sub(request.slots_outside);
    request.other_threads = connections + limits::BLOCKING_THREADS + ENGINE_THREADS;
    if settings.store.is_some() {
        request.other_threads += limits::FORWARD_THREADS + NODE_THREADS;
    }
    BudgetTable::plan(request).map_err(|small| {
        let least = ByteSize(small.memory_bytes_min.div_ceil(1_000_000) * 1_000_000);
        anyhow!(
            "{small}; start it with --memory {}",
            least.to_string().replace(' ', "")
        )
    })
}

/// Differs from start to start, which is all that is asked of it: log files are told apart by it.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 48)
}

/// jemalloc's figures; zeros if it wouldn't tell.
fn allocator_stats() -> AllocatorStats {
    let _ = epoch::advance();
    let bytes = |figure: tikv_jemalloc_ctl::Result<usize>| figure.unwrap_or(0) as u64;
    AllocatorStats {
        allocated: bytes(stats::allocated::read()),
        active: bytes(stats::active::read()),
        resident: bytes(stats::resident::read()),
        retained: bytes(stats::retained::read()),
        metadata: bytes(stats::metadata::read()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_with_a_slip_in_it_is_refused() {
        for told in [
            "info",
            "WARN",
            "off",
            "",
            "3",
            "info,ramlet=debug",
            "h2=error",
            "ramlet_server",
            "warn,a::b=info",
        ] {
            assert!(log_filter(told).is_ok(), "{told}");
        }
        for told in ["loud", "verbose", "info,wran", "warning", "ramlet=loud"] {
            assert!(log_filter(told).is_err(), "{told}");
        }
    }
}
