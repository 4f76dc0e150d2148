//! Arguments of measuring programs: a command, plain words, `--name value`, `--flag`.

use std::str::FromStr;

/// A command line, taken apart.
#[derive(Debug, Clone, Default)]
pub struct Args {
    words: Vec<String>,
    options: Vec<(String, String)>,
}

impl Args {
    /// Every `--name` takes the next argument as its value, but those in `flags`. `--bench`, which cargo adds, is dropped.
    pub fn parse(arguments: impl Iterator<Item = String>, flags: &[&str]) -> Result<Args, String> {
        let mut args = Args::default();
        let mut rest = arguments.filter(|argument| argument != "--bench");
        while let Some(argument) = rest.next() {
            match argument.strip_prefix("--") {
                None => args.words.push(argument),
                Some(name) if flags.contains(&name) => args.options.push((name.into(), String::new())),
                Some(name) => {
                    let value = rest.next().ok_or(format!("--{name} wants a value"))?;
                    args.options.push((name.into(), value));
                }
            }
        }
        Ok(args)
    }

    pub fn word(&self, at: usize) -> Option<&str> {
        self.words.get(at).map(String::as_str)
    }

    pub fn has(&self, flag: &str) -> bool {
        self.text(flag).is_some()
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().rev().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// `default` when it isn't there.
    pub fn value<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| format!("--{name} {text} can't be understood")),
        }
    }

    /// Numbers between commas; none when it isn't there.
    pub fn list<T: FromStr>(&self, name: &str) -> Result<Vec<T>, String> {
        let text = self.text(name).unwrap_or_default();
        text.split(',')
            .filter(|part| !part.is_empty())
            .map(|part| {
                part.parse()
                    .map_err(|_| format!("--{name} {part} can't be understood"))
            })
            .collect()
    }

    /// Bytes: `135MB` (10^6), `128MiB` (2^20), `1.5GB`, or plain.
    pub fn bytes(&self, name: &str) -> Result<Option<u64>, String> {
        self.text(name)
            .map(|text| bytes(text).ok_or(format!("--{name} {text} is no size")))
            .transpose()
    }
}

/// See [`Args::bytes`].
pub fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, f64); 7] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("", 1.0),
    ];
    let (unit, scale) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: f64 = text[..text.len() - unit.len()].trim().parse().ok()?;
    (number >= 0.0 && number * scale < 1e18).then_some((number * scale) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line() {
        let line = "search data --bench --memory 135MB --exact --ef 64,128 dir";
        let args = Args::parse(line.split(' ').map(String::from), &["exact"]).expect("sound");
        assert_eq!(
            (args.word(0), args.word(1), args.word(2), args.word(3)),
            (Some("search"), Some("data"), Some("dir"), None)
        );
        assert_eq!(args.bytes("memory"), Ok(Some(135_000_000)));
        assert_eq!(args.list("ef"), Ok(vec![64, 128]));
        assert!(args.has("exact") && !args.has("quick"));
        assert_eq!(args.value("threads", 2), Ok(2));
        assert!(args.value("ef", 2).is_err());
        assert!(Args::parse(["--memory".to_string()].into_iter(), &[]).is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("1.5GB"), Some(1_500_000_000));
        assert_eq!(bytes("128MiB"), Some(128 << 20));
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!((bytes("MB"), bytes("-1MB"), bytes("x")), (None, None, None));
    }
}
