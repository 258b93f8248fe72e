//! The position of an assertion in the scoring of its task.

use std::fmt::{Display, Formatter, Result};

use super::Assertion;

/// `1.0` is the first assertion nested in the second one. Defaults of the document come before the
/// assertions of the task. It is only written as text where it is needed, because most assertions
/// are decided without it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    within: Option<&'a Self>,
    index: usize,
}

impl<'a> Place<'a> {
    /// An assertion of the task itself.
    pub const fn top(index: usize) -> Self {
        Self {
            within: None,
            index,
        }
    }

    /// An assertion nested in this one.
    pub const fn nested(&'a self, index: usize) -> Self {
        Self {
            within: Some(self),
            index,
        }
    }
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(within) = self.within {
            write!(f, "{within}.")?;
        }
        write!(f, "{}", self.index)
    }
}

/// Adds this assertion and those nested in it that are decided outside of this host.
pub(super) fn collect_external<'a>(
    assertion: &'a Assertion,
    place: Place<'_>,
    found: &mut Vec<(String, &'a Assertion)>,
) {
    if assertion.check.is_external() {
        found.push((place.to_string(), assertion));
    }
    for (index, nested) in assertion.check.nested().iter().enumerate() {
        collect_external(nested, place.nested(index), found);
    }
}
