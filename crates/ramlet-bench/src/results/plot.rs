//! Curves as SVG: lines with marks over two axes, each linear or logarithmic.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use super::ticks::{label, ticks};

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
/// Pixels of the names under a picture: of a line, below the last, before the first, of a mark with its margins, of a letter at most.
const LEGEND_LINE: u32 = 22;
const LEGEND_END: u32 = 8;
const LEGEND_LEFT: u32 = 90;
const LEGEND_MARK: u32 = 34;
const LETTER: u32 = 8;

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
        let (width, height) = area.dim_in_pixel();
        let legend = self.legend(width);
        let lines = legend.last().map_or(0, |(line, _)| line + 1);
        let (upper, lower) = area.split_vertically(height.saturating_sub(lines * LEGEND_LINE + LEGEND_END));
        for (at, ((line, left), curve)) in legend.into_iter().zip(&self.curves).enumerate() {
            let (left, top) = (left as i32, (line * LEGEND_LINE) as i32);
            let mark = Circle::new((left, top + 8), 4, COLOURS[at % COLOURS.len()].filled());
            lower.draw(&mark).map_err(told)?;
            let name = Text::new(curve.name.clone(), (left + 10, top + 1), ("sans-serif", 14));
            lower.draw(&name).map_err(told)?;
        }
        self.draw_on(&upper, x, y)
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let all = self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        all.filter(|&p| self.can_show(p))
    }

    fn can_show(&self, (x, y): (f64, f64)) -> bool {
        self.x.can_show(x) && self.y.can_show(y)
    }

    /// Where each curve's name stands under the picture: line and pixels from the left. As many lines as are needed.
    fn legend(&self, width: u32) -> Vec<(u32, u32)> {
        let (mut line, mut left) = (0, LEGEND_LEFT);
        let place = |curve: &Curve| {
            let wide = LEGEND_MARK + LETTER * curve.name.chars().count() as u32;
            if left > LEGEND_LEFT && left + wide > width {
                (line, left) = (line + 1, LEGEND_LEFT);
            }
            let at = (line, left);
            left += wide;
            at
        };
        self.curves.iter().map(place).collect()
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
                .map_err(told)?;
        }
        Ok(())
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
