//! Redirects, followed by hand: the library would send every header on, and our API key with it, to whatever server an answer
//! names.

use ureq::Body;
use ureq::http::header::LOCATION;
use ureq::http::uri::{Scheme, Uri};
use ureq::http::{Response, StatusCode};

const REDIRECTS: u32 = 3;

/// The answer where the redirects of a GET end; `ask` gets the key as long as they stay with the origin of `uri`. One that
/// leads nowhere, or on for ever, is the answer itself.
pub fn followed<E>(
    mut uri: Uri,
    mut key: Option<&str>,
    mut ask: impl FnMut(&Uri, Option<&str>) -> Result<Response<Body>, E>,
) -> Result<Response<Body>, E> {
    for _ in 0..REDIRECTS {
        let answer = ask(&uri, key)?;
        let Some(next) = target(&uri, &answer) else {
            return Ok(answer);
        };
        // RFC 6454, 4; and for good, as who comes back has been elsewhere.
        key = key.filter(|_| origin(&uri) == origin(&next));
        uri = next;
    }
    ask(&uri, key)
}

fn target(from: &Uri, answer: &Response<Body>) -> Option<Uri> {
    let follows = matches!(
        answer.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let location = answer.headers().get(LOCATION).filter(|_| follows)?;
    resolve(from, location.to_str().ok()?)
}

/// A location seen from `from` (RFC 3986, 5.2; segments of dots are left to the server); of a page's address that is http or https.
fn resolve(from: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next()?;
    let (scheme, authority, path) = (from.scheme_str()?, from.authority()?, from.path());
    let whole = if location.contains("://") && !location.starts_with(['/', '?']) {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{path}{location}")
    } else {
        let dir = path.rfind('/').map_or("/", |at| &path[..=at]);
        format!("{scheme}://{authority}{dir}{location}")
    };
    let uri: Uri = whole.parse().ok()?;
    let known = [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&uri.scheme());
    (known && uri.host().is_some()).then_some(uri)
}

/// Scheme, host and port.
fn origin(uri: &Uri) -> Option<(bool, String, u16)> {
    let encrypted = uri.scheme()? == &Scheme::HTTPS;
    let port = uri.port_u16().unwrap_or(if encrypted { 443 } else { 80 });
    Some((encrypted, uri.host()?.to_ascii_lowercase(), port))
}

#[cfg(test)]
pub mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Answers each request with what `answer` makes of its path; what is remembered are paths and keys.
    pub type Seen = Arc<Mutex<Vec<(String, Option<String>)>>>;

    pub fn peer(answer: impl Fn(&str) -> String + Send + 'static) -> (u16, Seen) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Seen::default();
        let remembered = seen.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
                let lines: Vec<String> = lines
                    .map_while(Result::ok)
                    .take_while(|l| !l.is_empty())
                    .collect();
                let path = lines[0].split(' ').nth(1).expect("a path").to_owned();
                let key = lines
                    .iter()
                    .find_map(|l| l.strip_prefix("api-key: "))
                    .map(str::to_owned);
                remembered.lock().expect("no panic").push((path.clone(), key));
                let _ = stream.write_all(answer(&path).as_bytes());
            }
        });
        (port, seen)
    }

    pub fn to(location: &str) -> String {
        format!(
            "HTTP/1.1 302 Found\r\nlocation: {location}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        )
    }

    pub fn text(body: &str) -> String {
        let len = body.len();
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}")
    }

    #[test]
    fn locations_are_seen_from_the_page_before() {
        let from: Uri = "http://a:1/b/c?d".parse().expect("a URL");
        for (location, expected) in [
            ("https://x/y", Some("https://x/y")),
            ("//x/y#z", Some("http://x/y")),
            ("/y?to=http://x", Some("http://a:1/y?to=http://x")),
            ("y", Some("http://a:1/b/y")),
            ("?y", Some("http://a:1/b/c?y")),
            ("ftp://x/y", None),
            ("http://", None),
            ("http://x y", None),
        ] {
            let expected = expected.map(|uri| uri.parse().expect("a URL"));
            assert_eq!(resolve(&from, location), expected, "{location}");
        }
    }

    #[test]
    fn origins() {
        let same =
            |a: &str, b: &str| origin(&a.parse().expect("a URL")) == origin(&b.parse().expect("a URL"));
        assert!(same("http://a/x", "http://A:80/y"));
        assert!(same("https://a:443/", "https://a"));
        for other in [
            "https://a/",
            "http://a:81/",
            "http://b.a/",
            "http://a.b/",
            "https://a:80/",
        ] {
            assert!(!same("http://a/", other), "{other}");
        }
    }
}
