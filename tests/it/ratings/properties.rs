//! Properties that hold for all evidence.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use touchstone_ratings::rules::{
    Assessment, Config, Dimension, Event, Override, Scored, Scoring, score,
};

use super::evidence::{Dice, input};

fn of<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn events(input: &Value) -> Vec<Event> {
    let events = input["events"].as_array().unwrap();
    events.iter().map(|it| Event::read(it).unwrap()).collect()
}

/// The serialized result, or the error message.
fn written(input: &Value, events: &[Event]) -> String {
    let (assessment, overrides): (Assessment, Vec<Override>) =
        (of(&input["assessment"]), of(&input["overrides"]));
    let config = Config::read(&input["config"]).unwrap();
    match score(events, &assessment, &config, &overrides) {
        Ok(scored) => json!(scored).to_string(),
        Err(unscored) => unscored.to_string(),
    }
}

/// The raw value of one dimension; `None` if the dimension is not scored.
fn only(input: &Value, events: &[Event], dimension: Dimension) -> Option<f64> {
    let mut assessment = input["assessment"].clone();
    assessment["type"] = json!("single_dimension");
    assessment["dimension"] = json!(dimension);
    let config = Config::read(&input["config"]).unwrap();
    match score(events, &of(&assessment), &config, &[]) {
        Ok(Scored::Single(found)) => found.result.raw,
        _ => None,
    }
}

/// Gives every event a distinct time and no id, so that order and repeated ids cannot matter.
fn without_ties(input: &mut Value) {
    for (place, event) in input["events"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .enumerate()
    {
        let at: Timestamp = of(&event["timestamp"]);
        let apart = SignedDuration::from_micros(i64::try_from(place).unwrap());
        event["timestamp"] = json!(at + apart);
        event.as_object_mut().unwrap().remove("id");
    }
}

/// The same result, with the evidence added a few tasks at a time.
fn written_in_parts(input: &Value, events: &[Event], dice: &mut Dice) -> String {
    let mut by_task = events.to_vec();
    by_task.sort_by(|a, b| a.task_id.cmp(&b.task_id));
    let config = Config::read(&input["config"]).unwrap();
    let mut scoring = Scoring::new(of(&input["assessment"]), config);
    let mut part: Vec<Event> = Vec::new();
    for event in by_task {
        let ends = part.last().is_some_and(|it| it.task_id != event.task_id);
        if ends && dice.below(3) == 0 {
            scoring.add(&std::mem::take(&mut part)).unwrap();
        }
        part.push(event);
    }
    scoring.add(&part).unwrap();
    match scoring.finish() {
        Ok(scored) => json!(scored).to_string(),
        Err(unscored) => unscored.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn tasks_can_be_scored_a_few_at_a_time_to_the_same_bytes(seed: u64) {
        let mut input = input(seed);
        input["overrides"] = json!([]);
        let events = events(&input);
        let in_parts = written_in_parts(&input, &events, &mut Dice::of(seed));
        prop_assert_eq!(in_parts, written(&input, &events));
    }

    #[test]
    fn scores_lie_within_0_and_1(seed: u64) {
        let input = input(seed);
        let events = events(&input);
        for dimension in Dimension::PERFORMANCE.into_iter().chain(Dimension::CAPABILITY) {
            let raw = only(&input, &events, dimension);
            prop_assert!(raw.is_none_or(|it| (0.0..=1.0).contains(&it)), "{dimension}: {raw:?}");
        }
    }

    #[test]
    fn scores_do_not_depend_on_the_order_of_arrival(seed: u64) {
        let mut input = input(seed);
        without_ties(&mut input);
        let mut events = events(&input);
        let first = written(&input, &events);
        Dice::of(seed).shuffle(&mut events);
        prop_assert_eq!(first, written(&input, &events));
    }

    #[test]
    fn scoring_again_gives_the_same_bytes(seed: u64) {
        let input = input(seed);
        let events = events(&input);
        let first = written(&input, &events);
        prop_assert_eq!(&first, &written(&input, &events));
        // The scored fields of an event survive serialization; unnamed event types are named by
        // exactly that.
        let again: Vec<Event> = events.iter().map(|it| Event::read(&it.document()).unwrap()).collect();
        prop_assert_eq!(first, written(&input, &again));
        let config = Config::read(&input["config"]).unwrap();
        prop_assert_eq!(&Config::read(&json!(config)).unwrap(), &config);
    }

    #[test]
    fn a_better_outcome_never_lowers_completion_or_accuracy(seed: u64) {
        let mut input = input(seed);
        let before = events(&input);
        let all = input["events"].as_array_mut().unwrap();
        let not_done = |event: &&mut Value| {
            let status = &event["data"]["completion_status"];
            ["partial", "rejected", "failed", "escalated"].iter().any(|it| status == it)
        };
        let worse: Vec<&mut Value> = all.iter_mut().filter(not_done).collect();
        let count = worse.len();
        prop_assume!(count > 0);
        let chosen = worse.into_iter().nth(usize::try_from(seed).unwrap_or(usize::MAX) % count).unwrap();
        let data = chosen["data"].as_object_mut().unwrap();
        data.insert("completion_status".to_owned(), json!("accepted"));
        data.remove("human_intervention");
        let after = events(&input);
        for dimension in [Dimension::TaskCompletionRate, Dimension::Accuracy] {
            let (old, new) = (only(&input, &before, dimension), only(&input, &after, dimension));
            prop_assert!(new >= old.map(|it| it - 1e-12), "{dimension}: {old:?} became {new:?}");
        }
    }
}
