//! The picture of a run: what a disk does with so many blocks at once.

use ramlet_io::measure::{Kind, Method};

use super::disk::cases;
use super::row::Row;
use crate::results::plot::{Axis, Curve, Plot};

/// MB/s of random reads and writes by io_uring over how many are in flight, a curve for each size of block.
pub fn plot(rows: &[Row]) -> Plot {
    let mut curves: Vec<Curve> = Vec::new();
    for case in cases(false) {
        if case.method != Method::Uring || !case.random || !matches!(case.kind, Kind::Read | Kind::Write) {
            continue;
        }
        let line = case.name();
        let row = rows.iter().find(|row| row.group == "disk" && row.name == line);
        let Some(per_second) = row.and_then(|row| row.value.as_ref().ok()) else {
            continue;
        };
        let (name, _) = line.rsplit_once(" x ").unwrap_or((&line, ""));
        let point = (case.depth as f64, per_second * case.block_bytes as f64 / 1e6);
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve {
                name: name.to_owned(),
                points: vec![point],
                ..Curve::default()
            }),
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Plot {
        title: "Blocks of a file, so many at once".to_owned(),
        x: Axis {
            label: "in flight".to_owned(),
            log: true,
            range: Some((1.0, 256.0)),
        },
        y: Axis {
            label: "MB/s".to_owned(),
            log: true,
            range: None,
        },
        curves,
        ..Plot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::row::Unit;

    #[test]
    fn a_curve_for_each_size_in_order_of_depth() {
        let row = |name: &str, value| Row {
            group: "disk",
            name: name.into(),
            unit: Unit::Ops,
            value,
            also: vec![],
            differs: None,
        };
        let rows = [
            row("io_uring random read, 4 KB x 64", Ok(1000.0)),
            row("io_uring random read, 4 KB x 1", Ok(100.0)),
            row("io_uring random read, 4 KB x 2", Err("left out".into())),
            row("io_uring random write, 1 MB x 1", Ok(10.0)),
            row("io_uring sequential read, 4 KB x 32", Ok(10.0)),
            row("sync random read, 4 KB", Ok(10.0)),
        ];
        let plot = plot(&rows);
        let names: Vec<&str> = plot.curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(
            names,
            ["io_uring random write, 1 MB", "io_uring random read, 4 KB"]
        );
        assert_eq!(plot.curves[1].points, [(1.0, 0.4096), (64.0, 4.096)]);
        assert!(plot.svg().expect("drawn").contains("</svg>"));
    }
}
