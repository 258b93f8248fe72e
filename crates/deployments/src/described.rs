//! The conditions of a gate, in words.

/// A condition of a policy, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The condition's stable name, as in
    /// [`Requirement::condition`](crate::promotion::Requirement::condition).
    pub condition: &'static str,
    pub requirement: String,
    /// An earlier condition without which this one cannot be checked.
    pub needs: Option<&'static str>,
}

impl Described {
    pub fn new(condition: &'static str, requirement: impl Into<String>) -> Self {
        Self {
            condition,
            requirement: requirement.into(),
            needs: None,
        }
    }

    /// The same, which cannot be checked unless another condition is met.
    #[must_use]
    pub const fn after(mut self, needs: &'static str) -> Self {
        self.needs = Some(needs);
        self
    }
}
