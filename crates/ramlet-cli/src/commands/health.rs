//! `ramlet health`: whether the server here answers, for the checks of containers and units, which have no other program at hand.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ureq::Agent;
use ureq::tls::{TlsConfig, TlsProvider};

use crate::args::HealthArgs;
use crate::output;
use crate::serve_settings::{Reached, reached};
use crate::settings::Sources;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks `/readyz`; an error unless the answer is yes.
pub fn run(args: &HealthArgs) -> Result<()> {
    let reached = match &args.url {
        Some(url) => Reached {
            url: url.trim_end_matches('/').to_owned(),
            asks_certificates: false,
        },
        None => reached(&Sources::new(&args.config, args.config_dir.as_deref())?)?,
    };
    if reached.asks_certificates {
        // Without a certificate of a client no answer is to be had.
        let address = reached.url.trim_start_matches("https://");
        connects(address).with_context(|| reached.url.clone())?;
        return output::line(format_args!(
            "{} accepts only connections of clients with certificates",
            reached.url
        ));
    }
    let url = format!("{}/readyz", reached.url);
    // Its own machine's server is asked, by an address that no certificate names. Nothing secret is sent.
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .disable_verification(args.url.is_none())
        .build();
    let config = Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        .max_redirects(0)
        .tls_config(tls)
        .build();
    let mut answer = config.new_agent().get(&url).call().with_context(|| url.clone())?;
    let text = answer
        .body_mut()
        .with_config()
        .limit(4096)
        .read_to_string()
        .unwrap_or_default();
    match answer.status().as_u16() {
        200 => output::line(format_args!("{} is ready", reached.url)),
        code => bail!("{url}: {code} {}", text.trim()),
    }
}

fn connects(address: &str) -> Result<()> {
    let address = address.to_socket_addrs()?.next().context("it has no address")?;
    TcpStream::connect_timeout(&address, TIMEOUT)?;
    Ok(())
}
