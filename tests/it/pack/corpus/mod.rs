//! Our corpus of valid and hostile packs: one rule per case, with the expected error code.

mod archives;
mod contents;
pub mod forge;
mod manifests;
mod signatures;
mod suites;

use std::time::Duration;

use forge::Forge;
use touchstone_kit::error::ErrorCode;
use touchstone_packs::rules::verify::VerifiedPack;

pub enum Expect {
    /// It loads, and the condition holds.
    Loads(fn(&VerifiedPack) -> bool),
    /// It is refused with this error code.
    Refused(ErrorCode),
}

pub struct Case {
    pub name: &'static str,
    pub expect: Expect,
    pub make: Box<dyn FnOnce(&mut Forge)>,
}

pub fn loads(name: &'static str, make: impl FnOnce(&mut Forge) + 'static) -> Case {
    loads_and(name, |_| true, make)
}

pub fn loads_and(
    name: &'static str,
    holds: fn(&VerifiedPack) -> bool,
    make: impl FnOnce(&mut Forge) + 'static,
) -> Case {
    Case {
        name,
        expect: Expect::Loads(holds),
        make: Box::new(make),
    }
}

pub fn refused(
    name: &'static str,
    code: ErrorCode,
    make: impl FnOnce(&mut Forge) + 'static,
) -> Case {
    Case {
        name,
        expect: Expect::Refused(code),
        make: Box::new(make),
    }
}

fn run(cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for case in cases {
        let mut forge = Forge::new(case.name);
        (case.make)(&mut forge);
        let (outcome, took) = forge.judge();
        match (case.expect, outcome) {
            (Expect::Loads(holds), Ok(pack)) if holds(&pack) => {}
            (Expect::Refused(code), Err(refusal)) if refusal.code == code => {}
            (Expect::Loads(_), Ok(_)) => {
                wrong.push(format!("{}: loads, but breaks its promise", case.name))
            }
            (Expect::Refused(code), Ok(_)) => {
                wrong.push(format!("{}: loads, not {code}", case.name))
            }
            (Expect::Loads(_), Err(refusal)) => wrong.push(format!("{}: {refusal}", case.name)),
            (Expect::Refused(code), Err(refusal)) => {
                wrong.push(format!("{}: {refusal}, not {code}", case.name));
            }
        }
        if took > Duration::from_secs(5) {
            wrong.push(format!("{}: took {took:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn archives_are_read_in_one_way_only() {
    run(archives::cases());
}

#[test]
fn signatures_of_the_corpus_are_accepted_or_refused_as_expected() {
    run(signatures::cases());
}

#[test]
fn manifests_of_the_corpus_are_accepted_or_refused_as_expected() {
    run(manifests::cases());
}

#[test]
fn references_stay_inside_the_pack() {
    run(contents::cases());
}

#[test]
fn suites_of_the_corpus_are_accepted_or_refused_as_expected() {
    run(suites::cases());
}
