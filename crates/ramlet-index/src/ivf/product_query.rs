//! A query prepared for product codes.

use super::ranked::Ranked;
use crate::Metric;
use crate::quant::product::{ProductModel, ProductTables, TableKind};

/// The tables of a query, and under Euclid of the last cluster that was entered; its memory is used again.
#[derive(Debug, Default)]
pub(super) struct ProductQuery {
    pub(super) tables: ProductTables,
    /// The query as tables are made for it.
    compared: Vec<f32>,
    /// A centroid whose levels had to be unpacked.
    unpacked: Vec<u8>,
    /// The distance of the mean of all centroids, once the tables serve every cluster.
    of_mean: Option<f32>,
}

impl ProductQuery {
    /// Another query follows.
    pub(super) fn start(&mut self) {
        self.of_mean = None;
    }

    /// Makes the tables ready for a cluster; what its rows' distances have in common. `query` is rotated and, but under dot product,
    /// less the centroids' mean.
    ///
    /// Under Euclid tables are made for each cluster, otherwise once for each query.
    pub(super) fn enter(
        &mut self,
        model: &ProductModel,
        metric: Metric,
        query: &[f32],
        centroids: &Ranked<'_>,
        cluster: u32,
    ) -> f32 {
        if metric != Metric::Euclid && self.of_mean.is_none() {
            self.make(model, metric, query, centroids);
        }
        let (step, levels) = centroids.parts(cluster, &mut self.unpacked);
        if metric == Metric::Euclid {
            let values = levels.iter().map(|level| step * (f32::from(*level) - 128.0));
            self.compared.clear();
            self.compared.extend(query.iter().zip(values).map(|(q, c)| q - c));
            self.tables.enter(model, TableKind::Distance, &self.compared);
            return 0.0;
        }
        self.of_mean.unwrap_or_default() - step * product(&self.compared, levels)
    }

    fn make(&mut self, model: &ProductModel, metric: Metric, query: &[f32], centroids: &Ranked<'_>) {
        self.compared.clear();
        self.compared.extend_from_slice(query);
        if metric == Metric::Cosine {
            centroids.uncentre(&mut self.compared);
        }
        self.tables.enter(model, TableKind::Product, &self.compared);
        self.of_mean = Some(centroids.product_with_mean(&self.compared));
    }
}

/// `<q, levels - 128>`; eight sums, so that additions don't wait for each other.
fn product(query: &[f32], levels: &[u8]) -> f32 {
    const LANES: usize = 8;
    let ((queries, rest), (levels, last)) = (query.as_chunks::<LANES>(), levels.as_chunks::<LANES>());
    let mut sums = [0.0f32; LANES];
    for (query, levels) in queries.iter().zip(levels) {
        for lane in 0..LANES {
            sums[lane] += query[lane] * (f32::from(levels[lane]) - 128.0);
        }
    }
    let rest = rest.iter().zip(last);
    sums.iter().sum::<f32>()
        + rest
            .map(|(q, level)| q * (f32::from(*level) - 128.0))
            .sum::<f32>()
}
