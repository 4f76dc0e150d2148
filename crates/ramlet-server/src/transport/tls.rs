//! Encrypted connections (TLS 1.2 and 1.3, RFC 8446), by rustls.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::moving_socket::MovingSocket;
use crate::limits;

/// What a client may choose to speak.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Certificate and key that connections are encrypted with, and whose clients are let in. Clones share the certificate.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    current: Arc<Current>,
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Tls {
    /// Of a chain of certificates, the server's own first, and its key, both as PEM (RFC 7468). With `client_ca` only clients
    /// are let in whose certificate one of these has signed. The error is a sentence for the user.
    pub fn new(chain: &[u8], key: &[u8], client_ca: Option<&[u8]>) -> Result<Tls, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = rustls::RootCertStore::empty();
                for certificate in certificates(ca, "the certificates of clients' authorities")? {
                    roots.add(certificate).map_err(|e| e.to_string())?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|e| e.to_string())?)
            }
        };
        let current = Arc::new(Current(RwLock::new(certified(chain, key)?)));
        let mut config = builder.with_cert_resolver(current.clone());
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        // A session that is kept for a client takes memory; a ticket is kept by the client.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.ticketer = ring::Ticketer::new().map_err(|e| e.to_string())?;
        let config = Arc::new(config);
        Ok(Tls { config, current })
    }

    /// Replaces certificate and key; connections that are open keep theirs.
    pub fn renew(&self, chain: &[u8], key: &[u8]) -> Result<(), String> {
        let new = certified(chain, key)?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(format!("{what}: there is none in the file (PEM)")),
        Ok(all) => Ok(all),
        Err(e) => Err(format!("{what}: {e}")),
    }
}

fn certified(chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let chain = certificates(chain, "the server's certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| format!("the server's key: {e}"))?;
    let key = CertifiedKey::from_der(chain, key, &ring::default_provider());
    Ok(Arc::new(
        key.map_err(|e| format!("the server's certificate and key: {e}"))?,
    ))
}

/// A connection's bytes, encrypted or not.
pub enum Socket {
    Plain(MovingSocket),
    Encrypted(Box<TlsStream<MovingSocket>>),
}

impl Socket {
    /// Agrees on keys with the client, if connections are to be encrypted.
    pub async fn new(stream: TcpStream, tls: Option<&Tls>) -> io::Result<Socket> {
        let stream = MovingSocket::new(stream);
        let Some(tls) = tls else {
            return Ok(Socket::Plain(stream));
        };
        let within = |connection: &mut rustls::ServerConnection| {
            connection.set_buffer_limit(Some(limits::TLS_SEND_BYTES));
        };
        let accepting = TlsAcceptor::from(tls.config.clone()).accept_with(stream, within);
        let stream = tokio::time::timeout(limits::HEAD_TIMEOUT, accepting).await??;
        Ok(Socket::Encrypted(Box::new(stream)))
    }

    /// Whether the client speaks HTTP/2; waits for what it says first where that isn't agreed on.
    pub async fn speaks_http2(&self) -> io::Result<bool> {
        match self {
            Socket::Plain(socket) => {
                tokio::time::timeout(limits::HEAD_TIMEOUT, begins_http2(socket.stream()?)).await?
            }
            Socket::Encrypted(stream) => Ok(stream.get_ref().1.alpn_protocol() == Some(HTTP2)),
        }
    }
}

/// Whether the first bytes are those of HTTP/2, however they are cut into packets.
async fn begins_http2(stream: &TcpStream) -> io::Result<bool> {
    const BEGINNING: &[u8] = b"PRI";
    loop {
        let mut begins = [0; BEGINNING.len()];
        let n = stream.peek(&mut begins).await?;
        if n == 0 || n == BEGINNING.len() || begins[..n] != BEGINNING[..n] {
            return Ok(begins == BEGINNING);
        }
        // What is there and isn't taken makes the socket ready at once.
        tokio::time::sleep(limits::PREFACE_PAUSE).await;
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Socket::Encrypted(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Socket::Encrypted(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Socket::Encrypted(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }
    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(stream) => stream.is_write_vectored(),
            Socket::Encrypted(stream) => stream.is_write_vectored(),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
