//! Page migration by the operating system, step by step: the baselines.
//!
//! Linux 6.1, `mm/migrate.c`: lock the page and put migration entries in place of its translations
//! (`try_to_migrate`), have every TLB forget it, copy, restore the translations
//! (`remove_migration_ptes`). From the first entry to the last the page is unavailable: an access
//! faults, sleeps, and is woken.

use serde::{Deserialize, Serialize};

use crate::address::PageSize;
use crate::params::Params;

/// How software migrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// Linux: an interrupt to every core whose TLB may hold the page, and a wait for all.
    Ipi,
    /// The same; each victim acknowledges before it has flushed (Amit et al., EuroSys 2020, and
    /// FreeBSD). Safe for a copy by software, since the victim cannot return to user mode first.
    EarlyAcknowledgement,
    /// One instruction that invalidates in all TLBs: AMD INVLPGB and TLBSYNC, used by Linux since
    /// 6.15, or ARM TLBI and DSB.
    Broadcast,
    /// Nomad (OSDI 2024): copies while the page stays mapped, then looks whether it was written
    /// meanwhile. Its best case, no write, is what is counted; otherwise it tries again.
    Nomad,
    /// For a page that a device uses, which Linux refuses to move: stop the device's queue, move
    /// by interrupts, start the queue.
    StopMoveRestart,
}

impl Baseline {
    /// All, Linux first.
    pub const ALL: [Baseline; 5] = [
        Baseline::Ipi,
        Baseline::EarlyAcknowledgement,
        Baseline::Broadcast,
        Baseline::Nomad,
        Baseline::StopMoveRestart,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Baseline::Ipi => "IPI",
            Baseline::EarlyAcknowledgement => "IPI, early acknowledgement",
            Baseline::Broadcast => "broadcast",
            Baseline::Nomad => "Nomad",
            Baseline::StopMoveRestart => "stop, move, restart",
        }
    }

    /// Whether it can move a page that a device reads and writes.
    pub fn moves_device_pages(self) -> bool {
        self == Baseline::StopMoveRestart
    }

    /// The steps of migrating one page whose translation `victims` other TLBs may hold.
    pub fn steps(self, params: &Params, victims: u64, size: PageSize) -> Vec<Step> {
        let s = &params.software;
        let copy = match size {
            PageSize::Base => s.copy_4k_ns,
            PageSize::Huge => s.copy_2m_ns,
            PageSize::Giant => 512 * s.copy_2m_ns,
        };
        let shootdown = self.shootdown_ns(params, victims);
        let step = |name, ns, unavailable| Step { name, ns, unavailable };
        let linux = [
            step("unmap", s.unmap_ns, false),
            step("shootdown", shootdown, true),
            step("copy", copy, true),
            step("remap", s.remap_ns, true),
        ];
        match self {
            Baseline::Ipi | Baseline::EarlyAcknowledgement | Baseline::Broadcast => linux.to_vec(),
            Baseline::Nomad => vec![
                step("clear the dirty bit", s.unmap_ns, false),
                step("shootdown", shootdown, false),
                step("copy", copy, false),
                step("unmap, look whether written", shootdown, true),
                step("remap", s.remap_ns, true),
            ],
            Baseline::StopMoveRestart => {
                let mut steps = vec![step("stop the device's queue", s.device_stop_ns, true)];
                steps.extend(linux.map(|step| Step { unavailable: true, ..step }));
                steps.push(step("invalidate the IOTLB", params.iommu.invalidate_ns, true));
                steps.push(step("start the device's queue", s.device_start_ns, true));
                steps
            }
        }
    }

    /// Nanoseconds until every TLB has forgotten a page.
    fn shootdown_ns(self, params: &Params, victims: u64) -> u64 {
        let s = &params.software;
        let local = params.migration.invalidate_page_ns;
        match self {
            Baseline::Broadcast => s.broadcast_ns,
            _ if victims == 0 => local,
            Baseline::EarlyAcknowledgement => {
                let wait = s.ipi_deliver_ns + victims * s.ipi_per_victim_ns;
                wait.saturating_sub(s.early_ack_saves_ns)
            }
            _ => s.ipi_deliver_ns + victims * s.ipi_per_victim_ns,
        }
    }

    /// Nanoseconds that one shootdown takes from each victim, times how many a migration needs.
    pub fn victim_ns(self, params: &Params) -> u64 {
        let s = &params.software;
        match self {
            Baseline::Broadcast => s.broadcast_stall_ns,
            Baseline::Nomad => 2 * s.ipi_handler_ns,
            _ => s.ipi_handler_ns,
        }
    }
}

/// A step of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The step.
    pub name: &'static str,
    /// Nanoseconds it takes.
    pub ns: u64,
    /// Whether the page is unavailable meanwhile.
    pub unavailable: bool,
}

/// Nanoseconds of all steps, and of those during which the page cannot be used.
pub fn totals(steps: &[Step]) -> (u64, u64) {
    let all = steps.iter().map(|step| step.ns).sum();
    let unavailable = steps.iter().filter(|step| step.unavailable).map(|step| step.ns).sum();
    (all, unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable(baseline: Baseline, victims: u64) -> u64 {
        totals(&baseline.steps(&Params::default(), victims, PageSize::Base)).1
    }

    /// By hand, from the default costs: delivery 2700, 220 a victim, copy 380, remap 465.
    #[test]
    fn the_steps_add_up() {
        assert_eq!(unavailable(Baseline::Ipi, 0), 104 + 380 + 465);
        assert_eq!(unavailable(Baseline::Ipi, 15), 6000 + 380 + 465);
        assert_eq!(unavailable(Baseline::EarlyAcknowledgement, 15), 6000 - 104 + 845);
        assert_eq!(unavailable(Baseline::Broadcast, 15), 1000 + 845);
        assert_eq!(unavailable(Baseline::Nomad, 15), 6000 + 465);
        assert_eq!(unavailable(Baseline::StopMoveRestart, 15), 40_000 + 465 + 6845 + 600);
        let steps = Baseline::Nomad.steps(&Params::default(), 15, PageSize::Base);
        assert_eq!(totals(&steps).0, 465 + 6000 + 380 + 6000 + 465);
    }

    #[test]
    fn interrupts_are_linear_in_victims_and_broadcast_is_flat() {
        let slope = |baseline, from, to| {
            (unavailable(baseline, to) - unavailable(baseline, from)) / (to - from)
        };
        assert_eq!([slope(Baseline::Ipi, 1, 64), slope(Baseline::Ipi, 64, 256)], [220, 220]);
        assert_eq!(slope(Baseline::Broadcast, 1, 256), 0);
        assert_eq!(slope(Baseline::Nomad, 1, 256), 220);
    }
}
