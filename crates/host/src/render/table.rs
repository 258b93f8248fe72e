use comfy_table::{Color, ContentArrangement, LineStyle, Table, TableStyle};

use crate::render::colors::Colors;

/// How to render.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    pub colors: Colors,
    /// Render a table instead of plain lines.
    pub table: bool,
    /// Maximum number of columns of a table.
    pub width: Option<u16>,
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
