//! Single users and groups: information and memberships.

use super::Sam;
use crate::pipes::lsarpc::{name_use, text};
use crate::state::pipe_handles::{DomainKind, Object};
use identity::{PrincipalKind, Sid, builtin_aliases, folded};
use smb_wire::rpc::Fault;
use smb_wire::rpc::lsarpc::SidNameUse;
use smb_wire::rpc::samr::{
    ALIAS_READ, Alias, DOMAIN_READ, Domain, GROUP_READ, GROUP_RID_USERS, Group, Handle, Information,
    ObjectKind, SERVER_READ, USER_READ, User,
};
use smb_wire::security::{Ace, AceFlags, Acl, SecurityDescriptor};
use smb_wire::types::AccessMask;
use smb_wire::{NtStatus, Utf16, security};
use std::collections::BTreeSet;

pub(super) fn reading(object: Object) -> u32 {
    match object {
        Object::Server => SERVER_READ,
        Object::Domain(_) => DOMAIN_READ,
        Object::Group(_) => GROUP_READ,
        Object::Alias(..) => ALIAS_READ,
        Object::User(_) => USER_READ,
    }
}

/// A descriptor with the administrators as owner, readable by every authenticated user.
pub(super) fn security_descriptor(object: Object) -> Result<SecurityDescriptor, Fault> {
    let sid = |numbers: &[u32]| security::Sid::new(5, numbers).ok_or(Fault::REMOTE_NO_MEMORY);
    let (authenticated_users, administrators) = (sid(&[11])?, sid(&[32, 544])?);
    let mask = AccessMask(reading(object)) | AccessMask::READ_CONTROL;
    Ok(SecurityDescriptor {
        owner: Some(administrators),
        group: Some(administrators),
        dacl: Acl::new(vec![Ace::allow(AceFlags::empty(), mask, authenticated_users)]),
        ..SecurityDescriptor::default()
    })
}

