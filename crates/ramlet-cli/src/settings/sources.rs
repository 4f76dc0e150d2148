//! The sources of a setting: the flag, the environment, then the files. In each, our name overrides the API server's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use crate::args;
use crate::settings::qdrant::{FILES_OF_TLS, without_effect};
use crate::settings::table::{self, SETTINGS, qdrant_variable, variable};
use crate::settings::{places, yaml};

/// A value and who said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Name and place, for errors: `RAMLET_PORT`, `ramlet.yaml:3: port`.
    pub name: String,
    pub value: String,
    /// It was said by the name of the API's server.
    pub by_qdrants_name: bool,
}

struct File {
    path: PathBuf,
    entries: Vec<yaml::Entry>,
}

/// The environment and the files, as they were at the start.
pub struct Sources {
    variables: BTreeMap<String, String>,
    /// The strongest first.
    files: Vec<File>,
}

/// Variables of ours that are no settings of the server.
const OTHER_VARIABLES: &[&str] = &[
    "RAMLET_CONFIG",
    "RAMLET_CONFIG_DIR",
    "RAMLET_DEFAULTS",
    "RAMLET_URL",
    "RAMLET_FROM_API_KEY",
    "RAMLET_KERNELS",
    "RAMLET_BENCH_CACHE",
    "RAMLET_BIN",
    "RAMLET_COMMIT",
];

impl Sources {
    /// The process's environment, and the files that the arguments or it name.
    pub fn new(config: &[PathBuf], dir: Option<&Path>) -> Result<Sources> {
        // A name or value that is no text belongs to somebody else.
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let all = std::env::vars_os().filter_map(text);
        Sources::of(all, config, dir)
    }

    /// What is given as the environment.
    pub fn of(
        variables: impl Iterator<Item = (String, String)>,
        config: &[PathBuf],
        dir: Option<&Path>,
    ) -> Result<Sources> {
        let variables: BTreeMap<_, _> = variables.collect();
        let paths = places::files(config, dir, &|name| variables.get(name).cloned())?;
        let mut files = Vec::new();
        for path in paths.into_iter().rev() {
            let entries = yaml::read(&path)?;
            files.push(File { path, entries });
        }
        Ok(Sources { variables, files })
    }

    /// What is said about one of our settings. A `key` that isn't in the table is a mistake of the program.
    pub fn find(&self, key: &str) -> Option<Found> {
        let setting = table::find(key).expect("settings stand in the table");
        self.find_by(Some(setting.key), setting.qdrant)
    }

    /// What is said about a key that only the API's server has.
    pub fn find_qdrants(&self, key: &str) -> Option<Found> {
        self.find_by(None, Some(key))
    }

    /// What is said about a truth.
    pub fn truth(&self, key: &str) -> Result<Option<bool>> {
        self.find(key).map(|found| found.truth()).transpose()
    }

    fn find_by(&self, ours: Option<&str>, qdrants: Option<&str>) -> Option<Found> {
        let ours = ours.map(|key| (key, variable(key), false));
        let qdrants = qdrants.map(|key| (key, qdrant_variable(key), true));
        let names: Vec<_> = ours.into_iter().chain(qdrants).collect();
        let mut in_variables = names.iter().filter_map(|(_, name, by_qdrants_name)| {
            let value = self.variables.get(name)?;
            let says = !value.is_empty() && !is_service_link(value);
            says.then(|| Found {
                name: name.clone(),
                value: value.clone(),
                by_qdrants_name: *by_qdrants_name,
            })
        });
        let mut in_files = self.files.iter().flat_map(|file| {
            names.iter().filter_map(move |(key, _, by_qdrants_name)| {
                let entry = file.entries.iter().find(|entry| entry.key == *key)?;
                Some(Found {
                    name: format!("{}: {key}", file.place(entry)),
                    value: value_of(entry)?,
                    by_qdrants_name: *by_qdrants_name,
                })
            })
        });
        in_variables.next().or_else(|| in_files.next())
    }

