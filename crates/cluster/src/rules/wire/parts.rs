//! Tasks and facts that are larger than a message travel in parts, from the memory of one side into
//! that of the other. Nothing of them is stored between.

/// Longest text of a part in bytes. It is the text of a JSON document, which has at most twice its
/// size when it is a string of another one, so that each part fits into a message.
pub const MAX_PART: usize = 448 * 1024;

/// How much of the content of tasks is sent to workers in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentLimits {
    /// Largest task, and largest fact about a task, in bytes.
    pub task: usize,
    /// Bytes of all such tasks of a pool that a host offers at the same time, and of all such facts
    /// that it receives at the same time.
    pub pool: usize,
}

impl Default for ContentLimits {
    /// A task with all files that a suite can have takes 22 MiB.
    fn default() -> Self {
        Self {
            task: 32 * 1024 * 1024,
            pool: 256 * 1024 * 1024,
        }
    }
}

/// The text from byte `from` on, as much as fits into a part; `None` if it does not begin there.
pub fn part(text: &str, from: usize) -> Option<&str> {
    let rest = text.get(from..).filter(|rest| !rest.is_empty())?;
    rest.get(..rest.floor_char_boundary(MAX_PART))
}

/// All parts of a text, in order.
pub fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let next = part(text, from)?;
        from += next.len();
        Some(next)
    })
}

/// The parts do not make up the text that was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch;

/// A text whose parts arrive one after the other.
#[derive(Debug)]
pub struct Assembly {
    bytes: usize,
    text: String,
}

impl Assembly {
    /// A text of this size, of which no part has arrived. Memory is taken as parts arrive.
    pub const fn new(bytes: usize) -> Self {
        Self {
            bytes,
            text: String::new(),
        }
    }

    /// Where the next part begins.
    pub const fn next(&self) -> usize {
        self.text.len()
    }

    /// Adds the next part.
    ///
    /// # Errors
    /// [`Mismatch`] if the part is empty, or longer than what is missing.
    pub fn add(&mut self, part: &str) -> Result<(), Mismatch> {
        let missing = self.bytes.saturating_sub(self.text.len());
        if part.is_empty() || part.len() > missing {
            return Err(Mismatch);
        }
        self.text.push_str(part);
        Ok(())
    }

    pub const fn is_complete(&self) -> bool {
        self.text.len() == self.bytes
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::rules::wire::MAX_BYTES;

    #[rstest]
    #[case::one_byte("x", 0)]
    #[case::longest_escapes("\\", 0)]
    #[case::on_a_boundary("ä", 0)]
    #[case::across_a_boundary("ä", 1)]
    #[case::four_bytes("🦀", 3)]
    fn parts_fit_into_messages_and_make_up_the_text(#[case] unit: &str, #[case] shift: usize) {
        let text = format!(
            "{}{}",
            "x".repeat(shift),
            unit.repeat(3 * MAX_PART / unit.len())
        );
        let mut assembly = Assembly::new(text.len());
        for part in parts(&text) {
            assert!(!assembly.is_complete());
            let sent = serde_json::to_vec(part).unwrap();
            assert!(sent.len() < MAX_BYTES - 4 * 1024, "{}", sent.len());
            assembly.add(part).unwrap();
        }
        assert!(assembly.is_complete());
        assert!(assembly.into_text() == text);
    }

    #[test]
    fn other_places_have_no_part() {
        let text = "äb";
        for from in [1, 3, 4, usize::MAX] {
            assert_eq!(part(text, from), None, "{from}");
        }
        assert_eq!(part(text, 2), Some("b"));
    }

    proptest! {
        #[test]
        fn a_text_never_grows_beyond_its_size(
            bytes in 0..40_usize,
            parts in prop::collection::vec("[a-z]{0,10}", 0..10),
        ) {
            let mut assembly = Assembly::new(bytes);
            for part in &parts {
                let before = assembly.next();
                let added = assembly.add(part);
                prop_assert!(assembly.next() <= bytes);
                prop_assert_eq!(added.is_ok(), assembly.next() == before + part.len() && !part.is_empty());
            }
        }
    }
}
