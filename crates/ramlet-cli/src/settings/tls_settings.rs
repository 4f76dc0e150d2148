//! The TLS files, which are read again now and then, and the authorities that commands trust.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use ramlet_server::Tls;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

use crate::args::ServeArgs;
use crate::settings::Sources;

/// Certificates are asked for once an hour whether they were replaced, as by the API's server.
const RENEW: Duration = Duration::from_secs(3600);

/// Certificate, key and the authorities of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    /// `None`: read once.
    renew: Option<Duration>,
}

impl TlsFiles {
    /// The flags, our names, the API server's, which has files of its own where they aren't named.
    pub fn decide(args: Option<&ServeArgs>, said: &Sources) -> Result<Option<TlsFiles>> {
        let named = |flag: Option<&Option<PathBuf>>, key: &str| {
            flag.cloned()
                .flatten()
                .or_else(|| said.find(key).map(|found| found.value.into()))
        };
        let cert = named(args.map(|args| &args.tls_cert), "tls_cert");
        let key = named(args.map(|args| &args.tls_key), "tls_key");
        let client_ca = named(args.map(|args| &args.tls_client_ca), "tls_client_ca");
        if cert.is_none() && key.is_none() && client_ca.is_none() {
            return TlsFiles::of_api(said);
        }
        match (cert, key) {
            (Some(cert), Some(key)) => Ok(Some(TlsFiles {
                cert,
                key,
                client_ca,
                renew: Some(RENEW),
            })),
            _ => Err(anyhow!(
                "TLS needs both a certificate and its key: --tls-cert and --tls-key"
            )),
        }
    }

    fn of_api(said: &Sources) -> Result<Option<TlsFiles>> {
        let truth = |key: &str| said.find_qdrants(key).map(|found| found.truth()).transpose();
        if truth("service.enable_tls")? != Some(true) {
            return Ok(None);
        }
        let file = |key: &str, usual: &str| {
            said.find_qdrants(key)
                .map_or_else(|| usual.into(), |found| PathBuf::from(found.value))
        };
        let renew = match said.find_qdrants("tls.cert_ttl") {
            None => RENEW,
            Some(found) => {
                let seconds = found.value.parse();
                Duration::from_secs(seconds.map_err(|_| found.wrong(&"it is not a number of seconds"))?)
            }
        };
        let verify = truth("service.verify_https_client_certificate")? == Some(true);
        Ok(Some(TlsFiles {
            cert: file("tls.cert", "./tls/cert.pem"),
            key: file("tls.key", "./tls/key.pem"),
            client_ca: verify.then(|| file("tls.ca_cert", "./tls/cacert.pem")),
            renew: (!renew.is_zero()).then_some(renew),
        }))
    }

    /// Whether clients need a certificate too.
    pub fn asks_certificates(&self) -> bool {
        self.client_ca.is_some()
    }

    /// Reads them, and has them read again.
    pub fn load(self) -> Result<Tls> {
        let (cert, key) = self.read()?;
        let client_ca = self.client_ca.as_deref().map(read).transpose()?;
        let tls = Tls::new(&cert, &key, client_ca.as_deref())
            .map_err(|e| anyhow!("TLS with {} and {}: {e}", self.cert.display(), self.key.display()))?;
        if let Some(every) = self.renew {
            let (tls, mut known) = (tls.clone(), (cert, key));
            std::thread::Builder::new()
                .name("certificate".to_owned())
                .stack_size(128 << 10)
                .spawn(move || {
                    loop {
                        std::thread::sleep(every);
                        self.renew(&tls, &mut known);
                    }
                })?;
        }
        Ok(tls)
    }

    fn read(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        Ok((read(&self.cert)?, read(&self.key)?))
    }

    /// What is wrong now, half a replacement say, is looked at again the next time: until then all stays as it is.
    fn renew(&self, tls: &Tls, known: &mut (Vec<u8>, Vec<u8>)) {
        let renewed = self.read().map_err(|e| format!("{e:#}")).and_then(|now| {
            if now == *known {
                return Ok(false);
            }
            tls.renew(&now.0, &now.1)?;
            *known = now;
            Ok(true)
        });
        match renewed {
            Ok(false) => {}
            Ok(true) => tracing::info!(
                "new connections use the new certificate of {}",
                self.cert.display()
            ),
            Err(e) => tracing::warn!("the certificate isn't renewed: {e}"),
        }
    }
}

/// Servers are trusted whose certificate one of the machine's authorities has signed, or one of the file that `SSL_CERT_FILE` names.
pub fn of_client() -> TlsConfig {
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::PlatformVerifier)
        .build()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("TLS: reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::settings::environment;

    fn decide(line: &str, env: &[(&str, &str)]) -> Result<Option<TlsFiles>> {
        let Command::Serve(args) = Cli::try_parse_from(line.split(' '))?.command else {
            panic!("{line} is no serve");
        };
        TlsFiles::decide(Some(&args), &environment(env))
    }

    #[test]
    fn flags_go_before_our_names_and_these_before_the_apis() {
        assert_eq!(decide("ramlet serve", &[]).expect("nothing"), None);
        let ours = [
            ("RAMLET_TLS_CERT", "c"),
            ("RAMLET_TLS_KEY", "k"),
            ("QDRANT__SERVICE__ENABLE_TLS", "1"),
        ];
        let files = decide("ramlet serve --tls-key k2", &ours)
            .expect("both")
            .expect("files");
        assert_eq!(
            (files.cert, files.key, files.client_ca),
            ("c".into(), "k2".into(), None)
        );
        let api = [
            ("QDRANT__SERVICE__ENABLE_TLS", "true"),
            ("QDRANT__TLS__KEY", "/k.pem"),
            ("QDRANT__TLS__CERT_TTL", "0"),
            ("QDRANT__SERVICE__VERIFY_HTTPS_CLIENT_CERTIFICATE", "true"),
        ];
        let files = decide("ramlet serve", &api).expect("its own").expect("files");
        let wanted = TlsFiles {
            cert: "./tls/cert.pem".into(),
            key: "/k.pem".into(),
            client_ca: Some("./tls/cacert.pem".into()),
            renew: None,
        };
        assert_eq!(files, wanted);
    }

    #[test]
    fn half_of_it_is_refused() {
        assert!(decide("ramlet serve --tls-cert c", &[]).is_err());
        assert!(decide("ramlet serve --tls-client-ca c", &[]).is_err());
        assert!(decide("ramlet serve", &[("QDRANT__SERVICE__ENABLE_TLS", "perhaps")]).is_err());
        let many = [
            ("QDRANT__SERVICE__ENABLE_TLS", "1"),
            ("QDRANT__TLS__CERT_TTL", "hourly"),
        ];
        assert!(decide("ramlet serve", &many).is_err());
    }
}
