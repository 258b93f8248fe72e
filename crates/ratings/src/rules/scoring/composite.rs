//! Combines the dimensions of an axis (AAAF composite). Dimensions without a score are left out,
//! and the remaining weights are rescaled.

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use crate::rules::scoring::dimension::{Axis, Dimension};
use crate::rules::scoring::measure::Measure;
use crate::rules::scoring::tier::{Score, Tier};
use crate::rules::scoring::weights::Weights;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AxisRating {
    /// Unrounded, from unrounded dimensions; `None` if no dimension is assessed.
    pub composite_raw: Option<f64>,
    /// As it is stored.
    pub composite_score: Option<Score>,
    /// With two decimals, as it is shown.
    pub display: Option<String>,
    pub tier: Option<Tier>,
    /// Whether the top tier was withheld because a dimension is not assessed.
    pub tier_capped: bool,
    /// The share of the weights that is assessed, 0..=1.
    pub weight_coverage: f64,
    /// The dimensions, in order.
    #[serde(serialize_with = "as_map")]
    pub dimensions: Vec<(Dimension, Measure)>,
}

fn as_map<S: Serializer>(
    dimensions: &[(Dimension, Measure)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(dimensions.len()))?;
    for (dimension, measure) in dimensions {
        map.serialize_entry(dimension, measure)?;
    }
    map.end()
}

/// The weighted mean of the assessed dimensions, and their share of the weights.
pub fn combine(measures: &[(Dimension, Measure)], weights: &Weights) -> (Option<f64>, f64) {
    let assessed = measures.iter().filter_map(|(dimension, measure)| {
        let thousandths = weights.thousandths(*dimension);
        Some((measure.raw?, f64::from(thousandths))).filter(|_| thousandths > 0)
    });
    // Always in the framework's order, so that the sum is reproducible.
    let (mut sum, mut weight) = (0.0, 0.0);
    for (raw, thousandths) in assessed {
        sum += raw * thousandths;
        weight += thousandths;
    }
    ((weight > 0.0).then(|| sum / weight), weight / 1000.0)
}

impl AxisRating {
    pub fn of(axis: Axis, dimensions: Vec<(Dimension, Measure)>, weights: &Weights) -> Self {
        let (composite_raw, weight_coverage) = combine(&dimensions, weights);
        let composite_score = composite_raw.map(Score::of);
        let reached = composite_score.map(|score| Tier::of(axis, score));
        let tier_capped = weight_coverage < 1.0 && reached.is_some_and(Tier::is_top);
        Self {
            composite_raw,
            composite_score,
            display: composite_score.map(|score| score.display(axis)),
            tier: reached.map(|tier| if tier_capped { tier.lower() } else { tier }),
            tier_capped,
            weight_coverage,
            dimensions,
        }
    }

    pub fn dimension(&self, dimension: Dimension) -> Option<&Measure> {
        let mut all = self.dimensions.iter();
        all.find(|(it, _)| *it == dimension)
            .map(|(_, measure)| measure)
    }

    /// Dimensions that have a weight and are not assessed.
    pub fn missing(&self, weights: &Weights) -> Vec<Dimension> {
        let gap = |(dimension, measure): &&(Dimension, Measure)| {
            measure.raw.is_none() && weights.thousandths(*dimension) > 0
        };
        let missing = self.dimensions.iter().filter(gap);
        missing.map(|(dimension, _)| *dimension).collect()
    }
}
