//! The decisions of several judges about a rubric, taken together.

use touchstone_agents::ports::judge::CriterionVerdict;
use touchstone_openwop::events::JudgeVote;

/// Bytes of a recorded reason.
const MAX_REASON: usize = 2_000;

/// The verdicts of one judge, in the rubric's order.
#[derive(Clone, Debug)]
pub struct RubricVote {
    /// The judge's identity.
    pub judge: String,
    pub verdicts: Vec<CriterionVerdict>,
}

/// The common decision of the judges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Whether more than half of the judges say that the criterion is met.
    pub met: Vec<bool>,
    pub reasons: Vec<String>,
    /// The decisions of each judge; empty if there is only one.
    pub votes: Vec<JudgeVote>,
}

pub fn tally(votes: Vec<RubricVote>) -> Tally {
    let criteria = votes.iter().map(|it| it.verdicts.len()).min().unwrap_or(0);
    let of = |criterion: usize| {
        votes
            .iter()
            .filter_map(move |it| it.verdicts.get(criterion))
    };
    let met = |criterion: usize| {
        let yes = of(criterion).filter(|it| it.met).count();
        yes * 2 > votes.len()
    };
    let reason = |criterion: usize| {
        if votes.len() == 1 {
            return of(criterion).map(|it| it.reason.clone()).collect();
        }
        let each = of(criterion).enumerate().map(|(n, it)| {
            let word = if it.met { "met" } else { "not met" };
            match it.reason.as_str() {
                "" => format!("judge {}: {word}", n + 1),
                reason => format!("judge {}: {word}: {reason}", n + 1),
            }
        });
        let mut all = each.collect::<Vec<_>>().join("\n");
        all.truncate(all.floor_char_boundary(MAX_REASON));
        all
    };
    let single = votes.len() < 2;
    let vote = |it: &RubricVote| JudgeVote {
        judge: it.judge.clone(),
        met: it.verdicts.iter().map(|it| it.met).collect(),
    };
    Tally {
        met: (0..criteria).map(met).collect(),
        reasons: (0..criteria).map(reason).collect(),
        votes: match single || criteria == 0 {
            true => Vec::new(),
            false => votes.iter().map(vote).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(judge: &str, met: &[bool]) -> RubricVote {
        let verdict = |met: &bool| CriterionVerdict {
            met: *met,
            reason: "r".to_owned(),
        };
        RubricVote {
            judge: judge.to_owned(),
            verdicts: met.iter().map(verdict).collect(),
        }
    }

    #[test]
    fn the_majority_decides_each_criterion_and_a_tie_does_not_meet_it() {
        let three = tally(vec![
            vote("a", &[true, true]),
            vote("b", &[true, false]),
            vote("c", &[false, false]),
        ]);
        assert_eq!(three.met, [true, false]);
        assert_eq!(three.votes.len(), 3);
        assert_eq!(
            three.reasons[0],
            "judge 1: met: r\njudge 2: met: r\njudge 3: not met: r"
        );
        let two = tally(vec![vote("a", &[true]), vote("b", &[false])]);
        assert_eq!(two.met, [false]);
    }

    #[test]
    fn one_judge_is_recorded_as_before() {
        let one = tally(vec![vote("a", &[true, false])]);
        assert_eq!((one.met, one.votes), (vec![true, false], Vec::new()));
        assert_eq!(one.reasons, ["r", "r"]);
        assert_eq!(tally(Vec::new()), Tally::default());
    }
}
