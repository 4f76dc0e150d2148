//! Guards third-party code that analyses users' texts: its panics must not end a thread.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// The outcome of `work`; `None`: it panicked. `work` must leave nothing behind that others see: it takes texts and gives words. It costs nothing measurable
/// where nothing panics. The panic's message is printed as that of any panic; a thread warns once of what that means.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(work)).ok();
    if outcome.is_none() && !IS_TOLD.replace(true) {
        tracing::warn!("text analysis failed on a word; such words are indexed and searched unchanged");
    }
    outcome
}

/// A word that a test makes the analysis fail on.
#[cfg(test)]
pub fn planted(word: &str) {
    assert!(!word.contains(PLANTED), "planted");
}

/// The same, of a run without spaces.
#[cfg(test)]
pub fn planted_run(run: &str) {
    assert!(!run.contains(PLANTED_RUN), "planted");
}

#[cfg(test)]
pub const PLANTED_RUN: &str = "\u{3007}\u{3007}\u{3007}";

#[cfg(test)]
pub const PLANTED: &str = "plantedpanic";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Bm25, Bm25Options, TextOptions, Tokenizer};

    fn tokens(options: &str, text: &str) -> [Vec<String>; 2] {
        let options: TextOptions = serde_json::from_str(options).unwrap();
        let tokenizer = Tokenizer::new(&options).unwrap();
        let (mut stored, mut asked) = (Vec::new(), Vec::new());
        tokenizer.document(text, &mut |token| stored.push(token.to_owned()));
        tokenizer.query(text, &mut |token| asked.push(token.to_owned()));
        [stored, asked]
    }

    #[test]
    fn what_the_analysis_fails_on_is_found_as_it_is_written() {
        let text = format!("running {PLANTED}s dogs");
        let planted = format!("{PLANTED}s");
        for tokenizer in ["word", "whitespace", "multilingual", "code"] {
            let options = format!(
                r#"{{"tokenizer":"{tokenizer}","stemmer":{{"type":"snowball","language":"english"}}}}"#
            );
            let [stored, asked] = tokens(&options, &text);
            assert_eq!(stored, ["run", &planted, "dog"], "{tokenizer}");
            assert_eq!(stored, asked, "{tokenizer}");
        }
        let prefix =
            r#"{"tokenizer":"prefix","min_token_len":3,"stemmer":{"type":"snowball","language":"english"}}"#;
        let [stored, asked] = tokens(prefix, &text);
        assert!(
            asked.iter().all(|token| stored.contains(token)),
            "{stored:?} {asked:?}"
        );
        let model = Bm25::new(&Bm25Options::default()).unwrap();
        let (stored, asked) = (model.document(&text).unwrap(), model.query(&text).unwrap());
        assert_eq!((stored.indices.len(), stored.indices), (3, asked.indices));
    }

    #[test]
    fn a_run_that_the_dictionary_fails_on_is_cut_into_characters() {
        let text = format!("今天 {PLANTED_RUN}天气 hello");
        let [stored, asked] = tokens(r#"{"tokenizer":"multilingual","language":"none"}"#, &text);
        assert_eq!(stored, asked);
        assert_eq!(stored.first().map(String::as_str), Some("今天"));
        assert_eq!(stored[stored.len() - 3..], ["天", "气", "hello"]);
    }
}
