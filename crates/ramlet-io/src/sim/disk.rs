//! The state of the simulated disk, and the journal of how it came to be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::fault::{Fault, FaultOp};
use super::pages::Pages;
use crate::storage::{IoError, Result};
use crate::system::OpenFiles;

/// A file or directory, whatever it is called; never used again.
pub type NodeId = usize;

pub const ROOT: NodeId = 0;

pub struct Disk {
    /// The state when the journal was empty.
    pub base: Vec<Node>,
    /// The newest state.
    pub nodes: Vec<Node>,
    /// The path under which each node was made, for messages.
    paths: Vec<String>,
    pub journal: Vec<Effect>,
    pub faults: Vec<Fault>,
    pub free_bytes: u64,
    pub open_files: Option<OpenFiles>,
    locks: BTreeMap<NodeId, Arc<AtomicBool>>,
}

#[derive(Clone)]
pub enum Node {
    File {
        bytes: Pages,
        /// A sync failed: what reaches the disk is unknown from then on.
        poisoned: bool,
    },
    /// Shared between versions, as the pages of files are.
    Directory(Arc<BTreeMap<String, NodeId>>),
}

/// One change, in the order of issue.
pub enum Effect {
    Link {
        directory: NodeId,
        name: Box<str>,
        node: NodeId,
        is_directory: bool,
    },
    Unlink {
        directory: NodeId,
        name: Box<str>,
    },
    /// Of this node, whatever else had one of the names before or after.
    Rename {
        directory: NodeId,
        node: NodeId,
        from: Box<str>,
        to: Box<str>,
    },
    Write {
        node: NodeId,
        offset: u64,
        bytes: Box<[u8]>,
    },
    /// Zeros from the start: the making of a log file.
    Zeros {
        node: NodeId,
        len: u64,
    },
    /// Everything written before is durable: `bytes`.
    Sync {
        node: NodeId,
        bytes: Pages,
    },
    SyncDir {
        directory: NodeId,
    },
}

impl Default for Disk {
    fn default() -> Disk {
        Disk::with_nodes(vec![Node::new_directory()])
    }
}

impl Node {
    pub fn new_file() -> Node {
        Node::File {
            bytes: Pages::default(),
            poisoned: false,
        }
    }

    pub fn new_directory() -> Node {
        Node::Directory(Arc::default())
    }

    pub fn new(is_directory: bool) -> Node {
        if is_directory {
            Node::new_directory()
        } else {
            Node::new_file()
        }
    }

    /// The names in a directory.
    pub fn entries(&self) -> &BTreeMap<String, NodeId> {
        match self {
            Node::Directory(entries) => entries,
            Node::File { .. } => panic!("a directory handle is of a directory"),
        }
    }

    /// The bytes of a file.
    pub fn bytes_mut(&mut self) -> &mut Pages {
        match self {
            Node::File { bytes, .. } => bytes,
            Node::Directory(_) => panic!("only files are written"),
        }
    }

    /// Does an effect on the names of this directory.
    pub fn change_names(&mut self, effect: &Effect) {
        let Node::Directory(entries) = self else {
            panic!("names are in directories")
        };
        let entries = Arc::make_mut(entries);
        match effect {
            Effect::Link { name, node, .. } => {
                entries.insert(name.to_string(), *node);
            }
            Effect::Unlink { name, .. } => {
                entries.remove(&**name);
            }
            Effect::Rename { node, from, to, .. } => {
                // After a power loss it may be there without the creation before it: then there is nothing to take away.
                if entries.get(&**from) == Some(node) {
                    entries.remove(&**from);
                }
                entries.insert(to.to_string(), *node);
            }
            _ => panic!("not an effect on names"),
        }
    }
}

impl Effect {
    /// The directory whose names it changes.
    pub fn names_of(&self) -> Option<NodeId> {
        match self {
            Effect::Link { directory, .. }
            | Effect::Unlink { directory, .. }
            | Effect::Rename { directory, .. } => Some(*directory),
            _ => None,
        }
    }
}

impl Disk {
    /// A disk in this state, all of it durable.
    pub fn with_nodes(nodes: Vec<Node>) -> Disk {
        let mut disk = Disk {
            base: nodes.clone(),
            paths: vec![String::new(); nodes.len()],
            nodes,
            journal: Vec::new(),
            faults: Vec::new(),
            free_bytes: 1 << 40,
            open_files: None,
            locks: BTreeMap::new(),
        };
        let mut paths = Vec::new();
        disk.walk(ROOT, "", &mut |path, node| paths.push((node, path.to_owned())));
        for (node, path) in paths {
            disk.paths[node] = path;
        }
        disk
    }

    /// Counts an operation against the faults.
    pub fn check(&mut self, op: FaultOp, what: &'static str, name: &str) -> Result<()> {
        let mut outcome = Ok(());
        // Every fault counts, also when an earlier one fires.
        for fault in &mut self.faults {
            outcome = outcome.and(fault.check(op, what, name));
        }
        outcome
    }

