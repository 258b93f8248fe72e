//! Domain breadth: the share of the taxonomy's domains in which the agent is competent.

use std::collections::BTreeMap;

use super::enough;
use crate::rules::config::Config;
use crate::rules::scoring::composite::combine;
use crate::rules::scoring::mean::{count, meets};
use crate::rules::scoring::measure::{Details, Measure};
use crate::rules::scoring::performance::{self, WeightedTasks};
use crate::rules::scoring::task::TaskRecord;

pub fn measure(tasks: &[&TaskRecord], config: &Config) -> Measure {
    let rules = &config.rules;
    let mut domains: BTreeMap<&str, Vec<&TaskRecord>> = BTreeMap::new();
    for task in tasks {
        let known = rules.domain_taxonomy.iter().map(String::as_str);
        if let Some(domain) = known
            .into_iter()
            .find(|it| task.domain.as_deref() == Some(*it))
        {
            domains.entry(domain).or_default().push(task);
        }
    }
    let qualified = domains
        .values()
        .filter(|tasks| qualifies(tasks, config))
        .count();
    let total = rules.domain_taxonomy.len();
    let evidence = domains.values().map(Vec::len).sum();
    let breadth = (!domains.is_empty()).then(|| count(qualified) / count(total));
    let none = "no task belongs to a domain of the taxonomy";
    Measure::found(breadth, domains.len(), evidence, none).with(Details::Breadth {
        qualified_domains: qualified,
        total_domains: total,
    })
}

/// Whether the performance in a domain alone, with all tasks weighted equally, is competent.
fn qualifies(tasks: &[&TaskRecord], config: &Config) -> bool {
    let rules = &config.rules;
    let performance = || performance::measure(WeightedTasks::unweighted(tasks), rules);
    enough(tasks, rules)
        && combine(&performance(), &config.performance_weights)
            .0
            .is_some_and(|it| meets(it, rules.domain_pass_threshold))
}
