//! Which answer a person labels next.

use jiff::Timestamp;

use super::ReviewItem;

/// The next step of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Label the answer of this number.
    Item(u32),
    /// Wait: other people have opened the answers that are left.
    Waiting,
    /// Nothing is left for this person.
    Finished,
}

/// Whether a place among the labellers of an answer is left for a person.
pub fn has_place(item: &ReviewItem, principal: &str, labellers: u8, now: Timestamp) -> bool {
    let others = item
        .claims
        .iter()
        .filter(|it| it.principal != principal && it.until > now)
        .filter(|it| item.label_of(&it.principal).is_none());
    item.labels.len() + others.count() < usize::from(labellers)
}

/// Chooses the first answer after number `after`, and after the last one starts again.
pub fn turn(
    items: &[ReviewItem],
    principal: &str,
    labellers: u8,
    now: Timestamp,
    after: u32,
) -> Turn {
    let open: Vec<&ReviewItem> = items
        .iter()
        .filter(|it| !it.is_complete(labellers) && it.label_of(principal).is_none())
        .collect();
    let free = |it: &&&ReviewItem| has_place(it, principal, labellers, now);
    let later = open.iter().filter(free).find(|it| it.number > after);
    match later.or_else(|| open.iter().find(free)) {
        Some(item) => Turn::Item(item.number),
        None if open.is_empty() => Turn::Finished,
        None => Turn::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Label, ReviewClaim};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn item(number: u32, labels: &[&str], claims: &[(&str, i64)]) -> ReviewItem {
        ReviewItem {
            number,
            task: format!("task-{number}").as_str().into(),
            labels: labels
                .iter()
                .map(|it| Label {
                    principal: (*it).to_owned(),
                    choice: 1,
                    note: None,
                    at: at(0),
                })
                .collect(),
            claims: claims
                .iter()
                .map(|(principal, until)| ReviewClaim {
                    principal: (*principal).to_owned(),
                    until: at(*until),
                })
                .collect(),
        }
    }

    #[test]
    fn a_person_labels_each_answer_once() {
        let items = [item(1, &["ann"], &[]), item(2, &[], &[])];
        assert_eq!(turn(&items, "ann", 2, at(1), 0), Turn::Item(2));
        assert_eq!(turn(&items, "bob", 2, at(1), 0), Turn::Item(1));
        let done = [item(1, &["ann"], &[]), item(2, &["ann"], &[])];
        assert_eq!(turn(&done, "ann", 2, at(1), 0), Turn::Finished);
        assert_eq!(turn(&done, "bob", 1, at(1), 0), Turn::Finished, "complete");
    }

    #[test]
    fn a_skipped_answer_comes_again_after_the_others() {
        let items = [item(1, &[], &[]), item(2, &[], &[])];
        assert_eq!(turn(&items, "ann", 1, at(1), 1), Turn::Item(2));
        assert_eq!(turn(&items, "ann", 1, at(1), 2), Turn::Item(1));
    }

    #[test]
    fn an_opened_answer_is_kept_from_others_until_its_claim_ends() {
        let items = [item(1, &[], &[("ann", 10)]), item(2, &[], &[])];
        assert_eq!(turn(&items, "bob", 1, at(1), 0), Turn::Item(2));
        assert_eq!(turn(&items, "ann", 1, at(1), 0), Turn::Item(1));
        assert_eq!(
            turn(&items, "bob", 2, at(1), 0),
            Turn::Item(1),
            "two places"
        );
        assert_eq!(turn(&items, "bob", 1, at(10), 0), Turn::Item(1), "ended");
        let held = [item(1, &[], &[("ann", 10)])];
        assert_eq!(turn(&held, "bob", 1, at(1), 0), Turn::Waiting);
        // A person who changes the label takes no second place.
        let changing = item(1, &["ann"], &[("ann", 10)]);
        assert!(has_place(&changing, "bob", 2, at(1)));
    }
}
