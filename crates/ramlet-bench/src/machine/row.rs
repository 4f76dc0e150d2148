//! One line of the table: a figure of this machine beside the source's.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::source;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    #[serde(rename = "ops/s")]
    Ops,
    #[serde(rename = "inserts/s")]
    Inserts,
    #[serde(rename = "requests/s")]
    Requests,
    #[serde(rename = "fsyncs/s")]
    Fsyncs,
    #[serde(rename = "MiB/s")]
    Mebibytes,
    #[serde(rename = "GB/s")]
    Gigabytes,
    #[serde(rename = "Gbit/s")]
    Gigabits,
    #[serde(rename = "cycles")]
    Cycles,
    #[serde(rename = "us")]
    Microseconds,
    #[serde(rename = "ns")]
    Nanoseconds,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::Ops => "ops/s",
            Unit::Inserts => "inserts/s",
            Unit::Requests => "requests/s",
            Unit::Fsyncs => "fsyncs/s",
            Unit::Mebibytes => "MiB/s",
            Unit::Gigabytes => "GB/s",
            Unit::Gigabits => "Gbit/s",
            Unit::Cycles => "cycles",
            Unit::Microseconds => "us",
            Unit::Nanoseconds => "ns",
        }
    }

    /// Times: the less, the better.
    pub fn is_time(self) -> bool {
        matches!(self, Unit::Cycles | Unit::Microseconds | Unit::Nanoseconds)
    }
}

/// A line that is to be filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    pub name: String,
    pub unit: Unit,
}

/// A further figure of the same measurement, with its unit: `(412.0, "us p99")`.
pub type Also = (f64, &'static str);

/// A line.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub group: &'static str,
    pub name: String,
    pub unit: Unit,
    /// The figure, or one sentence that says why there is none.
    pub value: Result<f64, String>,
    pub also: Vec<Also>,
    /// What the source measured otherwise: there is no ratio then.
    pub differs: Option<&'static str>,
}

impl Row {
    /// The source's figure, if it has this line.
    pub fn source(&self) -> Option<f64> {
        source::figure(self.group, &self.name)
    }

    /// How many times as fast as the source's machine: above 1 is faster here, for rates and for times. None where it measured
    /// something of another size.
    pub fn ratio(&self) -> Option<f64> {
        if self.differs.is_some() {
            return None;
        }
        let (here, there) = (self.value.as_ref().ok()?, self.source()?);
        Some(match self.unit.is_time() {
            true => there / here,
            false => here / there,
        })
    }

    pub fn json(&self) -> Value {
        let also: Map<String, Value> = self
            .also
            .iter()
            .map(|(value, unit)| (unit.to_string(), json!(rounded(*value))))
            .collect();
        let mut row = json!({
            "group": self.group,
            "name": self.name,
            "unit": self.unit,
            "value": self.value.as_ref().ok().map(|value| rounded(*value)),
            "source": self.source(),
            "ratio": self.ratio().map(rounded),
        });
        if !also.is_empty() {
            row["also"] = also.into();
        }
        if let Some(differs) = self.differs {
            row["differs"] = differs.into();
        }
        if let Err(why) = &self.value {
            row["why"] = why.as_str().into();
        }
        row
    }
}

/// To four digits: no figure here has more.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digit = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * digit).round() / digit
}

/// For people: `63,812`, `412`, `3.07`, `0.042`.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "-".to_owned(),
        v if v < 1e15 && v.fract() == 0.0 => thousands(value as i64),
        v if v >= 100.0 => thousands(value.round() as i64),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn thousands(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    match value < 0 {
        true => format!("-{out}"),
        false => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_for_people() {
        for (value, text) in [
            (1_234_567.4, "1,234,567"),
            (999.6, "1,000"),
            (100.0, "100"),
            (2.0, "2"),
            (12.34, "12.3"),
            (3.071, "3.07"),
            (0.0424, "0.0424"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!((rounded(63_812.4), rounded(0.042_424)), (63_810.0, 0.042_42));
    }

    #[test]
    fn a_ratio_above_one_is_faster() {
        let row = |group, name: &str, unit, value| Row {
            group,
            name: name.into(),
            unit,
            value,
            also: vec![],
            differs: None,
        };
        let call = row("system", "system call", Unit::Nanoseconds, Ok(57.4));
        assert_eq!(call.ratio(), Some(2.0));
        let hash = row("hashing", "md5", Unit::Mebibytes, Ok(808.3));
        assert_eq!(hash.ratio(), Some(2.0));
        let none = row("hashing", "md5", Unit::Mebibytes, Err("why".into()));
        assert_eq!(
            (none.ratio(), none.source(), none.json()["why"].as_str()),
            (None, Some(404.15), Some("why"))
        );
        let other = Row {
            differs: Some("fewer"),
            ..row("hashing", "md5", Unit::Mebibytes, Ok(808.3))
        };
        assert_eq!(
            (other.ratio(), other.json()["differs"].as_str()),
            (None, Some("fewer"))
        );
        assert_eq!(row("hashing", "other", Unit::Mebibytes, Ok(1.0)).source(), None);
    }
}
