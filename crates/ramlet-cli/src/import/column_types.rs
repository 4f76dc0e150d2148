//! Types of a table's columns: guessed from the first rows, or given.

use std::str::FromStr;

use serde_json::value::RawValue;

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    Text,
    Int,
    Float,
    Bool,
    Json,
}

/// From the narrowest to the widest.
const GUESSED: [ColumnType; 3] = [ColumnType::Bool, ColumnType::Int, ColumnType::Float];

/// What other programs write for a missing value: NumPy, pandas, R, Python, spreadsheets, SQL.
const MISSING: [&str; 10] = [
    "NaN", "nan", "NA", "<NA>", "N/A", "#N/A", "None", "null", "NULL", "\\N",
];

/// The first type that takes all cells, which are text otherwise; empty and missing ones say nothing.
pub fn guess<'a>(cells: impl Iterator<Item = &'a str> + Clone) -> ColumnType {
    let mut filled = cells
        .filter(|cell| !cell.is_empty() && !MISSING.contains(&cell.trim()))
        .peekable();
    if filled.peek().is_none() {
        return ColumnType::Text;
    }
    let takes_all = |kind: &&ColumnType| {
        filled
            .clone()
            .all(|cell| kind.write(cell, &mut Vec::new()).is_ok())
    };
    GUESSED
        .iter()
        .find(takes_all)
        .copied()
        .unwrap_or(ColumnType::Text)
}

impl ColumnType {
    /// Whether a cell of this type has no value. In a text `NA` is a word.
    pub fn is_missing(self, cell: &str) -> bool {
        matches!(self, ColumnType::Int | ColumnType::Float | ColumnType::Bool)
            && MISSING.contains(&cell.trim())
    }

    /// Appends a cell as JSON; the error says what it isn't.
    pub fn write(self, cell: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let plain = cell.trim();
        match self {
            ColumnType::Text => super::json::write_string(cell, out),
            ColumnType::Int => {
                // Leading zeros and signs mean something: they are of codes, not of numbers.
                let is_plain = plain.parse::<i64>().is_ok_and(|value| value.to_string() == plain);
                let is_large = plain.parse::<u64>().is_ok_and(|value| value.to_string() == plain);
                if !is_plain && !is_large {
                    return Err("no whole number".to_string());
                }
                out.extend_from_slice(plain.as_bytes());
            }
            ColumnType::Float => {
                let value = plain.parse::<f64>().ok().filter(|value| value.is_finite());
                let value = value.filter(|_| !is_code(plain)).ok_or("no number")?;
                out.extend_from_slice(json_number(plain, value).as_bytes());
            }
            ColumnType::Bool => {
                let value = match plain.to_ascii_lowercase().as_str() {
                    "true" => "true",
                    "false" => "false",
                    _ => return Err("neither true nor false".to_string()),
                };
                out.extend_from_slice(value.as_bytes());
            }
            ColumnType::Json => {
                serde_json::from_str::<&RawValue>(plain).map_err(|error| format!("no JSON ({error})"))?;
                out.extend_from_slice(plain.as_bytes());
            }
        }
        Ok(())
    }
}

/// `007` and `+49` are no numbers.
fn is_code(text: &str) -> bool {
    let digits = text.trim_start_matches('-');
    text.starts_with('+')
        || digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit()
}

/// As it is written where JSON writes it so: digits that an f64 doesn't hold stay.
fn json_number(text: &str, value: f64) -> String {
    match serde_json::from_str::<serde_json::Number>(text) {
        Ok(_) => text.to_string(),
        Err(_) => value.to_string(),
    }
}

impl FromStr for ColumnType {
    type Err = String;

    fn from_str(text: &str) -> Result<ColumnType, String> {
        match text {
            "text" => Ok(ColumnType::Text),
            "int" => Ok(ColumnType::Int),
            "float" => Ok(ColumnType::Float),
            "bool" => Ok(ColumnType::Bool),
            "json" => Ok(ColumnType::Json),
            _ => Err(format!(
                "'{text}' is not a type; types are text, int, float, bool and json"
            )),
        }
    }
}

/// `COLUMN=TYPE` of the command line.
pub fn column_type(text: &str) -> Result<(String, ColumnType), String> {
    let (name, kind) = text.rsplit_once('=').ok_or("it takes COLUMN=TYPE")?;
    Ok((name.to_string(), kind.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_cells() {
        let check = |cells: &[&str], expected: ColumnType| {
            assert_eq!(guess(cells.iter().copied()), expected, "{cells:?}");
        };
        check(&["1", "-7", ""], ColumnType::Int);
        check(&["18446744073709551615"], ColumnType::Int);
        check(&["1", "2.5", "1e3"], ColumnType::Float);
        check(&["true", "False"], ColumnType::Bool);
        check(&["007", "12"], ColumnType::Text);
        check(&["+49", "12"], ColumnType::Text);
        check(&["1", "n/a"], ColumnType::Text);
        check(&["NaN", "1"], ColumnType::Int);
        check(&["NA", "1.5", "\\N", " null"], ColumnType::Float);
        check(&["true", "<NA>", "None"], ColumnType::Bool);
        check(&["NA", "NaN"], ColumnType::Text);
        check(&["NA", "DE"], ColumnType::Text);
        check(&["", ""], ColumnType::Text);
        check(&["[1, 2]"], ColumnType::Text);
    }

    #[test]
    fn missing_numbers_are_no_words() {
        for kind in [ColumnType::Int, ColumnType::Float, ColumnType::Bool] {
            assert!(kind.is_missing("NaN") && kind.is_missing(" NA ") && !kind.is_missing("1"));
            assert!(!kind.is_missing("nein"));
        }
        assert!(!ColumnType::Text.is_missing("NA") && !ColumnType::Json.is_missing("null"));
    }

    #[test]
    fn cells_become_json() {
        let check = |kind: ColumnType, cell: &str, expected: Option<&str>| {
            let mut out = Vec::new();
            let written = kind.write(cell, &mut out);
            let got = written.ok().map(|()| String::from_utf8(out).expect("text"));
            assert_eq!(got.as_deref(), expected, "{kind:?} {cell}");
        };
        check(ColumnType::Text, "a \"b\"\n", Some(r#""a \"b\"\n""#));
        check(ColumnType::Int, " 5", Some("5"));
        check(ColumnType::Int, "05", None);
        check(ColumnType::Float, ".5", Some("0.5"));
        check(ColumnType::Float, "0.50", Some("0.50"));
        check(ColumnType::Float, "inf", None);
        check(ColumnType::Bool, "TRUE", Some("true"));
        check(ColumnType::Bool, "yes", None);
        check(ColumnType::Json, "[1, {\"a\": 2}]", Some("[1, {\"a\": 2}]"));
        check(ColumnType::Json, "[1,", None);
    }
}
