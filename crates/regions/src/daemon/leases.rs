//! The kernel settings that the daemon leases: set as the regions need them, restored at the end.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use prairie_daemon::log::Log;
use prairie_host::Roots;

use super::Daemon;
use super::trouble::Topic;
use crate::config::{MakeRoom, SettingsConfig};
use crate::kswapd;
use crate::limits::Pause;
use crate::policy::room::Distances;
use crate::ratios;
use crate::reclaim::Reclaim;
use crate::record::Record;
use crate::sample::NodeSample;
use crate::settings::{Setting, Value};

const FACTOR: Setting = Setting::WatermarkScaleFactor;

impl Daemon {
    /// Sets the kernel's reserves as the regions need them.
    pub(super) fn lease(&mut self, now: Duration) {
        let movable = self.last.nodes.iter().any(|node| node.movable.managed > 0);
        if !self.lease_pause.is_over(now) || !movable {
            return;
        }
        match self.try_lease(now) {
            Ok(()) => {
                self.lease_pause = Pause::default();
                self.settled(Topic::Settings);
            }
            Err(error) => {
                self.lease_pause.extend(now);
                let why = format!("kernel settings are left as they are: {error}");
                self.trouble(Topic::Settings, &why);
            }
        }
    }

    fn try_lease(&mut self, now: Duration) -> io::Result<()> {
        let settings = self.config.settings;
        let roots = self.host.roots().clone();
        let reserves = self.policy.reserves();
        let nodes: Vec<_> = reserves.iter().map(|(node, _)| *node).collect();
        let borrow = self.policy.borrows(now);
        if let Some(wanted) = ratios::ratios(settings.lowmem_reserve_ratio, &reserves, borrow) {
            let held = self.record().state().settings.get(&Setting::LowmemReserveRatio).cloned();
            let read = Setting::LowmemReserveRatio.read(&roots)?;
            let normal = reserves.iter().any(|(node, _)| node.kernel.normal > 0);
            let text = ratios::text(&read.to_string().replace(',', " "), wanted, normal);
            let text =
                text.ok_or_else(|| io::Error::other("lowmem_reserve_ratio has no numbers"))?;
            let wanted: Value = text.parse()?;
            // Small changes are not worth a write, because each write recomputes all watermarks.
            if held.is_none() || differs(&read.to_string(), &wanted.to_string()) {
                self.set(&roots, Setting::LowmemReserveRatio, &wanted, &read)?;
            }
        }
        let set = self.record().state().settings.contains_key(&Setting::MinFreeKbytes);
        if !set {
            let read = Setting::MinFreeKbytes.read(&roots)?;
            let now_kib = read.to_string().parse().unwrap_or(0);
            if let Some(kib) = ratios::min_free_kib(settings.min_free, now_kib, &nodes) {
                let before = self.min_free_before.clone().unwrap_or(read);
                self.set(&roots, Setting::MinFreeKbytes, &kib.to_string().parse()?, &before)?;
            }
        }
        if settings.make_room != MakeRoom::Off {
            let distances = self.policy.watermark_distances(now, self.reclaim().is_none());
            self.set_watermark_distances(&roots, &nodes, distances)?;
        }
        if !self.kswapd_done {
            self.kswapd_done = true;
            self.raise_kswapd(&roots)?;
        }
        Ok(())
    }

    /// Restores the settings that other values than before are configured for. They are leased again as
    /// that says, if it says so.
    pub(super) fn give_up_leases(&mut self, settings: &SettingsConfig) {
        if self.dry_run {
            return;
        }
        let roots = self.host.roots().clone();
        for setting in changed(&self.config.settings, settings) {
            let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
            restore_setting(&mut record, &roots, &self.log, setting);
            drop(record);
            match setting {
                Setting::KswapdPriority => self.kswapd_done = false,
                Setting::WatermarkScaleFactor => self.factor_changed_by_others = false,
                _ => {}
            }
        }
    }

    /// Lets kswapd run before the tasks that use memory up. Without the right to do that, or where no
    /// kswapd is to be seen, its priority stays.
    fn raise_kswapd(&mut self, roots: &Roots) -> io::Result<()> {
        let setting = Setting::KswapdPriority;
        let nice = self.config.settings.kswapd_nice;
        let held = self.record().state().settings.contains_key(&setting);
        let (Ok(now), false) = (setting.read(roots), held) else { return Ok(()) };
        let wanted = kswapd::raised(&now.to_string(), nice).parse()?;
        if let Err(error) = self.set(roots, setting, &wanted, &now) {
            self.record().restored(setting)?;
            self.log.note("warning", format_args!("{}: {error}", setting.name()));
        }
        Ok(())
    }

