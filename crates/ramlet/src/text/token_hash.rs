//! Hashes of tokens, many of which are prefixes of one long word: a common prefix is hashed once.

use ramlet_format::hash::{Xxh64, hash64};

use super::tokenizer::Token;

/// Up to so many bytes a token is hashed at once.
const SHORT_BYTES: usize = 64;

/// XXH64 of one token after another.
#[derive(Default)]
pub struct TokenHash {
    /// Of the beginning of a long word that was hashed last, and its bytes.
    beginning: Xxh64,
    beginning_bytes: usize,
}

impl TokenHash {
    /// A token comes; each must be shown, hashed or not.
    pub fn follow(&mut self, token: &Token<'_>) {
        if !token.goes_on && self.beginning_bytes > 0 {
            *self = TokenHash::default();
        }
    }

    /// Of the token that came last.
    pub fn of(&mut self, token: &str) -> u64 {
        let bytes = token.as_bytes();
        if bytes.len() <= SHORT_BYTES {
            return hash64(bytes);
        }
        self.beginning.update(&bytes[self.beginning_bytes..]);
        self.beginning_bytes = bytes.len();
        self.beginning.digest()
    }
}

/// The low bits of an entry of a memtable count the token; the hash has the others.
pub const COUNT_BITS: u32 = 16;

/// A token's hash at the place where an entry has it.
pub fn hash_of(token: &str) -> u64 {
    entry_of(hash64(token.as_bytes()))
}

pub fn entry_of(hash: u64) -> u64 {
    hash >> COUNT_BITS << COUNT_BITS
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::text::TextField;

    #[test]
    fn hashes_are_those_of_the_tokens() {
        for params in [
            json!({"type": "text", "tokenizer": "prefix", "min_token_len": 3}),
            json!({"type": "text", "tokenizer": "prefix", "max_token_len": 150}),
            json!({"type": "text"}),
        ] {
            let field = TextField::new(Some(&params)).expect("parameters");
            let long = |first: &str, rest: &str| format!("{first}{}", rest.repeat(200));
            let text = [
                long("a", "x"),
                "short".into(),
                long("b", "\u{e9}x"),
                long("c", "1"),
                long("cc", "1"),
            ];
            let (mut hash, mut count) = (TokenHash::default(), 0);
            field.tokens(&text.join(" "), (&mut 0, false), &mut |token| {
                hash.follow(&token);
                // Not all are asked for.
                if count % 3 > 0 || token.text.len() == 70 {
                    assert_eq!(
                        hash.of(token.text),
                        hash64(token.text.as_bytes()),
                        "{}",
                        token.text
                    );
                }
                count += 1;
            });
            assert!(count >= 5);
        }
    }

    #[test]
    fn a_long_word_takes_no_more_than_its_length() {
        // By hashing each beginning anew this would be 2,000 GB.
        let text = "a1".repeat(1 << 20);
        let params = json!({"type": "text", "tokenizer": "prefix"});
        let field = TextField::new(Some(&params)).expect("parameters");
        let (mut hash, mut last) = (TokenHash::default(), 0);
        field.tokens(&text, (&mut 0, false), &mut |token| {
            hash.follow(&token);
            last = hash.of(token.text);
        });
        assert_eq!(last, hash64(text.as_bytes()));
    }
}
