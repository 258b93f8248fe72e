//! A frame: the regions of a page as one event for all its watchers.

use askama::Template;
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::live::view::{Linked, LiveView, Progress};
use crate::runs::words::Badge;
use touchstone_runs::render::report_page::ReportView;

/// The last event of a run that has ended.
pub const END: &str = "event: end\ndata: {}\n\n";
/// The last event of a stream whose session has ended.
pub const SIGNED_OUT: &str = "event: signed-out\ndata: {}\n\n";

/// The regions of a page at a position of the log.
#[derive(Debug)]
pub struct Frame {
    /// Counts the frames of a watched run.
    pub number: u64,
    /// The page shows at least the log up to here.
    pub sequence: u64,
    pub has_ended: bool,
    regions: Vec<(&'static str, String)>,
    /// All regions, as an event.
    pub full: Bytes,
    /// The regions that differ from the frame before.
    pub changed: Bytes,
}

impl Frame {
    /// Renders the regions of a run; `before` is the frame that the watchers have.
    ///
    /// # Errors
    /// The template engine failed.
    pub fn render(live: &LiveView, before: Option<&Self>) -> Result<Self, askama::Error> {
        let regions = regions(live)?;
        let known = before.map_or(&[][..], |before| &before.regions);
        let changed = regions.iter().filter(|region| !known.contains(region));
        Ok(Self {
            number: before.map_or(1, |before| before.number + 1),
            sequence: live.sequence,
            has_ended: !live.is_open,
            changed: event(live.sequence, changed),
            full: event(live.sequence, regions.iter()),
            regions,
        })
    }

    /// The event for a watcher who has the frame of this number.
    pub fn for_one_with(&self, number: Option<u64>) -> Bytes {
        match number {
            Some(number) if number + 1 == self.number => self.changed.clone(),
            _ => self.full.clone(),
        }
    }
}

/// A JSON string has no line break, so that one `data:` field holds it.
fn event<'a>(sequence: u64, regions: impl Iterator<Item = &'a (&'static str, String)>) -> Bytes {
    let members: Map<String, Value> = regions
        .map(|(name, html)| ((*name).to_owned(), Value::from(html.as_str())))
        .collect();
    let data = Value::Object(members);
    format!("id: {sequence}\nevent: frame\ndata: {data}\n\n").into()
}

#[derive(Template)]
#[template(path = "live/verdict.html")]
struct VerdictRegion<'a> {
    view: &'a ReportView,
}

#[derive(Template)]
#[template(path = "live/progress.html")]
struct ProgressRegion<'a> {
    status: &'a Badge,
    progress: &'a Progress,
}

#[derive(Template)]
#[template(path = "report/tiles.html")]
struct TilesRegion<'a> {
    view: &'a ReportView,
}

#[derive(Template)]
#[template(path = "live/distributions.html")]
struct DistributionsRegion<'a> {
    view: &'a ReportView,
}

#[derive(Template)]
#[template(path = "live/latest.html")]
struct LatestRegion<'a> {
    latest: &'a [Linked],
}

fn regions(live: &LiveView) -> Result<Vec<(&'static str, String)>, askama::Error> {
    let view = &live.view;
    let progress = ProgressRegion {
        status: &live.status,
        progress: &live.progress,
    };
    Ok(vec![
        ("verdict", VerdictRegion { view }.render()?),
        ("progress", progress.render()?),
        ("tiles", TilesRegion { view }.render()?),
        ("distributions", DistributionsRegion { view }.render()?),
        (
            "latest",
            LatestRegion {
                latest: &live.latest,
            }
            .render()?,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_data() {
        let regions = [("verdict", "<p>\n\"a\"\r\n</p>".to_owned())];
        let bytes = event(7, regions.iter());
        let text = std::str::from_utf8(&bytes).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!(lines.len(), 5, "{text:?}");
        assert_eq!((lines[0], lines[1]), ("id: 7", "event: frame"));
        let data: Value = serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["verdict"], "<p>\n\"a\"\r\n</p>");
        assert!(!text.contains('\r'));
    }
}
