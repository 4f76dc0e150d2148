//! Tokens that say themselves what they open: JWT (RFC 7519), signed with the admin key by HS256 (RFC 7518, 3.2).
//!
//! Claims, all optional: `exp` (seconds since 1970), `access` (`"r"`, `"m"`, or a list of collections with `"r"`, `"rw"` or `"prw"`;
//! everything if it is left out), `value_exists` (a point of a collection that must be there), `subject` (what the audit log calls
//! the bearer). Others are ignored, as by the API's server. A claim of the first two that is there as `null` says nothing, and opens nothing, as there.

use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ramlet::filter::Filter;
use ring::{digest, hmac};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// What a token opens.
#[derive(Debug, PartialEq)]
pub struct Token {
    pub access: TokenAccess,
    pub value_exists: Option<ValueExists>,
    /// What the token calls its bearer: for the audit log.
    pub subject: Option<String>,
    /// The beginning of its SHA-256, which tells tokens without a subject apart.
    pub hash: String,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum TokenAccess {
    Global(GlobalAccess),
    Collections(Vec<CollectionAccess>),
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
pub enum GlobalAccess {
    #[serde(rename = "r")]
    Read,
    #[serde(rename = "m")]
    Manage,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
pub struct CollectionAccess {
    pub collection: String,
    pub access: Mode,
    /// Once limited a token to some points. Who signed one that does wants no more than that.
    #[serde(default)]
    payload: Option<Value>,
}

/// What of a collection is open.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
pub enum Mode {
    #[serde(rename = "r")]
    Read,
    #[serde(rename = "rw")]
    ReadWrite,
    /// Its points; not its snapshots, payload indexes and names of vectors.
    #[serde(rename = "prw")]
    Points,
}

/// The token counts while a collection has such a point.
#[derive(Debug, PartialEq)]
pub struct ValueExists {
    pub collection: String,
    pub filter: Filter,
}

/// Why a key opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No token at all, or none of ours.
    Unknown,
    /// A token with another signature than ours.
    Signature,
    Expired,
    /// Claims that say nothing that could be granted.
    Claims(&'static str),
}

/// So many seconds may clocks be apart.
const LEEWAY: u64 = 30;

/// Bytes of a token at most: more than headers may have.
const TOKEN_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    #[serde(default, deserialize_with = "said")]
    exp: Option<u64>,
    #[serde(default, deserialize_with = "said")]
    access: Option<TokenAccess>,
    value_exists: Option<WireValueExists>,
    subject: Option<String>,
}

/// A claim that is there; `null` is none of its values, or a program that lost what it meant to limit would open everything.
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(claim: D) -> Result<Option<T>, D::Error> {
    T::deserialize(claim).map(Some)
}

#[derive(Deserialize)]
struct WireValueExists {
    collection: String,
    matches: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    key: String,
    value: Value,
}

/// Keys that tokens are signed with.
#[derive(Default)]
pub struct Signers(Vec<hmac::Key>);

impl Signers {
    pub fn new<'k>(secrets: impl Iterator<Item = &'k str>) -> Signers {
        Signers(
            secrets
                .map(|key| hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))
                .collect(),
        )
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a token opens now. The signature is compared in constant time, and before anything that the token says is believed.
    pub fn read(&self, token: &[u8]) -> Result<Token, Refusal> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.read_at(token, now.map_or(0, |now| now.as_secs()))
    }

    fn read_at(&self, token: &[u8], now: u64) -> Result<Token, Refusal> {
        let claims = self.verified(token)?;
        if claims.exp.is_some_and(|exp| exp < now.saturating_sub(LEEWAY)) {
            return Err(Refusal::Expired);
        }
        let access = claims.access.unwrap_or(TokenAccess::Global(GlobalAccess::Manage));
        if let TokenAccess::Collections(list) = &access {
            let mut seen = HashSet::new();
            if !list.iter().all(|one| seen.insert(one.collection.as_str())) {
                return Err(Refusal::Claims("a collection is named twice in `access`"));
            }
            if list.iter().any(|one| one.payload.is_some()) {
                return Err(Refusal::Claims("`payload` is no longer part of `access`"));
            }
        }
        let value_exists = claims
            .value_exists
            .map(WireValueExists::into_filter)
            .transpose()?;
        Ok(Token {
            access,
            value_exists,
            hash: claims
                .subject
                .as_ref()
                .map_or_else(|| hash_of(token), |_| String::new()),
            subject: claims.subject,
        })
    }

    /// The claims of a token that one of the keys has signed.
    fn verified(&self, token: &[u8]) -> Result<Claims, Refusal> {
        if token.len() > TOKEN_BYTES || self.0.is_empty() {
            return Err(Refusal::Unknown);
        }
        let unknown = |_| Refusal::Unknown;
        let end = token
            .iter()
            .rposition(|byte| *byte == b'.')
            .ok_or(Refusal::Unknown)?;
        let (message, signature) = (&token[..end], &token[end + 1..]);
        let middle = message
            .iter()
            .position(|byte| *byte == b'.')
            .ok_or(Refusal::Unknown)?;
        let decode = |part: &[u8]| URL_SAFE_NO_PAD.decode(part).map_err(unknown);
        let header: Header =
            serde_json::from_slice(&decode(&message[..middle])?).map_err(|_| Refusal::Unknown)?;
        if header.alg != "HS256" {
            return Err(Refusal::Unknown);
        }
        let signature = decode(signature)?;
        let mut signers = self.0.iter();
        if !signers.any(|key| hmac::verify(key, message, &signature).is_ok()) {
            return Err(Refusal::Signature);
        }
        serde_json::from_slice(&decode(&message[middle + 1..])?).map_err(|_| Refusal::Unknown)
    }
}

