//! A compose file of Qdrant's with the image's name changed: its command, variables, volumes and mounted configuration, run in the directory
//! that the image has, without an engine of containers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use crate::import::TempDir;

/// What stands in a container of the image: its directory, and the variables and defaults that it sets.
struct Container {
    dir: TempDir,
}

/// Runs until it is dropped.
struct Up {
    child: Child,
    stdout: Vec<String>,
    port: u16,
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Container {
    fn new() -> Container {
        let dir = TempDir::new();
        let path = |name: &str| dir.path(name);
        for name in ["storage", "snapshots", "config"] {
            std::fs::create_dir_all(path(name)).expect("a directory");
        }
        for name in ["qdrant", "entrypoint.sh"] {
            symlink(env!("CARGO_BIN_EXE_ramlet"), path(name)).expect("a link");
        }
        let image = include_str!("../../../../packaging/image/defaults.yaml");
        // The image lies at /qdrant; a free port is taken, as no network is a test's own.
        let here = image.replace("/qdrant/", &path(""));
        assert!(here != image, "the paths of the image");
        std::fs::write(path("defaults.yaml"), here).expect("a file");
        Container { dir }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path(name), text).expect("a file");
    }

    /// Starts `command` with the image's variables and those of the compose file, until it listens.
    fn up(&self, command: &[&str], environment: &[(&str, &str)]) -> Up {
        let mut child = Command::new(self.dir.path(command[0]))
            .args(&command[1..])
            .current_dir(self.dir.path(""))
            .env_clear()
            .env("RAMLET_DEFAULTS", self.dir.path("defaults.yaml"))
            .env("RAMLET_CONFIG_DIR", self.dir.path("config"))
            .env("RAMLET_NO_PROBE", "1")
            .env("RAMLET_MEMORY", "64MB")
            .env("QDRANT__SERVICE__GRPC_PORT", "0")
            .env("QDRANT__SERVICE__HTTP_PORT", "0")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(self.dir.path("log")).expect("a file"))
            .spawn()
            .expect("the binary runs");
        let mut stdout = Vec::new();
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        for line in lines.map_while(Result::ok) {
            let listens = line.starts_with("listening on");
            stdout.push(line);
            if listens {
                break;
            }
        }
        let port = stdout
            .last()
            .and_then(|line| line.rsplit_once(':')?.1.parse().ok());
        let port = port.unwrap_or_else(|| panic!("{stdout:?}\n{}", self.log()));
        Up { child, stdout, port }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path("log")).unwrap_or_default()
    }
}

impl Up {
    /// The status and the body of an answer, asked as another container would ask: by the service's name.
    fn ask(&self, method: &str, path: &str, key: Option<&str>, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let key = key.map(|key| format!("api-key: {key}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: qdrant:6333\r\n{key}Connection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        stream.write_all(body.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Creates a collection, writes a point, finds it.
    fn serves(&self, key: Option<&str>) {
        for (method, path, body) in [
            (
                "PUT",
                "/collections/c",
                r#"{"vectors":{"size":2,"distance":"Dot"}}"#,
            ),
            (
                "PUT",
                "/collections/c/points?wait=true",
                r#"{"points":[{"id":7,"vector":[1,0]}]}"#,
            ),
            (
                "POST",
                "/collections/c/points/query",
                r#"{"query":[1,0],"limit":1}"#,
            ),
        ] {
            let answer = self.ask(method, path, key, body);
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
            assert!(
                !path.ends_with("query") || answer.contains(r#""id":7"#),
                "{answer}"
            );
        }
    }
}

#[test]
fn the_file_of_qdrants_documentation_comes_up() {
    let container = Container::new();
    container.write("config/production.yaml", "log_level: INFO\n");
    // What the server before it left stays, and is told.
    container.write("storage/raft_state.json", "{}");
    std::fs::create_dir_all(container.dir.path("storage/collections/c/0")).expect("a directory");
    container.write("storage/collections/c/config.json", "{}");
    let up = container.up(&["entrypoint.sh"], &[]);
    up.serves(None);
    let health = Command::new(env!("CARGO_BIN_EXE_ramlet"))
        .arg("health")
        .env_clear()
        .env("RAMLET_DEFAULTS", container.dir.path("defaults.yaml"))
        .env("RAMLET_PORT", up.port.to_string())
        .output()
        .expect("the binary runs");
    assert!(
        health.status.success() && health.stdout.ends_with(b" is ready\n"),
        "{health:?}"
    );
    let log = container.log();
    assert!(log.contains("ramlet import --from"), "{log}");
    assert!(
        has_files(&container.dir.path("storage/collections/c/0"))
            || std::path::Path::new(&container.dir.path("storage/collections/c/config.json")).exists()
    );
    assert!(
        log.contains("no key is set") && !log.contains("without effect") && !log.contains("is not a setting"),
        "{log}"
    );
}

#[test]
fn one_with_keys_variables_and_a_command() {
    let container = Container::new();
    container.write(
        "config/mine.yaml",
        "storage:\n  snapshots_path: ./snaps\n  optimizers: {default_segment_number: 2}\nservice: {max_request_size_mb: 16}\n",
    );
    let environment = [
        ("QDRANT__SERVICE__API_KEY", "secret"),
        ("QDRANT__SERVICE__READ_ONLY_API_KEY", "reader"),
        ("QDRANT__STORAGE__STORAGE_PATH", "./elsewhere"),
        ("QDRANT__LOG_LEVEL", "INFO"),
        ("QDRANT__TELEMETRY_DISABLED", "true"),
        ("QDRANT__CLUSTER__ENABLED", "false"),
        ("QDRANT__SERVICE__ENABLE_TLS", "false"),
        ("QDRANT__STORAGE__WAL__WAL_CAPACITY_MB", "32"),
        ("QDRANT_ALLOW_RECOVERY_MODE", "true"),
    ];
    let up = container.up(
        &[
            "qdrant",
            "--config-path",
            "config/mine.yaml",
            "--disable-telemetry",
        ],
        &environment,
    );
    up.serves(Some("secret"));
    assert!(
        up.ask("GET", "/collections", None, "")
            .starts_with("HTTP/1.1 401")
    );
    assert!(
        up.ask("GET", "/collections", Some("reader"), "")
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        up.ask("DELETE", "/collections/c", Some("reader"), "")
            .starts_with("HTTP/1.1 403")
    );
    assert!(
        up.stdout.iter().any(|line| line.ends_with("./elsewhere")),
        "{:?}",
        up.stdout
    );
    assert!(has_files(&container.dir.path("elsewhere")) && !has_files(&container.dir.path("storage")));
    let snapshot = up.ask("POST", "/collections/c/snapshots", Some("secret"), "");
    assert!(
        snapshot.starts_with("HTTP/1.1 200") && has_files(&container.dir.path("snaps")),
        "{snapshot}"
    );
    let log = container.log();
    for named in [
        "QDRANT__STORAGE__WAL__WAL_CAPACITY_MB",
        "config/mine.yaml:3: storage.optimizers.default_segment_number",
    ] {
        assert!(log.contains(named), "{named}: {log}");
    }
    assert!(
        !log.contains("TELEMETRY") && !log.contains("CLUSTER") && !log.contains("is not a setting"),
        "{log}"
    );
    assert!(!log.contains("no key is set") && !log.contains("secret"), "{log}");
}

fn has_files(dir: &str) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}
