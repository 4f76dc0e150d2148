//! `ramlet cluster demo`: some nodes over one store, on this machine, to be looked at, killed and started again.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use ramlet_bench::cgroup::signal;
use serde::Deserialize;

use crate::args::DemoArgs;
use crate::import::interrupt;
use crate::output;

/// Where the first node listens if the port is free, the others behind it: REST, and gRPC one above.
const PORT_FIRST: u16 = 6333;
const PORT_STEP: u16 = 10;
const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(30);
/// A node that somebody killed is started again then: time to see another one write.
const AGAIN: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(250);
const ASK: Duration = Duration::from_secs(2);

/// A node of the demo.
struct Node {
    number: u16,
    url: String,
    log: PathBuf,
    command: Command,
    child: Option<Child>,
    /// When it was found to have ended.
    ended: Option<Instant>,
}

/// Runs the nodes until a signal.
pub fn run(args: &DemoArgs) -> Result<()> {
    interrupt::listen()?;
    let (dir, is_ours) = match &args.data {
        Some(dir) => (dir.clone(), false),
        None => (
            std::env::temp_dir().join(format!("ramlet-demo-{}", std::process::id())),
            true,
        ),
    };
    fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let mut nodes = Vec::new();
    let served = serve(args, &dir, &mut nodes);
    end(&mut nodes);
    if is_ours {
        fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
    }
    match served {
        Err(e) if e.is::<interrupt::Interrupted>() => Ok(()),
        served => served,
    }
}

fn serve(args: &DemoArgs, dir: &Path, nodes: &mut Vec<Node>) -> Result<()> {
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(ASK))
        .http_status_as_error(false)
        .build()
        .new_agent();
    for number in 1..=args.nodes {
        nodes.push(Node::new(args, dir, number)?);
        // Where it is from now on, what ends in the middle of a start is ended too.
        let node = nodes.last_mut().expect("just pushed");
        node.start(&agent)?;
    }
    let first = &nodes[0].url;
    output::line(format_args!(
        "{}\n\nTry:\n  curl -X PUT {first}/collections/demo -H 'content-type: application/json' -d '{{\"vectors\": {{\"size\": 4, \"distance\": \"Dot\"}}}}'\n  \
         curl -X PUT '{}/collections/demo/points?wait=true' -H 'content-type: application/json' -d '{{\"points\": [{{\"id\": 1, \"vector\": [1, 2, 3, 4]}}]}}'\n  \
         curl {first}/collections/demo/points/1\n  curl {first}/cluster\n  kill -9 a process above: another one writes soon, and this one is started again\nCtrl-C ends all.\n",
        listed(nodes),
        nodes[nodes.len() - 1].url,
    ))?;
    let mut told = Vec::new();
    loop {
        interrupt::check()?;
        thread::sleep(LOOK);
        for node in nodes.iter_mut() {
            node.start_again(&agent)?;
        }
        let owners = nodes
            .iter()
            .filter_map(|node| Some((node.owns(&agent)?, node.number)));
        let owners: Vec<(Option<u32>, u16)> = owners.collect();
        for (shard, node) in owners.iter().filter(|owner| !told.contains(*owner)) {
            match shard {
                None => output::line(format_args!("node {node} writes"))?,
                Some(shard) => output::line(format_args!("node {node} writes shard {shard}"))?,
            }
        }
        // Nobody writes for a moment: who wrote before is told again if it goes on.
        if !owners.is_empty() {
            told = owners;
        }
    }
}

