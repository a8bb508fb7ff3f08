//! Where a container's memory goes: the configured back end, chosen by leased limits.

use std::sync::Mutex;

use super::container::Container;
use crate::config::Backend;
use crate::tiers::{Tier, compress_badly};
use crate::world::host_memory::HostFigures;
use crate::world::lease::Leases;

const ZSWAP_MAX: &str = "memory.zswap.max";

const ZSWAP_WRITEBACK: &str = "memory.zswap.writeback";

impl Container {
    /// What became of its back end.
    pub fn backend(&self) -> &'static str {
        match (self.backend, self.routed) {
            (Backend::Auto | Backend::Tiers, true) => "device: its pages compress badly",
            (Backend::Tiers, false) => "tiers",
            (Backend::Auto, false) => "auto",
            (Backend::Zswap, _) => "zswap",
            (Backend::Device, _) => "device",
            (Backend::Hierarchy, _) => "hierarchy",
            (Backend::FileOnly, _) => "file-only",
        }
    }

    /// The limit by which its memory goes where it should; nothing for what the host does itself.
    fn wanted_limit(&mut self, host: &HostFigures) -> Option<(&'static str, String)> {
        let badly = compress_badly(&self.seen);
        let has_device = host.device_bytes > 0 && self.seen.room.write_budget_bytes != Some(0);
        let past = || Some((ZSWAP_MAX, "0".to_owned()));
        match self.backend {
            Backend::Device if has_device => past(),
            Backend::Auto if has_device && (badly || self.routed) => past(),
            Backend::Zswap => Some((ZSWAP_WRITEBACK, "0".to_owned())),
            Backend::Tiers if has_device => {
                // Before 6.8 a pool that is full sends new pages to the device and keeps the old.
                let moves_old = self.cgroup.directory.join(ZSWAP_WRITEBACK).exists();
                match self.tiers.decide(&self.seen) {
                    Tier::Device => past(),
                    Tier::Young(bytes) if moves_old => Some((ZSWAP_MAX, bytes.to_string())),
                    Tier::Young(_) | Tier::Pool => None,
                }
            }
            _ => None,
        }
    }

    /// Selects the configured back end by leased limits. Returns a message, if any.
    pub fn route(&mut self, host: &HostFigures, leases: &Mutex<Leases>) -> Option<String> {
        let wanted = self.wanted_limit(host);
        let checks = std::mem::take(&mut self.checks_leases);
        let mut leases = leases.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if wanted.is_none() && leases.is_empty() {
            return None;
        }
        let directory = &self.cgroup.directory;
        for file in [ZSWAP_MAX, ZSWAP_WRITEBACK] {
            if wanted.as_ref().is_none_or(|wanted| wanted.0 != file) {
                let _ = leases.restore(directory, file);
            }
        }
        let (file, value) = wanted?;
        let held = leases.value(directory, file);
        // As `systemctl daemon-reload` does with a limit that a unit sets.
        let is_lost = checks && held.is_some() && !leases.is_in_force(directory, file);
        if held.is_some_and(|held| held == value) && !is_lost || !directory.join(file).exists() {
            return None;
        }
        let (followed, is_past) = (held.is_some(), file == ZSWAP_WRITEBACK || value == "0");
        let newly = matches!(self.backend, Backend::Auto | Backend::Tiers) && !self.routed;
        self.routed |= is_past;
        match leases.take(directory, file, &value) {
            Ok(()) if newly && is_past => {
                let stat = &self.seen.stat;
                let ratio = stat.zswapped as f64 / stat.zswap.max(1) as f64;
                Some(format!("{file} = {value}: its pages compress by only {ratio:.2}"))
            }
            Ok(()) if is_lost => {
                Some(format!("{file} = {value} again: another program had changed it"))
            }
            // A limit that follows the pool is worth a line once.
            Ok(()) if followed => None,
            Ok(()) => Some(format!("{file} = {value}")),
            Err(error) => Some(format!("{file} cannot be set to {value}: {error}")),
        }
    }
}
