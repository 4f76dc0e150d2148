//! Bytes held, and the refusal to hold more.

use std::fmt;

use crate::ledger::Consumer;

/// Bytes held by a [`Consumer`]; given back on drop.
pub struct Reservation {
    consumer: Consumer,
    bytes: u64,
}

/// A request for bytes that the budget doesn't have: states both numbers and who holds most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverBudget {
    pub consumer: &'static str,
    pub asked: u64,
    /// What this consumer could have got at that moment.
    pub available: u64,
    /// What who asks held already, where that is counted.
    pub held: u64,
    /// What this consumer would have if nobody else held what is given back.
    pub limit: u64,
    /// The consumers that held most at that moment, largest first; an empty name is an unused place.
    pub largest: [(&'static str, u64); 2],
}

impl OverBudget {
    /// Whether waiting is in vain: it couldn't be had if everybody else gave back what they will.
    pub fn is_final(&self) -> bool {
        self.asked.saturating_add(self.held) > self.limit
    }
}

impl Reservation {
    pub(crate) fn new(consumer: Consumer, bytes: u64) -> Reservation {
        Reservation { consumer, bytes }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// Holds `more` bytes in addition; unchanged when refused.
    pub fn grow(&mut self, more: u64) -> Result<(), OverBudget> {
        self.consumer.take(more)?;
        self.bytes += more;
        Ok(())
    }

    /// Gives back all but `bytes`; nothing happens when it holds no more than that.
    pub fn shrink_to(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.consumer.give(surplus);
    }

    /// Hands `bytes` of these over to a reservation of their own. Panics when it doesn't hold so many.
    pub fn split(&mut self, bytes: u64) -> Reservation {
        assert!(
            bytes <= self.bytes,
            "split {bytes} bytes off a reservation of {}",
            self.bytes
        );
        self.bytes -= bytes;
        Reservation::new(self.consumer.clone(), bytes)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.consumer.give(self.bytes);
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({}: {} bytes)", self.consumer.name(), self.bytes)
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OverBudget {
            consumer,
            asked,
            available,
            held,
            limit,
            largest,
        } = self;
        let beside = match held {
            0 => String::new(),
            held => format!(" in addition to the {} that it holds", size(*held)),
        };
        let (asked, available) = (size_up(*asked), size(*available));
        write!(
            f,
            "{consumer} needs {asked}{beside}, {available} of its {} are free",
            size(*limit)
        )?;
        let mut before = "; most is held by ";
        for (name, bytes) in largest.iter().filter(|held| !held.0.is_empty()) {
            write!(f, "{before}{name} ({})", size(*bytes))?;
            before = ", ";
        }
        Ok(())
    }
}

impl std::error::Error for OverBudget {}

/// `12.3 MB`; below a tenth of that in kB, below one of those in bytes. Rounded down, as what there is.
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "0 MB".to_owned(),
        1..1_000 => format!("{bytes} bytes"),
        1_000..100_000 => format!("{:.1} kB", (bytes / 100) as f64 / 10.0),
        _ => format!("{:.1} MB", (bytes / 100_000) as f64 / 10.0),
    }
}

/// The same rounded up, as what is needed: never like a size that is too small for it.
pub fn size_up(bytes: u64) -> String {
    match bytes {
        0..1_000 => size(bytes),
        1_000..100_000 => size(bytes.next_multiple_of(100)),
        _ => size(bytes.next_multiple_of(100_000)),
    }
}
