//! The table of settings: the names of each, and its default.
//!
//! A setting's key is its name in a file. The flag is the key with dashes, the variable is `RAMLET_` and the key in capitals.

use clap::Command;

/// A setting of `ramlet serve`.
pub struct Setting {
    pub key: &'static str,
    /// The same setting in the files of the API's server; its variable is `QDRANT__` and the parts in capitals.
    pub qdrant: Option<&'static str>,
    /// The default in words; empty if there is none.
    pub default: &'static str,
}

const fn setting(key: &'static str, qdrant: Option<&'static str>, default: &'static str) -> Setting {
    Setting { key, qdrant, default }
}

/// In the order of `ramlet serve --help`.
pub const SETTINGS: &[Setting] = &[
    setting(
        "memory",
        None,
        "the cgroup's limit, or a quarter of the machine's RAM",
    ),
    setting("data", Some("storage.storage_path"), "./ramlet-data"),
    setting("host", Some("service.host"), "127.0.0.1"),
    setting("port", Some("service.http_port"), "6333"),
    setting("grpc_port", Some("service.grpc_port"), "6334, if it is free"),
    setting("api_key", Some("service.api_key"), ""),
    setting("alt_api_key", Some("service.alt_api_key"), ""),
    setting("read_only_api_key", Some("service.read_only_api_key"), ""),
    setting("jwt_rbac", Some("service.jwt_rbac"), "false"),
    setting("audit", Some("audit.enabled"), "false"),
    setting("audit_dir", Some("audit.dir"), "audit in the data directory"),
    setting("audit_rotation", Some("audit.rotation"), "daily"),
    setting("audit_file_size", None, "100MB"),
    setting("audit_files", Some("audit.max_log_files"), "7"),
    setting("audit_forwarded", Some("audit.trust_forwarded_headers"), "false"),
    setting("insecure", None, "false"),
    setting("tls_cert", None, ""),
    setting("tls_key", None, ""),
    setting("tls_client_ca", None, ""),
    setting("cors", Some("service.enable_cors"), "if a key is set"),
    setting("max_body", Some("service.max_request_size_mb"), "32MiB"),
    setting("backend", Some("storage.performance.async_scorer"), "auto"),
    setting("no_probe", None, "false"),
    setting(
        "snapshots_path",
        Some("storage.snapshots_path"),
        "snapshots in the data directory",
    ),
    setting(
        "snapshots_storage",
        Some("storage.snapshots_config.snapshots_storage"),
        "local",
    ),
    setting(
        "snapshots_s3_bucket",
        Some("storage.snapshots_config.s3_config.bucket"),
        "",
    ),
    setting(
        "snapshots_s3_region",
        Some("storage.snapshots_config.s3_config.region"),
        "`AWS_REGION`",
    ),
    setting(
        "snapshots_s3_access_key",
        Some("storage.snapshots_config.s3_config.access_key"),
        "`AWS_ACCESS_KEY_ID`",
    ),
    setting(
        "snapshots_s3_secret_key",
        Some("storage.snapshots_config.s3_config.secret_key"),
        "`AWS_SECRET_ACCESS_KEY`",
    ),
    setting(
        "snapshots_s3_endpoint",
        Some("storage.snapshots_config.s3_config.endpoint_url"),
        "`AWS_ENDPOINT`",
    ),
    setting("snapshots_from_urls", None, "false"),
    setting("store", None, ""),
    setting("role", None, "auto"),
    setting("shards", None, "1"),
    setting("shard", None, "the one with the fewest nodes"),
    setting("takeover_after", None, "10s"),
    setting("advertise", None, "the address that it listens on"),
    setting("store_backup_every", None, "1000"),
    setting("store_keep", None, "8"),
    setting(
        "threads",
        Some("storage.performance.max_search_threads"),
        "four per core, but at most one per 8 MB of memory",
    ),
    setting("slow_query", None, "1s, without the steps"),
    setting("log", Some("log_level"), "info"),
    setting("log_format", Some("logger.format"), "text"),
];

/// The setting with this key.
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// The variable of one of our keys.
pub fn variable(key: &str) -> String {
    format!("RAMLET_{}", key.to_ascii_uppercase())
}

/// The variable of a key of the API's server.
pub fn qdrant_variable(key: &str) -> String {
    format!("QDRANT__{}", key.replace('.', "__").to_ascii_uppercase())
}