fn length(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Sam<'_> {
    pub(super) fn found(&self, domain: DomainKind, rid: u32) -> Option<(&str, ObjectKind)> {
        let of_all = Some(self.accounts.domain_users_group()).filter(|group| group.rid == rid);
        let (found, kind) = match domain {
            DomainKind::Builtin => (builtin_aliases().find(|alias| alias.rid == rid), ObjectKind::Alias),
            DomainKind::Account if of_all.is_some() => (of_all, ObjectKind::Group),
            DomainKind::Account => match self.accounts.user_by_rid(rid) {
                Some(user) => (Some(user), ObjectKind::User),
                None => (self.accounts.group_by_rid(rid), ObjectKind::Alias),
            },
        };
        found.map(|found| (found.name, kind))
    }

    pub(super) fn domain_information(
        &self,
        domain: DomainKind,
        class: u16,
    ) -> Result<Information<'_>, NtStatus> {
        let accounts = self.accounts;
        let domain = match domain {
            DomainKind::Account => Domain {
                name: accounts.domain(),
                user_count: length(accounts.users().len()),
                group_count: 1,
                alias_count: length(accounts.groups().len()),
            },
            DomainKind::Builtin => Domain {
                name: super::BUILTIN,
                user_count: 0,
                group_count: 0,
                alias_count: length(builtin_aliases().len()),
            },
        };
        domain.information(class)
    }

    pub(super) fn information(
        &self,
        handle: Handle,
        kind: ObjectKind,
        class: u16,
    ) -> Result<Result<Information<'_>, NtStatus>, Fault> {
        let (domain, rid, missing) = match (self.handles.object(handle)?, kind) {
            (Object::Group(rid), ObjectKind::Group) => (DomainKind::Account, rid, NtStatus::NO_SUCH_GROUP),
            (Object::Alias(domain, rid), ObjectKind::Alias) => (domain, rid, NtStatus::NO_SUCH_ALIAS),
            (Object::User(rid), ObjectKind::User) => (DomainKind::Account, rid, NtStatus::NO_SUCH_USER),
            _ => return Err(Fault::CONTEXT_MISMATCH),
        };
        // The object may have been removed since it was opened.
        let Some((name, _)) = self.found(domain, rid) else { return Ok(Err(missing)) };
        Ok(match kind {
            ObjectKind::Group => {
                Group { name, member_count: length(self.accounts.users().len()) }.information(class)
            }
            ObjectKind::Alias => {
                let member_count = length(self.members(domain, rid).len());
                Alias { name, member_count }.information(class)
            }
            ObjectKind::User => User { name, rid }.information(class),
        })
    }

    pub(super) fn look_up_names(
        &self,
        handle: Handle,
        names: &[Utf16<'_>],
    ) -> Result<Vec<Option<(u32, SidNameUse)>>, Fault> {
        let domain = self.domain(handle)?;
        let look_up = |name: &Utf16<'_>| {
            let name = text(*name);
            match domain {
                DomainKind::Account => self.accounts.lookup_name(&name),
                DomainKind::Builtin => builtin_aliases()
                    .find(|alias| folded(alias.name) == folded(&name))
                    .map(|alias| (alias.rid, PrincipalKind::Alias)),
            }
        };
        Ok(names.iter().map(|name| look_up(name).map(|(rid, kind)| (rid, name_use(kind)))).collect())
    }

    pub(super) fn look_up_ids(
        &self,
        handle: Handle,
        rids: &[u32],
    ) -> Result<Vec<Option<(&str, SidNameUse)>>, Fault> {
        let domain = self.domain(handle)?;
        let name_use = |kind| match kind {
            ObjectKind::Group => SidNameUse::GROUP,
            ObjectKind::Alias => SidNameUse::ALIAS,
            ObjectKind::User => SidNameUse::USER,
        };
        Ok(rids
            .iter()
            .map(|rid| self.found(domain, *rid).map(|(name, kind)| (name, name_use(kind))))
            .collect())
    }

    pub(super) fn alias_membership(&self, handle: Handle, sids: &[security::Sid]) -> Result<Vec<u32>, Fault> {
        let DomainKind::Account = self.domain(handle)? else { return Ok(Vec::new()) };
        let parsed = sids.iter().filter_map(|sid| Sid::from_bytes(sid.as_bytes()));
        let users: BTreeSet<_> = parsed.filter_map(|(sid, _)| self.accounts.rid_of(&sid)).collect();
        let aliases: BTreeSet<_> =
            users.into_iter().flat_map(|rid| self.accounts.group_rids_of(rid)).collect();
        Ok(aliases.into_iter().collect())
    }

    /// The only group contains all users.
    pub(super) fn group_members(&self, handle: Handle) -> Result<Vec<u32>, Fault> {
        match self.handles.object(handle)? {
            Object::Group(_) => Ok(self.accounts.users().map(|user| user.rid).collect()),
            _ => Err(Fault::CONTEXT_MISMATCH),
        }
    }

    pub(super) fn alias_members(&self, handle: Handle) -> Result<Vec<security::Sid>, Fault> {
        let Object::Alias(domain, rid) = self.handles.object(handle)? else {
            return Err(Fault::CONTEXT_MISMATCH);
        };
        self.members(domain, rid).into_iter().map(|rid| self.sid_in(DomainKind::Account, rid)).collect()
    }

    fn members(&self, domain: DomainKind, rid: u32) -> Vec<u32> {
        match domain {
            DomainKind::Account => self.accounts.member_rids(rid),
            DomainKind::Builtin => Vec::new(),
        }
    }

    /// Every user has one group; local groups are aliases.
    pub(super) fn groups_of_user(&self, handle: Handle) -> Result<Vec<u32>, Fault> {
        let rid = self.user(handle)?;
        let is_there = self.accounts.user_by_rid(rid).is_some();
        Ok(if is_there { vec![GROUP_RID_USERS] } else { Vec::new() })
    }
}
