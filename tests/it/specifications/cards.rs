//! The commands of the guide to agent-card scoring, and the members that its example programs read.

use super::template::faults;
use super::{document, printed, with_ids};
use crate::agent_cards::fixture;
use crate::agent_cards::wire::agent::Agent;
use crate::cli::home::{Done, Home};

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_commands_score_a_card_with_the_printed_members() {
    let agent = Agent::start(&[]).await;
    let home = Home::empty();
    for file in ["agent-card.json", "agent.json"] {
        std::fs::write(home.path(file), fixture::card().to_string()).unwrap();
    }
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let opened = format!("[agent_cards]\nprivate_targets = [\"{}\"]\n", agent.place());
    std::fs::write(home.config(), format!("{settings}\n{opened}")).unwrap();
    let base = agent.base();
    let ids = [("capiscio ", ""), ("https://agent.example.com", &*base)];
    let commands = with_ids("cards/commands.txt", &ids);
    assert_eq!(commands.lines().count(), 3);
    for line in commands.lines() {
        let (words, file) = match line.split_once(" > ") {
            Some((words, file)) => (words, Some(file)),
            None => (line, None),
        };
        let mut command = home.touchstone();
        command.arg("card").args(words.split(' '));
        let run = tokio::task::spawn_blocking(move || Done::of(&mut command));
        let done = run.await.unwrap();
        // Whether the card is ready for production.
        assert!([0, 1].contains(&done.code), "{line}: {}", done.stderr);
        if file.is_some() {
            let scores = document(&done.stdout);
            let found = faults(&document(&printed("cards/result.json")), &scores);
            assert!(found.is_empty(), "{found:?} in {scores:#}");
        } else {
            for axis in ["compliance", "trust", "availability"] {
                assert!(done.stdout.contains(axis), "{line}: {}", done.stdout);
            }
        }
    }
    assert!(!agent.log().is_empty(), "no request reached the agent");
}
