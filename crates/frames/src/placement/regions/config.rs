//! When the border moves and how far, and which free block is taken first.

use alloc::vec::Vec;

use super::moves::Hardware;
use super::resizer::Tuning;

/// The tunable part of [`Regions`](super::Regions).
///
/// The free memory that a region should keep is a share of its node, not of the region: what
/// arrives between two calls of `maintain` depends on the load, not on the position of the border,
/// and a share of the region would shrink to nothing with it.
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
    /// Pageblocks that one allocation that found its region exhausted may move or examine. The
    /// default of 16 bounds the pause of that allocation to 32 MiB of copying at worst.
    pub failure_pageblocks: u64,
    /// Width of a band on either side of the border that is used last, in 1/1024 of the region:
    /// the unmovable region's, the movable region's. Beyond the band a request is cut from the
    /// smallest block that suffices, and of that size from the one furthest from the border; only
    /// if every block lies in the band, from the furthest one of any size.
    ///
    /// The two extremes are worse, as `tests/regions_bias.rs` measures on a machine with 5 % free
    /// whose border moves to and fro. Without a band (0) the small holes beside the border fill
    /// again and growth has to migrate some 12,000 pages, with a 64th of the region none. With
    /// nothing but a band (1024, address-ordered first fit) every small request breaks the
    /// furthest large block while small ones lie nearer, and under 1 % of the free memory is left
    /// in blocks of 2 MiB, against two thirds. A band that exceeds the free memory behaves like
    /// that too, hence the narrow one above; below the border there is always more free memory,
    /// and a 16th costs nothing and saves some growth.
    pub band_per_1024: [u64; 2],
    /// Whether memory is allocated away from the border. Without this a region takes the smallest
    /// block that suffices, wherever it lies. For ablation.
    pub bias: bool,
    /// Whether memory that is never freed is placed at the end of its region that is furthest from
    /// the border, whatever large block that breaks. For ablation.
    pub far_end: bool,
    /// Whether pages are migrated before they are pinned. Without this they are pinned where they
    /// lie, and count as strays until they are freed. For ablation.
    pub pin_migration: bool,
    /// Whether single frames pass through per-CPU lists. Without them a page that is freed and
    /// asked for again is merged and split over all orders each time.
    pub per_cpu_lists: bool,
    /// How pressure moves the border.
    pub tuning: Tuning,
    /// The hardware that migrates unmovable pages in use, if the machine has it: `contiguitas-hw`.
    /// Memory that is not known to be movable stays even then.
    pub hardware: Option<Hardware>,
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
            band_per_1024: [64, 16],
            bias: true,
            far_end: true,
            pin_migration: true,
            per_cpu_lists: true,
            tuning: Tuning::default(),
            hardware: None,
        }
    }
}