    /// Sentences for the log: what is said to no effect, and what no setting is called.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        let mut without: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for (name, value) in &self.variables {
            if is_service_link(value) && name.starts_with("RAMLET_") {
                if SETTINGS.iter().any(|setting| variable(setting.key) == *name) {
                    notices.push(format!(
                        "{name}={value} is the address of a Kubernetes service, not a setting: it is ignored (enableServiceLinks: false)"
                    ));
                }
                continue;
            }
            let said = (name.as_str(), Some(value.as_str()));
            match name.strip_prefix("QDRANT__") {
                Some(rest) => {
                    let key = rest.to_ascii_lowercase().replace("__", ".");
                    judge_qdrants(&key, said, None, &mut notices, &mut without);
                }
                None => notices.extend(misspelt_variable(name)),
            }
        }
        for file in &self.files {
            for entry in &file.entries {
                if table::find(&entry.key).is_some() {
                    continue;
                }
                let place = format!("{}: {}", file.place(entry), entry.key);
                let said = (place.as_str(), entry.value.as_deref());
                judge_qdrants(&entry.key, said, Some(&entry.key), &mut notices, &mut without);
            }
        }
        for (why, names) in without {
            notices.push(format!("without effect here ({why}): {}", names.join(", ")));
        }
        notices
    }

    /// The files that were read, the strongest first.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }
}

impl File {
    fn place(&self, entry: &yaml::Entry) -> String {
        format!("{}:{}", self.path.display(), entry.line)
    }
}

impl Found {
    /// Reads it as a truth.
    pub fn truth(&self) -> Result<bool> {
        args::boolean(&self.value).map_err(|why| self.wrong(&why))
    }

    /// An error that names place and value.
    pub fn wrong(&self, why: &dyn std::fmt::Display) -> anyhow::Error {
        anyhow!("{}={}: {why}", self.name, self.value)
    }
}

/// Null and nothing are as if the line weren't there, except where null says something.
fn value_of(entry: &yaml::Entry) -> Option<String> {
    match entry.value.as_deref() {
        None if matches!(entry.key.as_str(), "service.grpc_port" | "grpc_port") => {
            Some("disabled".to_owned())
        }
        None if entry.key == "tls.cert_ttl" => Some("0".to_owned()),
        None | Some("") => None,
        Some(value) => Some(value.to_owned()),
    }
}

/// Kubernetes sets `NAME_PORT=tcp://10.0.0.1:6333` for each service, in the containers of its namespace.
fn is_service_link(value: &str) -> bool {
    value.starts_with("tcp://") || value.starts_with("udp://")
}

/// What is to be said about a name that may be one of the API server's.
fn judge_qdrants(
    key: &str,
    (said, value): (&str, Option<&str>),
    of_file: Option<&str>,
    notices: &mut Vec<String>,
    without: &mut BTreeMap<&'static str, Vec<String>>,
) {
    let works = |known: &str| known.eq_ignore_ascii_case(key);
    if SETTINGS.iter().filter_map(|setting| setting.qdrant).any(works)
        || FILES_OF_TLS.iter().any(|(known, _)| works(known))
    {
        return;
    }
    let Some(row) = without_effect(key) else {
        let nearest = nearest(key, of_file.is_some());
        let meant = nearest.map(|known| match of_file {
            Some(_) => format!("; did you mean {known}?"),
            None => format!("; did you mean {}?", qdrant_variable(&known)),
        });
        notices.push(format!("{said} is not a setting{}", meant.unwrap_or_default()));
        return;
    };
    // Null says nothing, nor does what is so anyway.
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return;
    };
    if !row
        .same
        .iter()
        .any(|same| *same == "*" || same.eq_ignore_ascii_case(value))
    {
        without.entry(row.why).or_default().push(said.to_owned());
    }
}

