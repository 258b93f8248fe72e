use comfy_table::{Color, ContentArrangement, LineStyle, Table, TableStyle};

use crate::runs::render::scorecard::Style;
use touchstone_runs::rules::eval::report::TaskOutcome;

pub const GOOD: Color = Color::Green;
pub const BAD: Color = Color::Red;
const DOUBTFUL: Color = Color::Yellow;

/// Lines around the header and below the last row, none between rows.
const LINES: TableStyle = TableStyle::new()
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

pub fn begin(style: Style) -> Table {
    let mut table = Table::new();
    table
        .load_style(LINES)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .force_no_tty();
    if let Some(width) = style.width {
        table.set_width(width);
    }
    if style.ink.is_on() {
        table.enforce_styling();
    }
    table
}

pub const fn colour(outcome: TaskOutcome) -> Color {
    match outcome {
        TaskOutcome::Passed => GOOD,
        TaskOutcome::Failed => BAD,
        TaskOutcome::Unjudged => DOUBTFUL,
    }
}
