//! Query parameters.

use std::time::Duration;

use axum::http::StatusCode;

use crate::error::{ApiError, ApiResult};
use crate::limits;

/// The query parameters that the API knows; `ordering` is checked, and says nothing where all writes have one order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryParams {
    pub wait: bool,
    pub timeout: Option<Duration>,
    /// `consistency` of more than one replica: a node of several looks at the end of the log first.
    pub is_consistent: bool,
    /// All others, decoded.
    rest: Vec<(String, String)>,
}

impl QueryParams {
    pub fn parse(query: &str) -> ApiResult<QueryParams> {
        let mut out = QueryParams::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match key.as_ref() {
                "wait" => out.wait = boolean(&key, &value)?,
                "timeout" => {
                    let seconds = at_least_one(&key, number(&key, &value)?)?;
                    out.timeout = Some(Duration::from_secs(seconds).min(limits::TIMEOUT_MAX));
                }
                "ordering" => one_of(&key, &value, &["weak", "medium", "strong"])?,
                "consistency" => out.is_consistent = consistency(&value)?,
                _ => out.rest.push((key.into_owned(), value.into_owned())),
            }
        }
        Ok(out)
    }

    /// As the query of a URL, where none came.
    pub fn text(&self) -> String {
        let mut out = form_urlencoded::Serializer::new(String::new());
        if self.wait {
            out.append_pair("wait", "true");
        }
        if let Some(timeout) = self.timeout {
            out.append_pair("timeout", &timeout.as_secs().max(1).to_string());
        }
        out.extend_pairs(&self.rest);
        out.finish()
    }

    /// The status of a change that is done: who doesn't wait is told no more than that it was taken.
    pub fn finished(&self) -> &'static str {
        if self.wait { "completed" } else { "acknowledged" }
    }

    /// The last value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.rest
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn boolean(&self, name: &str) -> ApiResult<Option<bool>> {
        self.get(name).map(|value| boolean(name, value)).transpose()
    }

    pub fn number(&self, name: &str) -> ApiResult<Option<u64>> {
        self.get(name).map(|value| number(name, value)).transpose()
    }
}

fn bad(what: String) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        format!("Deserialize error in query parameters: {what}"),
    )
}

fn boolean(name: &str, value: &str) -> ApiResult<bool> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(bad(format!("{name}: `{other}` is not true or false"))),
    }
}

fn number(name: &str, value: &str) -> ApiResult<u64> {
    value
        .parse()
        .map_err(|_| bad(format!("{name}: `{value}` is not a number from 0")))
}

fn at_least_one(name: &str, n: u64) -> ApiResult<u64> {
    if n > 0 {
        return Ok(n);
    }
    let message =
        format!("Validation error in query parameters: [{name}: value 0 invalid, must be 1 or larger]");
    Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message))
}

fn one_of(name: &str, value: &str, known: &[&str]) -> ApiResult<()> {
    if known.contains(&value) {
        return Ok(());
    }
    Err(bad(format!(
        "{name}: unknown variant `{value}`, expected one of {}",
        known.join(", ")
    )))
}

/// A number of replicas, or a name; whether it is more than one.
fn consistency(value: &str) -> ApiResult<bool> {
    match value.parse::<u64>() {
        Ok(n) => at_least_one("consistency", n).map(|n| n > 1),
        Err(_) => one_of("consistency", value, &["majority", "quorum", "all"]).map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_parameters() {
        let parse = |q: &str| QueryParams::parse(q).map_err(|e| e.status.as_u16());
        let wait = QueryParams {
            wait: true,
            ..QueryParams::default()
        };
        assert_eq!(parse(""), Ok(QueryParams::default()));
        assert_eq!(parse("wait=true&ordering=strong&consistency=1"), Ok(wait));
        for (said, expected) in [("1", false), ("2", true), ("majority", true), ("all", true)] {
            let parsed = parse(&format!("consistency={said}"));
            assert_eq!(parsed.map(|parsed| parsed.is_consistent), Ok(expected), "{said}");
        }
        for text in ["", "wait=true&timeout=3", "a=b%26c&d="] {
            assert_eq!(parse(text).map(|parsed| parsed.text()), Ok(text.to_owned()));
        }
        assert_eq!(parse("timeout=3").unwrap().timeout, Some(Duration::from_secs(3)));
        let long = parse("timeout=18446744073709551615").unwrap().timeout;
        assert!(long.is_some_and(|long| std::time::Instant::now().checked_add(long).is_some()));
        for bad in [
            "wait=1",
            "wait",
            "timeout=-1",
            "timeout=x",
            "ordering=any",
            "consistency=some",
        ] {
            assert_eq!(parse(bad), Err(400), "{bad}");
        }
        for out_of_range in ["timeout=0", "consistency=0"] {
            assert_eq!(parse(out_of_range), Err(422), "{out_of_range}");
        }
        let more = parse("with=a%2Cb+c&details_level=3&anonymize=true&x").unwrap();
        assert_eq!(more.get("with"), Some("a,b c"));
        assert_eq!(more.get("x"), Some(""));
        assert_eq!(more.number("details_level").unwrap(), Some(3));
        assert_eq!(more.boolean("anonymize").unwrap(), Some(true));
        assert_eq!(more.boolean("nothing").unwrap(), None);
        assert!(more.number("with").is_err());
    }
}
