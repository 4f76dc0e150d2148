//! The expected recall and reads by patience.

use crate::search::calibration::DEPTHS;

/// What was measured with so much patience, over the held-out rows, for the 10 nearest and for the 100 nearest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphPoint {
    /// Nodes read without finding anything better before a beam search ends.
    pub patience: u32,
    pub recall: [f32; 2],
    pub reads: [f32; 2],
}

/// Recall and reads by patience, ascending; empty when there was nothing to measure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphCalibration {
    pub points: Vec<GraphPoint>,
}

/// What a beam search is given, and what it is expected to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Nodes read without finding anything better before it ends.
    pub patience: f64,
    pub reads: f64,
}

impl Expected {
    pub(super) fn times(self, factor: f64) -> Expected {
        Expected {
            patience: self.patience * factor,
            reads: self.reads * factor,
        }
    }
}

impl GraphCalibration {
    /// For `recall` among the `wanted` nearest rows.
    ///
    /// Between and beyond 10 and 100 the numbers follow a power of `wanted`, through what was measured at both. A
    /// recall that was never reached gets twice the most that was tried.
    pub fn expected(&self, recall: f32, wanted: f64) -> Expected {
        let [near, far] = [0, 1].map(|depth| self.reaching(recall, depth));
        let wanted = wanted.max(DEPTHS[0] as f64) / DEPTHS[0] as f64;
        let between = |near: f64, far: f64| near * wanted.powf((far / near).log10().clamp(0.0, 1.0));
        Expected {
            patience: between(near.patience, far.patience),
            reads: between(near.reads, far.reads),
        }
    }

    fn reaching(&self, recall: f32, depth: usize) -> Expected {
        let of = |point: &GraphPoint| Expected {
            patience: f64::from(point.patience.max(1)),
            reads: f64::from(point.reads[depth].max(1.0)),
        };
        let least = self.points.iter().find(|point| point.recall[depth] >= recall);
        match (least, self.points.last()) {
            (Some(point), _) => of(point),
            (None, Some(last)) => of(last).times(2.0),
            (None, None) => Expected {
                patience: 64.0,
                reads: 128.0,
            },
        }
    }
}