/// Adds the variables and the default of each flag of `serve` to its help.
pub fn with_names(command: Command) -> Command {
    command.mut_subcommand("serve", |serve| {
        SETTINGS.iter().fold(serve, |serve, setting| {
            serve.mut_arg(setting.key, |arg| {
                let said = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let variables = [Some(variable(setting.key)), setting.qdrant.map(qdrant_variable)];
                let variables = variables.into_iter().flatten().collect::<Vec<_>>().join(", ");
                let default = match setting.default {
                    "" => String::new(),
                    default => format!(" [default: {default}]"),
                };
                arg.help(format!("{said} [env: {variables}]{default}"))
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;
    use crate::settings::qdrant::{FILES_OF_TLS, WITHOUT_EFFECT};

    fn serve() -> Command {
        let all = with_names(Cli::command());
        all.find_subcommand("serve").expect("a command").clone()
    }

    /// Actions of a single start, and the sources of settings.
    const FLAGS_ALONE: [&str; 13] = [
        "config",
        "config_dir",
        "skip_collection",
        "snapshot",
        "storage_snapshot",
        "force_snapshot",
        "restore",
        "disable_telemetry",
        "uri",
        "bootstrap",
        "reinit",
        "stacktrace",
        "help",
    ];

    #[test]
    fn every_flag_has_a_row_and_every_row_a_flag() {
        let serve = serve();
        for arg in serve.get_arguments() {
            let id = arg.get_id().as_str();
            let long = arg.get_long().expect("a long flag").replace('-', "_");
            assert_eq!(long, id, "the flag is the key with dashes");
            assert!(find(id).is_some() != FLAGS_ALONE.contains(&id), "{id}");
        }
        for setting in SETTINGS {
            let arg = serve.get_arguments().find(|arg| arg.get_id() == setting.key);
            let help = arg
                .expect(setting.key)
                .get_help()
                .expect("a sentence")
                .to_string();
            assert!(help.contains(&variable(setting.key)), "{help}");
        }
    }

    /// The tables of docs/guide/configuration.md, as they must be.
    fn tables() -> [(&'static str, String); 3] {
        let serve = serve();
        let mut settings = String::from(
            "| file | flag | variable | Qdrant's key | default | what |\n|---|---|---|---|---|---|\n",
        );
        for setting in SETTINGS {
            let arg = serve.get_arguments().find(|arg| arg.get_id() == setting.key);
            let help = arg
                .expect(setting.key)
                .get_help()
                .expect("a sentence")
                .to_string();
            let what = help.split(" [env").next().unwrap_or_default();
            settings += &format!(
                "| `{}` | `--{}` | `{}` | {} | {} | {what} |\n",
                setting.key,
                setting.key.replace('_', "-"),
                variable(setting.key),
                setting.qdrant.map_or(String::new(), |key| format!("`{key}`")),
                setting.default,
            );
        }
        let mut tls = String::from("| key | what |\n|---|---|\n");
        for (key, what) in FILES_OF_TLS {
            tls += &format!("| `{key}` | {what} |\n");
        }
        let mut none =
            String::from("| key, or keys under it | reason | no message for the value |\n|---|---|---|\n");
        for row in WITHOUT_EFFECT {
            let same = match row.same {
                ["*"] => "anything".to_owned(),
                same => same
                    .iter()
                    .map(|v| format!("`{v}`"))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            none += &format!("| `{}` | {} | {same} |\n", row.key, row.why);
        }
        [("settings", settings), ("tls", tls), ("none", none)]
    }

    /// `RAMLET_WRITE_DOCS=1` writes them.
    #[test]
    fn the_page_of_the_documentation_has_these_tables() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/configuration.md");
        let page = std::fs::read_to_string(&path).expect("the page");
        let mut wanted = page.clone();
        for (name, table) in tables() {
            let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
            let from = wanted.find(&begin).expect(&begin) + begin.len();
            let to = wanted.find(&end).expect(&end);
            wanted.replace_range(from..to, &format!("\n{table}\n"));
        }
        if std::env::var_os("RAMLET_WRITE_DOCS").is_some() {
            std::fs::write(&path, &wanted).expect("it is written");
        }
        assert!(
            page == wanted,
            "RAMLET_WRITE_DOCS=1 cargo test -p ramlet-cli tables"
        );
    }

    #[test]
    fn the_file_of_the_packages_names_settings() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/ramlet.yaml");
        let text = std::fs::read_to_string(path).expect("the file");
        let mut named = 0;
        for line in text.lines() {
            let line = line.strip_prefix("# ").unwrap_or(line);
            if let Some((key, _)) = line.split_once(':')
                && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
            {
                assert!(find(key).is_some(), "{line}");
                named += 1;
            }
        }
        assert!(named > 10, "only {named} lines");
    }
}
