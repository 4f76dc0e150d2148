//! URLs of stores: `file:///directory`, `s3://bucket/prefix`, `memory:`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use percent_encoding::percent_decode_str;

use crate::error::{Result, StoreError};
use crate::store::Store;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A directory of this machine, or one that several share.
    Directory(PathBuf),
    /// A bucket, and the prefix of all names in it; without slashes around it.
    S3 { bucket: String, prefix: String },
    /// Gone with the process.
    Memory,
}

impl StoreUrl {
    pub fn parse(url: &str) -> Result<StoreUrl> {
        let wrong = |why: &str| Err(StoreError::wrong(format!("'{url}': {why}")));
        if url == "memory:" {
            return Ok(StoreUrl::Memory);
        }
        if let Some(path) = url.strip_prefix("file://") {
            if !path.starts_with('/') {
                return wrong("a directory is named from the root: file:///backups/ramlet");
            }
            let Ok(path) = percent_decode_str(path).decode_utf8() else {
                return wrong("it isn't UTF-8");
            };
            return Ok(StoreUrl::Directory(path.as_ref().into()));
        }
        if let Some(rest) = url.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return wrong("it names no bucket: s3://bucket/prefix");
            }
            return Ok(StoreUrl::S3 {
                bucket: bucket.to_owned(),
                prefix: prefix.trim_matches('/').to_owned(),
            });
        }
        wrong("a store is file:///directory or s3://bucket/prefix")
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Directory(path) => write!(f, "file://{}", path.display()),
            StoreUrl::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            StoreUrl::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            StoreUrl::Memory => f.write_str("memory:"),
        }
    }
}

/// What a store that speaks S3 is reached with; what isn't said comes from the `AWS_*` variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct S3Options {
    pub region: Option<String>,
    pub access_key: Option<String>,
    pub secret_key: Option<String>,
    pub endpoint: Option<String>,
}

/// Opens a store. `makes`: a directory that isn't there is made, in one that is.
pub fn open(url: &StoreUrl, makes: bool) -> Result<Store> {
    open_with(url, makes, &S3Options::default())
}

/// The same, with options.
pub fn open_with(url: &StoreUrl, makes: bool, options: &S3Options) -> Result<Store> {
    match url {
        StoreUrl::Memory => Store::over(Arc::new(InMemory::new()), "memory:"),
        StoreUrl::Directory(path) => {
            make_directory(path, makes)?;
            let inner = LocalFileSystem::new_with_prefix(path)
                .map_err(|e| StoreError::of_store(&url.to_string(), &e))?;
            // What is acknowledged survives a power loss.
            Store::over(Arc::new(inner.with_fsync(true)), &url.to_string())
        }
        StoreUrl::S3 { bucket, prefix } => open_s3(url, (bucket, prefix), options),
    }
}

fn make_directory(path: &Path, makes: bool) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let missing = |what: &Path| {
        let message = format!("{} is no directory", what.display());
        Err(StoreError::not_found(message))
    };
    match path.parent() {
        // More than the last name is a mistake in typing more often than not.
        Some(parent) if makes && !parent.is_dir() => missing(parent),
        Some(_) if makes && !path.exists() => {
            ramlet_io::open_best(path, ramlet_io::Backend::Pread)?;
            Ok(())
        }
        _ => missing(path),
    }
}

#[cfg(feature = "s3")]
fn open_s3(url: &StoreUrl, (bucket, prefix): (&str, &str), options: &S3Options) -> Result<Store> {
    use std::time::Duration;

    use object_store::aws::AmazonS3Builder;
    use object_store::prefix::PrefixStore;
    use object_store::{BackoffConfig, RetryConfig};

    if options.access_key.is_none() {
        check_keys()?;
    }
    let retry = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 8,
        retry_timeout: Duration::from_secs(60),
    };
    // Endpoint, region, keys and the rest are AWS_* variables, as other tools have them.
    let mut builder = AmazonS3Builder::from_env();
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    if let Some(key) = &options.access_key {
        builder = builder.with_access_key_id(key);
    }
    if let Some(key) = &options.secret_key {
        builder = builder.with_secret_access_key(key);
    }
    if let Some(endpoint) = &options.endpoint {
        let is_plain = endpoint.starts_with("http://");
        builder = builder.with_endpoint(endpoint).with_allow_http(is_plain);
    }
    let inner = builder
        .with_bucket_name(bucket)
        .with_retry(retry)
        // Not every server knows requests that delete many.
        .with_disable_bulk_delete(true)
        .with_http_connector(crate::http::Connector)
        .build()
        .map_err(|e| StoreError::of_store(&url.to_string(), &e))?;
    let inner: Arc<dyn object_store::ObjectStore> = match prefix {
        "" => Arc::new(inner),
        prefix => Arc::new(PrefixStore::new(inner, prefix)),
    };
    Store::over(inner, &url.to_string())
}

/// Without keys the crate would ask an address of the cloud's network, which elsewhere is nobody's: only where a variable says so.
#[cfg(feature = "s3")]
fn check_keys() -> Result<()> {
    const NAMED: [&str; 6] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_METADATA_ENDPOINT",
        "AWS_SKIP_SIGNATURE",
    ];
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match NAMED.iter().any(is_set) {
        true => Ok(()),
        false => Err(StoreError::new(
            crate::StoreErrorKind::Denied,
            "no key for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_METADATA_ENDPOINT=http://169.254.169.254 for a machine with a role of its own",
        )),
    }
}

#[cfg(not(feature = "s3"))]
fn open_s3(url: &StoreUrl, _: (&str, &str), _: &S3Options) -> Result<Store> {
    Err(StoreError::new(
        crate::StoreErrorKind::Unsupported,
        format!("{url}: this program was built without the feature `s3`"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreErrorKind;

    #[test]
    fn urls_are_understood() {
        let s3 = |bucket: &str, prefix: &str| StoreUrl::S3 {
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        for (url, expected) in [
            ("file:///a/b%20c", StoreUrl::Directory("/a/b c".into())),
            ("s3://bucket", s3("bucket", "")),
            ("s3://bucket/a/b/", s3("bucket", "a/b")),
            ("memory:", StoreUrl::Memory),
        ] {
            assert_eq!(StoreUrl::parse(url), Ok(expected), "{url}");
        }
        for url in ["", "/a/b", "file://a/b", "s3://", "s3:///a", "http://a:9000/b"] {
            let error = StoreUrl::parse(url).expect_err(url);
            assert_eq!(error.kind(), StoreErrorKind::WrongInput, "{url}");
        }
    }
}