/// A variable that is nearly one of ours. Others may have names that begin alike.
fn misspelt_variable(name: &str) -> Option<String> {
    let known = SETTINGS.iter().map(|setting| variable(setting.key));
    let known: Vec<_> = known
        .chain(OTHER_VARIABLES.iter().map(|&name| name.to_owned()))
        .collect();
    if !name.starts_with("RAMLET_") || known.iter().any(|known| known == name) {
        return None;
    }
    let nearest = known
        .into_iter()
        .map(|known| (edits(&known, name), known))
        .min()
        .filter(|(edits, _)| *edits <= 2);
    nearest.map(|(_, known)| format!("{name} is not a setting; did you mean {known}?"))
}

/// The known key that is nearest, if one is near.
fn nearest(key: &str, ours_too: bool) -> Option<String> {
    let ours = SETTINGS.iter().map(|setting| setting.key).filter(|_| ours_too);
    let qdrants = SETTINGS.iter().filter_map(|setting| setting.qdrant);
    let tls = FILES_OF_TLS.iter().map(|(key, _)| *key);
    // Also without what stands before the last dot: keys are put into the wrong section.
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let near = |known: &str| edits(known, key).min(1 + edits(&last(known), &last(key)));
    let (edits, known) = ours
        .chain(qdrants)
        .chain(tls)
        .map(|known| (near(known), known))
        .min()?;
    (edits <= 3 && edits * 2 < last(key).len().max(2)).then(|| known.to_owned())
}

