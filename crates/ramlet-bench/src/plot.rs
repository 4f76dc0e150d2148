//! Curves as SVG: lines with marks over two axes, each linear or logarithmic.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use crate::ticks::{label, ticks};

/// A picture of a few curves.
#[derive(Debug, Clone, Default)]
pub struct Plot {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub curves: Vec<Curve>,
    /// Width and height in pixels; zeros are 900 by 520.
    pub size: (u32, u32),
}

/// One of the two axes.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    /// With its unit: `memory, MB`.
    pub label: String,
    pub log: bool,
    /// The axis shows at least this much; without it, what the points need.
    pub range: Option<(f64, f64)>,
}

/// Points that belong together, joined in their order.
#[derive(Debug, Clone, Default)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Marks alone, without a line between them.
    pub marks_only: bool,
}

/// Told apart by the colour-blind as well (Okabe and Ito 2008).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(160, 110, 40),
];
const SIZE: (u32, u32) = (900, 520);

impl Plot {
    /// Writes the picture; points that are no numbers, or not above zero on a logarithmic axis, are left out.
    pub fn write_svg(&self, path: &Path) -> Result<()> {
        let text = self.svg()?;
        std::fs::write(path, text).map_err(|e| anyhow!("{}: {e}", path.display()))
    }

    /// The picture as text.
    pub fn svg(&self) -> Result<String> {
        let mut text = String::new();
        let size = if self.size == (0, 0) { SIZE } else { self.size };
        {
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            let drawn = self.draw(&area).and_then(|()| area.present().map_err(told));
            drawn.map_err(|e| anyhow!("drawing '{}': {e}", self.title))?;
        }
        Ok(text)
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), String> {
        area.fill(&WHITE).map_err(told)?;
        let x = Scale::of(&self.x, self.points().map(|p| p.0));
        let y = Scale::of(&self.y, self.points().map(|p| p.1));
        self.draw_on(area, x, y)
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let all = self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        all.filter(|&p| self.can_show(p))
    }

    fn can_show(&self, (x, y): (f64, f64)) -> bool {
        self.x.can_show(x) && self.y.can_show(y)
    }

    /// The quarter of the picture with the fewest points: the legend goes there.
    fn empty_corner(&self) -> SeriesLabelPosition {
        let (xs, ys) = (
            Scale::of(&self.x, self.points().map(|p| p.0)),
            Scale::of(&self.y, self.points().map(|p| p.1)),
        );
        let mut points = [0usize; 4];
        for (x, y) in self.points() {
            let (right, upper) = (xs.place(x) > 0.5, ys.place(y) > 0.5);
            points[usize::from(right) + 2 * usize::from(!upper)] += 1;
        }
        let corners = [
            SeriesLabelPosition::UpperLeft,
            SeriesLabelPosition::UpperRight,
            SeriesLabelPosition::LowerLeft,
            SeriesLabelPosition::LowerRight,
        ];
        let fewest = corners.into_iter().zip(points).min_by_key(|(_, count)| *count);
        fewest.map_or(SeriesLabelPosition::UpperLeft, |(corner, _)| corner)
    }

    fn draw_on(&self, area: &DrawingArea<SVGBackend<'_>, Shift>, x: Scale, y: Scale) -> Result<(), String> {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 20))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)
            .map_err(told)?;
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|value| label(*value))
            .y_label_formatter(&|value| label(*value))
            .bold_line_style(RGBColor(210, 210, 210))
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 15))
            .draw()
            .map_err(told)?;
        for (at, curve) in self.curves.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let points: Vec<_> = curve
                .points
                .iter()
                .copied()
                .filter(|&p| self.can_show(p))
                .collect();
            if !curve.marks_only {
                chart
                    .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))
                    .map_err(told)?;
            }
            chart
                .draw_series(points.iter().map(|&p| Circle::new(p, 4, colour.filled())))
                .map_err(told)?
                .label(&curve.name)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
        }
        if self.curves.is_empty() {
            return Ok(());
        }
        chart
            .configure_series_labels()
            .position(self.empty_corner())
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(180, 180, 180))
            .label_font(("sans-serif", 14))
            .draw()
            .map_err(told)
    }
}

/// An axis with its ends, and the values that it names.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<f64>,
}

impl Scale {
    fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = axis.bounds(values);
        Scale {
            low,
            high,
            log: axis.log,
            ticks: ticks(low, high, axis.log),
        }
    }

    /// 0 at the low end, 1 at the high one.
    fn place(&self, value: f64) -> f64 {
        match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (f64::from(to - from) * self.place(*value)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        // No lines between those that are named.
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks.clone(),
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

impl From<Scale> for std::ops::Range<f64> {
    fn from(scale: Scale) -> std::ops::Range<f64> {
        scale.range()
    }
}

impl Axis {
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.into(),
            ..Axis::default()
        }
    }

    pub fn log(label: &str) -> Axis {
        Axis {
            label: label.into(),
            log: true,
            range: None,
        }
    }

    fn can_show(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// The ends of the axis: never equal, and above zero if it is logarithmic.
    fn bounds(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let asked = self.range.into_iter().flat_map(|(a, b)| [a, b]);
        let all = values.chain(asked.filter(|v| self.can_show(*v)));
        let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
            (a.min(v), b.max(v))
        });
        match (low <= high, self.log) {
            (false, true) => (1.0, 10.0),
            (false, false) => (0.0, 1.0),
            (true, true) => (low / 1.15, high * 1.15),
            (true, false) => {
                let margin = match high - low {
                    0.0 => high.abs().max(1.0) * 0.1,
                    span => span * 0.05,
                };
                // An axis of counts begins at zero unless its range was given.
                let from_zero = self.range.is_none() && low >= 0.0;
                (if from_zero { 0.0 } else { low - margin }, high + margin)
            }
        }
    }
}

/// The drawing library's errors, as text.
fn told<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(log: bool, points: &[(f64, f64)]) -> Plot {
        Plot {
            title: "queries over memory".into(),
            x: Axis {
                log,
                ..Axis::linear("memory, MB")
            },
            y: Axis {
                log,
                ..Axis::linear("queries/s")
            },
            curves: vec![Curve {
                name: "auto".into(),
                points: points.to_vec(),
                marks_only: false,
            }],
            size: (0, 0),
        }
    }

    #[test]
    fn a_picture_has_its_words_and_marks() {
        for log in [false, true] {
            let svg = plot(log, &[(16.0, 728.0), (135.0, 7150.0), (300.0, 6300.0)])
                .svg()
                .expect("drawn");
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            for word in ["queries over memory", "memory, MB", "auto"] {
                assert!(svg.contains(word), "{word}");
            }
            // Three points and the legend's.
            assert_eq!(svg.matches("<circle").count(), 4);
        }
    }

    #[test]
    fn what_cannot_be_shown_is_left_out() {
        let points = [(0.0, 5.0), (10.0, f64::NAN), (20.0, 3.0)];
        assert_eq!(
            plot(true, &points)
                .svg()
                .expect("drawn")
                .matches("<circle")
                .count(),
            2
        );
        for points in [&[][..], &[(5.0, 5.0)]] {
            assert!(plot(true, points).svg().is_ok() && plot(false, points).svg().is_ok());
        }
    }
}
