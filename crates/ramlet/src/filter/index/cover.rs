//! Covering an area by ranges of the Z-order curve (Morton, 1966).

use crate::filter::ast::{GeoBoundingBox, GeoPoint, GeoPolygon, GeoRadius};
use crate::filter::geo::EARTH_RADIUS_M;

/// Most ranges of one cover; more would follow the area's outline closer but cost more seeks.
const RANGES_MAX: usize = 64;

/// Widens computed edges, in degrees (0.1 m), so that rounding never cuts a point off.
const SLACK: f64 = 1e-6;

/// Latitude and longitude in 32 bits each (9 mm at the equator), interleaved, latitude first.
pub(super) fn z_order(p: GeoPoint) -> u64 {
    spread(cell(p.lat, 90.0)) << 1 | spread(cell(p.lon, 180.0))
}

/// Monotone: a greater coordinate never gets a smaller cell.
fn cell(degrees: f64, max: f64) -> u32 {
    ((degrees + max) / (2.0 * max) * 4_294_967_296.0) as u32
}

fn spread(bits: u32) -> u64 {
    let mut x = u64::from(bits);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555u64),
    ] {
        x = (x | x << shift) & mask;
    }
    x
}

/// An area that meets no edge of the map, in cells, inclusive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    lat: (u32, u32),
    lon: (u32, u32),
}

impl Area {
    fn new(lat: (f64, f64), lon: (f64, f64)) -> Area {
        let cells = |(low, high): (f64, f64), max: f64| (cell(low.max(-max), max), cell(high.min(max), max));
        Area {
            lat: cells(lat, 90.0),
            lon: cells(lon, 180.0),
        }
    }

    fn contains(&self, lat: (u32, u32), lon: (u32, u32)) -> bool {
        self.lat.0 <= lat.0 && lat.1 <= self.lat.1 && self.lon.0 <= lon.0 && lon.1 <= self.lon.1
    }

    fn meets(&self, lat: (u32, u32), lon: (u32, u32)) -> bool {
        self.lat.0 <= lat.1 && lat.0 <= self.lat.1 && self.lon.0 <= lon.1 && lon.0 <= self.lon.1
    }
}

pub(super) fn areas_of_box(b: &GeoBoundingBox) -> Vec<Area> {
    let lat = (b.bottom_right.lat, b.top_left.lat);
    let (left, right) = (b.top_left.lon, b.bottom_right.lon);
    if lat.0 > lat.1 {
        return Vec::new();
    }
    if left > right {
        vec![Area::new(lat, (left, 180.0)), Area::new(lat, (-180.0, right))]
    } else {
        vec![Area::new(lat, (left, right))]
    }
}

/// The box around a circle on the sphere (Matuschek, "Finding points within a distance of a latitude/longitude using
/// bounding coordinates"), split where it crosses the antimeridian.
pub(super) fn areas_of_circle(c: &GeoRadius) -> Vec<Area> {
    let angle = (c.radius / EARTH_RADIUS_M).clamp(0.0, std::f64::consts::PI);
    let reach = angle.to_degrees() + SLACK;
    let lat = (c.center.lat - reach, c.center.lat + reach);
    if lat.0 <= -90.0 || lat.1 >= 90.0 {
        return vec![Area::new(lat, (-180.0, 180.0))];
    }
    let half = (angle.sin() / c.center.lat.to_radians().cos())
        .min(1.0)
        .asin()
        .to_degrees();
    // Near a pole the meridians run together: there the slack of the latitude is worth more longitude.
    let half = half + SLACK + reach * 1e-3;
    let (left, right) = (c.center.lon - half, c.center.lon + half);
    let mut areas = vec![Area::new(lat, (left, right))];
    if left < -180.0 {
        areas.push(Area::new(lat, (left + 360.0, 180.0)));
    }
    if right > 180.0 {
        areas.push(Area::new(lat, (-180.0, right - 360.0)));
    }
    areas
}

pub(super) fn areas_of_polygon(p: &GeoPolygon) -> Vec<Area> {
    let around = |of: fn(&GeoPoint) -> f64| {
        let values = || p.exterior.iter().map(of);
        (
            values().fold(f64::INFINITY, f64::min),
            values().fold(f64::NEG_INFINITY, f64::max),
        )
    };
    if p.exterior.is_empty() {
        return Vec::new();
    }
    vec![Area::new(around(|p| p.lat), around(|p| p.lon))]
}

/// A square of the map: the first `level` bits of both coordinates.
#[derive(Clone, Copy)]
struct Square {
    level: u32,
    lat: u32,
    lon: u32,
}

impl Square {
    fn cells(self, first: u32) -> (u32, u32) {
        let rest = u32::MAX.checked_shr(self.level).unwrap_or(0);
        (first, first | rest)
    }

    fn z_range(self) -> (u64, u64) {
        let low = spread(self.lat) << 1 | spread(self.lon);
        (low, low | u64::MAX.checked_shr(2 * self.level).unwrap_or(0))
    }

    fn quarters(self) -> [Square; 4] {
        let bit = 1 << (31 - self.level);
        [(0, 0), (0, bit), (bit, 0), (bit, bit)].map(|(lat, lon)| Square {
            level: self.level + 1,
            lat: self.lat | lat,
            lon: self.lon | lon,
        })
    }
}

/// At most [`RANGES_MAX`] inclusive ranges of the Z-order that hold every point of the areas.
pub(super) fn cover(areas: &[Area]) -> Vec<(u64, u64)> {
    let mut inside: Vec<Square> = Vec::new();
    let mut edge = vec![Square {
        level: 0,
        lat: 0,
        lon: 0,
    }];
    for _ in 0..32 {
        let mut next_inside = Vec::new();
        let mut next_edge = Vec::new();
        for square in edge.iter().flat_map(|s| s.quarters()) {
            let (lat, lon) = (square.cells(square.lat), square.cells(square.lon));
            if areas.iter().any(|a| a.contains(lat, lon)) {
                next_inside.push(square);
            } else if areas.iter().any(|a| a.meets(lat, lon)) {
                next_edge.push(square);
            }
        }
        if inside.len() + next_inside.len() + next_edge.len() > RANGES_MAX {
            break;
        }
        inside.append(&mut next_inside);
        edge = next_edge;
    }
    inside.append(&mut edge);
    let mut ranges: Vec<(u64, u64)> = inside.into_iter().map(Square::z_range).collect();
    ranges.sort_unstable();
    ranges
}
