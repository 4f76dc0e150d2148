//! Geographic points.

use super::ast::{GeoBoundingBox, GeoPoint, GeoPolygon, GeoRadius};

/// Mean radius of the earth in metres (IUGG).
pub const EARTH_RADIUS_M: f64 = 6_371_008.8;

/// Great-circle distance in metres by the haversine formula.
pub fn geo_distance_m(a: GeoPoint, b: GeoPoint) -> f64 {
    let (lat_a, lat_b) = (a.lat.to_radians(), b.lat.to_radians());
    let half_lat = ((lat_b - lat_a) / 2.0).sin();
    let half_lon = ((b.lon.to_radians() - a.lon.to_radians()) / 2.0).sin();
    let h = half_lat * half_lat + lat_a.cos() * lat_b.cos() * half_lon * half_lon;
    EARTH_RADIUS_M * 2.0 * h.sqrt().min(1.0).asin()
}

impl GeoRadius {
    pub fn contains(&self, p: GeoPoint) -> bool {
        geo_distance_m(p, self.center) < self.radius
    }
}

impl GeoBoundingBox {
    pub fn contains(&self, p: GeoPoint) -> bool {
        let (left, right) = (self.top_left.lon, self.bottom_right.lon);
        let lon = if left > right {
            p.lon > left || p.lon < right
        } else {
            left < p.lon && p.lon < right
        };
        lon && p.lat < self.top_left.lat && p.lat > self.bottom_right.lat
    }
}

impl GeoPolygon {
    pub fn contains(&self, p: GeoPoint) -> bool {
        place(p, &self.exterior) == Place::Inside
            && self.interiors.iter().all(|hole| place(p, hole) == Place::Outside)
    }
}

#[derive(PartialEq)]
enum Place {
    Inside,
    Outside,
    Edge,
}

/// Where a point lies to a closed ring on the flat map, by counting crossed edges.
fn place(p: GeoPoint, ring: &[GeoPoint]) -> Place {
    let mut inside = false;
    for edge in ring.windows(2) {
        let (j, i) = (edge[0], edge[1]);
        let cross = p.lon * (i.lat - j.lat) + i.lon * (j.lat - p.lat) + j.lon * (p.lat - i.lat);
        if cross == 0.0
            && (i.lat - p.lat) * (j.lat - p.lat) <= 0.0
            && (i.lon - p.lon) * (j.lon - p.lon) <= 0.0
        {
            return Place::Edge;
        }
        if (i.lon > p.lon) != (j.lon > p.lon)
            && p.lat < (j.lat - i.lat) * (p.lon - i.lon) / (j.lon - i.lon) + i.lat
        {
            inside = !inside;
        }
    }
    if inside { Place::Inside } else { Place::Outside }
}
