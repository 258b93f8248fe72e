//! Weights of the dimensions in their axis (AAAF composite): thousandths that sum to exactly 1000.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::rules::scoring::dimension::{Axis, Dimension};

const WHOLE: u32 = 1000;
/// How far a weight may deviate from a thousandth, for producers that compute weights.
const TOLERANCE: f64 = 1e-6;

/// The weights of one axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights(BTreeMap<Dimension, u16>);

/// Why weights are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightFault {
    /// Every dimension of the axis, and no other one, must have a weight.
    #[error("{axis}_weights: {problem}; give a weight for each of {}", keys(*.axis))]
    Keys { axis: Axis, problem: String },
    /// Not a multiple of a thousandth.
    #[error("{axis}_weights.{key}: must be between 0 and 1 and a multiple of 0.001")]
    Value { axis: Axis, key: String },
    /// The sum is not 1.
    #[error(
        "{axis}_weights must sum to 1.000, got {}.{:03}",
        thousandths / WHOLE,
        thousandths % WHOLE
    )]
    Sum { axis: Axis, thousandths: u32 },
}

fn keys(axis: Axis) -> String {
    let keys: Vec<&str> = axis.dimensions().iter().map(|it| it.as_str()).collect();
    keys.join(", ")
}

impl Weights {
    /// The framework's default weights of an axis.
    pub fn standard(axis: Axis) -> Self {
        match axis {
            Axis::Performance => Self::of(axis, &[250, 250, 150, 200, 150]),
            Axis::Capability => Self::of(axis, &[150, 200, 150, 100, 100, 150, 150]),
        }
    }

    /// Capability weights for agents that do one thing in depth.
    pub fn specialist() -> Self {
        Self::of(Axis::Capability, &[150, 300, 250, 150, 150, 0, 0])
    }

    /// Capability weights for agents that do many things.
    pub fn generalist() -> Self {
        Self::of(Axis::Capability, &[200, 250, 150, 100, 100, 100, 100])
    }

    fn of(axis: Axis, thousandths: &[u16]) -> Self {
        let dimensions = axis.dimensions().iter().copied();
        Self(dimensions.zip(thousandths.iter().copied()).collect())
    }

    /// Reads weights as parts of 1.
    ///
    /// # Errors
    /// The first problem found.
    pub fn read(axis: Axis, given: &BTreeMap<String, f64>) -> Result<Self, WeightFault> {
        let keys = |problem: String| WeightFault::Keys { axis, problem };
        let mut weights = BTreeMap::new();
        for dimension in axis.dimensions() {
            let key = dimension.as_str();
            let weight = given
                .get(key)
                .ok_or_else(|| keys(format!("`{key}` is missing")))?;
            let whole = (weight * f64::from(WHOLE)).round();
            let deviation = (weight - whole / f64::from(WHOLE)).abs();
            // The margin covers numbers within rounding error of the tolerance.
            if !(0.0..=1.0).contains(weight) || deviation > TOLERANCE + 1e-12 {
                let key = key.to_owned();
                return Err(WeightFault::Value { axis, key });
            }
            weights.insert(*dimension, whole as u16);
        }
        if let Some(other) = given
            .keys()
            .find(|key| !weights.keys().any(|it| it.as_str() == key.as_str()))
        {
            return Err(keys(format!("`{other}` is not a dimension of this axis")));
        }
        let thousandths = weights.values().map(|it| u32::from(*it)).sum();
        if thousandths == WHOLE {
            Ok(Self(weights))
        } else {
            Err(WeightFault::Sum { axis, thousandths })
        }
    }

    /// The weight of a dimension in thousandths; 0 for dimensions of the other axis.
    pub fn thousandths(&self, dimension: Dimension) -> u16 {
        self.0.get(&dimension).copied().unwrap_or_default()
    }

    /// The weight as a part of 1.
    pub fn share(&self, dimension: Dimension) -> f64 {
        f64::from(self.thousandths(dimension)) / f64::from(WHOLE)
    }
}

impl Serialize for Weights {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for dimension in self.0.keys() {
            map.serialize_entry(dimension, &self.share(*dimension))?;
        }
        map.end()
    }
}
