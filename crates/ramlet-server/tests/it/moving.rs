//! Connections that move to the thread with less to do.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::socket::{GET, Running, ask, frame, start};

/// Requests that are sent at once.
const BATCH: usize = 32;

/// A client that sends without pause and looks at each answer.
trait Client: Send + 'static {
    fn batch(&mut self) -> impl Future<Output = ()> + Send;
}

struct Http1(BufReader<TcpStream>);

impl Client for Http1 {
    async fn batch(&mut self) {
        self.0.write_all(GET.repeat(BATCH).as_bytes()).await.unwrap();
        for _ in 0..BATCH {
            let (mut head, mut len) = (Vec::new(), 0);
            loop {
                let mut line = String::new();
                self.0.read_line(&mut line).await.unwrap();
                match line.trim_end().split_once(": ") {
                    Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                        len = value.parse().unwrap();
                    }
                    None if line.trim_end().is_empty() => break,
                    _ => {}
                }
                head.push(line);
            }
            assert!(
                head.first().is_some_and(|line| line.starts_with("HTTP/1.1 200 ")),
                "{head:?}"
            );
            self.0.read_exact(&mut vec![0; len]).await.unwrap();
        }
    }
}

struct Http2 {
    stream: TcpStream,
    next: u32,
}

impl Http2 {
    async fn new(mut stream: TcpStream) -> Http2 {
        let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        said.extend(frame(4, 0, 0, &[]));
        // All that will ever be answered may be sent.
        said.extend(frame(8, 0, 0, &(i32::MAX - 65_535).to_be_bytes()));
        stream.write_all(&said).await.unwrap();
        Http2 { stream, next: 1 }
    }
}

impl Client for Http2 {
    async fn batch(&mut self) {
        let mut head = vec![0x82, 0x86, 0x04, 12];
        head.extend_from_slice(b"/collections");
        let mut said = Vec::new();
        for _ in 0..BATCH {
            said.extend(frame(1, 0b101, self.next, &head));
            self.next += 2;
        }
        self.stream.write_all(&said).await.unwrap();
        let (mut answers, mut of) = (0, [0; 9]);
        while answers < BATCH {
            self.stream.read_exact(&mut of).await.unwrap();
            let mut payload = vec![0; u32::from_be_bytes([0, of[0], of[1], of[2]]) as usize];
            self.stream.read_exact(&mut payload).await.unwrap();
            match (of[3], of[4] & 1) {
                (0, ends) => answers += usize::from(ends),
                (1, _) => assert_eq!(payload[0] & 0x80, 0x80, "an indexed status: 200"),
                (4, 0) => self.stream.write_all(&frame(4, 1, 0, &[])).await.unwrap(),
                (3 | 7, _) => panic!("the call or the connection was ended: {payload:?}"),
                _ => {}
            }
        }
    }
}

async fn moved(running: &Running) -> u64 {
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    let get = GET.replace("/collections", "/metrics");
    let (_, text) = ask(&mut stream, &get).await;
    let of = |line: &str| line.strip_prefix("ramlet_connections_moved_total ")?.parse().ok();
    text.lines().find_map(of).expect("the metric")
}

/// Two that ask all the time share a thread, as one that doesn't came between them.
async fn two_that_ask_all_the_time_come_apart<C: Client, F: Future<Output = C> + Send>(
    client: impl Fn(SocketAddr) -> F,
) {
    let running = start(8).await;
    let first = client(running.addr).await;
    let _idle = TcpStream::connect(running.addr).await.unwrap();
    // Accepted in the order in which they came.
    let second = client(running.addr).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let asking = [first, second].map(|mut client| {
        let stopped = stopped.clone();
        tokio::spawn(async move {
            while !*stopped.borrow() {
                client.batch().await;
            }
            client
        })
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    while moved(&running).await == 0 {
        assert!(Instant::now() < deadline, "no connection has moved");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _ = stop.send(true);
    for asking in asking {
        asking.await.unwrap().batch().await;
    }
    let engine = running.end().await;
    let report = engine.ledger().report();
    for account in report.iter().filter(|c| c.name.starts_with("connections")) {
        assert_eq!(account.used, 0, "{}", account.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_http_1_that_share_a_thread_come_apart() {
    two_that_ask_all_the_time_come_apart(|addr| async move {
        Http1(BufReader::new(TcpStream::connect(addr).await.unwrap()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_http_2_that_share_a_thread_come_apart() {
    two_that_ask_all_the_time_come_apart(|addr| async move {
        Http2::new(TcpStream::connect(addr).await.unwrap()).await
    })
    .await;
}