    /// Does an effect and writes it into the journal.
    pub fn apply(&mut self, effect: Effect) {
        match &effect {
            Effect::Write { node, offset, bytes } => self.file_mut(*node).write(*offset, bytes),
            Effect::Zeros { node, len } => self.file_mut(*node).extend_to(*len),
            Effect::Sync { .. } | Effect::SyncDir { .. } => {}
            Effect::Link { directory, .. }
            | Effect::Unlink { directory, .. }
            | Effect::Rename { directory, .. } => self.nodes[*directory].change_names(&effect),
        }
        self.journal.push(effect);
    }

    /// Adds a node under a name that is free.
    pub fn link_new(&mut self, directory: NodeId, name: &str, new: Node) -> NodeId {
        let node = self.nodes.len();
        let is_directory = matches!(new, Node::Directory(_));
        let parent = match self.paths[directory].as_str() {
            "" => String::new(),
            path => format!("{path}/"),
        };
        self.paths.push(format!("{parent}{name}"));
        self.nodes.push(new);
        self.apply(Effect::Link {
            directory,
            name: name.into(),
            node,
            is_directory,
        });
        node
    }

    /// Removes a directory as a file system does: first what is in it, then its name.
    pub fn remove_tree(&mut self, parent: NodeId, name: &str, node: NodeId) {
        for (name, child) in self.entries(node).clone() {
            match self.is_directory(child) {
                true => self.remove_tree(node, &name, child),
                false => self.apply(Effect::Unlink {
                    directory: node,
                    name: name.into(),
                }),
            }
        }
        self.apply(Effect::Unlink {
            directory: parent,
            name: name.into(),
        });
    }

    pub fn write(&mut self, node: NodeId, offset: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.apply(Effect::Write {
                node,
                offset,
                bytes: bytes.into(),
            });
        }
    }

    pub fn sync(&mut self, node: NodeId, name: &str) -> Result<()> {
        let fault = self.check(FaultOp::Sync, "sync", name);
        let Node::File { bytes, poisoned } = &mut self.nodes[node] else {
            panic!("a file is synced")
        };
        *poisoned |= fault.is_err();
        if !*poisoned {
            let bytes = bytes.clone();
            self.apply(Effect::Sync { node, bytes });
        }
        fault
    }

    /// The making of a log file: zeros, synced.
    pub fn zero_log(&mut self, node: NodeId, len: u64, name: &str) -> Result<()> {
        self.check(FaultOp::Write, "write", name)?;
        self.apply(Effect::Zeros { node, len });
        self.sync(node, name)
    }

    pub fn entries(&self, directory: NodeId) -> &BTreeMap<String, NodeId> {
        self.nodes[directory].entries()
    }

    pub fn is_directory(&self, node: NodeId) -> bool {
        matches!(self.nodes[node], Node::Directory(_))
    }

    /// Names in a directory: of its directories or of its files.
    pub fn names(&self, directory: NodeId, directories: bool) -> Vec<String> {
        let entries = self.entries(directory).iter();
        entries
            .filter(|entry| self.is_directory(*entry.1) == directories)
            .map(|entry| entry.0.clone())
            .collect()
    }

    pub fn file(&self, node: NodeId) -> &Pages {
        match &self.nodes[node] {
            Node::File { bytes, .. } => bytes,
            Node::Directory(_) => panic!("a file handle is of a file"),
        }
    }

    pub fn file_mut(&mut self, node: NodeId) -> &mut Pages {
        self.nodes[node].bytes_mut()
    }

    /// The file at a path below a directory.
    pub fn resolve(&self, directory: NodeId, path: &str) -> Result<NodeId> {
        let mut node = directory;
        for part in path.split('/') {
            let Node::Directory(entries) = &self.nodes[node] else {
                return Err(IoError::not_found("open", path));
            };
            node = *entries
                .get(part)
                .ok_or_else(|| IoError::not_found("open", path))?;
        }
        match self.is_directory(node) {
            true => Err(IoError::not_found("open", path)),
            false => Ok(node),
        }
    }

    /// Visits every file below a directory with its path.
    pub fn walk(&self, directory: NodeId, prefix: &str, visit: &mut dyn FnMut(&str, NodeId)) {
        for (name, node) in self.entries(directory) {
            let path = format!("{prefix}{name}");
            match self.is_directory(*node) {
                true => self.walk(*node, &format!("{path}/"), visit),
                false => visit(&path, *node),
            }
        }
    }

    pub fn lock_flag(&mut self, directory: NodeId) -> Arc<AtomicBool> {
        self.locks.entry(directory).or_default().clone()
    }

    pub fn describe(&self, effect: &Effect) -> String {
        let path = |node: &NodeId| self.paths[*node].as_str();
        match effect {
            Effect::Link {
                node, is_directory, ..
            } => match is_directory {
                true => format!("make directory {}", path(node)),
                false => format!("create {}", path(node)),
            },
            Effect::Unlink { directory, name } => format!("remove {}/{name}", path(directory)),
            Effect::Rename {
                directory, from, to, ..
            } => format!("rename {}/{from} to {to}", path(directory)),
            Effect::Write { node, offset, bytes } => {
                format!("write {} bytes at {offset} of {}", bytes.len(), path(node))
            }
            Effect::Zeros { node, len } => format!("zero {len} bytes of {}", path(node)),
            Effect::Sync { node, .. } => format!("sync {}", path(node)),
            Effect::SyncDir { directory } => format!("sync directory {}/", path(directory)),
        }
    }
}
