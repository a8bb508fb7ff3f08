//! Opens a report in headless Chromium, from a file, without a network.
//!
//! The page lies in a frame as wide as a desktop window or a phone, because Chromium itself
//! refuses windows narrower than 500 pixels; the page's own script marks what it finds.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../examples/gallery.rs"]
#[allow(dead_code)]
mod gallery;

/// The marks that a page left on its root element.
#[derive(Debug)]
struct Marks(serde_json::Value);

impl Marks {
    fn get(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or("")
    }

    /// The width that the page needs and the width that it has.
    fn width(&self) -> (u32, u32) {
        let (needed, available) = self.get("width").split_once('/').unwrap();
        (needed.parse().unwrap(), available.parse().unwrap())
    }
}

#[derive(Clone, Copy)]
enum Scheme {
    Dark = 0,
    Light = 1,
}

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|directory| names.map(|name| directory.join(name)))
        .find(|candidate| candidate.is_file());
    if found.is_none() {
        eprintln!("skipped: no Chromium in PATH (on Debian: apt-get install chromium)");
    }
    found
}

/// Opens `page` in a frame `width` pixels wide and returns its marks once the charts are checked.
fn open(chromium: &Path, page: &str, width: u32, scheme: Scheme) -> Marks {
    let directory = tempfile::tempdir().unwrap();
    let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!(
        "<!DOCTYPE html><body style='margin:0'><iframe width={width} height=900 \
         style='border:0' srcdoc=\"{quoted}\"></iframe><script>\
         const look = () => {{ const marks = frames[0].document?.documentElement?.dataset;\
         if (marks?.width) document.body.textContent = \
         'marks:' + JSON.stringify(marks) + ':end'; else setTimeout(look, 50); }}; look();\
         </script>"
    );
    let file = directory.path().join("frame.html");
    std::fs::write(&file, frame).unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
        .arg(format!("--blink-settings=preferredColorScheme={}", scheme as u8))
        .args(["--window-size=1400,1000", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let marks = dom.split_once("marks:{").and_then(|(_, rest)| rest.split_once("}:end"));
    let (marks, _) = marks.unwrap_or_else(|| {
        panic!("the page left no marks: {dom:.500} {}", String::from_utf8_lossy(&output.stderr))
    });
    Marks(serde_json::from_str(&format!("{{{marks}}}")).unwrap())
}

#[test]
fn a_report_draws_everything_and_fetches_nothing() {
    let Some(chromium) = chromium() else { return };
    let page = gallery::gallery().html().unwrap();
    for (width, scheme, name) in [
        (1280, Scheme::Light, "light"),
        (1280, Scheme::Dark, "dark"),
        (390, Scheme::Light, "light"),
        (390, Scheme::Dark, "dark"),
    ] {
        let marks = open(&chromium, &page, width, scheme);
        let at = format!("{width} {name}: {marks:?}");
        assert_eq!(marks.get("charts"), "4/4", "{at}");
        assert_eq!(marks.get("maps"), "4", "{at}");
        assert_eq!(marks.get("errors"), "0", "{at}");
        assert_eq!(marks.get("fetched"), "0", "{at}");
        assert_eq!(marks.get("scheme"), name, "{at}");
        // Nothing is wider than the window (which a scroll bar may narrow).
        let (needed, available) = marks.width();
        assert!(needed == available && (width - 20..=width).contains(&available), "{at}");
    }
}

/// The marks of the test above mean something: a broken page is told from a whole one.
#[test]
fn a_broken_page_is_noticed() {
    let Some(chromium) = chromium() else { return };
    let page = gallery::gallery().html().unwrap();
    let end = "</body>";
    assert!(page.contains(end));

    let with = |extra: &str| page.replace(end, &format!("{extra}{end}"));
    let fetching = with("<img alt='' src='http://127.0.0.1:9/pixel.png'>");
    let marks = open(&chromium, &fetching, 1280, Scheme::Light);
    assert_ne!(marks.get("errors"), "0", "the policy forbids to fetch: {marks:?}");

    let scripted = with("<script>document.documentElement.dataset.stolen = 'yes'</script>");
    let marks = open(&chromium, &scripted, 1280, Scheme::Light);
    assert_eq!(marks.get("stolen"), "", "a foreign script must not run: {marks:?}");

    let wide = with("<div style='width:3000px'>x</div>");
    let marks = open(&chromium, &wide, 390, Scheme::Light);
    assert!(marks.width().0 >= 3000, "{marks:?}");

    // An axis far from the values: the chart stays blank.
    let range = "\"unit\":\"number\",\"range\":[0.0,1.0]";
    assert!(page.contains(range));
    let blank = page.replace(range, "\"unit\":\"number\",\"range\":[5.0,6.0]");
    let marks = open(&chromium, &blank, 1280, Scheme::Light);
    assert_eq!(marks.get("charts"), "3/4", "{marks:?}");
}

#[test]
fn text_from_outside_stays_text() {
    let page = gallery::gallery().html().unwrap();
    // The made-up process of that name is in a table, escaped; its script is nowhere.
    assert!(page.contains("&lt;&#x2f;script&gt;&lt;script&gt;alert("));
    assert!(!page.contains("<script>alert("));
    assert!(!page.contains("<b>This is text</b>"));
}

#[test]
fn a_page_names_no_address() {
    let page = gallery::gallery().html().unwrap();
    // The charting library's comment names its home; nothing else may name any.
    let page = page.replace("/*! https://github.com/leeoniya/uPlot (v1.6.32) */", "");
    for scheme in ["http://", "https://", "src=\"", "url(//", "@import"] {
        assert!(!page.contains(scheme), "{scheme}");
    }
}
