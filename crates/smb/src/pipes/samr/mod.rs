//! Users, groups and memberships (MS-SAMR). Every authenticated user can read them; no client can change them.
//!
//! There are two domains, as on every standalone machine. In the machine's own domain users are users and groups are
//! aliases, as in `lsarpc`. The builtin domain has the groups of every machine, without members.

mod enumerate;
mod query;

use super::lsarpc::{text, to_wire};
use crate::request::context::RequestContext;
use crate::state::pipe_handles::{ContextHandles, DomainKind, Object};
use identity::{Accounts, Resolver, Sid, folded};
use smb_wire::rpc::samr::{
    self, Entry, Handle, ObjectKind, access_denied_results, close_results, connect_5_results,
    enumerate_results, get_alias_membership_results, get_groups_for_user_results,
    get_members_in_alias_results, get_members_in_group_results, handle_results, lookup_ids_results,
    lookup_names_results, password_information_results, query_display_information_results,
    query_information_results, query_security_object_results, sid_results,
};
use smb_wire::rpc::{Call, Fault};
use smb_wire::types::AccessMask;
use smb_wire::{NtStatus, Utf16, security};

const BUILTIN: &str = "Builtin";
/// The standard rights for reading an object. Only readable parts are granted.
const STANDARD_READ: AccessMask = AccessMask(
    AccessMask::READ_CONTROL.0
        | AccessMask::SYNCHRONIZE.0
        | AccessMask::MAXIMUM_ALLOWED.0
        | AccessMask::GENERIC_READ.0
        | AccessMask::GENERIC_EXECUTE.0,
);

pub(super) fn answer(
    cx: &RequestContext<'_, '_>,
    handles: &mut ContextHandles,
    call: Call<'_>,
) -> Result<Vec<u8>, Fault> {
    let accounts = cx.message.service.accounts.load();
    let call = samr::Call::decode(call.opnum, call.stub)?;
    Sam { accounts: &accounts, handles }.answer(call)
}

/// A snapshot of users and groups, and the client's open handles.
struct Sam<'a> {
    accounts: &'a Accounts,
    handles: &'a mut ContextHandles,
}

