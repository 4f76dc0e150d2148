//! What can go wrong with a store, in words for whoever runs the command.

use std::fmt;

use ramlet_io::IoError;
use ramlet_memory::OverBudget;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The URL, or a number, is none that could be meant.
    WrongInput,
    /// There is no such object, backup or directory.
    NotFound,
    /// An object of that name is there: somebody else was quicker.
    Exists,
    /// The store holds something that isn't ours.
    Foreign,
    /// The store refuses who asks.
    Denied,
    /// Bytes are not those that were written.
    Corrupt,
    /// The store can't do what is needed.
    Unsupported,
    /// The memory that was allowed isn't enough; the message has both numbers.
    OverBudget,
    /// The store failed; whether it did what it was asked isn't known.
    Failed,
    /// No answer came: a connection was refused, cut off, or too slow. The store may have done what it was asked.
    NoAnswer,
}

/// A failure and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
}

pub type Result<T> = std::result::Result<T, StoreError>;

impl StoreError {
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> StoreError {
        StoreError {
            kind,
            message: message.into(),
        }
    }

    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the store may have done what it was asked.
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Failed | StoreErrorKind::NoAnswer)
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> StoreError {
        StoreError::new(StoreErrorKind::Corrupt, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> StoreError {
        StoreError::new(StoreErrorKind::NotFound, message)
    }

    pub(crate) fn wrong(message: impl Into<String>) -> StoreError {
        StoreError::new(StoreErrorKind::WrongInput, message)
    }

    /// Of an answer of a store, about `what`.
    pub(crate) fn of_store(what: &str, error: &object_store::Error) -> StoreError {
        use object_store::Error as E;
        let kind = match error {
            E::NotFound { .. } => StoreErrorKind::NotFound,
            E::AlreadyExists { .. } | E::Precondition { .. } => StoreErrorKind::Exists,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => StoreErrorKind::Denied,
            E::NotSupported { .. } | E::NotImplemented { .. } => StoreErrorKind::Unsupported,
            _ if has_no_answer(error) => StoreErrorKind::NoAnswer,
            _ => StoreErrorKind::Failed,
        };
        let said = shortened(&causes(error));
        // Of one object each store has other words for that.
        match kind == StoreErrorKind::NotFound && !said.contains("NoSuchBucket") {
            true => StoreError::new(kind, format!("{what} is missing")),
            false => StoreError::new(kind, format!("{what}: {said}")),
        }
    }
}

fn has_no_answer(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind as K;
    let mut next = Some(error);
    while let Some(error) = next {
        if is_cut_off(error) {
            return true;
        }
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return matches!(
                io.kind(),
                K::ConnectionRefused
                    | K::ConnectionReset
                    | K::ConnectionAborted
                    | K::BrokenPipe
                    | K::TimedOut
            );
        }
        next = error.source();
    }
    false
}

/// The HTTP client's word for it.
#[cfg(feature = "s3")]
fn is_cut_off(error: &(dyn std::error::Error + 'static)) -> bool {
    use object_store::client::{HttpError, HttpErrorKind as K};
    let http = error.downcast_ref::<HttpError>();
    http.is_some_and(|http| matches!(http.kind(), K::Connect | K::Timeout | K::Interrupted))
}

#[cfg(not(feature = "s3"))]
fn is_cut_off(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}

/// What a store says of itself, without the crate's account of how it asked: of S3 the code and the sentence, of the network the address and why.
fn shortened(text: &str) -> String {
    let within = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        rest.split_once(&format!("</{tag}>")).map(|(inside, _)| inside)
    };
    if let Some(code) = within("Code") {
        return format!("{code}: {}", within("Message").unwrap_or("no message"));
    }
    let asked = text
        .split_once("Error performing ")
        .and_then(|(_, rest)| rest.split_once(" in "));
    match asked.and_then(|(asked, rest)| Some((asked, rest.split_once(" - ")?.1))) {
        Some((asked, why)) => format!("{asked}: {why}"),
        None => text.to_owned(),
    }
}

/// An error and what caused it, each said once, on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}

impl From<IoError> for StoreError {
    fn from(error: IoError) -> StoreError {
        StoreError::new(StoreErrorKind::Failed, error.to_string())
    }
}

impl From<OverBudget> for StoreError {
    fn from(error: OverBudget) -> StoreError {
        StoreError::new(StoreErrorKind::OverBudget, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn stores_are_quoted() {
        let asked = "Generic S3 error: Error performing GET http://h:1/b/x in 3.2ms, after 8 retries, max_retries: 8, retry_timeout: 60s - ";
        for (said, expected) in [
            (
                "Server returned non-2xx status code: 404 Not Found: <Error><Code>NoSuchBucket</Code><Message>There is none</Message></Error>",
                "NoSuchBucket: There is none",
            ),
            (
                "HTTP error: io: Connection refused",
                "GET http://h:1/b/x: HTTP error: io: Connection refused",
            ),
        ] {
            assert_eq!(shortened(&format!("{asked}{said}")), expected);
        }
        assert_eq!(shortened("anything - else"), "anything - else");
    }
}
