//! Writes that a node sends to the one that owns the log.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use ramlet_server::{ForwardedAnswer, ForwardedRequest, NoAnswer, SendOn, limits};
use ureq::http::Request;

/// How long a node is tried to be reached: behind that it counts as gone.
const CONNECT: Duration = Duration::from_secs(2);

/// So much of an answer is read at once, where its memory is asked for meanwhile.
const READ_BYTES: usize = 16 << 10;

/// Of a connection, for each direction.
const BUFFER_BYTES: usize = 16 << 10;

/// Sends requests by the HTTP client and the TLS that the program has. `idle`: connections that are kept.
pub fn send_on(idle: usize) -> SendOn {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_connect(Some(CONNECT))
        .input_buffer_size(BUFFER_BYTES)
        .output_buffer_size(BUFFER_BYTES)
        .max_idle_connections(idle)
        .max_idle_connections_per_host(limits::FORWARDS)
        .build();
    let agent = config.new_agent();
    Arc::new(move |request| send(&agent, request))
}

fn send(agent: &ureq::Agent, request: &ForwardedRequest) -> Result<ForwardedAnswer, NoAnswer> {
    let mut built = Request::builder().method(request.method).uri(&request.url);
    for (name, value) in &request.headers {
        built = built.header(name, value);
    }
    let unreached = |e: &dyn std::fmt::Display| NoAnswer::NotReached(e.to_string());
    let built = built.body(&request.body[..]).map_err(|e| unreached(&e))?;
    let configured = agent
        .configure_request(built)
        .timeout_global(Some(request.timeout))
        .build();
    let mut answer = agent.run(configured).map_err(|e| match &e {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Timeout(ureq::Timeout::Connect) => unreached(&e),
        ureq::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => unreached(&e),
        _ => NoAnswer::Lost(e.to_string()),
    })?;
    let lost = |e: &dyn std::fmt::Display| NoAnswer::Lost(e.to_string());
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let most = request.answer_bytes_max;
    let mut body = Vec::new();
    let mut reader = answer
        .body_mut()
        .with_config()
        .limit(most + 1)
        .reader()
        .take(most + 1);
    loop {
        if let Some(room) = &request.room {
            // A vector that grows is there twice for a moment.
            room(2 * (body.len() + READ_BYTES) as u64).map_err(NoAnswer::TooLong)?;
        }
        let part = (&mut reader).take(READ_BYTES as u64).read_to_end(&mut body);
        if part.map_err(|e| lost(&e))? == 0 {
            break;
        }
    }
    if body.len() as u64 > most {
        return Err(lost(&format_args!("an answer of more than {most} bytes")));
    }
    Ok(ForwardedAnswer {
        status,
        headers,
        body,
    })
}