impl Sam<'_> {
    fn answer(&mut self, call: samr::Call<'_>) -> Result<Vec<u8>, Fault> {
        use samr::Call as C;
        Ok(match call {
            C::Connect { access } => handle_results(self.open(Object::Server, access)),
            C::Connect5 { access } => connect_5_results(self.open(Object::Server, access)),
            C::OpenDomain { handle, access, sid } => handle_results(self.open_domain(handle, access, &sid)?),
            C::Open { handle, kind, access, rid } => {
                handle_results(self.open_account(handle, kind, access, rid)?)
            }
            C::CloseHandle { handle } => {
                self.handles.close(handle)?;
                close_results()
            }
            C::QuerySecurityObject { handle } => {
                query_security_object_results(&query::security_descriptor(self.handles.object(handle)?)?)
            }
            C::LookupDomain { handle, name } => sid_results(self.domain_named(handle, name)?),
            C::EnumerateDomains { handle, context } => self.enumerate_domains(handle, context)?,
            C::RidToSid { handle, rid } => sid_results(Ok(self.sid_of(handle, rid)?)),
            C::QueryInformationDomain { handle, class } => {
                query_information_results(class, self.domain_information(self.domain(handle)?, class))
            }
            C::QueryInformation { handle, kind, class } => {
                query_information_results(class, self.information(handle, kind, class)?)
            }
            C::Enumerate { handle, kind, context, control, preferred_maximum_length } => {
                let list = self.enumerate(self.domain(handle)?, kind, control);
                let part = enumerate::list_after(list, context, preferred_maximum_length);
                let context = part.entries.last().map_or(context, |last| last.rid);
                enumerate_results(context, &part.entries, part.has_more)
            }
            C::QueryDisplayInformation { handle, class, index, entry_count, preferred_maximum_length } => {
                let domain = self.domain(handle)?;
                let list = || self.display(domain, class);
                let display = enumerate::display_from(list, index, entry_count, preferred_maximum_length);
                query_display_information_results(class, &display)
            }
            C::LookupNames { handle, names } => lookup_names_results(&self.look_up_names(handle, &names)?),
            C::LookupIds { handle, rids } => lookup_ids_results(&self.look_up_ids(handle, &rids)?),
            C::GetAliasMembership { handle, sids } => {
                get_alias_membership_results(&self.alias_membership(handle, &sids)?)
            }
            C::GetMembersInGroup { handle } => get_members_in_group_results(&self.group_members(handle)?),
            C::GetMembersInAlias { handle } => get_members_in_alias_results(&self.alias_members(handle)?),
            C::GetGroupsForUser { handle } => get_groups_for_user_results(&self.groups_of_user(handle)?),
            C::GetUserDomainPasswordInformation { handle } => {
                self.user(handle)?;
                password_information_results()
            }
            C::GetDomainPasswordInformation => password_information_results(),
            C::Change(results) => access_denied_results(results),
        })
    }

    fn open(&mut self, object: Object, access: u32) -> Result<Handle, NtStatus> {
        if access & !(query::reading(object) | STANDARD_READ.0) != 0 {
            return Err(NtStatus::ACCESS_DENIED);
        }
        self.handles.open(object)
    }

    fn open_domain(
        &mut self,
        handle: Handle,
        access: u32,
        sid: &security::Sid,
    ) -> Result<Result<Handle, NtStatus>, Fault> {
        self.server(handle)?;
        for kind in [DomainKind::Account, DomainKind::Builtin] {
            if self.domain_sid(kind)? == *sid {
                return Ok(self.open(Object::Domain(kind), access));
            }
        }
        Ok(Err(NtStatus::NO_SUCH_DOMAIN))
    }

    fn open_account(
        &mut self,
        handle: Handle,
        kind: ObjectKind,
        access: u32,
        rid: u32,
    ) -> Result<Result<Handle, NtStatus>, Fault> {
        let domain = self.domain(handle)?;
        let (object, missing) = match kind {
            ObjectKind::Group => (Object::Group(rid), NtStatus::NO_SUCH_GROUP),
            ObjectKind::Alias => (Object::Alias(domain, rid), NtStatus::NO_SUCH_ALIAS),
            ObjectKind::User => (Object::User(rid), NtStatus::NO_SUCH_USER),
        };
        let is_there = self.found(domain, rid).is_some_and(|(_, found)| found == kind);
        Ok(if is_there { self.open(object, access) } else { Err(missing) })
    }

    /// Domains are numbered from 0; a context past the last returns an empty list.
    fn enumerate_domains(&self, handle: Handle, context: u32) -> Result<Vec<u8>, Fault> {
        self.server(handle)?;
        let names = (0..).zip([self.accounts.domain(), BUILTIN]);
        let entries: Vec<_> =
            names.filter(|(rid, _)| *rid >= context).map(|(rid, name)| Entry { rid, name }).collect();
        Ok(enumerate_results(2, &entries, false))
    }

    fn domain_named(
        &self,
        handle: Handle,
        name: Utf16<'_>,
    ) -> Result<Result<security::Sid, NtStatus>, Fault> {
        self.server(handle)?;
        let name = folded(&text(name));
        let kind = if name == folded(self.accounts.domain()) {
            DomainKind::Account
        } else if name == folded(BUILTIN) {
            DomainKind::Builtin
        } else {
            return Ok(Err(NtStatus::NO_SUCH_DOMAIN));
        };
        self.domain_sid(kind).map(Ok)
    }

    fn domain_sid(&self, kind: DomainKind) -> Result<security::Sid, Fault> {
        to_wire(&match kind {
            DomainKind::Account => self.accounts.machine_sid(),
            DomainKind::Builtin => Sid::builtin(),
        })
    }

    fn sid_of(&self, handle: Handle, rid: u32) -> Result<security::Sid, Fault> {
        let domain = match self.handles.object(handle)? {
            Object::Server => return Err(Fault::CONTEXT_MISMATCH),
            Object::Domain(domain) | Object::Alias(domain, _) => domain,
            Object::Group(_) | Object::User(_) => DomainKind::Account,
        };
        self.sid_in(domain, rid)
    }

    fn sid_in(&self, domain: DomainKind, rid: u32) -> Result<security::Sid, Fault> {
        let above = self.domain_sid(domain)?;
        let numbers: Vec<u32> = above.sub_authorities().chain([rid]).collect();
        security::Sid::new(above.authority(), &numbers).ok_or(Fault::REMOTE_NO_MEMORY)
    }

    fn server(&self, handle: Handle) -> Result<(), Fault> {
        match self.handles.object(handle)? {
            Object::Server => Ok(()),
            _ => Err(Fault::CONTEXT_MISMATCH),
        }
    }

    fn domain(&self, handle: Handle) -> Result<DomainKind, Fault> {
        match self.handles.object(handle)? {
            Object::Domain(domain) => Ok(domain),
            _ => Err(Fault::CONTEXT_MISMATCH),
        }
    }

    fn user(&self, handle: Handle) -> Result<u32, Fault> {
        match self.handles.object(handle)? {
            Object::User(rid) => Ok(rid),
            _ => Err(Fault::CONTEXT_MISMATCH),
        }
    }
}
