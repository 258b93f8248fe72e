//! The formulas against published values: ours, and every file of a given folder.

mod simulation;

use std::path::Path;

use serde_json::{Value, json};
use touchstone_kit::statistics::{
    Attempts, Interval, Planned, against_margin, against_threshold, bootstrap, clopper_pearson,
    clustered_mean, holm, mcnemar, mean, minimum_detectable_effect, normal_quantile, paired,
    pass_at_k, pass_hat_k, sample_size, spearman, spent, student_quantile, tango, wilson,
};

use crate::support::vectors::{documents, extra};

fn number(input: &Value, name: &str) -> f64 {
    input[name]
        .as_f64()
        .unwrap_or_else(|| panic!("no number `{name}`"))
}

fn whole(input: &Value, name: &str) -> usize {
    input[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no count `{name}`"))
        .try_into()
        .unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect()
}

fn pairs(input: &Value, left: &str, right: &str) -> Vec<(f64, f64)> {
    numbers(&input[left])
        .into_iter()
        .zip(numbers(&input[right]))
        .collect()
}

/// The result of our function in the vector's format. `None` for any other function.
fn computed(function: &str, input: &Value) -> Option<Value> {
    let confidence = || number(input, "confidence");
    Some(match function {
        "wilson" => {
            let found = wilson(whole(input, "passed"), whole(input, "n"), confidence()).unwrap();
            json!({"rate": found.rate, "low": found.interval.low, "high": found.interval.high})
        }
        "clopper_pearson" => {
            let (passed, n) = (number(input, "passed"), whole(input, "n"));
            let rate = passed / number(input, "n");
            let found = clopper_pearson(rate, n, number(input, "alpha")).unwrap();
            json!({"low": found.low, "high": found.high})
        }
        "tango" => {
            let flips = |name| number(input, name);
            let found = tango(
                flips("baseline_fail_candidate_pass"),
                flips("baseline_pass_candidate_fail"),
                whole(input, "n"),
                confidence(),
            )
            .unwrap();
            json!({"low": found.low, "high": found.high})
        }
        "mean_ci" => {
            let scores = numbers(&input["scores"]);
            let found = mean(scores.iter().copied(), confidence()).unwrap();
            let limits = found.interval;
            json!({"n": scores.len(), "mean": found.value, "se": found.se,
                "low": limits.map(|it| it.low), "high": limits.map(|it| it.high)})
        }
        "clustered_mean_ci" => {
            let clusters: Vec<Vec<f64>> = input["clusters"]
                .as_object()
                .unwrap()
                .values()
                .map(numbers)
                .collect();
            let found = clustered_mean(clusters.iter().map(Vec::as_slice), confidence()).unwrap();
            let limits = found.interval.unwrap();
            json!({"n": found.n, "clusters": found.clusters, "mean": found.value, "se_naive": found.se_naive,
                "se_clustered": found.se, "design_effect": found.design_effect,
                "low": limits.low, "high": limits.high})
        }
        "mcnemar_exact" => {
            let flips = |name| u64::try_from(whole(input, name)).unwrap();
            let found = mcnemar(
                flips("baseline_fail_candidate_pass"),
                flips("baseline_pass_candidate_fail"),
            );
            json!({"p_two_sided": found.p_two_sided, "p_regression_one_sided": found.p_regression})
        }
        "paired_difference" => {
            let pairs = pairs(input, "baseline", "candidate");
            let found = paired(pairs.iter().copied(), confidence()).unwrap();
            let limits = found.interval.unwrap();
            json!({"n": found.n, "mean_difference": found.mean, "se_paired": found.se,
                "se_unpaired": found.se_unpaired, "correlation": found.correlation,
                "low": limits.low, "high": limits.high, "p_two_sided": found.p_two_sided})
        }
        "bootstrap_percentile" => {
            let resamples = input["resamples"]
                .as_array()
                .unwrap()
                .iter()
                .map(|resample| {
                    let indices = resample.as_array().unwrap().iter();
                    indices
                        .map(|index| usize::try_from(index.as_u64().unwrap()).unwrap())
                        .collect()
                });
            let values = numbers(&input["values"]);
            let (replicate_mean, limits) = bootstrap(&values, resamples, confidence()).unwrap();
            json!({"low": limits.low, "high": limits.high, "replicate_mean": replicate_mean})
        }
        "pass_k" => {
            let of = |task: &Value| Attempts {
                trials: whole(task, "trials"),
                passed: whole(task, "passed"),
            };
            let tasks: Vec<Attempts> = input["tasks"].as_array().unwrap().iter().map(of).collect();
            let k = whole(input, "k");
            let tasks = tasks.iter().copied();
            json!({"pass_at_k": pass_at_k(tasks.clone(), k), "pass_hat_k": pass_hat_k(tasks, k)})
        }
        "minimum_detectable_effect" => json!({"mde": minimum_detectable_effect(
            whole(input, "n"), number(input, "sd_difference"), number(input, "alpha"), number(input, "power"))}),
        "sample_size" => json!({"n": sample_size(&Planned {
            between: number(input, "var_difference"),
            within: (number(input, "var_within_a"), number(input, "var_within_b")),
            trials: (whole(input, "trials_a"), whole(input, "trials_b")),
            effect: number(input, "effect"),
            alpha: number(input, "alpha"),
            power: number(input, "power"),
        })}),
        "holm" => {
            let found = holm(&numbers(&input["p"]), number(input, "alpha"));
            json!({"reject": found.iter().map(|it| it.rejected).collect::<Vec<_>>(),
                "adjusted": found.iter().map(|it| it.p).collect::<Vec<_>>()})
        }
        "spearman" => json!({"rho": spearman(&pairs(input, "x", "y"), 0.95).unwrap().rho}),
        "quantiles" => {
            let degrees = numbers(&input["t_975_df"]);
            let t = degrees
                .iter()
                .map(|df| student_quantile(0.975, format!("{df}").parse().unwrap()));
            json!({"t": t.collect::<Vec<_>>(), "z_975": normal_quantile(0.975),
                "z_95": normal_quantile(0.95), "z_80": normal_quantile(0.8)})
        }
        "gate" => {
            let rows = input["rows"].as_array().unwrap().iter().map(|row| {
                let found = wilson(whole(row, "passed"), whole(row, "n"), 0.95).unwrap();
                let threshold = number(row, "threshold");
                json!({"passed": row["passed"], "n": row["n"], "threshold": threshold,
                    "low": found.interval.low, "high": found.interval.high,
                    "point_gate": found.rate >= threshold,
                    "ci_gate": against_threshold(found.interval, threshold)})
            });
            json!({"rows": rows.collect::<Vec<_>>()})
        }
        "regression_verdict" => {
            let interval = Interval {
                low: number(input, "low"),
                high: number(input, "high"),
            };
            let margins = numbers(&input["margins"]);
            let verdicts = margins
                .iter()
                .map(|margin| against_margin(interval, *margin));
            json!({"verdicts": verdicts.collect::<Vec<_>>()})
        }
        _ => return None,
    })
}

/// The first expected member that differs; members without an expectation are ignored.
fn difference(expected: &Value, found: &Value, tolerance: f64) -> Option<String> {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => expected
            .iter()
            .filter(|(name, _)| *name != "computed_with")
            .find_map(|(name, value)| {
                let there = found.get(name).unwrap_or(&Value::Null);
                difference(value, there, tolerance).map(|fault| format!("{name}: {fault}"))
            }),
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => expected
            .iter()
            .zip(found)
            .find_map(|(a, b)| difference(a, b, tolerance)),
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            ((a - b).abs() > tolerance).then(|| format!("{b} instead of {a}"))
        }
        (a, b) => (a != b).then(|| format!("{b} instead of {a}")),
    }
}

