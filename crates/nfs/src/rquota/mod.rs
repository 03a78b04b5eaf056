//! Remote quotas, versions 1 and 2: `quota` of Linux clients asks for the limits of users and groups on a mount.
//!
//! Reads only. A caller learns its own limits and usage, and those of its groups; root, those of all. A client that may
//! not mount a path over any version of NFS gets the same answer for a path that exists and for one that does not.

#[cfg(test)]
mod tests;

use crate::call::{Attempt, Call, CallResult, Outcome};
use crate::mount::path;
use crate::records::reply::Records;
use crate::{mount, v3, v4};
use nfs_wire::rquota::{
    ExtGetArgs, ExtSetArgs, GetArgs, Procedure, Quota, QuotaReply, SetArgs, Status, TYPE_GROUP, TYPE_USER,
    VERSION_1,
};
use std::sync::Arc;
use transport::Outbox;
use vfs::{Caller, Export, ExportRule, FsError, Origin, ProtocolId, QuotaKind, QuotaOwner, QuotaUse, Wait};
use xdr::{Decode, Encode, Malformed, Reader, Writer};

/// The smallest block of a reply: `quota` shows KiB.
const BLOCK_BYTES_MIN: u64 = 1 << 10;
/// The largest block, a signed number on the wire.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

pub(crate) fn answer(
    call: &mut Call<'_>,
    version: u32,
    procedure: Procedure,
    args: &[u8],
    out: &mut Outbox,
) -> Attempt {
    let mut r = Reader::new(args);
    let w = &mut out.writer();
    match procedure {
        Procedure::NULL => {}
        // An active quota is one that is enforced. All rules are.
        Procedure::GETQUOTA | Procedure::GETACTIVEQUOTA => {
            let (path, owner) = asked(version, &mut r)?;
            return Ok(get(call, path, owner, w).into());
        }
        Procedure::SETQUOTA | Procedure::SETACTIVEQUOTA => {
            if version == VERSION_1 {
                SetArgs::decode(&mut r)?;
            } else {
                ExtSetArgs::decode(&mut r)?;
            }
            QuotaReply::Err(Status::PERM).encode(w);
        }
        _ => return Ok(Outcome::NoProcedure),
    }
    Ok(Outcome::Replied)
}

/// The path and the owner of a question; no owner for a type that is neither user nor group.
fn asked<'a>(version: u32, r: &mut Reader<'a>) -> Result<(&'a [u8], Option<QuotaOwner>), Malformed> {
    if version == VERSION_1 {
        let GetArgs { path, uid } = GetArgs::decode(r)?;
        return Ok((path, Some(QuotaOwner::user(uid))));
    }
    let ExtGetArgs { path, kind, id } = ExtGetArgs::decode(r)?;
    let owner = match kind {
        TYPE_USER => Some(QuotaOwner::user(id)),
        TYPE_GROUP => Some(QuotaOwner::group(id)),
        _ => None,
    };
    Ok((path, owner))
}

fn get(call: &Call<'_>, path: &[u8], owner: Option<QuotaOwner>, w: &mut Writer<'_>) -> CallResult {
    let reply = match look_up(call, path, owner) {
        Ok(quota) => quota.map_or(QuotaReply::Err(Status::NOQUOTA), QuotaReply::Ok),
        Err(FsError::Wait(wait)) => return Err(wait),
        Err(FsError::Access | FsError::NotOwner) => QuotaReply::Err(Status::PERM),
        // The client may mount the export, and the path leads nowhere in it.
        Err(_) => QuotaReply::Err(Status::NOQUOTA),
    };
    reply.encode(w);
    Ok(())
}

fn look_up(call: &Call<'_>, path: &[u8], owner: Option<QuotaOwner>) -> Result<Option<Quota>, FsError> {
    // Clients send the paths of NFSv4 mounts without the first slash.
    let path = path::normal(&[b"/", path].concat()).map_err(|_| FsError::Access)?;
    let found = path::resolve(call.namespace, &path).filter(|(export, _)| export.is_at(call.endpoint));
    let (export, below) = found.ok_or(FsError::Access)?;
    let rule = admitting(call, export).ok_or(FsError::Access)?;
    mount::walk(call, export, rule, below)?;
    let Some(owner) = owner else { return Ok(None) };
    if !may_see(&rule.caller(call.credential), owner) {
        return Err(FsError::Access);
    }
    let Some(quotas) = export.volume.ruling_quotas() else { return Ok(None) };
    let seconds = u64::try_from(call.now.seconds).unwrap_or_default();
    match quotas.usage(owner) {
        // Still counting: the client asks again.
        Err(FsError::Wait(_)) => Err(FsError::Wait(Wait::Recall)),
        usage => Ok(Some(quota(&usage?, seconds))),
    }
}

/// The rule of the first version of NFS over which the client may mount: it has one credential for all.
fn admitting<'e>(call: &Call<'_>, export: &'e Arc<Export>) -> Option<&'e ExportRule> {
    let versions: [ProtocolId; 4] = [v3::PROTOCOL, v4::protocol(2), v4::protocol(1), v4::protocol(0)];
    versions.into_iter().find_map(|protocol| export.rule(Origin { protocol, ..call.origin() }))
}

fn may_see(caller: &Caller, owner: QuotaOwner) -> bool {
    caller.is_root()
        || match owner.kind {
            QuotaKind::User => caller.uid == owner.id,
            QuotaKind::Group => caller.is_in(owner.id),
        }
}

/// The numbers have 32 bits: blocks are as large as the largest number of bytes needs.
fn quota(of: &QuotaUse, now: u64) -> Quota {
    let limits = of.binding.map(|binding| binding.limits).unwrap_or_default();
    let largest = [Some(of.used.bytes), limits.bytes, limits.soft_bytes].into_iter().flatten().max();
    let fits = |block_bytes: &u64| largest.unwrap_or(0).div_ceil(*block_bytes) <= u64::from(u32::MAX);
    let sizes = std::iter::successors(Some(BLOCK_BYTES_MIN), |bytes| Some(bytes * 2));
    let block_bytes =
        sizes.take_while(|&bytes| bytes < BLOCK_BYTES_MAX).find(fits).unwrap_or(BLOCK_BYTES_MAX);
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    // 0 means no limit.
    let max = |limit: Option<u64>, unit: u64| limit.map_or(0, |limit| narrow((limit / unit).max(1)));
    let left = |since: Option<u64>| {
        let end = limits.grace_s.zip(since).map(|(grace, since)| since.saturating_add(grace));
        end.map_or(0, |end| narrow(end.saturating_sub(now)))
    };
    Quota {
        block_bytes: narrow(block_bytes),
        active: true,
        block_hard: max(limits.bytes, block_bytes),
        block_soft: max(limits.soft_bytes, block_bytes),
        blocks: narrow(of.used.bytes.div_ceil(block_bytes)),
        file_hard: max(limits.files, 1),
        file_soft: max(limits.soft_files, 1),
        files: narrow(of.used.files),
        block_seconds_left: left(of.excess.bytes_since),
        file_seconds_left: left(of.excess.files_since),
    }
}
