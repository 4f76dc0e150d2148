//! Both versions against directories that look like theirs, and the machine's own where it lets us.

use super::*;

fn temporary(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("ramlet-bench-test-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory");
    path
}

#[test]
fn mounts_are_found() {
    let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
        cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    let tree = Tree::of(mounts, String::new());
    assert_eq!(tree.memory_v1, Some("/sys/fs/cgroup/memory".into()));
    assert_eq!(tree.blkio_v1, Some("/sys/fs/cgroup/blkio".into()));
    assert_eq!(tree.v2, Some("/sys/fs/cgroup/unified".into()));
    let none = Tree::of("", String::new()).group("x", 1);
    assert!(
        none.expect_err("nothing is mounted")
            .to_string()
            .contains("none is mounted")
    );
}

#[test]
fn version_2_below_our_own_group() {
    let mount = temporary("v2");
    let own = mount.join("user.slice/scope");
    fs::create_dir_all(&own).expect("a directory");
    let tree = Tree {
        memory_v1: None,
        blkio_v1: None,
        v2: Some(mount.clone()),
        own: "0::/user.slice/scope\n".into(),
    };
    // A plain file keeps only what was written last, so that our own "+memory" is in it; "+io" before it is gone.
    let (parent, disk, version) = tree.parents().expect("handed down");
    assert_eq!((parent, disk, version), (own.clone(), None, 2));
    let group = Group {
        version: 2,
        memory: own.join("g"),
        disk: Some(own.join("g")),
    };
    fs::create_dir(&group.memory).expect("a directory");
    group.set_limit(64_000_000).expect("written");
    let read = |name: &str| fs::read_to_string(group.memory.join(name)).expect("written");
    assert_eq!(
        (read("memory.max"), read("memory.swap.max")),
        ("64000000".into(), "0".into())
    );
    for (name, text) in [
        ("memory.current", "1000\n"),
        ("memory.peak", "2000\n"),
        (
            "memory.events",
            "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n",
        ),
        (
            "io.stat",
            "254:0 rbytes=8192 wbytes=1 rios=2 wios=1 dbytes=0 dios=0\n253:0 rbytes=4096 wbytes=0 rios=1 wios=0\n",
        ),
        ("cgroup.procs", ""),
    ] {
        fs::write(group.memory.join(name), text).expect("written");
    }
    let expected = MemoryFigures {
        usage_bytes: 1000,
        peak_bytes: Some(2000),
        oom_kills: 1,
        limit_met: 7,
    };
    assert_eq!(group.memory(), expected);
    let disk = group.disk().expect("counted");
    assert_eq!(
        (disk.reads, disk.read_bytes, disk.writes, disk.write_bytes),
        (2, 8192, 1, 1)
    );
    fs::remove_dir_all(&mount).expect("removed");
}

#[test]
fn version_1_figures() {
    let own = temporary("v1");
    let group = Group {
        version: 1,
        memory: own.join("memory"),
        disk: Some(own.join("blkio")),
    };
    for directory in group.directories() {
        fs::create_dir(directory).expect("a directory");
    }
    for (name, text) in [
        ("memory/memory.usage_in_bytes", "1000\n"),
        ("memory/memory.max_usage_in_bytes", "2000\n"),
        (
            "memory/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        ),
        ("memory/memory.failcnt", "9\n"),
        (
            "blkio/blkio.throttle.io_serviced",
            "254:0 Read 5\n254:0 Write 2\n254:0 Total 7\nTotal 7\n",
        ),
        (
            "blkio/blkio.throttle.io_service_bytes",
            "254:0 Read 20480\n254:0 Write 8\n254:0 Total 20488\nTotal 20488\n",
        ),
    ] {
        fs::write(own.join(name), text).expect("written");
    }
    let memory = group.memory();
    assert_eq!(
        (memory.peak_bytes, memory.oom_kills, memory.limit_met),
        (Some(2000), 3, 9)
    );
    let disk = group.disk().expect("counted");
    assert_eq!(
        (disk.reads, disk.read_bytes, disk.writes, disk.write_bytes),
        (5, 20480, 2, 8)
    );
    fs::remove_dir_all(&own).expect("removed");
}

#[test]
fn stale_is_what_has_no_maker() {
    let pid = std::process::id();
    assert!(!is_stale(&own_name("x")));
    assert!(is_stale(&format!("{PREFIX}{pid}-1-x")), "started at another time");
    assert!(is_stale(&format!("{PREFIX}4194999-77-x")), "no such process");
    for foreign in [
        "system.slice",
        "ramlet-bench-",
        "ramlet-bench-self",
        "ramlet-bench-test-v1-7",
    ] {
        assert!(!is_stale(foreign), "{foreign}");
    }
}

/// The machine's own groups: a process inside is killed at the limit, and nothing stays. Where none can be made the error says so.
#[test]
fn a_real_group() {
    let group = match Tree::here().group("unit", 24_000_000) {
        Ok(group) => group,
        Err(why) => {
            assert!(why.to_string().contains("--no-cgroup"));
            return;
        }
    };
    let enter: Vec<String> = group
        .entrances()
        .iter()
        .map(|path| format!("echo $$ > {}", path.display()))
        .collect();
    // Reads past the page cache are counted, where the file system can do that and the kernel counts.
    let file = std::env::temp_dir().join(format!("ramlet-bench-test-reads-{}", std::process::id()));
    fs::write(&file, vec![7; 20 * 4096]).expect("written");
    fs::File::open(&file).and_then(|f| f.sync_all()).expect("synced");
    let line = format!(
        "{} && dd if={} of=/dev/null bs=4k iflag=direct",
        enter.join(" && "),
        file.display()
    );
    let read = Command::new("sh")
        .args(["-c", &line])
        .stderr(Stdio::null())
        .status();
    fs::remove_file(&file).expect("removed");
    if let (true, Some(disk)) = (read.is_ok_and(|status| status.success()), group.disk()) {
        assert!(disk.reads >= 20 && disk.read_bytes >= 20 * 4096, "{disk:?}");
    }
    // tail keeps a line whole: it grows past the limit.
    let line = format!("{} && head -c 80000000 /dev/zero | tail", enter.join(" && "));
    let done = Command::new("sh")
        .args(["-c", &line])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(done.is_ok());
    let memory = group.memory();
    assert!(memory.oom_kills >= 1, "{memory:?}");
    assert!(
        memory
            .peak_bytes
            .is_none_or(|peak| peak <= 24_000_000 && peak > 20_000_000),
        "{memory:?}"
    );
    let directories = group.directories();
    // One that sleeps goes with the group.
    let line = format!("{} && exec sleep 100", enter.join(" && "));
    let mut sleeper = Command::new("sh").args(["-c", &line]).spawn().expect("started");
    while !group.processes().contains(&sleeper.id()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    group.kill();
    // Until it is waited for it stays in the group.
    assert!(!sleeper.wait().expect("ended").success());
    drop(group);
    assert!(directories.iter().all(|path| !path.exists()));
}
