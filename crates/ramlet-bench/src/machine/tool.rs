//! Other programs: they end with us, and in time.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use ramlet_io::measure::dies_with_parent;

/// A program that runs, killed on drop.
pub struct Tool {
    child: Child,
    lines: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
    name: String,
}

impl Tool {
    /// Starts it. `package` is what to install when it isn't there.
    pub fn start(command: &mut Command, package: &str) -> Result<Tool, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = dies_with_parent(command)
            .spawn()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => format!("not installed: apt-get install {package}"),
                _ => format!("{name}: {error}"),
            })?;
        let (send, lines) = channel();
        let out = child.stdout.take().map(BufReader::new);
        // It ends with the program's output.
        thread::spawn(move || {
            for line in out.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let errors = child.stderr.take().map(|mut errors| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = errors.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        Ok(Tool {
            child,
            lines,
            errors,
            name,
        })
    }

    /// The next line that it prints before `until`; None at its end.
    pub fn line(&self, until: Instant) -> Result<Option<String>, String> {
        match self
            .lines
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(format!("{}: stopped, it took too long", self.name)),
        }
    }

    /// Every line until it ends, `limit` from now at most. An error when it failed, with the last line that it said.
    pub fn lines(mut self, limit: Duration, each: &mut dyn FnMut(&str)) -> Result<(), String> {
        let until = Instant::now() + limit;
        while let Some(line) = self.line(until)? {
            each(&line);
        }
        let status = self
            .child
            .wait()
            .map_err(|error| format!("{}: {error}", self.name))?;
        match status.success() {
            true => Ok(()),
            false => Err(self.complaint()),
        }
    }

    /// Ends it, and tells the last line of what it complained of.
    pub fn complaint(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let errors = self
            .errors
            .take()
            .and_then(|errors| errors.join().ok())
            .unwrap_or_default();
        let last = errors.lines().rfind(|line| !line.trim().is_empty());
        format!("{} failed: {}", self.name, last.unwrap_or("it doesn't say why"))
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
