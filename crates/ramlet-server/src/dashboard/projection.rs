//! Vectors in a plane: the two directions in which a sample of them varies most (principal components, by power iteration).

/// Rounds of the iteration: enough for a picture.
const ROUNDS: usize = 24;

/// Rows in a plane.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// By row.
    pub places: Vec<[f32; 2]>,
    /// Share of the variance that the plane shows.
    pub shown: f32,
}

/// `rows` are vectors of `dims` numbers, one after another; their mean is taken from them. Costs four numbers a row and two vectors.
pub fn project(rows: &mut [f32], dims: usize) -> Projection {
    let count = rows.len() / dims.max(1);
    let mut places = vec![[0.0; 2]; count];
    if count == 0 {
        return Projection { places, shown: 0.0 };
    }
    center(rows, dims);
    let all = squares(rows);
    let mut shown = 0.0;
    for axis in 0..2 {
        let direction = main_direction(rows, dims);
        for (row, place) in rows.chunks_exact_mut(dims).zip(&mut places) {
            let along = dot(row, &direction);
            place[axis] = along;
            shown += along * along;
            // What the next direction is looked for in.
            row.iter_mut().zip(&direction).for_each(|(x, d)| *x -= along * d);
        }
    }
    Projection {
        places,
        shown: if all > 0.0 { (shown / all).min(1.0) } else { 1.0 },
    }
}

fn center(rows: &mut [f32], dims: usize) {
    let count = (rows.len() / dims) as f32;
    let mut mean = vec![0.0; dims];
    for row in rows.chunks_exact(dims) {
        mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x / count);
    }
    for row in rows.chunks_exact_mut(dims) {
        row.iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean);
    }
}

/// Of length one; zero where the rows don't vary.
fn main_direction(rows: &[f32], dims: usize) -> Vec<f32> {
    // The longest row lies nowhere near a right angle to it.
    let longest = rows
        .chunks_exact(dims)
        .max_by(|a, b| squares(a).total_cmp(&squares(b)));
    let mut direction = longest.map_or(vec![0.0; dims], <[f32]>::to_vec);
    let mut next = vec![0.0; dims];
    for _ in 0..ROUNDS {
        unit(&mut direction);
        next.fill(0.0);
        for row in rows.chunks_exact(dims) {
            let along = dot(row, &direction);
            next.iter_mut().zip(row).for_each(|(next, x)| *next += along * x);
        }
        std::mem::swap(&mut direction, &mut next);
    }
    unit(&mut direction);
    direction
}

fn unit(vector: &mut [f32]) {
    let length = squares(vector).sqrt();
    if length > 0.0 && length.is_finite() {
        vector.iter_mut().for_each(|x| *x /= length);
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn squares(a: &[f32]) -> f32 {
    dot(a, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plane_is_where_rows_vary() {
        // A long line with a short one across it, in the last two of five dimensions.
        let mut rows = Vec::new();
        for n in -10..=10 {
            rows.extend([1.0, 2.0, 3.0, n as f32, if n % 2 == 0 { 1.0 } else { -1.0 }]);
        }
        let Projection { places, shown } = project(&mut rows, 5);
        assert!(shown > 0.999, "{shown}");
        let along: Vec<f32> = places.iter().map(|place| place[0].abs()).collect();
        assert!((along[0] - 10.0).abs() < 0.2 && along[10] < 0.2, "{along:?}");
        assert!(places.iter().all(|place| place[1].abs() < 1.5), "{places:?}");
    }

    #[test]
    fn rows_that_are_equal_are_one_place() {
        let one = project(&mut [0.5, 0.5, 0.5, 0.5], 2);
        assert_eq!(one.places, [[0.0; 2]; 2]);
        assert_eq!(project(&mut [], 3).places, [[0.0; 2]; 0]);
    }
}
