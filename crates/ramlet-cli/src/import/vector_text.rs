//! Vectors written as text, as tables have them: `[0.1, 0.2]`, NumPy's `[0.1 0.2]`, PostgreSQL's `{0.1,0.2}`, or bare numbers.

use anyhow::{Result, bail};

/// The JSON list of the numbers in a text.
pub fn numbers_of(text: &str) -> Result<String> {
    let inner = inner(text.trim());
    let words = inner
        .split([',', ';', ' ', '\t', '\r', '\n'])
        .filter(|word| !word.is_empty());
    let mut out = String::from("[");
    for (at, word) in words.enumerate() {
        if word.starts_with("...") {
            bail!(
                "NumPy has left numbers out ('...'): write the whole vector, with json.dumps(list) or numpy.set_printoptions(threshold=sys.maxsize)"
            );
        }
        let Some(number) = word.parse::<f32>().ok().filter(|number| number.is_finite()) else {
            bail!("'{word}' in it is not a number");
        };
        if at > 0 {
            out.push(',');
        }
        // As it is written, unless JSON writes it otherwise: `1.`, `+1`, `.5`.
        match serde_json::from_str::<serde_json::Number>(word) {
            Ok(_) => out.push_str(word),
            Err(_) => out.push_str(&number.to_string()),
        }
    }
    if out.len() == 1 {
        bail!("there is no number in it");
    }
    out.push(']');
    Ok(out)
}

fn inner(text: &str) -> &str {
    let within = |open: char, close: char| text.strip_prefix(open)?.strip_suffix(close);
    within('[', ']')
        .or_else(|| within('{', '}'))
        .or_else(|| within('(', ')'))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_people_write() {
        let check = |text: &str, expected: &str| match numbers_of(text) {
            Ok(list) => assert_eq!(list, expected, "{text}"),
            Err(error) => assert!(error.to_string().contains(expected), "{text}: {error}"),
        };
        check("[0.1, 2, -3e-5]", "[0.1,2,-3e-5]");
        check("[ 0.1  2.\n .5 +1]", "[0.1,2,0.5,1]");
        check("{1,2}", "[1,2]");
        check("1;2", "[1,2]");
        check(" 7 ", "[7]");
        check("[0.1 0.2 ... 0.9]", "NumPy has left numbers out");
        check("[0.1, x]", "'x' in it is not a number");
        check("[nan]", "'nan' in it is not a number");
        check("[]", "there is no number in it");
        check("a red wheelbarrow", "'a' in it is not a number");
    }
}
