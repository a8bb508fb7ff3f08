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
        prairie_testing::skip("no Chromium in PATH (on Debian: apt-get install chromium)");
    }
    found
}

/// Opens `page` in a frame `width` pixels wide and returns its marks once the charts are checked.
fn open(chromium: &Path, page: &str, width: u32, scheme: Scheme) -> Marks {
    open_and(chromium, page, width, scheme, "")
}

/// The same, after a script has used the page: it sees the page as `page`, its root as `root`.
fn open_and(chromium: &Path, page: &str, width: u32, scheme: Scheme, act: &str) -> Marks {
    let directory = tempfile::tempdir().unwrap();
    let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!(
        "<!DOCTYPE html><body style='margin:0'><iframe width={width} height=900 \
         style='border:0' srcdoc=\"{quoted}\"></iframe><script>\
         const look = () => {{ const marks = frames[0].document?.documentElement?.dataset;\
         if (!marks?.width) return setTimeout(look, 50);\
         const page = frames[0].document, root = page.documentElement;\
         const tell = () => {{ document.body.textContent = \
         'marks:' + JSON.stringify(root.dataset) + ':end'; }};\
         (async () => {{ {act} }})().then(tell, (e) => {{ root.dataset.failure = String(e); tell(); }});\
         }}; look();</script>"
    );
    let file = directory.path().join("frame.html");
    std::fs::write(&file, frame).unwrap();
    // On a busy machine the browser's virtual time can be over before it has read the page. Such
    // a run says nothing about the page, and is repeated.
    let marks = (0..3).find_map(|_| dumped_marks(chromium, &directory, &file, scheme));
    marks.expect("the page leaves marks")
}

/// Opens a file until its virtual time is over; returns the marks that are in it then.
fn dumped_marks(
    chromium: &Path,
    directory: &tempfile::TempDir,
    file: &Path,
    scheme: Scheme,
) -> Option<Marks> {
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
    let Some((marks, _)) = marks else {
        eprintln!("no marks: {dom:.500} {}", String::from_utf8_lossy(&output.stderr));
        return None;
    };
    Some(Marks(serde_json::from_str(&format!("{{{marks}}}")).unwrap()))
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
        // Each table that scrolls says so; on a phone some do.
        assert_eq!(marks.get("wide"), marks.get("hints"), "{at}");
        assert!(width > 400 || marks.get("wide") != "0", "{at}");
        // Nothing is wider than the window (which a scroll bar may narrow).
        let (needed, available) = marks.width();
        assert!(needed == available && (width - 20..=width).contains(&available), "{at}");
    }
}

/// Interactions with legend, keys, buttons, and pointer.
const USE: &str = r#"
    const figure = page.querySelector('.chart'), plot = figure.querySelector('.plot');
    const soon = () => new Promise((done) => setTimeout(done, 100));
    const press = async (key) => {
        plot.dispatchEvent(new frames[0].KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
        await soon();
    };
    const whole = figure.querySelector('[data-do=whole]');
    const mark = (name, value) => { root.dataset[name] = String(value); };
    const colors = () => {
        const canvas = figure.querySelector('canvas');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let count = 0;
        for (let i = 0; i < data.length; i += 4) {
            if (data[i] === 0x2a && data[i + 1] === 0x6f && data[i + 2] === 0xc9) count++;
        }
        return count;
    };
    const shown = colors();
    mark('fixed', whole.disabled);
    await press('ArrowRight');
    await press('ArrowRight');
    mark('read', figure.querySelector('.at').textContent + ': ' + figure.querySelector('output').textContent);
    await press('+');
    mark('zoomed', !whole.disabled);
    await press('Escape');
    mark('reset', whole.disabled);
    const button = figure.querySelector('.legend button');
    button.click();
    await soon();
    mark('toggled', button.getAttribute('aria-pressed') + ' ' + (shown > 100 && colors() === 0));
    const map = page.querySelector('.map'), tip = page.getElementById('tip');
    // Not smoothly: the pointer moves at once.
    map.scrollIntoView({ behavior: 'instant', block: 'center' });
    const box = map.getBoundingClientRect(), seen = [];
    const { size, top } = JSON.parse(map.nextElementSibling.textContent);
    const scale = box.width / map.viewBox.baseVal.width;
    // Middles of cells: at an edge a pixel belongs to both.
    for (let i = 0; i < 400; i++) {
        const column = Math.floor(156 * (i * 0.618 % 1)), row = Math.floor(79 * i / 400);
        const clientX = box.left + (column + 0.5) * size * scale;
        const clientY = box.top + (top + (row + 0.5) * size) * scale;
        const cell = page.elementFromPoint(clientX, clientY);
        if (!cell?.dataset.c) continue;
        cell.dispatchEvent(new frames[0].PointerEvent('pointermove', { bubbles: true, clientX, clientY }));
        if (!tip.hidden) seen.push(tip.textContent.split('\n'));
    }
    mark('seen', JSON.stringify(seen));
"#;

#[test]
fn charts_and_maps_answer_the_reader() {
    let Some(chromium) = chromium() else { return };
    let page = gallery::gallery().html().unwrap();
    let marks = open_and(&chromium, &page, 1280, Scheme::Light, USE);
    let at = format!("{marks:?}");
    assert_eq!(marks.get("failure"), "", "{at}");
    assert_eq!(marks.get("errors"), "0", "{at}");
    assert_eq!(marks.get("fixed"), "true", "{at}");
    assert!(marks.get("read").starts_with("time since the trace began 2\u{202f}s: 0."), "{at}");
    assert_eq!(marks.get("zoomed"), "true", "{at}");
    assert_eq!(marks.get("reset"), "true", "{at}");
    assert_eq!(marks.get("toggled"), "false true", "{at}");

    // Under the pointer is what the map was given for the frames that the page names.
    let map = &gallery::single().maps[0];
    let seen: Vec<Vec<String>> = serde_json::from_str(marks.get("seen")).unwrap();
    assert!(seen.len() > 300, "{at}");
    for lines in seen {
        let frame = lines[2].split(' ').nth(1).unwrap().trim_start_matches("0x");
        let cell = usize::from_str_radix(frame, 16).unwrap() / 512;
        let class = &map.classes[usize::from(map.segments[0].cells[cell])];
        let zone = if cell < 8 {
            "DMA"
        } else if cell < 2_048 {
            "DMA32"
        } else {
            "Normal"
        };
        assert_eq!(lines[..2], [class.name.as_str(), zone], "{lines:?}");
    }
}

/// The browser reports violations of a policy late, on a busy machine after everything is drawn.
const UNTIL_AN_ERROR: &str = "
    for (let i = 0; i < 100 && root.dataset.errors === '0'; i++) {
        await new Promise((done) => setTimeout(done, 50));
    }
";

/// The markers of the test above are meaningful: they distinguish a broken page.
#[test]
fn a_broken_page_is_noticed() {
    let Some(chromium) = chromium() else { return };
    let page = gallery::gallery().html().unwrap();
    let end = "</body>";
    assert!(page.contains(end));

    let with = |extra: &str| page.replace(end, &format!("{extra}{end}"));
    let fetching = with("<img alt='' src='http://127.0.0.1:9/pixel.png'>");
    let marks = open_and(&chromium, &fetching, 1280, Scheme::Light, UNTIL_AN_ERROR);
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
