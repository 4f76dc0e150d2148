//! The one file of a `multipart/form-data` body, taken out while the body comes in (RFC 2046 and 7578). What is kept is a
//! part of the body no longer than a delimiter, or the head of a part.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;

/// Longest head of a part.
const HEAD_BYTES: usize = 8 << 10;
/// The RFC's limit.
const BOUNDARY_BYTES: usize = 70;

/// Where in the body we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first delimiter, or in a part that nobody asked for.
    Skipped,
    /// Behind a delimiter: a line's end, or the end of all.
    Delimited,
    Head,
    Wanted,
    Ended,
}

/// A body that is read piece by piece.
pub struct Multipart {
    /// `\r\n--boundary`.
    delimiter: Vec<u8>,
    field: &'static str,
    state: State,
    held: Vec<u8>,
    found: bool,
}

impl Multipart {
    /// For the part named `field` of a body with these headers. The error is a sentence.
    pub fn new(headers: &HeaderMap, field: &'static str) -> Result<Multipart, String> {
        let kind = headers
            .get(CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .unwrap_or("");
        let boundary = boundary(kind).ok_or_else(|| {
            format!("the body must be multipart/form-data with a boundary, Content-Type is {kind:?}")
        })?;
        Ok(Multipart {
            delimiter: [b"\r\n--", boundary.as_bytes()].concat(),
            field,
            state: State::Skipped,
            // A body may begin with its first delimiter, without a line before it.
            held: b"\r\n".to_vec(),
            found: false,
        })
    }

    /// Takes the next piece; appends what of it is in the wanted part to `out`.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.held.extend_from_slice(piece);
        while self.step(out)? {}
        Ok(())
    }

    /// The body ended here.
    pub fn finish(&self) -> Result<(), String> {
        match (self.state, self.found) {
            (State::Ended, true) => Ok(()),
            (State::Ended, false) => Err(format!("Field '{}' is required", self.field)),
            _ => Err("the body ends within a part".to_string()),
        }
    }

    /// False when more bytes are needed.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        match self.state {
            State::Skipped | State::Wanted => {
                let end = find(&self.held, &self.delimiter);
                let done = end.unwrap_or((self.held.len() + 1).saturating_sub(self.delimiter.len()));
                if self.state == State::Wanted {
                    out.extend_from_slice(&self.held[..done]);
                }
                let Some(end) = end else {
                    self.held.drain(..done);
                    return Ok(false);
                };
                self.held.drain(..end + self.delimiter.len());
                self.state = State::Delimited;
            }
            State::Delimited => {
                // White space may stand between a delimiter and the end of its line.
                let blank = self.held.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
                self.held.drain(..blank);
                match self.held.get(..2) {
                    None => return Ok(false),
                    Some(b"--") => self.state = State::Ended,
                    Some(b"\r\n") => self.state = State::Head,
                    Some(_) => return Err("a delimiter doesn't end its line".to_string()),
                }
            }
            // From the line's end on, so that an empty head is found too.
            State::Head => {
                let Some(end) = find(&self.held, b"\r\n\r\n") else {
                    return match self.held.len() > HEAD_BYTES {
                        true => Err(format!("the head of a part exceeds {HEAD_BYTES} bytes")),
                        false => Ok(false),
                    };
                };
                let wanted = !self.found && is_named(&self.held[..end], self.field);
                self.found |= wanted;
                self.state = if wanted { State::Wanted } else { State::Skipped };
                // The empty line's own end stays, as the line before a delimiter that follows at once.
                let kept = if wanted { end + 4 } else { end + 2 };
                self.held.drain(..kept);
            }
            State::Ended => {
                self.held.clear();
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn boundary(content_type: &str) -> Option<&str> {
    let (kind, rest) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = rest.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("boundary")
            .then_some(value.trim())
    })?;
    let value = value
        .strip_prefix('"')
        .and_then(|v| v.strip_suffix('"'))
        .unwrap_or(value);
    (1..=BOUNDARY_BYTES).contains(&value.len()).then_some(value)
}

/// Whether a head says `Content-Disposition: form-data; name="field"`.
fn is_named(head: &[u8], field: &str) -> bool {
    let head = String::from_utf8_lossy(head);
    head.lines().any(|line| {
        let Some((name, value)) = line.split_once(':') else {
            return false;
        };
        name.trim().eq_ignore_ascii_case("content-disposition")
            && value.split(';').any(|parameter| {
                let named = parameter
                    .split_once('=')
                    .filter(|(name, _)| name.trim().eq_ignore_ascii_case("name"));
                named.is_some_and(|(_, value)| value.trim().trim_matches('"') == field)
            })
    })
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = bytes.get(at..)?.iter().position(|b| *b == what[0]) {
        at += found;
        if bytes[at..].starts_with(what) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(body: &[u8], piece: usize) -> Result<Vec<u8>, String> {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            "multipart/form-data; boundary=\"xyz\"".parse().unwrap(),
        );
        let mut multipart = Multipart::new(&headers, "snapshot")?;
        let mut out = Vec::new();
        for piece in body.chunks(piece) {
            multipart.push(piece, &mut out)?;
            assert!(multipart.held.len() <= piece.len() + HEAD_BYTES);
        }
        multipart.finish().map(|()| out)
    }

    /// The same in pieces of every length.
    fn check(body: &[u8], expected: Result<&[u8], &str>) {
        for piece in 1..=body.len() {
            let found = take(body, piece);
            assert_eq!(
                found.as_deref().map_err(String::as_str),
                expected,
                "pieces of {piece}"
            );
        }
    }

    const DISPOSITION: &str = "Content-Disposition: form-data; name=\"snapshot\"; filename=\"a; name=b\"\r\n";

    #[test]
    fn the_file_comes_out_whole() {
        for file in [
            &b"abc"[..],
            b"",
            b"\r\n",
            b"\r\n--xy",
            b"--xyz",
            b"\r\n\r\n--xz\r",
            b"\0\xff\r\r\n",
        ] {
            let mut body = b"--xyz\r\n".to_vec();
            body.extend_from_slice(DISPOSITION.as_bytes());
            body.extend_from_slice(b"Content-Type: application/octet-stream\r\n\r\n");
            body.extend_from_slice(file);
            body.extend_from_slice(b"\r\n--xyz--\r\nepilogue");
            check(&body, Ok(file));
        }
    }

    #[test]
    fn other_parts_are_passed_over() {
        let body = format!(
            "preamble\r\n--xyz \r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nno\r\n--xyz\r\n\r\n\r\n--xyz\r\n\
             {DISPOSITION}\r\nyes\r\n--xyz\r\n{DISPOSITION}\r\nsecond\r\n--xyz--"
        );
        check(body.as_bytes(), Ok(b"yes"));
    }

    #[test]
    fn what_is_no_such_body() {
        check(b"--xyz--", Err("Field 'snapshot' is required"));
        check(b"nothing of the kind", Err("the body ends within a part"));
        let cut = format!("--xyz\r\n{DISPOSITION}\r\nab");
        check(cut.as_bytes(), Err("the body ends within a part"));
        check(
            b"--xyz\r\nno-colon\r\n\r\nx\r\n--xyzyy",
            Err("a delimiter doesn't end its line"),
        );
        let long = [b"--xyz\r\n", &[b'x'; 10_000][..]].concat();
        assert!(take(&long, 4096).unwrap_err().contains("exceeds"));
        for kind in [
            "",
            "application/json",
            "multipart/form-data",
            "multipart/form-data; boundary=",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, kind.parse().unwrap());
            assert!(Multipart::new(&headers, "snapshot").is_err(), "{kind}");
        }
    }
}
