//! Options of a list to choose from.

pub struct Choice {
    pub value: &'static str,
    pub label: &'static str,
    pub is_chosen: bool,
}

pub fn choices(known: &[(&'static str, &'static str)], chosen: &str) -> Vec<Choice> {
    let choice = |(value, label): &(&'static str, &'static str)| Choice {
        value,
        label,
        is_chosen: *value == chosen,
    };
    known.iter().map(choice).collect()
}
