//! The settings files to read: a package's defaults, a directory in the API server's form, and files named by flags or a variable.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// A variable's value by its name.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Files to read, the weakest first. A file that is named must be there; those of a directory may be.
pub fn files(config: &[PathBuf], dir: Option<&Path>, env: Lookup<'_>) -> Result<Vec<PathBuf>> {
    let said = |name: &str| env(name).filter(|value| !value.is_empty());
    let mut files = Vec::new();
    if let Some(path) = said("RAMLET_DEFAULTS") {
        files.push(named("RAMLET_DEFAULTS=", Path::new(&path))?);
    }
    let dir = dir
        .map(Path::to_owned)
        .or_else(|| said("RAMLET_CONFIG_DIR").map(PathBuf::from));
    if let Some(dir) = dir {
        if !dir.is_dir() {
            bail!("--config-dir {}: it is not a directory", dir.display());
        }
        let mode = said("RUN_MODE").unwrap_or_else(|| "production".to_owned());
        for name in ["config", mode.as_str(), "local"] {
            let endings = ["yaml", "yml"].map(|ending| dir.join(format!("{name}.{ending}")));
            files.extend(endings.into_iter().find(|file| file.is_file()));
        }
    }
    match (config, said("RAMLET_CONFIG")) {
        ([], Some(path)) => files.push(named("RAMLET_CONFIG=", Path::new(&path))?),
        (config, _) => {
            for path in config {
                files.push(named("--config ", path)?);
            }
        }
    }
    Ok(files)
}

/// The API's server takes the name without its ending too.
fn named(by: &str, path: &Path) -> Result<PathBuf> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    for ending in ["yaml", "yml"] {
        let mut with = path.as_os_str().to_owned();
        with.push(".");
        with.push(ending);
        if Path::new(&with).is_file() {
            return Ok(with.into());
        }
    }
    let what = if path.exists() {
        "it is not a file"
    } else {
        "there is no such file"
    };
    bail!("{by}{}: {what}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_as_the_apis_server_reads_it() {
        let dir = std::env::temp_dir().join(format!("ramlet-config-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        for name in ["config.yaml", "production.yaml", "dev.yml", "local.yaml"] {
            std::fs::write(dir.join(name), "").expect("a file");
        }
        let names = |config: &[PathBuf], env: &[(&str, &str)]| {
            let env = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
            let files = files(config, Some(&dir), &env).expect("all are there");
            let name = |file: &PathBuf| file.file_name().expect("a name").to_string_lossy().into_owned();
            files.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[], &[]), ["config.yaml", "production.yaml", "local.yaml"]);
        assert_eq!(
            names(&[], &[("RUN_MODE", "dev")]),
            ["config.yaml", "dev.yml", "local.yaml"]
        );
        let without_ending = dir.join("dev");
        assert_eq!(
            names(&[without_ending], &[("RUN_MODE", "none")]),
            ["config.yaml", "local.yaml", "dev.yml"]
        );
        let missing = files(&[dir.join("other")], None, &|_| None).expect_err("it isn't there");
        assert!(missing.to_string().contains("there is no such file"), "{missing}");
        let named = |name: &str| (name == "RAMLET_CONFIG").then(|| "no.yaml".to_owned());
        let missing = files(&[], None, &named).expect_err("it isn't there");
        assert!(missing.to_string().contains("RAMLET_CONFIG=no.yaml"), "{missing}");
        std::fs::remove_dir_all(&dir).expect("it was there");
    }
}
