//! Tables that read well on a terminal and are Markdown when copied into a document.

use std::fmt;

/// Rows of text under a head; columns are as wide as their widest cell.
#[derive(Debug, Clone, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Table {
        Table {
            head: head.iter().map(|name| name.to_string()).collect(),
            rows: Vec::new(),
        }
    }

    /// Missing cells are empty; more than the head has are dropped.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.head.len(), String::new());
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.head.len())
            .map(|at| {
                let cells = self.rows.iter().chain([&self.head]);
                cells.map(|row| row[at].chars().count()).max().unwrap_or(0)
            })
            .collect();
        let line = |out: &mut fmt::Formatter<'_>, row: &[String]| -> fmt::Result {
            for (cell, width) in row.iter().zip(&widths) {
                // Figures stand under each other by their last digit.
                match cell.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '<')) {
                    true => write!(out, "| {cell:>width$} ")?,
                    false => write!(out, "| {cell:<width$} ")?,
                }
            }
            writeln!(out, "|")
        };
        line(out, &self.head)?;
        for width in &widths {
            write!(out, "|{:-<1$}", "", width + 2)?;
        }
        writeln!(out, "|")?;
        self.rows.iter().try_for_each(|row| line(out, row))
    }
}

/// A figure with three digits that count: `7150`, `352`, `12.1`, `0.33`, `0.0042`.
pub fn figure(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".into(),
        v if v >= 100.0 => {
            let digits = format!("{value:.0}");
            let (sign, digits) = digits.strip_prefix('-').map_or(("", &*digits), |d| ("-", d));
            let first = digits.len() % 3;
            let groups = std::iter::once(&digits[..first])
                .chain((first..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
            let groups: Vec<&str> = groups.filter(|group| !group.is_empty()).collect();
            format!("{sign}{}", groups.join(","))
        }
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        0.0 => "0".into(),
        _ => format!("{value:.4}"),
    }
}

/// [`figure`], or a dash where there is none.
pub fn figure_or_dash(value: Option<f64>) -> String {
    value.map_or("-".into(), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["memory", "queries/s"]);
        table.row(["135 MB", "7,150"]);
        table.row(["16 MB"]);
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| memory | queries/s |");
        assert_eq!(lines[1], "|--------|-----------|");
        assert_eq!(lines[2], "| 135 MB |     7,150 |");
        assert_eq!(lines[3], "|  16 MB |           |");
    }

    #[test]
    fn figures() {
        for (value, text) in [
            (7150.4, "7,150"),
            (1_234_567.0, "1,234,567"),
            (-1500.0, "-1,500"),
            (352.0, "352"),
            (12.06, "12.1"),
            (0.33, "0.33"),
            (0.0042, "0.0042"),
            (0.0, "0"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(figure(value), text);
        }
    }
}
