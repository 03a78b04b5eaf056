//! The volumes that are measured.

use crate::managed::Managed;

/// Makes a volume for clients over NFSv3.
pub(in crate::perf) fn make_volume(
    service: &Managed,
    name: &str,
    pool: &str,
    size: &str,
) -> anyhow::Result<()> {
    let create =
        format!("volume create {name} --pool {pool} --size {size} --protocols nfsv3 --allow 127.0.0.1");
    service.manage(&format!("{create} --squash none")).map(drop)
}
