use proptest::prelude::*;
use roxmltree::Document;
use rstest::rstest;

use crate::credential::baking;
use crate::render::badge::font::{Cut, Weight, fitted, width};
use crate::render::badge::*;
use crate::rules::badge::DisplayScore;
use crate::rules::badge::sample::badge;
use crate::rules::{Axis, Tier};

/// Relative luminance as defined by WCAG 2.
fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn badge_text_has_enough_contrast() {
    for tier in Axis::ALL.into_iter().flat_map(Tier::all) {
        let (ground, ink) = colours(tier);
        assert!(
            contrast(ground, ink) >= 6.0,
            "{ground}: {}",
            contrast(ground, ink)
        );
    }
    for (ground, ink) in [
        ("#FFFFFF", layout::INK),
        ("#FFFFFF", layout::FAINT),
        (layout::BAND, layout::WHITE),
        (layout::ALARM, layout::WHITE),
    ] {
        assert!(
            contrast(ground, ink) >= 4.5,
            "{ground}: {}",
            contrast(ground, ink)
        );
    }
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    texts
        .map(|node| node.text().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn the_image_shows_the_values_of_the_badge() {
    let badge = badge();
    let shown = texts(&svg(&badge, Mark::None));
    for expected in [
        "AAAF",
        "Acme Quality",
        "invoice-reader",
        "5eed0000-0000-4000-8000-000000000022",
        "PERFORMANCE",
        "Elite",
        "0.93",
        "CAPABILITY",
        "Versatile",
        "0.64",
        "0.85 of weights assessed",
        "Certified 2026-04-16",
        "Valid until 2026-07-15",
        "Assessment 00000000-0000-0000-0000-000000000044",
        "host 80 %",
    ] {
        assert!(
            shown.iter().any(|text| text == expected),
            "{expected} in {shown:?}"
        );
    }
    let url = shown.last().unwrap();
    assert!(
        url.starts_with("assess.example.org/") && url.ends_with("/verify"),
        "{url}"
    );
    assert_eq!(format!("https://{url}"), badge.verification_url);
}

#[test]
fn images_with_the_earlier_url_layout_still_verify() {
    let badge = badge();
    let credential = "{}";
    let of = |long_url: LongUrl| {
        let drawn = layout::draw(&badge, Mark::None, Glyphs::Any, long_url);
        baking::svg::bake(&drawn, credential).unwrap()
    };
    let [smaller, cut] = LongUrl::ALL.map(of);
    assert_ne!(smaller, cut);
    for picture in [smaller, cut] {
        assert!(is_picture_of(picture.as_bytes(), &badge, credential));
    }
}

#[rstest]
#[case(Mark::None, None)]
#[case(Mark::Expired, Some("EXPIRED"))]
#[case(Mark::Revoked, Some("REVOKED"))]
fn expired_and_revoked_badges_are_marked_in_every_format(
    #[case] mark: Mark,
    #[case] word: Option<&str>,
) {
    let badge = badge();
    let svg = svg(&badge, mark);
    let markdown = markdown(&badge, mark);
    for other in ["EXPIRED", "REVOKED"] {
        let expected = word == Some(other);
        assert_eq!(texts(&svg).iter().any(|text| text == other), expected);
        assert_eq!(markdown.contains(other), expected);
    }
}

#[test]
fn the_markdown_badge_escapes_names() {
    let mut badge = badge();
    badge.agent.name = "a|b\n*c*".to_owned();
    assert_eq!(
        markdown(&badge, Mark::None),
        "| AAAF badge | |\n\
         | --- | --- |\n\
         | Agent | a\\|b \\*c\\* |\n\
         | Agent id | `5eed0000-0000-4000-8000-000000000022` |\n\
         | Organization | Acme Quality |\n\
         | Performance | **Elite** 0.93 |\n\
         | Capability | **Versatile** 0.64 (0.85 of weights assessed) |\n\
         | Evidence by source | host 80 %, person 20 % |\n\
         | Certified | 2026-04-16 |\n\
         | Valid until | 2026-07-15 |\n\
         | Assessment | `00000000-0000-0000-0000-000000000044` |\n\
         | Verify | https://assess.example.org/api/v1/badges/00000000-0000-0000-0000-000000000011/verify |\n"
    );
}

#[rstest]
#[case("short", "short", Cut::End)]
#[case("a name that is by far too long", "a name that…", Cut::End)]
#[case("example.org/a/long/way/verify", "exampl…erify", Cut::Middle)]
fn long_texts_are_truncated_by_their_rendered_width(
    #[case] text: &str,
    #[case] expected: &str,
    #[case] cut: Cut,
) {
    let short = fitted(text, Weight::Bold, 10.0, 70.0, cut);
    assert_eq!(short, expected);
    assert!(width(&short, Weight::Bold, 10.0) <= 70.0);
}

#[test]
fn text_width_depends_on_the_characters() {
    let room = |text: &str| width(text, Weight::Medium, 10.0);
    assert!(room("WWWW") > 2.5 * room("iiii"));
    assert!(room("漢") >= 10.0, "missing characters are as wide as high");
}

/// Renders a badge with this name.
fn painted(name: &str, scale: Scale) -> resvg::tiny_skia::Pixmap {
    let mut badge = badge();
    badge.agent.name = name.to_owned();
    let bytes = png(&badge, Mark::None, scale).unwrap();
    resvg::tiny_skia::Pixmap::decode_png(&bytes).unwrap()
}

/// Number of dark pixels in the area of the name.
fn ink(picture: &resvg::tiny_skia::Pixmap) -> usize {
    let rows = 27..45;
    let all = rows.flat_map(|y| (12..288).map(move |x| (x, y)));
    all.filter(|(x, y)| picture.pixel(*x, *y).is_some_and(|it| it.red() < 128))
        .count()
}

#[test]
fn png_badges_are_rendered_at_both_scales() {
    let once = painted("x", Scale::One);
    assert_eq!((once.width(), once.height()), (300, 150));
    let twice = painted("x", Scale::Two);
    assert_eq!((twice.width(), twice.height()), (600, 300));
}

#[rstest]
#[case::latin("Ångström")]
#[case::greek("Ωμέγα")]
#[case::cyrillic("Проверка")]
// Not in the font: drawn as boxes.
#[case::chinese("发票阅读器")]
#[case::arabic("قارئ الفواتير")]
#[case::emoji("🤖🧾")]
#[case::control("\u{1}\u{2}")]
fn names_in_every_script_are_rendered_visibly(#[case] name: &str) {
    let blank = ink(&painted("\u{200b}", Scale::One));
    assert_eq!(blank, 0);
    assert!(ink(&painted(name, Scale::One)) > 40, "{name}");
}

#[rstest]
#[case("发票阅读器", "Agent 5eed0000", Glyphs::Bundled)]
#[case("🤖 🧾", "Agent 5eed0000", Glyphs::Bundled)]
#[case("发票 reader", "□□ reader", Glyphs::Bundled)]
#[case("Ωμέγα", "Ωμέγα", Glyphs::Bundled)]
// The viewer's fonts may have the characters.
#[case("发票阅读器", "发票阅读器", Glyphs::Any)]
fn an_agent_goes_by_its_id_where_nothing_of_its_name_can_be_shown(
    #[case] name: &str,
    #[case] shown: &str,
    #[case] glyphs: Glyphs,
) {
    let mut badge = badge();
    badge.agent.name = name.to_owned();
    let drawn = layout::draw(&badge, Mark::None, glyphs, LongUrl::Smaller);
    let drawn = Document::parse(&drawn).unwrap();
    let texts = drawn.descendants().filter(|it| it.has_tag_name("text"));
    let texts: Vec<&str> = texts.filter_map(|it| it.text()).collect();
    assert!(texts.contains(&shown), "{texts:?}");
}

#[test]
fn baked_images_are_still_valid_images() {
    let svg = baking::svg::bake(&svg(&badge(), Mark::None), "{\"a\":\"]]>\"}").unwrap();
    assert!(png::rasterize(&svg, Scale::One).is_ok());
    assert_eq!(baking::extract(svg.as_bytes()).unwrap(), b"{\"a\":\"]]>\"}");
    let png = png(&badge(), Mark::None, Scale::One).unwrap();
    let baked = baking::png::bake(&png, "{}").unwrap();
    assert!(resvg::tiny_skia::Pixmap::decode_png(&baked).is_ok());
}

#[test]
fn every_tier_has_its_stated_color() {
    let stated = ["#9E9E9E", "#4CAF50", "#2196F3", "#9C27B0", "#FFD700"];
    for axis in Axis::ALL {
        assert!(Tier::all(axis).map(|tier| colours(tier).0).eq(stated));
        for (tier, color) in Tier::all(axis).zip(stated) {
            let mut badge = badge();
            match axis {
                Axis::Performance => badge.performance.tier = tier,
                Axis::Capability => badge.capability.tier = tier,
            }
            assert!(svg(&badge, Mark::None).contains(color), "{}", tier.name());
        }
    }
}

#[test]
fn every_tier_name_fits_its_box() {
    for (performance, capability) in Tier::all(Axis::Performance).zip(Tier::all(Axis::Capability)) {
        let mut badge = badge();
        badge.performance.tier = performance;
        badge.capability.tier = capability;
        badge.capability.score = DisplayScore::hundredths(100).unwrap();
        for axis in Axis::ALL {
            let rating = badge.rating(axis);
            let name = width(rating.tier.name(), Weight::Bold, 12.5);
            let score = width(&rating.score.to_string(), Weight::Bold, 20.0);
            assert!(name + score + 4.0 <= 119.0, "{}", rating.tier.name());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_name_results_in_valid_svg_without_active_content(
        agent in "(<script>|\"|'|&|]]>|\\PC|[\\u{0}-\\u{10ffff}]){1,60}",
        organization in "\\PC{1,80}|[\\u{300}-\\u{36f}]{50}",
    ) {
        let mut badge = badge();
        badge.agent.name = agent;
        badge.organization.name = organization;
        let svg = svg(&badge, Mark::Revoked);
        let document = Document::parse(&svg).unwrap();
        for node in document.descendants().filter(|node| node.is_element()) {
            let name = node.tag_name().name();
            prop_assert!(
                ["svg", "title", "rect", "path", "clipPath", "g", "text"].contains(&name),
                "{name}"
            );
            for attribute in node.attributes() {
                let (name, value) = (attribute.name(), attribute.value());
                prop_assert!(!name.starts_with("on") && name != "href" && name != "style", "{name}");
                prop_assert!(!value.contains("url(") || value.starts_with("url(#"), "{value}");
            }
        }
        prop_assert!(png(&badge, Mark::None, Scale::One).is_ok());
        prop_assert!(markdown(&badge, Mark::None).lines().count() == 12);
    }
}
