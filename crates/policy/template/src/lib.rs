//! A placement policy for Prairie: change `allocate`, build, and replay.

mod abi;
mod prairie;

use abi::RawRequest;
use prairie::{Core, Failure, Policy, UNMOVABLE};

/// Keeps unmovable memory in the upper quarter of each zone, as long as it fits.
#[derive(Default)]
pub struct Confine {
    kernel: Vec<u64>,
}

impl Policy for Confine {
    const NAME: &'static str = "confine";
    const SUMMARY: &'static str = "unmovable memory in the upper quarter of each zone";

    fn boot(&mut self, core: &mut Core) -> Result<(), Failure> {
        for (number, zone) in core.regions().iter().enumerate() {
            let frames = zone.end - zone.start;
            if frames >= 8192 {
                let border = zone.start + frames / 4 * 3;
                self.kernel.push(core.divide(number as u64, border)?);
            }
        }
        Ok(())
    }

    fn allocate(&mut self, core: &mut Core, request: &RawRequest) -> Result<Option<u64>, Failure> {
        let unmovable = request.mobility == UNMOVABLE;
        let mut regions = core.regions_for(request);
        regions.sort_by_key(|region| self.kernel.contains(region) != unmovable);
        for region in regions {
            if let Some(block) = core.take_block(request.order, Some(region))? {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }
}

prairie::export!(Confine);
