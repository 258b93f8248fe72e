//! Which variant passes which task.

use super::letter;
use crate::rules::eval::matrix::{CellOutcome, Matrix, MatrixCell, MatrixTask};
use touchstone_host::render::words::plain;

/// Maximum number of tasks in each part of the grid.
const LISTED: usize = 500;

pub struct Grid {
    pub columns: Vec<Column>,
    /// Tasks that variants pass and fail.
    pub disputed: Part,
    /// Tasks that no variant passes.
    pub failed: Part,
    /// Tasks that every variant passes.
    pub passed: Part,
    /// Tasks that were not judged with some variant, and are not disputed.
    pub unjudged: Part,
}

pub struct Column {
    pub letter: String,
    pub name: String,
}

#[derive(Default)]
pub struct Part {
    pub rows: Vec<GridRow>,
    /// Number of rows that are not listed.
    pub more: usize,
}

impl Part {
    pub fn count(&self) -> usize {
        self.rows.len() + self.more
    }

    fn add(&mut self, task: &MatrixTask) {
        if self.rows.len() < LISTED {
            self.rows.push(GridRow {
                id: plain(task.task_id.as_str()),
                cells: task.results.iter().map(cell).collect(),
            });
        } else {
            self.more += 1;
        }
    }
}

pub struct GridRow {
    pub id: String,
    pub cells: Vec<GridCell>,
}

pub struct GridCell {
    pub class: &'static str,
    pub sign: &'static str,
    /// The outcome for readers who do not see the sign.
    pub word: &'static str,
    /// The score, if it is not 0 or 1.
    pub score: String,
}

pub fn grid(found: &Matrix) -> Grid {
    let mut grid = Grid {
        columns: found
            .variants
            .iter()
            .enumerate()
            .map(|(index, row)| Column {
                letter: letter(index),
                name: plain(&row.name),
            })
            .collect(),
        disputed: Part::default(),
        failed: Part::default(),
        passed: Part::default(),
        unjudged: Part::default(),
    };
    for task in &found.tasks {
        let part = if task.is_disputed() {
            &mut grid.disputed
        } else if task.all_are(CellOutcome::Passed) {
            &mut grid.passed
        } else if task.all_are(CellOutcome::Failed) {
            &mut grid.failed
        } else {
            &mut grid.unjudged
        };
        part.add(task);
    }
    grid
}

fn cell(of: &MatrixCell) -> GridCell {
    let (class, sign, word) = match of.outcome {
        CellOutcome::Passed => ("good", "✓", "passed"),
        CellOutcome::Failed => ("bad", "✗", "failed"),
        CellOutcome::Unjudged => ("doubtful", "?", "unjudged"),
        CellOutcome::Absent => ("soft", "–", "not in this run"),
    };
    let partial = of.score.filter(|score| *score > 0.0 && *score < 1.0);
    GridCell {
        class,
        sign,
        word,
        score: partial.map_or_else(String::new, |score| format!("{score:.2}")),
    }
}
