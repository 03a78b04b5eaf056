//! QUERY_INFO of the quotas of users (MS-SMB2 §3.3.5.20.4).

use super::info::Info;
use crate::metadata::mode_descriptor::wire_sid;
use crate::request::context::RequestContext;
use crate::request::outcome::CommandError;
use crate::state::open::Open;
use identity::{Id, Resolver, Sid as OurSid};
use smb_wire::info::QueryInfoRequest;
use smb_wire::quota::{QueryQuota, QuotaInformation, QuotaWriter};
use smb_wire::security::Sid;
use smb_wire::{Decode, FileTime, NtStatus, Writer};
use std::sync::atomic::Ordering;
use vfs::{QuotaKind, QuotaOwner, QuotaUse, Quotas};

/// A limit of the wire: signed, -1 for none.
pub(super) fn limit(bytes: Option<u64>) -> i64 {
    bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// Lists the users of the request, or all. Only root sees other users than itself.
pub(super) fn query(
    cx: &RequestContext<'_, '_>,
    open: &Open,
    args: &QueryInfoRequest<'_>,
) -> Result<Info, CommandError> {
    let quotas = open.file.volume().ruling_quotas().ok_or(NtStatus::NOT_SUPPORTED)?;
    let request = QueryQuota::from_bytes(args.input).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let (resolver, caller) = (&*cx.message.service.resolver, &open.disk.caller);
    let next = &open.cursors.next_quota;
    if request.restart_scan {
        next.store(0, Ordering::Relaxed);
    }
    let is_list = !request.sids.is_empty();
    let users = if is_list {
        let users = request.sids.iter().filter_map(|sid| user_of(resolver, sid));
        let users: Vec<_> = users.collect();
        if !caller.is_root() && users.iter().any(|&uid| uid != caller.uid) {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
        users.into_iter().map(|uid| quotas.usage(QuotaOwner::user(uid))).collect::<Result<Vec<_>, _>>()?
    } else {
        let start = match &request.start {
            Some(sid) => u64::from(user_of(resolver, sid).ok_or(NtStatus::INVALID_SID)?),
            None => next.load(Ordering::Relaxed),
        };
        let mut users = users(quotas, (!caller.is_root()).then_some(caller.uid))?;
        users.retain(|of| u64::from(of.owner.id) >= start);
        users
    };
    let count = if request.return_single { 1 } else { users.len() };
    let (mut bytes, mut last) = (Vec::new(), None);
    let mut w = Writer::new(&mut bytes);
    let room = usize::try_from(args.output_buffer_length).unwrap_or(usize::MAX);
    let mut writer = QuotaWriter::new(&w, room);
    for of in users.iter().take(count) {
        if !writer.push(&entry(resolver, of)?, &mut w) {
            break;
        }
        last = Some(of.owner.id);
    }
    match last {
        None if users.is_empty() => Err(NtStatus::NO_MORE_ENTRIES.into()),
        None => Err(NtStatus::BUFFER_TOO_SMALL.into()),
        Some(last) => {
            if !is_list {
                next.store(u64::from(last) + 1, Ordering::Relaxed);
            }
            Ok(Info { bytes, fixed: 0, is_cut: false })
        }
    }
}

/// The users with files or rules, in ascending order; with `only`, this one alone.
fn users(quotas: &dyn Quotas, only: Option<u32>) -> Result<Vec<QuotaUse>, CommandError> {
    if let Some(uid) = only {
        return Ok(vec![quotas.usage(QuotaOwner::user(uid))?]);
    }
    let mut uses = quotas.report()?.uses;
    uses.retain(|of| of.owner.kind == QuotaKind::User);
    Ok(uses)
}

fn entry(resolver: &dyn Resolver, of: &QuotaUse) -> Result<QuotaInformation, NtStatus> {
    let limits = of.binding.map(|binding| binding.limits).unwrap_or_default();
    Ok(QuotaInformation {
        change_time: FileTime(0),
        quota_used: limit(Some(of.used.bytes)),
        quota_threshold: limit(limits.soft_bytes),
        quota_limit: limit(limits.bytes),
        sid: wire_sid(&resolver.user_sid(of.owner.id))?,
    })
}

fn user_of(resolver: &dyn Resolver, sid: &Sid) -> Option<u32> {
    match resolver.id_of(&OurSid::from_bytes(sid.as_bytes())?.0)? {
        Id::User(uid) => Some(uid),
        Id::Group(_) => None,
    }
}
