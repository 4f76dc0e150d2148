//! Rows of vectors as points.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ramlet_bench::files::{Distance, Rows};
use serde_json::value::RawValue;

use super::document::Fields;
use super::documents::Documents;
use super::json::write_vector;
use super::lines::Lines;
use super::source::{At, Layout, Source, Target};

/// Rows of vectors as points: the id is the row's number, the payload a line of a second file.
pub struct RowSource {
    file: Arc<str>,
    rows: Box<dyn Rows>,
    payload: Option<Lines>,
    layout: Layout,
    row: u64,
    vector: Vec<f32>,
    /// The point without its id.
    rest: Vec<u8>,
    target: Target,
}

impl RowSource {
    pub fn new(name: &str, rows: Box<dyn Rows>, payload: Option<Lines>) -> RowSource {
        RowSource {
            file: name.into(),
            layout: Layout::of_rows(rows.dim()),
            rows,
            payload,
            row: 0,
            vector: Vec::new(),
            rest: Vec::new(),
            target: Target::default(),
        }
    }

    /// Behind the last row there is no payload either: else the two files aren't of the same points.
    fn check_end(&mut self) -> Result<()> {
        let Some(lines) = &mut self.payload else {
            return Ok(());
        };
        if lines.next()? {
            bail!(
                "{}: there is no vector for line {}: there are {} rows of vectors",
                lines.name(),
                lines.line(),
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
        let line = lines.text().trim();
        let parsed = serde_json::from_str::<&RawValue>(line);
        if !line.starts_with('{') || parsed.is_err() {
            bail!("{}: line {} is not a JSON object", lines.name(), lines.line());
        }
        if !self.target.fields.is_empty() {
            let Fields(fields) = serde_json::from_str(line)?;
            let has = |name: &String| fields.iter().any(|(key, _)| key == name);
            self.target.fields.retain(|name| !has(name));
        }
        Ok(Some(line))
    }

    /// Replaces `rest` with what stands behind the id.
    fn write_rest(&mut self) -> Result<()> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.clear();
        rest.extend_from_slice(b",\"vector\":");
        let place = || format!("{}: row {}", self.file, self.row);
        for (_, range) in &self.target.ranges {
            range.check(&self.vector).with_context(place)?;
        }
        write_vector(&self.vector, &mut rest).with_context(place)?;
        if let Some(line) = self.payload_line()? {
            rest.extend_from_slice(b",\"payload\":");
            rest.extend_from_slice(line.as_bytes());
        }
        rest.push(b'}');
        self.rest = rest;
        Ok(())
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

    fn aim(&mut self, target: Target) {
        self.target = target;
    }

    fn skip(&mut self, points: u64) -> Result<u64> {
        let points = points.min(self.rows.rows() - self.row);
        self.rows.seek(self.row + points)?;
        for _ in 0..points {
            match &mut self.payload {
                Some(lines) => lines.next()?,
                None => break,
            };
        }
        self.row += points;
        Ok(points)
    }

    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        if !self
            .rows
            .read(&mut self.vector)
            .with_context(|| self.file.to_string())?
        {
            self.check_end()?;
            return Ok(false);
        }
        self.write_rest()?;
        let (id, _) = self
            .target
            .numbering
            .id(None, self.target.first_row + self.row, &self.rest)?;
        out.extend_from_slice(b"{\"id\":");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(&self.rest);
        self.row += 1;
        Ok(true)
    }

    fn at(&self) -> At {
        At {
            file: self.file.clone(),
            unit: "row",
            number: self.row.saturating_sub(1),
        }
    }
    fn unseen(&self) -> Vec<String> {
        self.target.fields.clone()
    }
    fn progress(&self) -> (u64, u64) {
        (self.row, self.rows.rows())
    }
    fn counts_points(&self) -> bool {
        true
    }
}
