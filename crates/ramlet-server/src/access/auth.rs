//! Authentication of callers, and the access that routes need.

use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use super::jwt::{GlobalAccess, Mode, Refusal, Signers, Token, TokenAccess, ValueExists};
use crate::error::{ApiError, ApiResult};
use crate::options::{ServerOptions, is_loopback};

/// What a route does, and so which key it needs when one is set. A token may open some collections only: then it matters whether the
/// route's path names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Health and version: no key.
    Public,
    /// Reads data or figures.
    Read,
    /// Reads of several collections those that the key opens.
    ReadSome,
    /// Reads a collection's snapshots.
    ReadFiles,
    /// Changes points.
    Write,
    /// Changes a collection's payload indexes, names of vectors, snapshots.
    WriteFiles,
    /// Creates, changes or drops collections and aliases, restores snapshots.
    Manage,
}

impl Access {
    pub(crate) fn reads(self) -> bool {
        matches!(self, Access::Read | Access::ReadSome | Access::ReadFiles)
    }
}

/// Whose key a request has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Caller {
    /// No key that is known; or none is asked for.
    #[default]
    Nobody,
    Admin,
    Reader,
    Token,
}

/// What a request may touch of what its route does.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    caller: Caller,
    token: Option<Arc<Token>>,
}

impl Grant {
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// What a token calls its bearer, or else the beginning of the token's hash.
    pub fn named(&self) -> (Option<&str>, Option<&str>) {
        match self.token.as_deref() {
            None => (None, None),
            Some(token) => match &token.subject {
                Some(subject) => (Some(subject), None),
                None => (None, Some(&token.hash)),
            },
        }
    }

    /// Whether a collection may be seen in lists of them.
    pub fn may_see(&self, collection: &str) -> bool {
        match self.collections() {
            None => true,
            Some(list) => list.iter().any(|one| one.collection == collection),
        }
    }

    /// Whether it is some collections' only.
    pub fn is_limited(&self) -> bool {
        self.collections().is_some()
    }

    /// Refuses what a token doesn't open of a route with this collection in its path.
    pub fn check(&self, access: Access, collection: Option<&str>) -> ApiResult<()> {
        let Some(list) = self.collections() else {
            return Ok(());
        };
        match access {
            Access::Public | Access::ReadSome => return Ok(()),
            Access::Manage => return Err(forbidden("Global access is required")),
            Access::Read | Access::ReadFiles | Access::Write | Access::WriteFiles => {}
        }
        let Some(name) = collection else {
            return Err(forbidden("Global access is required"));
        };
        let Some(one) = list.iter().find(|one| one.collection == name) else {
            return Err(forbidden(&format!("Access to collection {name} is required")));
        };
        match (one.access, access) {
            (Mode::Points, Access::ReadFiles | Access::WriteFiles) => Err(forbidden(&format!(
                "Only points access is allowed for collection {name}"
            ))),
            (Mode::Read, Access::Write | Access::WriteFiles) => Err(forbidden(&format!(
                "Write access to collection {name} is required"
            ))),
            _ => Ok(()),
        }
    }

    /// The point that must be there for the token to count.
    pub(crate) fn value_exists(&self) -> Option<&ValueExists> {
        self.token.as_ref()?.value_exists.as_ref()
    }

    fn collections(&self) -> Option<&[super::jwt::CollectionAccess]> {
        match &self.token.as_ref()?.access {
            TokenAccess::Global(_) => None,
            TokenAccess::Collections(list) => Some(list),
        }
    }
}

fn forbidden(what: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, format!("Forbidden: {what}"))
}

/// Who a request's key makes it.
#[derive(Debug)]
enum Identity {
    /// No key is asked for.
    Anybody,
    /// No key given.
    Anonymous,
    ReadOnly,
    Admin,
    Token(Token),
    /// A key that opens nothing.
    Refused(Refusal),
}

/// The keys of the server. Without any, everybody is admin.
#[derive(Default)]
pub struct Keys {
    admin: Option<String>,
    /// As good as `admin`: while one takes the other's place, both are in use.
    alternative: Option<String>,
    read_only: Option<String>,
    /// What tokens are signed with; none if there are to be no tokens.
    signers: Signers,
    /// Refuse what a browser was lured into sending: set when the server has no key and listens on loopback.
    guard_local: bool,
    any_origin: bool,
}

impl Keys {
    /// Empty keys count as not set: an empty environment variable must not open or lock the server.
    pub fn new(options: &ServerOptions) -> Keys {
        let given = |key: &Option<String>| key.clone().filter(|k| !k.is_empty());
        let mut keys = Keys {
            admin: given(&options.api_key),
            alternative: given(&options.alt_api_key),
            read_only: given(&options.read_only_api_key),
            ..Keys::default()
        };
        if options.jwt_rbac {
            let secrets = [&keys.admin, &keys.alternative];
            keys.signers = Signers::new(secrets.into_iter().flatten().map(String::as_str));
        }
        keys.guard_local = is_loopback(&options.host) && !keys.any();
        keys.any_origin = options.cors.unwrap_or(keys.any());
        keys
    }

    pub fn any(&self) -> bool {
        [&self.admin, &self.alternative, &self.read_only]
            .iter()
            .any(|key| key.is_some())
    }

    pub fn takes_tokens(&self) -> bool {
        !self.signers.is_empty()
    }

    /// Whether pages of any origin may read answers.
    pub fn any_origin(&self) -> bool {
        self.any_origin
    }

