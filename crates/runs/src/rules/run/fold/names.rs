//! Names as small numbers.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

/// Distinct names, numbered from 0 in the order in which they were added. Each takes its text and
/// 10 to 20 bytes. A run's names are far below 4 GiB: its suite names all of them in one document.
#[derive(Clone, Default)]
pub(super) struct Names {
    text: String,
    /// Where each name ends in `text`.
    ends: Vec<u32>,
    numbers: HashTable<u32>,
    /// Keyed, because callers choose the names.
    hasher: RandomState,
}

impl Names {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, number: u32) -> Option<&str> {
        name(&self.text, &self.ends, number)
    }

    /// Whether the positions of another name fit into 32 bits.
    pub fn has_room_for(&self, name: &str) -> bool {
        self.text
            .len()
            .checked_add(name.len())
            .is_some_and(|end| u32::try_from(end).is_ok())
    }

    pub fn find(&self, wanted: &str) -> Option<u32> {
        let is_wanted = |number: &u32| self.get(*number) == Some(wanted);
        let hash = self.hasher.hash_one(wanted);
        self.numbers.find(hash, is_wanted).copied()
    }

    /// The number of a name, which is new if there is none yet.
    pub fn add(&mut self, added: &str) -> u32 {
        if let Some(number) = self.find(added) {
            return number;
        }
        let number = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        self.text.push_str(added);
        self.ends
            .push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
        let Self {
            text,
            ends,
            numbers,
            hasher,
        } = self;
        let hash_of = |number: &u32| hasher.hash_one(name(text, ends, *number).unwrap_or_default());
        numbers.insert_unique(hasher.hash_one(added), number, hash_of);
        number
    }

    /// Takes memory for so many further names at once, except for their texts.
    pub fn reserve(&mut self, further: usize) {
        self.ends.reserve_exact(further);
        let Self {
            text,
            ends,
            numbers,
            hasher,
        } = self;
        let hash_of = |number: &u32| hasher.hash_one(name(text, ends, *number).unwrap_or_default());
        numbers.reserve(further, hash_of);
    }

    /// Allocated bytes.
    pub fn bytes(&self) -> usize {
        self.text.capacity()
            + self.ends.capacity() * size_of::<u32>()
            + self.numbers.allocation_size()
    }

    pub fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

fn name<'a>(text: &'a str, ends: &[u32], number: u32) -> Option<&'a str> {
    let number = number as usize;
    let start = match number.checked_sub(1) {
        Some(before) => *ends.get(before)?,
        None => 0,
    };
    text.get(start as usize..*ends.get(number)? as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let mut names = Names::default();
        let all: Vec<String> = (0..1000).map(|n| format!("task-{n}")).collect();
        for (number, name) in (0..).zip(&all) {
            assert_eq!(names.find(name), None);
            assert_eq!(names.add(name), number);
        }
        names.shrink();
        for (number, name) in (0..).zip(&all) {
            assert_eq!(names.add(name), number);
            assert_eq!(names.find(name), Some(number));
            assert_eq!(names.get(number), Some(name.as_str()));
        }
        assert_eq!((names.len(), names.get(1000)), (1000, None));
    }

    #[test]
    fn names_may_be_empty_or_parts_of_each_other() {
        let mut names = Names::default();
        let numbers = ["", "é", "éé", "e", ""].map(|name| names.add(name));
        assert_eq!(numbers, [0, 1, 2, 3, 0]);
        assert_eq!(names.get(0), Some(""));
        assert_eq!(names.get(2), Some("éé"));
    }
}
