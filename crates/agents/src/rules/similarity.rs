//! Cosine similarity of the vectors of an embedding model.

/// Maximum dimensions of a vector, far beyond those of all embedding models.
const MAX_DIMENSIONS: usize = 65_536;

/// The vectors in the reply of an embedding model; `None` if it is something else.
pub fn read_vectors(text: &str) -> Option<Vec<Vec<f64>>> {
    let vectors: Vec<Vec<f64>> = serde_json::from_str(text).ok()?;
    let fits = |vector: &Vec<f64>| (1..=MAX_DIMENSIONS).contains(&vector.len());
    vectors.iter().all(fits).then_some(vectors)
}

/// The highest cosine similarity of the first vector and the others, 0.0..=1.0. `None` if vectors
/// differ in their dimensions or have no direction.
pub fn most_similar(vectors: &[Vec<f64>]) -> Option<f64> {
    let (first, others) = vectors.split_first()?;
    let mut best: Option<f64> = None;
    for other in others {
        let found = cosine(first, other)?;
        best = Some(best.map_or(found, |best| best.max(found)));
    }
    best
}

/// The cosine of the angle between two vectors. A negative one, between vectors that point away
/// from each other, counts as 0.
fn cosine(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    let (a, b) = (unit(a)?, unit(b)?);
    let cosine: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
    cosine.is_finite().then(|| cosine.clamp(0.0, 1.0))
}

/// The vector with length 1. Components are scaled first, so that no square overflows.
fn unit(vector: &[f64]) -> Option<Vec<f64>> {
    let largest = vector.iter().fold(0.0_f64, |most, it| most.max(it.abs()));
    if !(largest.is_finite() && largest > 0.0) {
        return None;
    }
    let scaled: Vec<f64> = vector.iter().map(|it| it / largest).collect();
    let length = scaled.iter().map(|it| it * it).sum::<f64>().sqrt();
    Some(scaled.into_iter().map(|it| it / length).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::same(&[1.0, 0.0], &[2.0, 0.0], Some(1.0))]
    #[case::orthogonal(&[1.0, 0.0], &[0.0, 3.0], Some(0.0))]
    #[case::opposite(&[1.0, 0.0], &[-1.0, 0.0], Some(0.0))]
    #[case::between(&[1.0, 1.0], &[1.0, 0.0], Some(std::f64::consts::FRAC_1_SQRT_2))]
    #[case::huge(&[1e308, 1e308], &[1e308, 1e308], Some(1.0))]
    #[case::tiny(&[1e-320, 0.0], &[1e-320, 0.0], Some(1.0))]
    #[case::no_direction(&[0.0, 0.0], &[1.0, 0.0], None)]
    #[case::other_dimensions(&[1.0], &[1.0, 0.0], None)]
    fn the_similarity_is_the_cosine(
        #[case] a: &[f64],
        #[case] b: &[f64],
        #[case] expected: Option<f64>,
    ) {
        let found = most_similar(&[a.to_vec(), b.to_vec()]);
        assert_eq!(found.is_some(), expected.is_some());
        if let (Some(found), Some(expected)) = (found, expected) {
            assert!((found - expected).abs() < 1e-9, "{found}");
        }
    }

    #[test]
    fn the_most_similar_text_counts() {
        let vectors = [vec![1.0, 0.0], vec![0.0, 1.0], vec![1.0, 0.1]];
        assert!(most_similar(&vectors).unwrap() > 0.9);
        assert_eq!(most_similar(&vectors[..1]), None);
        assert_eq!(most_similar(&[]), None);
    }

    #[rstest]
    #[case("[[1,0],[0.5,2]]", true)]
    #[case("[]", true)]
    #[case("[[]]", false)]
    #[case("[1,2]", false)]
    #[case("[[\"a\"]]", false)]
    #[case("[[null]]", false)]
    #[case("hello", false)]
    fn only_lists_of_numbers_are_vectors(#[case] text: &str, #[case] readable: bool) {
        assert_eq!(read_vectors(text).is_some(), readable);
    }

    proptest! {
        #[test]
        fn it_is_symmetric_and_between_0_and_1(
            a in prop::collection::vec(-1e6..1e6_f64, 3),
            b in prop::collection::vec(-1e6..1e6_f64, 3),
        ) {
            let one = most_similar(&[a.clone(), b.clone()]);
            let other = most_similar(&[b, a]);
            prop_assert_eq!(one.is_some(), other.is_some());
            if let (Some(one), Some(other)) = (one, other) {
                prop_assert!((0.0..=1.0).contains(&one) && (one - other).abs() < 1e-9);
            }
        }
    }
}