/// The number of matching vectors in a file, and of vectors about other functions.
fn check(path: &Path, file: &Value) -> (usize, usize) {
    let (mut held, mut foreign) = (0, 0);
    for vector in file["vectors"].as_array().into_iter().flatten() {
        let function = vector["function"].as_str().unwrap_or_default();
        let Some(found) = computed(function, &vector["input"]) else {
            foreign += 1;
            continue;
        };
        held += 1;
        let tolerance = file["tolerance"].as_f64().unwrap_or(1e-9);
        if let Some(fault) = difference(&vector["expected"], &found, tolerance) {
            panic!("{} in {}: {fault}", vector["name"], path.display());
        }
    }
    (held, foreign)
}

#[test]
fn every_formula_gives_the_published_values() {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/statistics/vectors.json");
    let file = serde_json::from_slice(&std::fs::read(&ours).unwrap()).unwrap();
    assert_eq!(check(&ours, &file), (50, 0));
    for (path, file) in extra().iter().flat_map(|folder| documents(folder)) {
        let (held, foreign) = check(&path, &file);
        eprintln!(
            "{}: {held} vectors pass, {foreign} are about other functions",
            path.display()
        );
    }
}

#[test]
fn the_significance_spent_on_all_looks_sums_to_five_percent() {
    let spent: f64 = (1..=100_000).map(spent).sum();
    assert!((0.04999..=0.05).contains(&spent), "{spent}");
}
