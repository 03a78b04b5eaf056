//! Metrics of backups, from what the store knows: no vault is asked.

use super::families;
use super::family::Document;
use crate::core::Core;
use control::{Backup, BackupState, Result};
use std::collections::BTreeMap;

/// The backups of a volume in a vault.
#[derive(Default)]
struct Figures<'b> {
    latest: Option<&'b Backup>,
    complete: usize,
    failed: usize,
}

pub(super) fn backups(document: &mut Document, core: &Core) -> Result<()> {
    let all = core.service.all_backups()?;
    let mut figures: BTreeMap<(&str, &str), Figures<'_>> = BTreeMap::new();
    for backup in &all {
        let of = figures.entry((backup.volume.as_str(), backup.vault.as_str())).or_default();
        match backup.state {
            BackupState::Ready => {
                of.complete += 1;
                let is_later = of.latest.is_none_or(|latest| latest.taken_ms <= backup.taken_ms);
                of.latest = if is_later { Some(backup) } else { of.latest };
            }
            BackupState::Error => of.failed += 1,
            BackupState::Creating | BackupState::Deleting => {}
        }
    }
    type Of = fn(&Figures<'_>) -> Option<u64>;
    let families: [(_, Of); 5] = [
        (families::BACKUPS, |of| u64::try_from(of.complete).ok()),
        (families::BACKUP_TAKEN, |of| of.latest.map(|latest| latest.taken_ms / 1_000)),
        (families::BACKUP_BYTES, |of| of.latest.map(|latest| latest.totals.bytes)),
        (families::BACKUP_ADDED, |of| of.latest.map(|latest| latest.totals.sent_bytes)),
        (families::BACKUP_ERRORS, |of| u64::try_from(of.failed).ok()),
    ];
    for (family, value) in families {
        let mut family = document.family(family);
        for ((volume, vault), of) in &figures {
            let labels = [("volume", *volume), ("vault", *vault)];
            value(of).into_iter().for_each(|value| family.sample(&labels, value));
        }
    }
    let mut failures = document.family(families::VAULT_FAILURES);
    for (vault, count) in core.service.vault_failures() {
        failures.sample(&[("vault", vault.as_str())], count);
    }
    Ok(())
}
