//! The colours, chosen once for every drawing.
//!
//! Cool hues are memory that can move, warm hues memory that cannot: blue against orange is the
//! pair that every common kind of colour blindness leaves apart. Within a family the members
//! differ in lightness as well as hue. Each paint has two values, for white and for dark ground.

/// A colour in sRGB.
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

    /// The colour on the ground of `theme` ([`Theme::Auto`] counts as light).
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
/// Memory of which nothing is known.
pub const UNKNOWN: Paint = Paint::new(0x9aa1a8, 0x6b747d);

/// Kinds of memory that can move: cool hues. In order: blue, deep blue, sky, teal, violet, green.
pub const MOVABLE: [Paint; 6] = [
    Paint::new(0x3b7dcc, 0x4f92e6),
    Paint::new(0x163f7d, 0x2456a6),
    Paint::new(0x8cc4ea, 0x9fd2f2),
    Paint::new(0x118a82, 0x23a89e),
    Paint::new(0x7768c6, 0x9d90ea),
    Paint::new(0x72c7a8, 0x86d9bb),
];

/// Kinds of memory that cannot move: warm, strong hues. In order: vermilion, amber, crimson,
/// brown, magenta, ochre, yellow.
pub const UNMOVABLE: [Paint; 7] = [
    Paint::new(0xe2571e, 0xff7840),
    Paint::new(0xf5a70a, 0xffbe3d),
    Paint::new(0xa8163a, 0xdb3a62),
    Paint::new(0x5e2f22, 0x8f5542),
    Paint::new(0xd9408f, 0xf074b4),
    Paint::new(0xa9761c, 0xc2933c),
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