fn listed(nodes: &[Node]) -> String {
    let lines = nodes.iter().map(|node| {
        let pid = node.child.as_ref().map_or(0, Child::id);
        format!(
            "node {}  {}  process {pid}  log {}",
            node.number,
            node.url,
            node.log.display()
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

impl Node {
    fn new(args: &DemoArgs, dir: &Path, number: u16) -> Result<Node> {
        let wanted = PORT_FIRST + PORT_STEP * (number - 1);
        let port = free_port(wanted)?;
        let grpc_port = free_port(port.saturating_add(1))?;
        let data = dir.join(format!("node{number}"));
        let mut command = Command::new(std::env::current_exe().context("this program's own file")?);
        let shards = args
            .shards
            .map(|shards| ["--shards".to_owned(), shards.to_string()]);
        command
            .args(["serve", "--no-probe", "--data"])
            .arg(&data)
            .args([
                "--store",
                &args.url,
                "--memory",
                &args.memory.to_string().replace(' ', ""),
            ])
            .args(["--port", &port.to_string(), "--grpc-port", &grpc_port.to_string()])
            .args(["--takeover-after", &args.takeover_after])
            .args(shards.into_iter().flatten())
            .stdin(Stdio::null());
        Ok(Node {
            number,
            url: format!("http://127.0.0.1:{port}"),
            log: dir.join(format!("node{number}.log")),
            command,
            child: None,
            ended: None,
        })
    }

    fn start(&mut self, agent: &ureq::Agent) -> Result<()> {
        let log = || self.log.display().to_string();
        let out = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(log)?;
        self.command
            .stdout(out.try_clone().with_context(log)?)
            .stderr(out);
        let mut child = self.command.spawn().context("starting a node")?;
        let begun = Instant::now();
        let ready = loop {
            if interrupt::check().is_err() {
                break Err(interrupt::Interrupted.into());
            }
            if let Some(status) = child.try_wait().context("waiting for a node")? {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                bail!(
                    "node {} ended ({status}): {}",
                    self.number,
                    said.lines().last().unwrap_or_default()
                );
            }
            let answer = agent.get(format!("{}/readyz", self.url)).call();
            if answer.is_ok_and(|answer| answer.status() == 200) {
                break Ok(());
            }
            if begun.elapsed() > START {
                break Err(anyhow!("node {} isn't ready, see {}", self.number, log()));
            }
            thread::sleep(LOOK / 5);
        };
        self.child = Some(child);
        ready
    }

    /// Somebody may have killed it, to see what happens.
    fn start_again(&mut self, agent: &ureq::Agent) -> Result<()> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait().context("waiting for a node")?
        {
            let seconds = AGAIN.as_secs();
            output::line(format_args!(
                "node {} ended ({status}); it is started again in {seconds} s",
                self.number
            ))?;
            (self.child, self.ended) = (None, Some(Instant::now()));
        }
        if self.ended.is_some_and(|ended| ended.elapsed() > AGAIN) {
            self.ended = None;
            self.start(agent)?;
            output::line(format_args!("node {} is there again", self.number))?;
        }
        Ok(())
    }

    /// The shard whose log it says to own; within, `None` where the store isn't divided.
    fn owns(&self, agent: &ureq::Agent) -> Option<Option<u32>> {
        #[derive(Deserialize)]
        struct Envelope {
            result: Told,
        }
        #[derive(Deserialize)]
        struct Told {
            store: Store,
        }
        #[derive(Deserialize)]
        struct Store {
            role: String,
            shard: Option<u32>,
        }
        let answer = agent.get(format!("{}/cluster", self.url)).call();
        let text = answer
            .ok()
            .and_then(|mut answer| answer.body_mut().read_to_string().ok());
        let told = text.and_then(|text| serde_json::from_str::<Envelope>(&text).ok());
        let store = told?.result.store;
        (store.role == "writer").then_some(store.shard)
    }
}

/// This one, or else any.
fn free_port(wanted: u16) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", wanted)).or_else(|_| TcpListener::bind(("127.0.0.1", 0)));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.context("looking for a free port")?.port())
}

/// Asks all to end, and waits.
fn end(nodes: &mut [Node]) {
    let mut children: Vec<_> = nodes.iter_mut().filter_map(|node| node.child.as_mut()).collect();
    signal("TERM", children.iter().map(|child| i64::from(child.id())));
    let begun = Instant::now();
    for child in &mut children {
        while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < STOP {
            thread::sleep(LOOK / 5);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