    /// Reads `api-key` or `Authorization: Bearer`. All keys are always compared, each in constant time.
    fn identify(&self, headers: &HeaderMap) -> Identity {
        if !self.any() {
            return Identity::Anybody;
        }
        let Some(given) = given_key(headers) else {
            return Identity::Anonymous;
        };
        let is = |key: &Option<String>| {
            key.as_deref()
                .is_some_and(|key| same_bytes(key.as_bytes(), given))
        };
        match (is(&self.admin) | is(&self.alternative), is(&self.read_only)) {
            (true, _) => Identity::Admin,
            (false, true) => Identity::ReadOnly,
            (false, false) => match self.signers.read(given) {
                Ok(token) => Identity::Token(token),
                Err(refusal) => Identity::Refused(refusal),
            },
        }
    }

    /// Whether a request with these headers may use a route of this access, and of what. The grant is to be held against the
    /// collection that the route is asked for: [`Grant::check`].
    pub fn authorise(&self, access: Access, headers: &HeaderMap) -> ApiResult<Grant> {
        let (grant, authorised) = self.caller(access, headers);
        authorised.map(|()| grant)
    }

    /// The same, telling who it is that is refused.
    pub fn caller(&self, access: Access, headers: &HeaderMap) -> (Grant, ApiResult<()>) {
        let nobody = Grant::default();
        if access == Access::Public {
            return (nobody, Ok(()));
        }
        if self.guard_local
            && let Err(e) = refuse_lured_browser(headers, self.any_origin)
        {
            return (nobody, Err(e));
        }
        let (caller, mode, token) = match self.identify(headers) {
            Identity::Anybody => (Caller::Nobody, Some(GlobalAccess::Manage), None),
            Identity::Admin => (Caller::Admin, Some(GlobalAccess::Manage), None),
            Identity::ReadOnly => (Caller::Reader, Some(GlobalAccess::Read), None),
            Identity::Token(token) => {
                let mode = match token.access {
                    TokenAccess::Global(mode) => Some(mode),
                    TokenAccess::Collections(_) => None,
                };
                (Caller::Token, mode, Some(Arc::new(token)))
            }
            Identity::Anonymous => {
                let why = "Must provide an API key or an Authorization bearer token";
                return (nobody, Err(ApiError::new(StatusCode::UNAUTHORIZED, why)));
            }
            Identity::Refused(refusal) => return (nobody, Err(refused(refusal))),
        };
        let authorised = match mode == Some(GlobalAccess::Read) && !access.reads() {
            true => Err(forbidden("Global manage access is required")),
            false => Ok(()),
        };
        (Grant { caller, token }, authorised)
    }
}

/// What is told to whoever has a key that opens nothing.
fn refused(refusal: Refusal) -> ApiError {
    let unauthorized = |why: &str| ApiError::new(StatusCode::UNAUTHORIZED, why);
    match refusal {
        Refusal::Unknown => unauthorized("Invalid API key or JWT"),
        Refusal::Claims(why) => unauthorized(&format!("Invalid JWT: {why}")),
        Refusal::Signature => forbidden("InvalidSignature"),
        Refusal::Expired => forbidden("ExpiredSignature"),
    }
}

fn given_key(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(key) = headers.get("api-key") {
        return Some(key.as_bytes());
    }
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, key) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(key)
}

/// Equality whose time depends on the lengths only.
fn same_bytes(ours: &[u8], given: &[u8]) -> bool {
    let mut different = ours.len() ^ given.len();
    for (i, byte) in given.iter().enumerate() {
        // Some byte of ours in any case, so that the loop runs as long as `given` whatever we have.
        let other = ours.get(i).or(ours.first()).copied().unwrap_or(0);
        different |= usize::from(byte ^ other);
    }
    std::hint::black_box(different) == 0
}

/// A page that a browser shows may send requests to localhost: by a name that it rebinds to 127.0.0.1, or as a
/// "simple" cross-origin post. Programs name the host as it is and send no `Origin`.
fn refuse_lured_browser(headers: &HeaderMap, any_origin: bool) -> ApiResult<()> {
    let refuse = |what: &str| {
        let message = format!("Forbidden: {what}; set an API key to allow it");
        Err(ApiError::new(StatusCode::FORBIDDEN, message))
    };
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|h| h.to_str().ok()).unwrap_or("localhost");
    if hosts.next().is_some() {
        return refuse("the request has several Host headers");
    }
    let name = host_name(host);
    let local = name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || name.parse::<std::net::IpAddr>().is_ok();
    if !local {
        return refuse("the Host header names another machine than this one");
    }
    let Some(origin) = headers.get(header::ORIGIN).filter(|_| !any_origin) else {
        return Ok(());
    };
    let same = origin
        .to_str()
        .ok()
        .and_then(|o| o.split_once("://"))
        .is_some_and(|(_, of)| of == host);
    if same {
        Ok(())
    } else {
        refuse("the request comes from a web page of another origin")
    }
}

/// HTTP/2 names the host beside the headers, HTTP/1 may name it in the path; here it is one of the headers, and what they
/// said of it counts no more (RFC 9112, section 3.2.2).
pub fn name_host(parts: &mut Parts) {
    if let Some(authority) = parts.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        parts.headers.insert(header::HOST, host);
    }
}

/// `host:port`, `[v6]:port` or `host` without the port.
fn host_name(host: &str) -> &str {
    if let Some(v6) = host.strip_prefix('[') {
        return v6.split(']').next().unwrap_or(v6);
    }
    host.split(':').next().unwrap_or(host)
}
