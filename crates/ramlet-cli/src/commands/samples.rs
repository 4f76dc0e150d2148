//! What `GET /metrics` tells, read from Prometheus' text form.

use std::collections::BTreeMap;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl Sample {
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// All lines that are samples; what isn't one is left out.
pub fn samples(text: &str) -> Vec<Sample> {
    text.lines().filter_map(sample).collect()
}

fn sample(line: &str) -> Option<Sample> {
    if line.starts_with('#') {
        return None;
    }
    let (head, value) = line.rsplit_once(' ')?;
    let (name, labels) = match head.split_once('{') {
        None => (head, BTreeMap::new()),
        Some((name, labels)) => (name, labels_of(labels)?),
    };
    Some(Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().ok()?,
    })
}

/// `a="b",c="d\"e"}`
fn labels_of(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    while !text.starts_with('}') {
        let (name, rest) = text.split_once("=\"")?;
        let (mut value, mut escaped, mut end) = (String::new(), false, None);
        for (at, c) in rest.char_indices() {
            match c {
                'n' if escaped => value.push('\n'),
                c if escaped => value.push(c),
                '\\' => {}
                '"' => {
                    end = Some(at);
                    break;
                }
                c => value.push(c),
            }
            escaped = c == '\\' && !escaped;
        }
        labels.insert(name.to_owned(), value);
        text = rest.get(end? + 1..)?;
        text = text.strip_prefix(',').unwrap_or(text);
    }
    Some(labels)
}

/// The sum of the samples of one name that `takes` takes.
pub fn sum(samples: &[Sample], name: &str, takes: impl Fn(&Sample) -> bool) -> f64 {
    let of = samples.iter().filter(|s| s.name == name && takes(s));
    // A sum of nothing would be -0.
    of.map(|s| s.value).fold(0.0, |sum, value| sum + value)
}

/// Counts below each bound, as histograms tell them, in the order of the bounds.
pub type Below = Vec<(f64, f64)>;

/// The buckets of some histograms together.
pub fn buckets(samples: &[Sample], name: &str, takes: impl Fn(&Sample) -> bool) -> Below {
    let mut all: Below = Vec::new();
    for s in samples.iter().filter(|s| s.name == name && takes(s)) {
        let most = match s.label("le") {
            "+Inf" => f64::INFINITY,
            bound => bound.parse().unwrap_or(f64::INFINITY),
        };
        match all.iter_mut().find(|(known, _)| *known == most) {
            Some((_, count)) => *count += s.value,
            None => all.push((most, s.value)),
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// What was counted after `before`.
pub fn since(now: &Below, before: &Below) -> Below {
    let was = |most: f64| {
        before
            .iter()
            .find(|(known, _)| *known == most)
            .map_or(0.0, |(_, n)| *n)
    };
    now.iter()
        .map(|(most, n)| (*most, (n - was(*most)).max(0.0)))
        .collect()
}

/// The bound below which such a share lies, straight between the bounds of its bucket; `None`: nothing was counted.
pub fn quantile(below: &Below, share: f64) -> Option<f64> {
    let all = below.last()?.1;
    let rank = all * share;
    let at = below.iter().position(|(_, n)| *n >= rank && *n > 0.0)?;
    let (most, n) = below[at];
    let (least, before) = at.checked_sub(1).map_or((0.0, 0.0), |before| below[before]);
    match most.is_finite() && n > before {
        true => Some(least + (most - least) * (rank - before) / (n - before)),
        false => Some(least),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text = "# HELP a b\na 1\nb{c=\"d\\\"}\\n\\\\\",e=\"\"} 2.5\nnonsense\n";
        let read = samples(text);
        assert_eq!((read[0].name.as_str(), read[0].value), ("a", 1.0));
        assert_eq!(
            (read[1].label("c"), read[1].label("e"), read[1].value),
            ("d\"}\n\\", "", 2.5)
        );
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn quantiles_lie_within_their_buckets() {
        let of = |counts: [f64; 3]| vec![(0.001, counts[0]), (0.002, counts[1]), (f64::INFINITY, counts[2])];
        let now = since(&of([60.0, 110.0, 120.0]), &of([10.0, 10.0, 20.0]));
        assert_eq!(now, of([50.0, 100.0, 100.0]));
        assert_eq!(quantile(&now, 0.5), Some(0.001));
        assert!(quantile(&now, 0.75).is_some_and(|q| (q - 0.0015).abs() < 1e-9));
        assert_eq!(
            quantile(&of([0.0, 0.0, 4.0]), 0.5),
            Some(0.002),
            "more isn't known"
        );
        assert_eq!(quantile(&of([0.0; 3]), 0.5), None);
    }
}
