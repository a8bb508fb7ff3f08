//! What a request is for, by its flags.

use prairie_frames::MigrateType;
use prairie_sim::machine::recorded::Purpose;
use prairie_trace::GfpFlags;

/// The purpose of a request, by its flags in the numbers of 6.1. Page cache is read ahead
/// (`readahead_gfp_mask`), made to be written (`FGP_WRITE`), or holds blocks of a disk, which may
/// not fail; other user memory is anonymous.
pub(crate) fn purpose(migrate_type: MigrateType, gfp: GfpFlags) -> Purpose {
    const HARDWALL: GfpFlags = GfpFlags(0x10_0000);
    const READ_AHEAD: GfpFlags = GfpFlags(0x1_2000);
    const WRITE: GfpFlags = GfpFlags(0x1000);
    const NOFAIL: GfpFlags = GfpFlags(0x8000);
    let any = |flags: &[GfpFlags]| flags.iter().any(|&flags| gfp.contains(flags));
    if !gfp.contains(HARDWALL) {
        return Purpose::Other;
    }
    if any(&[READ_AHEAD, WRITE, NOFAIL]) {
        return Purpose::File { dirty: gfp.contains(WRITE) };
    }
    match migrate_type {
        MigrateType::Movable => Purpose::Anonymous,
        _ => Purpose::Other,
    }
}
