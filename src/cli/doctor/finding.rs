//! Findings of checks, and the report about them.

use serde::Serialize;
use serde_json::{Value, json};

use touchstone_host::cli::terminal::Terminal;
use touchstone_host::render::table;

/// The areas of checks, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Area {
    Configuration,
    Database,
    Keys,
    Clock,
    Endpoints,
    Archive,
    Cluster,
    Disk,
    Limits,
}

impl Area {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Database => "database",
            Self::Keys => "keys",
            Self::Clock => "clock",
            Self::Endpoints => "endpoints",
            Self::Archive => "archive",
            Self::Cluster => "cluster",
            Self::Disk => "disk",
            Self::Limits => "limits",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// The host works, but something will probably surprise its operator.
    Warning,
    /// The host does not start, or part of it does not work.
    Failure,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub area: Area,
    pub status: Status,
    /// The finding in one sentence, without secrets.
    pub found: String,
    /// What to do; every warning and failure has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    pub fn ok(area: Area, found: impl Into<String>) -> Self {
        Self {
            area,
            status: Status::Ok,
            found: found.into(),
            remedy: None,
        }
    }

    pub fn warning(area: Area, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            status: Status::Warning,
            remedy: Some(remedy.into()),
            ..Self::ok(area, found)
        }
    }

    pub fn failure(area: Area, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            status: Status::Failure,
            remedy: Some(remedy.into()),
            ..Self::ok(area, found)
        }
    }
}

/// The findings in the order of their areas.
pub struct Report(Vec<Finding>);

impl Report {
    pub fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| finding.area);
        Self(findings)
    }

    pub fn has_failures(&self) -> bool {
        self.count(Status::Failure) > 0
    }

    fn count(&self, status: Status) -> usize {
        let with = self.0.iter().filter(|finding| finding.status == status);
        with.count()
    }

    pub fn document(&self) -> Value {
        json!({
            "ok": !self.has_failures(),
            "warnings": self.count(Status::Warning),
            "failures": self.count(Status::Failure),
            "checks": self.0,
        })
    }

    pub fn print(&self, terminal: &Terminal) {
        match self.table(terminal) {
            Some(table) => {
                terminal.print(&table);
                for finding in &self.0 {
                    self.print_remedy(terminal, finding);
                }
            }
            None => {
                for finding in &self.0 {
                    terminal.print(&format!(
                        "{:<7}  {:<13}  {}",
                        finding.status.as_str(),
                        finding.area.as_str(),
                        finding.found
                    ));
                    self.print_remedy(terminal, finding);
                }
            }
        }
        terminal.print(&self.summary());
    }

    /// A remedy has a separate line, so that it can be copied.
    fn print_remedy(&self, terminal: &Terminal, finding: &Finding) {
        if let Some(remedy) = &finding.remedy {
            let area = finding.area.as_str();
            let remedy = terminal.colors().command(remedy);
            match terminal.tables() {
                true => terminal.print(&format!("  {area}: try: {remedy}")),
                false => terminal.print(&format!("  try: {remedy}")),
            }
        }
    }

    fn table(&self, terminal: &Terminal) -> Option<String> {
        if !terminal.tables() {
            return None;
        }
        let (style, colors) = (terminal.style(), terminal.colors());
        let mut table = table::begin(style);
        table.set_header(["", "check", "found"]);
        for finding in &self.0 {
            let mark = match finding.status {
                Status::Ok => colors.good("✓"),
                Status::Warning => colors.doubtful("!"),
                Status::Failure => colors.bad("✗"),
            };
            table.add_row([mark.as_str(), finding.area.as_str(), finding.found.as_str()]);
        }
        table::drawn(table, style)
    }

    fn summary(&self) -> String {
        let counted = |count: usize, one: &str| match count {
            1 => format!("1 {one}"),
            several => format!("{several} {one}s"),
        };
        format!(
            "{}, {}, {}",
            counted(self.0.len(), "check"),
            counted(self.count(Status::Warning), "warning"),
            counted(self.count(Status::Failure), "failure"),
        )
    }
}
