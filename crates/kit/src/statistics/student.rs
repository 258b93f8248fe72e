//! Student's distribution.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::{count, normal_quantile};

/// Above this many degrees of freedom the quantile is computed from the normal one. The inverse beta
/// function of `statrs` stops too early above about 20,000: with 999,999 degrees its 97.5 % quantile
/// is too small by 2·10⁻⁵ of its value.
const MAX_EXACT_DEGREES: usize = 10_000;

/// The quantile of Student's distribution; `None` with zero degrees of freedom.
pub fn student_quantile(probability: f64, degrees: usize) -> Option<f64> {
    if degrees > MAX_EXACT_DEGREES {
        return Some(expansion(normal_quantile(probability), count(degrees)));
    }
    student_law(degrees).map(|law| law.inverse_cdf(probability))
}

pub(super) fn student_law(degrees: usize) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, count(degrees)).ok()
}

/// The Cornish–Fisher expansion of the quantile around the normal quantile `z` (Abramowitz and Stegun,
/// Handbook of Mathematical Functions, 26.7.5). The first term left out is below 10⁻¹² for `z` up to
/// 6 and 10,000 degrees.
fn expansion(z: f64, degrees: f64) -> f64 {
    let z2 = z * z;
    let first = (z2 + 1.0) / 4.0;
    let second = ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0;
    let third = (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0;
    z * (1.0 + (first + (second + third / degrees) / degrees) / degrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    use rstest::rstest;

    /// The expected values were computed with 40 digits by Newton's method on the integral of the
    /// density.
    #[rstest]
    #[case(0.9, 10_001, 1.281_636_221_264_334_7)]
    #[case(0.975, 10_001, 1.960_201_216_164_641_1)]
    #[case(0.975, 30_000, 1.960_043_063_383_935_1)]
    #[case(0.975, 100_000, 1.959_987_707_534_609_6)]
    #[case(0.975, 999_999, 1.959_966_356_816_479_3)]
    #[case(0.995, 10_001, 2.576_320_997_490_298_5)]
    #[case(0.995, 999_999, 2.575_834_220_110_251)]
    #[case(0.9995, 10_001, 3.291_499_868_601_752_7)]
    #[case(0.9995, 999_999, 3.290_536_461_258_420_9)]
    fn quantiles_of_many_degrees_are_exact(
        #[case] probability: f64,
        #[case] degrees: usize,
        #[case] expected: f64,
    ) {
        let found = student_quantile(probability, degrees).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-12, "{found}");
        let mirrored = student_quantile(1.0 - probability, degrees).unwrap();
        assert!((mirrored / -expected - 1.0).abs() < 1e-12, "{mirrored}");
    }

    /// The inverse beta function is accurate to about 10⁻⁸ there.
    #[test]
    fn both_methods_agree_where_one_replaces_the_other() {
        for probability in [0.5, 0.6, 0.9, 0.975, 0.995, 0.9999] {
            let exact = student_quantile(probability, MAX_EXACT_DEGREES).unwrap();
            let expanded = expansion(normal_quantile(probability), count(MAX_EXACT_DEGREES));
            assert!(
                (exact - expanded).abs() < 1e-7,
                "{probability}: {exact} {expanded}"
            );
        }
    }

    #[test]
    fn the_ends_are_infinite() {
        assert_eq!(student_quantile(1.0, 1_000_000), Some(f64::INFINITY));
        assert_eq!(student_quantile(0.0, 1_000_000), Some(f64::NEG_INFINITY));
        assert_eq!(student_quantile(0.975, 0), None);
    }
}
