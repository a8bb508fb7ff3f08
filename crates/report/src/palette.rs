//! The colors, chosen once for every drawing.
//!
//! Cool hues are memory that can move, warm hues memory that cannot: blue against orange is the
//! pair that every common kind of color blindness leaves apart. Within a family the members
//! differ in lightness as well as hue; a test measures every pair as each kind of sight sees it. Each paint has two values, for white and for dark ground.

/// A color in sRGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rgb(
    /// Red, 0 to 255.
    pub u8,
    /// Green, 0 to 255.
    pub u8,
    /// Blue, 0 to 255.
    pub u8,
);

impl Rgb {
    /// `#rrggbb`.
    pub fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// One paint with its value on a light and on a dark ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Paint {
    /// On [`GROUND`]'s light value.
    pub light: Rgb,
    /// On [`GROUND`]'s dark value.
    pub dark: Rgb,
}

/// The ground that a picture is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Theme {
    /// White ground.
    #[default]
    Light,
    /// Dark ground.
    Dark,
    /// Follows the reader's preference by CSS `light-dark()`: for SVG files and pages in a
    /// browser. A PNG has one ground, so there it means [`Theme::Light`].
    Auto,
}

impl Paint {
    /// A paint from its two values written as `0xrrggbb`.
    pub const fn new(light: u32, dark: u32) -> Paint {
        Paint { light: rgb(light), dark: rgb(dark) }
    }

    /// The color on the ground of `theme` ([`Theme::Auto`] counts as light).
    pub const fn on(self, theme: Theme) -> Rgb {
        match theme {
            Theme::Light | Theme::Auto => self.light,
            Theme::Dark => self.dark,
        }
    }
}

const fn rgb(hex: u32) -> Rgb {
    Rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

/// The ground of every picture and page.
pub const GROUND: Paint = Paint::new(0xffffff, 0x11161c);
/// Text and zone borders.
pub const INK: Paint = Paint::new(0x1b232c, 0xe8edf2);
/// Text of less weight.
pub const MUTED: Paint = Paint::new(0x5a6672, 0x9aa7b4);
/// Hairlines and grids.
pub const LINE: Paint = Paint::new(0xdde3e9, 0x2c3640);

/// Free memory: pale, so that what is taken stands out.
pub const FREE: Paint = Paint::new(0xe3e9ee, 0x28313a);
/// Memory of unknown class.
pub const UNKNOWN: Paint = Paint::new(0x7d8891, 0x6c747b);

/// Kinds of memory that can move: cool hues. In order: blue, deep blue, sky, teal, violet, green.
pub const MOVABLE: [Paint; 6] = [
    Paint::new(0x3b7dcc, 0x4f92e6),
    Paint::new(0x163f7d, 0x2456a6),
    Paint::new(0x8cc4ea, 0x9fd2f2),
    Paint::new(0x1abdb2, 0x2cb8a1),
    Paint::new(0x7849d9, 0x8855eb),
    Paint::new(0x5fdca8, 0x6df3bb),
];

/// Kinds of memory that cannot move: warm, strong hues. In order: vermilion, amber, crimson,
/// brown, magenta, ochre, yellow.
pub const UNMOVABLE: [Paint; 7] = [
    Paint::new(0xe0602a, 0xf27d42),
    Paint::new(0xf5a70a, 0xffbe3d),
    Paint::new(0x96152f, 0xb81c38),
    Paint::new(0x4d1a10, 0x5c1d10),
    Paint::new(0xb8266e, 0xe1217b),
    Paint::new(0x80580f, 0x9a6c1c),
    Paint::new(0xf2d34b, 0xf7e07a),
];

/// Lines and bars of a chart, in order; beyond the last they begin again.
pub const SERIES: [Paint; 8] = [
    Paint::new(0x2a6fc9, 0x62a4f5),
    Paint::new(0xd9541e, 0xff8552),
    Paint::new(0x0f8a7e, 0x35bdae),
    Paint::new(0x8a4fc0, 0xbb8cf0),
    Paint::new(0xb98300, 0xf0b93a),
    Paint::new(0xc22f6f, 0xf2699f),
    Paint::new(0x56606b, 0xa9b4bf),
    Paint::new(0x4c8a1d, 0x8fce58),
];

/// The paint of series number `index`.
pub const fn series(index: usize) -> Paint {
    SERIES[index % SERIES.len()]
}

/// Patterns of lines: lengths of strokes and gaps in pixels; the first is unbroken. There are not as
/// many as colors, so that beyond the last color a line differs by its pattern.
const DASHES: [&[u8]; 7] =
    [&[], &[9, 4], &[2, 3], &[12, 3, 2, 3], &[5, 2], &[16, 5], &[7, 3, 2, 3, 2, 3]];

/// The pattern of line number `index`, so that lines differ by more than their color.
pub const fn dashes(index: usize) -> &'static [u8] {
    DASHES[index % DASHES.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    type Matrix = [[f64; 3]; 3];

    /// Linear RGB as seen without one kind of cone (Machado, Oliveira and Fernandes 2009, severity
    /// 1.0).
    const COLOR_VISIONS: [(&str, Matrix); 4] = [
        ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
        (
            "tritanopia",
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
        ),
    ];

    fn times(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
    }

    fn linear(part: u8) -> f64 {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    }

    /// CIE L*a*b* under D65 as someone with that sight sees it.
    fn lab(Rgb(red, green, blue): Rgb, sight: &Matrix) -> [f64; 3] {
        const TO_XYZ: Matrix =
            [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]];
        let seen = times(sight, [red, green, blue].map(linear)).map(|part| part.clamp(0.0, 1.0));
        let [x, y, z] = times(&TO_XYZ, seen);
        let curve = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let (x, y, z) = (curve(x / 0.95047), curve(y), curve(z / 1.08883));
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn apart(a: Rgb, b: Rgb, sight: &Matrix) -> f64 {
        let squares = lab(a, sight).into_iter().zip(lab(b, sight)).map(|(a, b)| (a - b).powi(2));
        squares.sum::<f64>().sqrt()
    }

    /// The least difference that an eye notices is about 2.3; these keep four times that.
    #[test]
    fn the_paints_of_a_map_differ_for_every_kind_of_sight() {
        let paints: Vec<Paint> =
            [&[FREE, UNKNOWN], MOVABLE.as_slice(), UNMOVABLE.as_slice()].concat();
        for theme in [Theme::Light, Theme::Dark] {
            for (name, sight) in COLOR_VISIONS {
                for (i, a) in paints.iter().enumerate() {
                    for b in &paints[i + 1..] {
                        let apart = apart(a.on(theme), b.on(theme), &sight);
                        assert!(apart > 9.2, "{a:?} {b:?} {theme:?} {name}: {apart}");
                    }
                }
            }
        }
    }

    /// Text of less weight still has the contrast of WCAG AA, 4.5 to 1.
    #[test]
    fn text_has_contrast() {
        let light =
            |Rgb(r, g, b): Rgb| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
        for theme in [Theme::Light, Theme::Dark] {
            for paint in [INK, MUTED] {
                let (a, b) = (light(paint.on(theme)), light(GROUND.on(theme)));
                assert!((a.max(b) + 0.05) / (a.min(b) + 0.05) >= 4.5, "{paint:?} {theme:?}");
            }
        }
    }
}