    /// Keeps the watermarks of the movable zones that far apart. What others set is left alone from
    /// then on. Kernels before 4.6 have no such setting.
    fn set_watermark_distances(
        &mut self,
        roots: &Roots,
        nodes: &[NodeSample],
        distances: Distances,
    ) -> io::Result<()> {
        let held = self.record().state().settings.get(&FACTOR).cloned();
        let before = match &held {
            Some((_, before)) => before.clone(),
            None if self.factor_changed_by_others => return Ok(()),
            None => match FACTOR.read(roots) {
                Ok(read) => read,
                Err(_) => return Ok(()),
            },
        };
        let Ok(factor) = before.to_string().parse() else { return Ok(()) };
        let wanted = ratios::scale_factor(factor, distances, nodes);
        let wanted = wanted.map(|factor| factor.to_string().parse::<Value>()).transpose()?;
        match (held, wanted) {
            (None, Some(wanted)) => self.set(roots, FACTOR, &wanted, &before)?,
            // Zones change a little with each block.
            (Some((ours, _)), Some(wanted)) if differs(&ours.to_string(), &wanted.to_string()) => {
                match FACTOR.read(roots)? == ours {
                    true => self.set(roots, FACTOR, &wanted, &ours)?,
                    false => self.give_factor_up(false, &before)?,
                }
            }
            (Some((ours, _)), None) => {
                let restored = FACTOR.restore(roots, &ours, &before)?;
                self.give_factor_up(restored, &before)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The factor is no longer the daemon's, because it restored what was there before, or others
    /// changed it meanwhile.
    fn give_factor_up(&mut self, restored: bool, before: &Value) -> io::Result<()> {
        self.factor_changed_by_others = !restored;
        self.record().restored(FACTOR)?;
        match restored {
            true => self.log.note("restored", format_args!("{} = {before}", FACTOR.name())),
            false => log_change_by_others(&self.log, FACTOR),
        }
        Ok(())
    }

    /// Proactive reclaim, if it is to make room and can: it knows no nodes.
    pub(super) fn reclaim(&self) -> Option<&Arc<Reclaim>> {
        let is_chosen = self.config.settings.make_room == MakeRoom::Reclaim;
        let serves = is_chosen && self.last.nodes.len() == 1;
        self.reclaim.as_ref().filter(|reclaim| serves && reclaim.works())
    }

    fn set(&mut self, roots: &Roots, setting: Setting, to: &Value, now: &Value) -> io::Result<()> {
        if to == now {
            return Ok(());
        }
        let held = self.record().state().settings.get(&setting).cloned();
        self.record().lease(setting, to, now)?;
        if let Err(error) = setting.write(roots, to) {
            // It says what it said before: that is what the record has to say, too.
            let _ = match held {
                Some((ours, _)) => self.record().lease(setting, &ours, now),
                None => self.record().restored(setting),
            };
            return Err(error);
        }
        self.log.note("set", format_args!("{} = {to}, was {now}", setting.name()));
        Ok(())
    }
}

/// Settings that are configured in another way.
fn changed(before: &SettingsConfig, after: &SettingsConfig) -> Vec<Setting> {
    let differ = [
        (Setting::LowmemReserveRatio, before.lowmem_reserve_ratio != after.lowmem_reserve_ratio),
        (Setting::MinFreeKbytes, before.min_free != after.min_free),
        (Setting::WatermarkScaleFactor, before.make_room != after.make_room),
        (Setting::KswapdPriority, before.kswapd_nice != after.kswapd_nice),
    ];
    differ.into_iter().filter(|(_, differs)| *differs).map(|(setting, _)| setting).collect()
}

/// Restores all leased settings.
pub fn restore_settings(record: &mut Record, roots: &Roots, log: &Log) {
    let held: Vec<_> = record.state().settings.keys().copied().collect();
    for setting in held {
        restore_setting(record, roots, log, setting);
    }
}

/// Restores a setting, if it is leased and still says what the daemon wrote.
fn restore_setting(record: &mut Record, roots: &Roots, log: &Log, setting: Setting) {
    let state = record.state();
    let Some((_, before)) = state.settings.get(&setting).cloned() else { return };
    let restored = state.ours(setting).try_fold(false, |restored, ours| match restored {
        true => Ok(true),
        false => setting.restore(roots, ours, &before),
    });
    match restored {
        Ok(true) => log.note("restored", format_args!("{} = {before}", setting.name())),
        Ok(false) => log_change_by_others(log, setting),
        Err(error) => return log.note("warning", format_args!("{}: {error}", setting.name())),
    }
    let _ = record.restored(setting);
}

fn log_change_by_others(log: &Log, setting: Setting) {
    log.note("warning", format_args!("{} was changed by others and stays", setting.name()));
}

/// Whether a value differs from another by more than a quarter anywhere.
fn differs(now: &str, wanted: &str) -> bool {
    let numbers =
        |text: &str| text.split(',').map(|n| n.parse().unwrap_or(0)).collect::<Vec<u64>>();
    let (now, wanted) = (numbers(now), numbers(wanted));
    now.len() != wanted.len()
        || now.iter().zip(&wanted).any(|(now, wanted)| now.abs_diff(*wanted) * 4 > *now)
}
