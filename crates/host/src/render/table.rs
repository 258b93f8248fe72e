use comfy_table::{
    Color, ColumnConstraint, ContentArrangement, LineStyle, Row, Table, TableStyle, Width,
};

use crate::render::colors::Colors;

/// How to render.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    pub colors: Colors,
    /// Render a table instead of plain lines.
    pub table: bool,
    /// Maximum number of columns of a table.
    pub width: Option<u16>,
    /// Break lines that are longer than `width`, also if it is too small for tables.
    pub wraps: bool,
    /// Omit passed tasks, however few there are.
    pub only_not_passed: bool,
}

pub const GOOD: Color = Color::Green;
pub const BAD: Color = Color::Red;
pub const DOUBTFUL: Color = Color::Yellow;

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
    if style.colors.is_on() {
        table.enforce_styling();
    }
    table
}

/// A space that does not break a line.
const UNBROKEN: char = '\u{a0}';

/// Text of a cell that [`drawn`] never breaks, such as a number with its unit.
pub fn unbroken(text: &str) -> String {
    text.replace(' ', UNBROKEN.encode_utf8(&mut [0; 4]))
}

/// Spaces around the content of a cell.
const PADDING: u16 = 2;

/// Draws a table that breaks lines only between words; `None` if the terminal is too narrow for
/// that.
pub fn drawn(mut table: Table, style: Style) -> Option<String> {
    let words = longest_words(&table);
    // A space separates the columns.
    let between = u16::try_from(words.len())
        .unwrap_or(u16::MAX)
        .saturating_sub(1);
    let least: u16 = words
        .iter()
        .fold(between, |sum, word| sum.saturating_add(word + PADDING));
    if style.width.is_some_and(|width| least > width) {
        return None;
    }
    for (column, word) in table.column_iter_mut().zip(words) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(
            word + PADDING,
        )));
    }
    Some(table.trim_fmt().replace(UNBROKEN, " "))
}

/// The width of the longest word of each column.
fn longest_words(table: &Table) -> Vec<u16> {
    let mut by_word = Table::new();
    let split = |row: &Row| -> Vec<String> {
        let contents = row.cell_iter().map(comfy_table::Cell::content);
        contents.map(|content| content.replace(' ', "\n")).collect()
    };
    for row in table.header().into_iter().chain(table.row_iter()) {
        by_word.add_row(split(row));
    }
    by_word.column_max_content_widths()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: u16) -> Option<String> {
        let style = Style {
            width: Some(width),
            table: true,
            ..Style::default()
        };
        let mut table = begin(style);
        table.set_header(["run", "suite", "reason"]);
        table.add_row([
            "run_0199c0de0199",
            "vendor.acme.evals.triage 1.0.0",
            "the answer differs from the expected one",
        ]);
        drawn(table, style)
    }

    #[test]
    fn lines_break_between_words_only() {
        for width in 59..120 {
            let drawn = table(width).unwrap();
            for word in ["run_0199c0de0199", "vendor.acme.evals.triage", "expected"] {
                assert!(drawn.contains(word), "{width}\n{drawn}");
            }
            let longest = drawn.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(usize::from(width)), "{width}\n{drawn}");
        }
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        let style = Style {
            width: Some(14),
            ..Style::default()
        };
        let mut table = begin(style);
        table.add_row([unbroken("12 ms") + " / " + &unbroken("345 ms")]);
        let drawn = drawn(table, style).unwrap();
        assert!(drawn.starts_with(" 12 ms /\n 345 ms\n"), "{drawn:?}");
    }

    #[test]
    fn a_terminal_that_is_narrower_than_the_words_gets_no_table() {
        assert_eq!(table(40), None);
    }
}
