//! `ramlet machine`: its structure, what it leaves behind, and that `plan` and `serve` read what it wrote. No figure is tested.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// An empty directory, removed on drop.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("ramlet-cli-machine-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        Dir(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a directory").flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn ramlet(command: &str, data: &Path) -> Command {
    let mut ramlet = Command::new(env!("CARGO_BIN_EXE_ramlet"));
    ramlet.args(command.split_whitespace()).env("RAMLET_DATA", data);
    ramlet
}

fn output(command: &mut Command) -> (bool, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the binary runs");
    (
        status.success(),
        String::from_utf8([stdout, stderr].concat()).expect("UTF-8"),
    )
}

#[test]
fn a_profile_that_plan_and_server_read() {
    let dir = Dir::new("profile");
    let data = dir.0.join("new").join("data");
    let json = dir.0.join("record.json");
    let (ok, text) = output(ramlet("machine --only profile --json", &data).arg(&json));
    assert!(ok && text.contains("random reads a second"), "{text}");
    let kept: Value =
        serde_json::from_slice(&fs::read(data.join("machine.json")).expect("a file")).expect("JSON");
    let told: Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    assert_eq!(told["profile"], kept);
    assert_eq!(dir.names(), ["new", "record.json"]);

    let (ok, text) = output(&mut ramlet(
        "plan --points 1000000 --dim 100 --memory 135MB",
        &data,
    ));
    assert!(
        ok && text.contains(&format!("machine as measured in {}", data.display())),
        "{text}"
    );
    // A disk that is a hundred times slower is a plan that is slower.
    let speed = || -> f64 {
        let (ok, text) = output(&mut ramlet(
            "plan --points 1000000 --dim 100 --memory 32MB --json",
            &data,
        ));
        assert!(ok, "{text}");
        let plan: Value = serde_json::from_str(&text).expect("JSON");
        plan["qps"].as_f64().expect("a figure")
    };
    let measured = speed();
    let mut slow = kept.clone();
    for figure in ["iops_depth1", "iops_depth64"] {
        slow["disk"][figure] = (kept["disk"][figure].as_f64().expect("a figure") / 100.0).into();
    }
    fs::write(data.join("machine.json"), slow.to_string()).expect("written");
    assert!(speed() < measured / 5.0, "{} after {measured}", speed());

    let server = Server::start(&data);
    let answer = ureq::post(format!("{}/plan", server.url))
        .header("Content-Type", "application/json")
        .send(r#"{"points": 1000000, "dims": 100}"#)
        .expect("an answer")
        .body_mut()
        .read_to_string()
        .expect("text");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let result = &answer["result"];
    assert_eq!(result["machine"], slow, "{answer}");
    assert_eq!(result["machine_measured"], true, "{answer}");
}

/// A server on a free port, killed on drop.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(data: &Path) -> Server {
        let mut child = ramlet("serve --memory 64MB --host 127.0.0.1 --port 0 --no-probe", data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let url = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
        Server {
            url: url.expect("it listens"),
            child,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_damaged_profile_is_told_and_not_used() {
    let dir = Dir::new("damaged");
    fs::write(dir.0.join("machine.json"), "{}").expect("written");
    let (ok, text) = output(&mut ramlet(
        "plan --points 1000000 --dim 100 --memory 135MB",
        &dir.0,
    ));
    assert!(
        ok && text.contains("machine.json isn't used") && text.contains("disk assumed"),
        "{text}"
    );
}

#[test]
fn lines_of_a_group_and_no_other() {
    let dir = Dir::new("group");
    let json = dir.0.join("record.json");
    let (ok, text) = output(ramlet("machine --quick --only hashing,system --json", &dir.0).arg(&json));
    assert!(ok, "{text}");
    let record: Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    let rows = record["rows"].as_array().expect("a list");
    let of = |group: &str| rows.iter().filter(|row| row["group"] == group).count();
    assert_eq!((of("hashing"), of("system"), rows.len()), (9, 5, 14));
    // What is first in its group is measured however busy the machine is; the others may say that there was no time.
    let first_hash = if cfg!(feature = "hashes") {
        "sha3-256"
    } else {
        "xxhash"
    };
    for first in ["mutex lock and unlock", first_hash] {
        assert!(
            rows.iter()
                .any(|row| row["name"] == first && row["value"].is_number()),
            "{text}"
        );
    }
    for row in rows {
        let name = row["name"].as_str().expect("a name");
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("| {name} ")))
            .expect("a line");
        let Some(value) = row["value"].as_f64() else {
            let why = row["why"].as_str().expect("a sentence");
            assert!(why.starts_with("left out") && line.contains(why), "{row}, {line}");
            continue;
        };
        assert!(value > 0.0, "{row}");
        // Against the source, more is faster here.
        if let (Some(source), Some(ratio)) = (row["source"].as_f64(), row["ratio"].as_f64()) {
            let faster = if row["group"] == "system" {
                source / value
            } else {
                value / source
            };
            assert!((ratio / faster - 1.0).abs() < 0.01, "{row}");
        }
    }
    assert!(record["profile"].is_null() && record["quick"] == true);
    assert_eq!(dir.names(), ["record.json"]);
}

#[test]
fn what_is_not_installed_is_told() {
    let dir = Dir::new("tools");
    let json = dir.0.join("record.json");
    let tools = Dir::new("path");
    let mut command = ramlet("machine --quick --only rocksdb,redis --json", &dir.0);
    let (ok, text) = output(command.arg(&json).env("PATH", &tools.0));
    assert!(ok, "{text}");
    let record: Value = serde_json::from_slice(&fs::read(&json).expect("a file")).expect("JSON");
    let rows = record["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 24);
    for row in rows {
        let package = if row["group"] == "redis" {
            "redis-server"
        } else {
            "rocksdb-tools"
        };
        assert_eq!(row["why"], format!("not installed: apt-get install {package}"));
        assert!(row["value"].is_null() && row["ratio"].is_null(), "{row}");
    }
    assert_eq!(dir.names(), ["record.json"]);
}

#[test]
fn a_mistake_gets_one_sentence() {
    let dir = Dir::new("mistakes");
    for (line, words) in [
        ("machine --dir /nonexistent", "/nonexistent"),
        ("machine --only disks", "disks"),
        (
            "machine --only hashing --json /nonexistent/a.json",
            "/nonexistent",
        ),
        ("machine --only hashing --plot /", "/"),
        ("machine --quick 5", "unexpected argument"),
    ] {
        let (ok, text) = output(&mut ramlet(line, &dir.0));
        assert!(!ok && text.contains(words), "{line}: {text}");
        assert!(
            line.contains("quick") || text.lines().count() == 1,
            "{line}: {text}"
        );
    }
    assert!(dir.names().is_empty());
}

#[test]
fn killed_half_way_it_leaves_nothing() {
    let dir = Dir::new("killed");
    let mut child = ramlet("machine --quick --only fsync,sqlite,http", &dir.0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // The third line of SQLite's four is under way when the second is told.
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let lines = lines
        .map_while(Result::ok)
        .filter(|line| line.contains(" sqlite: "));
    let told = lines.take(2).count();
    let is_there = dir.names();
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(told, 2);
    assert!(
        is_there.iter().all(|name| name.starts_with(".ramlet-machine-")),
        "{is_there:?}"
    );
    let until = Instant::now() + Duration::from_secs(10);
    while !dir.names().is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(dir.names(), Vec::<String>::new());
}
