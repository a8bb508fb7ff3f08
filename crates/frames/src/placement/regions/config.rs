//! When the border moves and how far, and which free block is taken first.

use alloc::vec::Vec;

/// Which of the sufficient free blocks of a region a request is cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// The furthest from the border, however large it is (address-ordered first fit).
    Furthest,
    /// The smallest sufficient order, and of that order the furthest from the border.
    SmallestBlock,
}

/// The tunable part of [`Regions`](super::Regions).
///
/// The free memory that a region should keep is told in shares of its node and not of the
/// region: what arrives between two calls of `maintain` depends on what the machine does, not on
/// where the border happens to be, and a share of the region would shrink with it to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Frames of the unmovable region at the start, by node. Nodes that are not named get
    /// [`initial_per_1024`](Config::initial_per_1024).
    pub initial_frames: Vec<(u16, u64)>,
    /// Share of a node that is the unmovable region at the start, in 1/1024. The default of 64,
    /// a sixteenth, errs on the large side: handing pageblocks back costs no copy, since the
    /// region fills from its low end, whereas growing later may have to empty them.
    pub initial_per_1024: u64,
    /// The unmovable region's low mark, in 1/1024 of its node: with less free than this it
    /// grows. Never less than its zones' own low watermarks or one pageblock. The default of 4 is
    /// 64 MiB on 16 GiB, ten times the kernel's low watermark there: the region must last until
    /// the next call of `maintain`, and cannot be refilled by reclaim as a zone can.
    pub low_per_1024: u64,
    /// Growth goes on until this many low marks are free. The default of 2 keeps the next growth
    /// away for as long again as the low mark lasts.
    pub target_lows: u64,
    /// Above this many low marks free, the region shrinks, down to `target_lows`. It must exceed
    /// `target_lows`, and the distance is the hysteresis: with the default of 4, two low marks
    /// must be freed or used up before the border turns round.
    pub high_lows: u64,
    /// Pageblocks that the border of a node may move in one call of `maintain`. The default of 64
    /// bounds a call to 128 MiB of copying at worst.
    pub step_pageblocks: u64,
    /// Pageblocks that may change sides for one allocation that found its region exhausted. The
    /// default of 16 bounds the pause of that allocation to 32 MiB of copying at worst.
    pub failure_pageblocks: u64,
    /// Which free block is taken first.
    pub bias: Bias,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            initial_frames: Vec::new(),
            initial_per_1024: 64,
            low_per_1024: 4,
            target_lows: 2,
            high_lows: 4,
            step_pageblocks: 64,
            failure_pageblocks: 16,
            bias: Bias::Furthest,
        }
    }
}
