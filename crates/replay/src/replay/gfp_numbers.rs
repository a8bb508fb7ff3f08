//! GFP flags in the numbers of 6.1, whatever kernel was recorded.

use prairie_trace::GfpFlags;
use prairie_trace::import::gfp_names::Renumbering;

/// Translates the recorded kernel's flags. A kernel uses few combinations, so the last ones are
/// remembered.
pub(super) struct GfpNumbers {
    renumbering: Option<Renumbering>,
    remembered: [(GfpFlags, GfpFlags); 64],
}

impl GfpNumbers {
    pub(super) fn new(renumbering: Option<Renumbering>) -> GfpNumbers {
        GfpNumbers { renumbering, remembered: [(GfpFlags(0), GfpFlags(0)); 64] }
    }

    pub(super) fn translate(&mut self, flags: GfpFlags) -> GfpFlags {
        let Some(renumbering) = &self.renumbering else { return flags };
        let slot = (flags.0 ^ flags.0 >> 6 ^ flags.0 >> 12 ^ flags.0 >> 18) as usize % 64;
        let remembered = &mut self.remembered[slot];
        if remembered.0 != flags {
            *remembered = (flags, renumbering.apply(flags));
        }
        remembered.1
    }
}