/// Letters that must be put in, taken out, replaced or swapped to get from one to the other.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<_>, Vec<_>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let differ = usize::from(a[i - 1] != b[j - 1]);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    let swap = if swapped {
                        rows[i - 2][j - 2] + 1
                    } else {
                        usize::MAX
                    };
                    let one = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    one.min(rows[i - 1][j - 1] + differ).min(swap)
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An environment alone.
    pub fn environment(variables: &[(&str, &str)]) -> Sources {
        let variables = variables
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        Sources::of(variables, &[], None).expect("no file is named")
    }

    /// Files, the strongest first, and an environment.
    fn sources(files: &[&str], variables: &[(&str, &str)]) -> Sources {
        let mut sources = environment(variables);
        sources.files = files
            .iter()
            .enumerate()
            .map(|(at, text)| File {
                path: format!("{}.yaml", at + 1).into(),
                entries: yaml::parse(text).expect("YAML"),
            })
            .collect();
        sources
    }

    fn check(sources: &Sources, key: &str, expected: Option<(&str, &str)>) {
        let found = sources.find(key);
        let seen = found
            .as_ref()
            .map(|found| (found.name.as_str(), found.value.as_str()));
        assert_eq!(seen, expected, "{key}");
    }

    #[test]
    fn the_environment_goes_before_files_and_our_names_before_the_others() {
        let text = "port: 1\nservice: {http_port: 2, host: h}\n";
        let both = [("RAMLET_PORT", "3"), ("QDRANT__SERVICE__HTTP_PORT", "4")];
        check(&sources(&[text], &both), "port", Some(("RAMLET_PORT", "3")));
        check(
            &sources(&[text], &both[1..]),
            "port",
            Some(("QDRANT__SERVICE__HTTP_PORT", "4")),
        );
        check(&sources(&[text], &[]), "port", Some(("1.yaml:1: port", "1")));
        check(
            &sources(&[text], &[]),
            "host",
            Some(("1.yaml:2: service.host", "h")),
        );
        check(
            &sources(&["host: a", text], &[]),
            "host",
            Some(("1.yaml:1: host", "a")),
        );
        check(
            &sources(&["host: a", text], &[]),
            "port",
            Some(("2.yaml:1: port", "1")),
        );
        check(
            &sources(&["host:\nport: ''"], &[("RAMLET_PORT", "")]),
            "port",
            None,
        );
        check(&sources(&["host: ~"], &[]), "host", None);
        check(
            &sources(&["service: {grpc_port: null}"], &[]),
            "grpc_port",
            Some(("1.yaml:1: service.grpc_port", "disabled")),
        );
        check(
            &sources(&[], &[("RAMLET_PORT", "tcp://10.0.0.1:6333")]),
            "port",
            None,
        );
    }

    fn noticed(files: &[&str], variables: &[(&str, &str)], expected: &[&str]) {
        let notices = sources(files, variables).notices();
        assert_eq!(notices.len(), expected.len(), "{notices:#?}");
        for (notice, expected) in notices.iter().zip(expected) {
            assert!(notice.contains(expected), "{notice}");
        }
    }

    #[test]
    fn unknown_names_are_told_with_the_nearest() {
        noticed(
            &["memry: 1MB"],
            &[],
            &["1.yaml:1: memry is not a setting; did you mean memory?"],
        );
        noticed(
            &["a: 1\nservice:\n  htp_port: 1\n  api_kye: k\n"],
            &[],
            &[
                "1.yaml:1: a is not a setting",
                "1.yaml:3: service.htp_port is not a setting; did you mean service.http_port?",
                "1.yaml:4: service.api_kye is not a setting; did you mean service.api_key?",
            ],
        );
        noticed(
            &["storage: {http_port: 1}"],
            &[],
            &["did you mean service.http_port?"],
        );
        noticed(
            &[],
            &[
                ("QDRANT__SERVICE__API_KEYS", "k"),
                ("RAMLET_MEMROY", "1MB"),
                ("RAMLET_SOMETHING", "x"),
            ],
            &[
                "QDRANT__SERVICE__API_KEYS is not a setting; did you mean QDRANT__SERVICE__API_KEY?",
                "did you mean RAMLET_MEMORY?",
            ],
        );
        noticed(
            &[],
            &[
                ("RAMLET_PORT", "tcp://10.0.0.1:6333"),
                ("RAMLET_PORT_6333_TCP", "tcp://a"),
            ],
            &["Kubernetes"],
        );
    }

    #[test]
    fn what_has_no_effect_is_told_by_reason_unless_it_is_so_anyway() {
        noticed(
            &[
                "telemetry_disabled: false\ncluster: {enabled: false}\nstorage: {on_disk_payload: true, temp_path: null, node_type: normal}",
            ],
            &[("QDRANT__TELEMETRY_DISABLED", "true")],
            &[],
        );
        noticed(
            &["storage:\n  hnsw_index: {m: 32}\n  optimizers: {flush_interval_sec: 5}\n"],
            &[
                ("QDRANT__STORAGE__HNSW_INDEX__M", "8"),
                ("QDRANT__CLUSTER__ENABLED", "true"),
            ],
            &[
                "(there is no such cluster: nodes share a `store`): QDRANT__CLUSTER__ENABLED",
                "the planner chooses what isn't set): QDRANT__STORAGE__HNSW_INDEX__M, 1.yaml:2: storage.hnsw_index.m, 1.yaml:3: storage.optimizers.flush_interval_sec",
            ],
        );
    }

    /// Each key of the file that the API's server comes with works or has a row that says why not.
    #[test]
    fn no_key_of_the_apis_server_is_unknown() {
        let text = include_str!("../../../../testdata/configuration/qdrant-keys.yaml");
        let entries = yaml::parse(text).expect("YAML");
        assert!(entries.len() > 80, "only {}", entries.len());
        let unknown: Vec<_> = sources(&[text], &[])
            .notices()
            .into_iter()
            .filter(|notice| notice.contains("is not a setting"))
            .collect();
        assert_eq!(unknown, [""; 0]);
        let as_variables: Vec<_> = entries
            .iter()
            .map(|entry| (qdrant_variable(&entry.key), "x".to_owned()))
            .collect();
        let as_variables = Sources::of(as_variables.into_iter(), &[], None).expect("no file");
        let unknown = as_variables
            .notices()
            .into_iter()
            .find(|notice| notice.contains("is not a setting"));
        assert_eq!(unknown, None);
    }
}
