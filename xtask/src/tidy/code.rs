//! Rust source with comments and literals blanked out, so that a rule about code doesn't stumble over words in texts.

/// `source` with every byte of comments, string and character literals replaced by a space; lines stay lines.
pub fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' | b'b' | b'c' if !follows_word(bytes, at) => raw_string_end(bytes, at).unwrap_or(at),
            b'\'' => char_end(bytes, at).unwrap_or(at),
            _ => at,
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8(out).expect("whole characters were replaced")
}

/// The part of `code` before its unit tests. Those in a file of their own end nothing.
pub fn before_tests(code: &str) -> &str {
    let begins_module = |after: &str| {
        let after = after.trim_start();
        after.starts_with("mod ")
            && after
                .find("{")
                .is_some_and(|brace| after.find(";").is_none_or(|end| brace < end))
    };
    let tests = code
        .match_indices("#[cfg(test)]")
        .find(|(at, attribute)| begins_module(&code[at + attribute.len()..]));
    tests.map_or(code, |(at, _)| &code[..at])
}

/// Lines (from 1) of `code` that hold `word` with no identifier character before or after it.
pub fn lines_with_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let has = move |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].bytes().next_back();
            let after = line[at + word.len()..].bytes().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    };
    let lines = code.lines().enumerate();
    lines.filter(move |(_, line)| has(line)).map(|(at, _)| at + 1)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn follows_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && is_word(bytes[at - 1])
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    let length = bytes[at..].iter().position(|&b| b == b'\n');
    length.map_or(bytes.len(), |n| at + n)
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start + 2, 1);
    while at < bytes.len() && depth > 0 {
        if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    at
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// End of `r"..."`, `r#"..."#`, `br"..."`, `b"..."`, `c"..."`; `None` when no such literal begins here.
fn raw_string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let mut raw = false;
    while let Some(b'r' | b'b' | b'c') = bytes.get(at) {
        raw |= bytes[at] == b'r';
        at += 1;
    }
    if at - start > 2 {
        return None;
    }
    let hashes = bytes[at..].iter().take_while(|&&b| b == b'#').count();
    if bytes.get(at + hashes) != Some(&b'"') || (hashes > 0 && !raw) {
        return None;
    }
    if !raw {
        return Some(string_end(bytes, at));
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = at + hashes + 1;
    let length = bytes[body..].windows(close.len()).position(|w| w == close);
    Some(length.map_or(bytes.len(), |n| body + n + close.len()))
}

/// End of a character literal; `None` for a lifetime.
fn char_end(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = &bytes[start + 1..];
    if rest.first() == Some(&b'\\') {
        let close = rest.iter().skip(2).position(|&b| b == b'\'')?;
        return Some(start + 1 + 2 + close + 1);
    }
    // One character of up to four bytes, then the quote.
    let width = match rest.first()? {
        0x00..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (rest.get(width) == Some(&b'\'')).then_some(start + 1 + width + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, word: &str, lines: &[usize]) {
        let code = code_only(source);
        assert_eq!(
            code.lines().count(),
            source.lines().count(),
            "lines of {source:?}"
        );
        assert_eq!(
            lines_with_word(&code, word).collect::<Vec<_>>(),
            lines,
            "{word} in {source:?} -> {code:?}"
        );
    }

    #[test]
    fn words_in_code_only() {
        check(
            "unsafe { x }\n// unsafe\nlet y = unsafe { z };",
            "unsafe",
            &[1, 3],
        );
        check("/* unsafe /* unsafe */ unsafe */ unsafe", "unsafe", &[1]);
        check(r#"let s = "unsafe \" unsafe"; unsafe {}"#, "unsafe", &[1]);
        check("let s = \"unsafe\n unsafe\";\nunsafe {}", "unsafe", &[3]);
        check(
            "let s = r#\"unsafe \" unsafe\"#;\nbr\"unsafe\"; b\"unsafe\";",
            "unsafe",
            &[],
        );
        check("let c = '\"'; unsafe {} // '\"'", "unsafe", &[1]);
        check(r"let c = '\''; unsafe {}", "unsafe", &[1]);
        check("fn f<'a>(x: &'a str) -> &'a str { unsafe {} }", "unsafe", &[1]);
        check("let é = 'é'; unsafe {}", "unsafe", &[1]);
        check("unsafe_op_in_unsafe_fn; my_unsafe; unsafely", "unsafe", &[]);
        check("for r in b {} unsafe {}", "unsafe", &[1]);
    }

    #[test]
    fn tests_are_cut_off() {
        assert_eq!(before_tests("a\n#[cfg(test)]\nmod tests { b; }"), "a\n");
        let other_file = "a\n#[cfg(test)]\nmod tests;\nuse c;\nfn f() {}";
        assert_eq!(before_tests(other_file), other_file);
        assert_eq!(
            before_tests("a\n#[cfg(test)]\nuse x;\nb"),
            "a\n#[cfg(test)]\nuse x;\nb"
        );
    }
}
