//! Rows of vectors as points.

use anyhow::{Context, Result, bail};
use ramlet_bench::files::{Distance, Rows};

use super::json::write_vector;
use super::jsonl::Lines;
use super::source::{Layout, Source};

/// Rows of vectors as points: the id is the row's number, the payload a line of a second file.
pub struct RowSource {
    rows: Box<dyn Rows>,
    payload: Option<Lines>,
    layout: Layout,
    row: u64,
    vector: Vec<f32>,
}

impl RowSource {
    pub fn new(rows: Box<dyn Rows>, payload: Option<Lines>) -> RowSource {
        RowSource {
            layout: vec![(String::new(), rows.dim())],
            rows,
            payload,
            row: 0,
            vector: Vec::new(),
        }
    }

    /// Behind the last row there is no payload either: else the two files aren't of the same points.
    fn check_end(&mut self) -> Result<()> {
        let Some(lines) = &mut self.payload else {
            return Ok(());
        };
        if lines.next()? {
            bail!(
                "{}: line {} is one too many: there are {} rows of vectors",
                lines.name(),
                lines.number(),
                self.rows.rows()
            );
        }
        Ok(())
    }

    fn payload_line(&mut self) -> Result<Option<&str>> {
        let Some(lines) = &mut self.payload else {
            return Ok(None);
        };
        if !lines.next()? {
            bail!(
                "{}: line {} is missing; there must be one per row of vectors",
                lines.name(),
                self.row + 1
            );
        }
        let line = lines.line().trim();
        if !line.starts_with('{') || serde_json::from_str::<&serde_json::value::RawValue>(line).is_err() {
            bail!("{}: line {} is no JSON object", lines.name(), self.row + 1);
        }
        Ok(Some(line))
    }
}

impl Source for RowSource {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn distance(&self) -> Option<Distance> {
        self.rows.distance()
    }
    fn unknown_distance(&self) -> Option<&str> {
        self.rows.unknown_distance()
    }
    fn is_u8(&self) -> bool {
        self.rows.is_u8()
    }

    fn skip(&mut self, points: u64) -> Result<()> {
        self.rows.seek(self.row + points)?;
        for _ in 0..points {
            match &mut self.payload {
                Some(lines) => lines.next()?,
                None => break,
            };
        }
        self.row = (self.row + points).min(self.rows.rows());
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        if !self.rows.read(&mut self.vector)? {
            self.check_end()?;
            return Ok(false);
        }
        let row = self.row;
        out.extend_from_slice(format!("{{\"id\":{row},\"vector\":").as_bytes());
        write_vector(&self.vector, out).with_context(|| format!("row {row}"))?;
        if let Some(line) = self.payload_line()? {
            out.extend_from_slice(b",\"payload\":");
            out.extend_from_slice(line.as_bytes());
        }
        out.push(b'}');
        self.row += 1;
        Ok(true)
    }

    fn progress(&self) -> (u64, u64) {
        (self.row, self.rows.rows())
    }
    fn counts_points(&self) -> bool {
        true
    }
}
