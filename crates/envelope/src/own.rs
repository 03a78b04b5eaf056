//! Our own levels: declared limits, or none.

use crate::settings::{Pool, Volume};
use crate::source::OWN;
use crate::{Counts, Declared, Level, LevelInfo, Limits, Owner, Protocol, Provider, Qos, Refusal, Settable};

pub(crate) const CUSTOM: LevelInfo = LevelInfo {
    name: "plimsoll/custom",
    aliases: &[],
    provider: Provider::Plimsoll,
    title: "Limits as declared, for the pool and for each volume",
    owner: Owner::Volume,
    pool_sizes: None,
    volume_sizes: None,
    large_volume_sizes: None,
    is_instance: false,
    pool_shrinks: true,
    qos: &[Qos::Auto],
    protocols: &[Protocol::NfsV3, Protocol::NfsV40, Protocol::NfsV41, Protocol::NfsV42, Protocol::Smb],
    smb_with_nfs: true,
    settable: Settable { declared: true, ..Settable::NOTHING },
    counts: Counts {
        volumes_per_pool: None,
        snapshots_per_volume: None,
        export_rules_per_volume: None,
        quota_rules_per_volume: None,
    },
    volume_name: None,
    share_name: None,
    snapshot_name: None,
    sources: &[OWN],
};

pub(crate) const UNLIMITED: LevelInfo =
    LevelInfo { name: "plimsoll/unlimited", title: "No limits", settable: Settable::NOTHING, ..CUSTOM };

/// A pool's limits apply in addition to those of its volumes.
pub(crate) fn pool(pool: &Pool) -> Result<Limits, Refusal> {
    limits(pool.level, Owner::Pool, &pool.settings.declared)
}

pub(crate) fn volume(pool: &Pool, volume: &Volume) -> Result<Limits, Refusal> {
    limits(pool.level, Owner::Volume, &volume.settings.declared)
}

fn limits(level: Level, owner: Owner, declared: &Declared) -> Result<Limits, Refusal> {
    if declared.total.blocks_traffic()
        || declared.per_client.blocks_traffic()
        || declared.clients_max == Some(0)
    {
        let what = format!("{level}: a limit of zero, under which nothing would ever finish");
        return Err(Refusal::new(what, "1 or more, or no limit", OWN));
    }
    let limits = Limits {
        per_client: declared.per_client,
        clients_max: declared.clients_max,
        ..Limits::for_all_clients(owner, declared.total)
    };
    let how = if *declared == Declared::default() { "no limit is declared" } else { "as declared" };
    Ok(limits.with_origin("all", how, OWN))
}
