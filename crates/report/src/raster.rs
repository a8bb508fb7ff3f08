//! SVG to PNG, with the bundled font, so that a picture is the same on every machine.

use std::sync::{Arc, OnceLock};

use resvg::{tiny_skia, usvg};

/// Inter, by Rasmus Andersson and others, under the SIL Open Font License 1.1
/// (`assets/Inter-LICENSE.txt`): the Latin part of two weights.
pub const INTER_REGULAR: &[u8] = include_bytes!("../assets/Inter-Regular.otf");
pub const INTER_SEMI_BOLD: &[u8] = include_bytes!("../assets/Inter-SemiBold.otf");

/// Draws `svg` with `scale` pixels per unit.
///
/// # Errors
/// Why it cannot be drawn: not valid SVG, or larger than 32,000 pixels on a side.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, String> {
    let options = usvg::Options { fontdb: fonts(), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|e| e.to_string())?;
    let side = |length: f32| (length * scale).ceil();
    let (width, height) = (side(tree.size().width()), side(tree.size().height()));
    if !(1.0..=32_000.0).contains(&width) || !(1.0..=32_000.0).contains(&height) {
        return Err(format!("{width} × {height} pixels is no size for a picture"));
    }
    let mut pixels = tiny_skia::Pixmap::new(width as u32, height as u32)
        .ok_or_else(|| format!("{width} × {height} pixels do not fit memory"))?;
    let transform = tiny_skia::Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| e.to_string())
}

fn fonts() -> Arc<usvg::fontdb::Database> {
    static FONTS: OnceLock<Arc<usvg::fontdb::Database>> = OnceLock::new();
    let load = || {
        let mut database = usvg::fontdb::Database::new();
        database.load_font_data(INTER_REGULAR.to_vec());
        database.load_font_data(INTER_SEMI_BOLD.to_vec());
        database.set_sans_serif_family("Inter");
        Arc::new(database)
    };
    Arc::clone(FONTS.get_or_init(load))
}
