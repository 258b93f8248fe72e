//! How `eval` and `matrix` read the file in `--cases`, with the options of `suite import`.

use std::borrow::Cow;

use clap::Args;

use crate::cli::suite::import::{format, strategy};
use crate::rules::eval::import::{Columns, Format};
use touchstone_openwop::suite::MatchStrategy;

#[derive(Clone, Debug, Default, Args)]
pub struct CaseOptions {
    /// Format of --cases, as for `suite import` [default: detected]
    #[arg(long, value_name = "FORMAT", requires = "cases", conflicts_with = "subject", value_parser = format)]
    pub format: Option<Format>,

    /// Column of --cases that holds the input; dots separate nested members
    #[arg(
        long,
        value_name = "COLUMN",
        requires = "cases",
        conflicts_with = "subject"
    )]
    input: Option<String>,

    /// Column of --cases that holds the expected answer; dots separate nested members
    #[arg(
        long,
        value_name = "COLUMN",
        requires = "cases",
        conflicts_with = "subject"
    )]
    expected: Option<String>,

    /// Column of --cases that holds the name of a task; dots separate nested members
    #[arg(
        long,
        value_name = "COLUMN",
        requires = "cases",
        conflicts_with = "subject"
    )]
    id: Option<String>,

    /// How answers are compared where --cases does not specify it: exact or contains [default:
    /// exact]
    #[arg(long = "match", value_name = "HOW", requires = "cases", conflicts_with = "subject", value_parser = strategy)]
    strategy: Option<MatchStrategy>,

    /// Mean score that --cases require, 0 to 1 [default: 1, that is, every task passes]. No number
    /// of tasks can show a score of 1; 16 passed tasks show 0.8
    #[arg(
        long,
        value_name = "SCORE",
        requires = "cases",
        conflicts_with = "subject",
        value_parser = pass_score,
        overrides_with = "pass_score"
    )]
    pub pass_score: Option<f64>,
}

fn pass_score(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(score) if (0.0..=1.0).contains(&score) => Ok(score),
        _ => Err("must be a score from 0 to 1, such as 0.8".to_owned()),
    }
}

impl CaseOptions {
    pub fn columns(&self) -> Columns {
        Columns {
            input: self.input.clone(),
            expected: self.expected.clone(),
            id: self.id.clone(),
        }
    }

    pub fn strategy(&self) -> MatchStrategy {
        self.strategy.unwrap_or(MatchStrategy::Exact)
    }

    /// Every given option with its value.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
        let strategy = self.strategy.map(|strategy| match strategy {
            MatchStrategy::Contains => "contains",
            MatchStrategy::Exact | MatchStrategy::JsonMatch => "exact",
        });
        let texts = [
            ("--format", self.format.map(Format::as_str)),
            ("--input", self.input.as_deref()),
            ("--expected", self.expected.as_deref()),
            ("--id", self.id.as_deref()),
            ("--match", strategy),
        ];
        let score = self.pass_score.map(|score| Cow::from(score.to_string()));
        texts
            .map(|(flag, value)| (flag, value.map(Cow::from)))
            .into_iter()
            .chain([("--pass-score", score)])
            .filter_map(|(flag, value)| Some((flag, value?)))
    }
}