fn hash_of(token: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, token);
    let begin = hash.as_ref().iter().take(8);
    let number = begin.fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{number:016x}")
}

impl WireValueExists {
    fn into_filter(self) -> Result<ValueExists, Refusal> {
        let matches: Vec<Value> = self
            .matches
            .into_iter()
            .map(|pair| json!({ "key": pair.key, "match": { "value": pair.value } }))
            .collect();
        let filter = serde_json::from_value(json!({ "must": matches }));
        Ok(ValueExists {
            collection: self.collection,
            filter: filter.map_err(|_| Refusal::Claims("`value_exists` is no condition"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(secret: &str, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signature = hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn read(claims: &Value) -> Result<Token, Refusal> {
        let token = token("k", &json!({ "alg": "HS256", "typ": "JWT" }), claims);
        Signers::new(["other", "k"].into_iter()).read_at(token.as_bytes(), 1_000)
    }

    #[test]
    fn a_token_of_another_implementation_is_read() {
        // RFC 7515, appendix A.1: the signature is of bytes that are no text.
        let key = URL_SAFE_NO_PAD
            .decode("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow")
            .expect("the RFC's key");
        let signers = Signers(vec![hmac::Key::new(hmac::HMAC_SHA256, &key)]);
        let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let all = TokenAccess::Global(GlobalAccess::Manage);
        assert_eq!(
            signers
                .read_at(token.as_bytes(), 1_300_819_380 + LEEWAY)
                .map(|token| token.access),
            Ok(all)
        );
        assert_eq!(
            signers.read_at(token.as_bytes(), 1_300_819_381 + LEEWAY),
            Err(Refusal::Expired)
        );
        let other = token.replace("dBjft", "eBjft");
        assert_eq!(signers.read_at(other.as_bytes(), 0), Err(Refusal::Signature));
    }

    #[test]
    fn claims_are_granted_or_refused_as_a_whole() {
        let access = |value| read(&json!({ "access": value })).map(|token| token.access);
        assert_eq!(access(json!("r")), Ok(TokenAccess::Global(GlobalAccess::Read)));
        let list =
            access(json!([{ "collection": "a", "access": "prw" }, { "collection": "b", "access": "rw" }]));
        let Ok(TokenAccess::Collections(list)) = list else {
            panic!("{list:?}");
        };
        assert_eq!((list[0].access, list[1].access), (Mode::Points, Mode::ReadWrite));
        for odd in [
            Value::Null,
            json!("x"),
            json!({}),
            json!([{ "collection": "a", "access": "m" }]),
            json!(["a"]),
        ] {
            assert_eq!(access(odd), Err(Refusal::Unknown));
        }
        let one = json!({ "collection": "a", "access": "r" });
        assert!(matches!(access(json!([one, one])), Err(Refusal::Claims(_))));
        let limited = json!([{ "collection": "a", "access": "r", "payload": {} }]);
        assert!(matches!(access(limited), Err(Refusal::Claims(_))));
        assert_eq!(
            access(json!([])),
            Ok(TokenAccess::Collections(Vec::new())),
            "which opens nothing"
        );
        assert_eq!(read(&json!({ "exp": 969 })), Err(Refusal::Expired));
        assert!(read(&json!({ "exp": 970, "sub": "x", "else": 1 })).is_ok());
        for odd in [json!("970"), Value::Null, json!(2_000.5), json!(-1)] {
            assert_eq!(read(&json!({ "access": "r", "exp": odd })), Err(Refusal::Unknown));
        }
        let absent = read(&json!({ "value_exists": null })).map(|token| (token.access, token.value_exists));
        assert_eq!(absent, Ok((TokenAccess::Global(GlobalAccess::Manage), None)));
        let exists =
            json!({ "value_exists": { "collection": "c", "matches": [{ "key": "a.b", "value": "x" }] } });
        let exists = read(&exists).expect("a token").value_exists.expect("a condition");
        assert_eq!(exists.collection, "c");
        assert_eq!(
            exists.filter,
            serde_json::from_value(json!({ "must": [{ "key": "a.b", "match": { "value": "x" } }] }))
                .expect("a filter")
        );
        let odd = json!({ "value_exists": { "collection": "c", "matches": [{ "key": "a", "value": [1] }] } });
        assert!(matches!(read(&odd), Err(Refusal::Claims(_))));
    }

    #[test]
    fn what_is_no_token_of_ours_is_unknown() {
        let signers = Signers::new(["k"].into_iter());
        for odd in [
            "",
            ".",
            "..",
            "a.b.c",
            "secret",
            "eyJhbGciOiJIUzI1NiJ9.e30",
            "\u{e9}.\u{e9}.\u{e9}",
        ] {
            assert_eq!(signers.read_at(odd.as_bytes(), 0), Err(Refusal::Unknown), "{odd}");
        }
        for alg in ["none", "HS512", "RS256"] {
            let token = token("k", &json!({ "alg": alg }), &json!({}));
            assert_eq!(signers.read_at(token.as_bytes(), 0), Err(Refusal::Unknown));
        }
        let unsigned = token("k", &json!({ "alg": "HS256" }), &json!({}));
        let unsigned = &unsigned[..=unsigned.rfind('.').expect("three parts")];
        assert_eq!(signers.read_at(unsigned.as_bytes(), 0), Err(Refusal::Signature));
        assert_eq!(Signers::default().read_at(b"a.b.c", 0), Err(Refusal::Unknown));
    }
}
