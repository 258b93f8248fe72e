//! Error spending for a test that is repeated as data arrives (Armitage, McPherson and Rowe 1969;
//! Lan and DeMets 1983).

use super::count;

/// The error that the first look may spend.
pub const FIRST_LOOK: f64 = 0.03;
/// The error that all later looks may spend together.
const LATER_LOOKS: f64 = 0.02;

/// The one-sided error that a look may spend, counted from 1. All looks together, however many
/// there are, spend 5 %: the sum of 1/(k(k-1)) over all k from 2 is 1.
pub fn spent(look: usize) -> f64 {
    if look <= 1 {
        FIRST_LOOK
    } else {
        LATER_LOOKS / (count(look) * count(look - 1))
    }
}
