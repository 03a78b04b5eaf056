//! The Security Account Manager, MS-SAMR: users, groups and memberships.

mod information;
mod results;

pub use information::{Alias, Domain, Group, Information, User, UserAccountControl};
pub use results::*;

use super::ndr::NdrReader;
use super::{Fault, Syntax};
use crate::security::Sid;
use crate::sets::open_set;
use crate::{Guid, Malformed, Utf16};

/// `samr`, MS-SAMR §1.9.
pub const INTERFACE: Syntax =
    Syntax { uuid: Guid::new(0x1234_5778, 0x1234, 0xabcd, 0xef00_0123_4567_89ac), version: 1 };

/// `SAMPR_HANDLE`, MS-SAMR §2.2.7.2.
pub type Handle = [u8; 20];

/// The maximum number of SIDs in a call (MS-SAMR §2.2.7.6).
pub const SIDS_MAX: usize = 1024;
/// The maximum number of names, or relative identifiers, in a call (MS-SAMR §3.1.5.11.2, §3.1.5.11.3).
pub const LOOKUPS_MAX: usize = 1000;

/// `SE_GROUP_MANDATORY`, `SE_GROUP_ENABLED_BY_DEFAULT` and `SE_GROUP_ENABLED`, MS-SAMR §2.2.1.10: the attributes of
/// every group.
pub const GROUP_ATTRIBUTES: u32 = 7;
/// `DOMAIN_GROUP_RID_USERS`, MS-SAMR §2.2.1.14: the primary group of all users.
pub const GROUP_RID_USERS: u32 = 513;

/// The rights to read the server: `SAM_SERVER_CONNECT`, `SAM_SERVER_ENUMERATE_DOMAINS`, `SAM_SERVER_LOOKUP_DOMAIN`
/// (MS-SAMR §2.2.1.3).
pub const SERVER_READ: u32 = 0x31;
/// The rights to read a domain: `DOMAIN_READ_PASSWORD_PARAMETERS`, `DOMAIN_READ_OTHER_PARAMETERS`,
/// `DOMAIN_GET_ALIAS_MEMBERSHIP`, `DOMAIN_LIST_ACCOUNTS`, `DOMAIN_LOOKUP` (MS-SAMR §2.2.1.4).
pub const DOMAIN_READ: u32 = 0x385;
/// `GROUP_READ_INFORMATION`, `GROUP_LIST_MEMBERS` (MS-SAMR §2.2.1.5).
pub const GROUP_READ: u32 = 0x11;
/// `ALIAS_LIST_MEMBERS`, `ALIAS_READ_INFORMATION` (MS-SAMR §2.2.1.6).
pub const ALIAS_READ: u32 = 0xc;
/// `USER_READ_GENERAL`, `USER_READ_PREFERENCES`, `USER_READ_LOGON`, `USER_READ_ACCOUNT`, `USER_LIST_GROUPS`,
/// `USER_READ_GROUP_INFORMATION` (MS-SAMR §2.2.1.7).
pub const USER_READ: u32 = 0x31b;

open_set! {
    /// `DOMAIN_DISPLAY_INFORMATION`, MS-SAMR §2.2.8.12.
    pub struct DisplayInformation: u16 {
        USER = 1,
        MACHINE = 2,
        GROUP = 3,
        OEM_USER = 4,
        OEM_GROUP = 5,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Group,
    Alias,
    User,
}

/// The form of the results of a modifying call, which is always refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeResults {
    /// A status alone.
    Status,
    /// The handle of the object to delete.
    Handle(Handle),
    /// A handle and a relative identifier.
    Created,
    /// A handle, a relative identifier and the granted access.
    CreatedWithAccess,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// `SamrConnect` (MS-SAMR §3.1.5.1.4), `SamrConnect2` (§3.1.5.1.3) and `SamrConnect4` (§3.1.5.1.2).
    Connect { access: u32 },
    /// `SamrConnect5`, MS-SAMR §3.1.5.1.1.
    Connect5 { access: u32 },
    /// `SamrCloseHandle`, MS-SAMR §3.1.5.13.1.
    CloseHandle { handle: Handle },
    /// `SamrQuerySecurityObject`, MS-SAMR §3.1.5.12.2, with any requested parts.
    QuerySecurityObject { handle: Handle },
    /// `SamrLookupDomainInSamServer`, MS-SAMR §3.1.5.11.1.
    LookupDomain { handle: Handle, name: Utf16<'a> },
    /// `SamrEnumerateDomainsInSamServer`, MS-SAMR §3.1.5.2.1.
    EnumerateDomains { handle: Handle, context: u32 },
    /// `SamrOpenDomain`, MS-SAMR §3.1.5.1.5.
    OpenDomain { handle: Handle, access: u32, sid: Sid },
    /// `SamrQueryInformationDomain` (MS-SAMR §3.1.5.5.2) and `SamrQueryInformationDomain2` (§3.1.5.5.1).
    QueryInformationDomain { handle: Handle, class: u16 },
    /// `SamrEnumerateGroupsInDomain` (MS-SAMR §3.1.5.2.3), `SamrEnumerateAliasesInDomain` (§3.1.5.2.4) and
    /// `SamrEnumerateUsersInDomain` (§3.1.5.2.5).
    Enumerate {
        handle: Handle,
        kind: ObjectKind,
        context: u32,
        /// The control bits of the requested users.
        control: UserAccountControl,
        preferred_maximum_length: u32,
    },
    /// `SamrGetAliasMembership`, MS-SAMR §3.1.5.9.2.
    GetAliasMembership { handle: Handle, sids: Vec<Sid> },
    /// `SamrLookupNamesInDomain`, MS-SAMR §3.1.5.11.2.
    LookupNames { handle: Handle, names: Vec<Utf16<'a>> },
    /// `SamrLookupIdsInDomain`, MS-SAMR §3.1.5.11.3.
    LookupIds { handle: Handle, rids: Vec<u32> },
    /// `SamrOpenGroup`, `SamrOpenAlias` and `SamrOpenUser` (MS-SAMR §3.1.5.1.7 to §3.1.5.1.9).
    Open { handle: Handle, kind: ObjectKind, access: u32, rid: u32 },
    /// `SamrQueryInformationGroup` (MS-SAMR §3.1.5.5.3), `SamrQueryInformationAlias` (§3.1.5.5.4), `SamrQueryInformationUser` (§3.1.5.5.6)
    /// and `SamrQueryInformationUser2` (§3.1.5.5.5).
    QueryInformation { handle: Handle, kind: ObjectKind, class: u16 },
    /// `SamrGetMembersInGroup`, MS-SAMR §3.1.5.8.3.
    GetMembersInGroup { handle: Handle },
    /// `SamrGetMembersInAlias`, MS-SAMR §3.1.5.8.6.
    GetMembersInAlias { handle: Handle },
    /// `SamrGetGroupsForUser`, MS-SAMR §3.1.5.9.1.
    GetGroupsForUser { handle: Handle },
    /// `SamrQueryDisplayInformation`, `SamrQueryDisplayInformation2` and `SamrQueryDisplayInformation3` (MS-SAMR §3.1.5.3.1 to §3.1.5.3.3).
    QueryDisplayInformation {
        handle: Handle,
        class: DisplayInformation,
        index: u32,
        entry_count: u32,
        preferred_maximum_length: u32,
    },
    /// `SamrGetUserDomainPasswordInformation`, MS-SAMR §3.1.5.13.3.
    GetUserDomainPasswordInformation { handle: Handle },
    /// `SamrGetDomainPasswordInformation`, MS-SAMR §3.1.5.13.4; the server's name is ignored.
    GetDomainPasswordInformation,
    /// `SamrRidToSid`, MS-SAMR §3.1.5.13.5.
    RidToSid { handle: Handle, rid: u32 },
    /// Every call that creates, sets or deletes (MS-SAMR §3.1.5.4, §3.1.5.6 to §3.1.5.8, §3.1.5.10), and
    /// `SamrShutdownSamServer`.
    Change(ChangeResults),
}

impl<'a> Call<'a> {
    pub fn decode(opnum: u16, stub: &'a [u8]) -> Result<Self, Fault> {
        let mut r = NdrReader::new(stub);
        let r = &mut r;
        let decoded = match opnum {
            0 => connect(r),
            1 => r.array().map(|handle| Self::CloseHandle { handle }),
            3 => r.array().map(|handle| Self::QuerySecurityObject { handle }),
            5 => lookup_domain(r),
            6 => enumerate_domains(r),
            7 => open_domain(r),
            8 | 46 => query_information_domain(r),
            11 => enumerate(r, ObjectKind::Group),
            13 => enumerate(r, ObjectKind::User),
            15 => enumerate(r, ObjectKind::Alias),
            16 => get_alias_membership(r),
            17 => lookup_names(r),
            18 => lookup_ids(r),
            19 => open(r, ObjectKind::Group),
            20 => query_information(r, ObjectKind::Group),
            25 => r.array().map(|handle| Self::GetMembersInGroup { handle }),
            27 => open(r, ObjectKind::Alias),
            28 => query_information(r, ObjectKind::Alias),
            33 => r.array().map(|handle| Self::GetMembersInAlias { handle }),
            34 => open(r, ObjectKind::User),
            36 | 47 => query_information(r, ObjectKind::User),
            39 => r.array().map(|handle| Self::GetGroupsForUser { handle }),
            40 | 48 | 51 => query_display_information(r),
            44 => r.array().map(|handle| Self::GetUserDomainPasswordInformation { handle }),
            56 => Ok(Self::GetDomainPasswordInformation),
            57 => connect_2(r),
            62 => connect_4(r),
            64 => connect_5(r),
            65 => rid_to_sid(r),
            _ => decode_change(opnum, r)?,
        };
        decoded.map_err(|_| Fault::NDR)
    }
}

/// Decodes a modifying call, as far as its results depend on the arguments.
fn decode_change<'a>(opnum: u16, r: &mut NdrReader<'_>) -> Result<Result<Call<'a>, Malformed>, Fault> {
    let results = match opnum {
        // SamrSetSecurityObject, SamrShutdownSamServer, SamrSetInformationDomain, those of groups, aliases, users and passwords.
        2 | 4 | 9 | 21 | 22 | 24 | 26 | 29 | 31 | 32 | 37 | 38 | 45 | 52..=55 | 58 | 66 | 73 => {
            Ok(ChangeResults::Status)
        }
        // SamrDeleteGroup, SamrDeleteAlias, SamrDeleteUser.
        23 | 30 | 35 => r.array().map(ChangeResults::Handle),
        // SamrCreateGroupInDomain, SamrCreateUserInDomain, SamrCreateAliasInDomain.
        10 | 12 | 14 => Ok(ChangeResults::Created),
        // SamrCreateUser2InDomain.
        50 => Ok(ChangeResults::CreatedWithAccess),
        _ => return Err(Fault::OP_RNG_ERROR),
    };
    Ok(results.map(Call::Change))
}

/// The server's name is a single unit (`PSAMPR_SERVER_NAME` without `string`).
fn connect<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    if r.pointer()? {
        r.u16()?;
    }
    Ok(Call::Connect { access: r.u32()? })
}

fn connect_2<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    server_name(r)?;
    Ok(Call::Connect { access: r.u32()? })
}

fn connect_4<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    server_name(r)?;
    let _client_revision = r.u32()?;
    Ok(Call::Connect { access: r.u32()? })
}

/// `SAMPR_REVISION_INFO` (MS-SAMR §2.2.7.16) has a single version, with the client's capabilities.
fn connect_5<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    server_name(r)?;
    let access = r.u32()?;
    let [version, tag, _revision, _supported_features] = [r.u32()?, r.u32()?, r.u32()?, r.u32()?];
    if (version, tag) != (1, 1) {
        return Err(Malformed("an unknown revision"));
    }
    Ok(Call::Connect5 { access })
}

/// Skips the server's name, which does not matter.
fn server_name(r: &mut NdrReader<'_>) -> Result<(), Malformed> {
    if r.pointer()? { r.text().map(drop) } else { Ok(()) }
}

fn lookup_domain<'a>(r: &mut NdrReader<'a>) -> Result<Call<'a>, Malformed> {
    let handle = r.array()?;
    let [name] = r.unicode_strings(1)?[..] else { return Err(Malformed("no name")) };
    Ok(Call::LookupDomain { handle, name })
}

fn enumerate_domains<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    let (handle, context) = (r.array()?, r.u32()?);
    let _preferred_maximum_length = r.u32()?;
    Ok(Call::EnumerateDomains { handle, context })
}

fn open_domain<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    Ok(Call::OpenDomain { handle: r.array()?, access: r.u32()?, sid: r.sid()? })
}

fn query_information_domain<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    Ok(Call::QueryInformationDomain { handle: r.array()?, class: r.u16()? })
}

fn enumerate<'a>(r: &mut NdrReader<'_>, kind: ObjectKind) -> Result<Call<'a>, Malformed> {
    let (handle, context) = (r.array()?, r.u32()?);
    let control = if kind == ObjectKind::User { r.u32()? } else { 0 };
    let preferred_maximum_length = r.u32()?;
    let control = UserAccountControl(control);
    Ok(Call::Enumerate { handle, kind, context, control, preferred_maximum_length })
}

/// `SAMPR_PSID_ARRAY`, MS-SAMR §2.2.7.6.
fn get_alias_membership<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    let handle = r.array()?;
    Ok(Call::GetAliasMembership { handle, sids: r.sids(SIDS_MAX)? })
}

fn lookup_names<'a>(r: &mut NdrReader<'a>) -> Result<Call<'a>, Malformed> {
    let handle = r.array()?;
    let count = lookup_count(r)?;
    Ok(Call::LookupNames { handle, names: r.unicode_strings(count)? })
}

fn lookup_ids<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    let handle = r.array()?;
    let rids = (0..lookup_count(r)?).map(|_| r.u32()).collect::<Result<_, _>>()?;
    Ok(Call::LookupIds { handle, rids })
}

/// Reads the count before a conformant and varying array (C706 §14.3.3.4), which the array repeats.
fn lookup_count(r: &mut NdrReader<'_>) -> Result<usize, Malformed> {
    let [count, max, offset, actual] = [r.u32()?, r.u32()?, r.u32()?, r.u32()?];
    if offset != 0 || actual != count || actual > max {
        return Err(Malformed("a list whose length does not match its count"));
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= LOOKUPS_MAX);
    count.ok_or(Malformed("too many entries to look up"))
}

fn open<'a>(r: &mut NdrReader<'_>, kind: ObjectKind) -> Result<Call<'a>, Malformed> {
    Ok(Call::Open { handle: r.array()?, kind, access: r.u32()?, rid: r.u32()? })
}

fn query_information<'a>(r: &mut NdrReader<'_>, kind: ObjectKind) -> Result<Call<'a>, Malformed> {
    Ok(Call::QueryInformation { handle: r.array()?, kind, class: r.u16()? })
}

/// The union has no arm for an unknown class.
fn query_display_information<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    let (handle, class) = (r.array()?, DisplayInformation(r.u16()?));
    if DisplayInformation::NAMED.iter().all(|(_, named)| *named != class.0) {
        return Err(Malformed("an unknown class of display information"));
    }
    let [index, entry_count, preferred_maximum_length] = [r.u32()?, r.u32()?, r.u32()?];
    Ok(Call::QueryDisplayInformation { handle, class, index, entry_count, preferred_maximum_length })
}

fn rid_to_sid<'a>(r: &mut NdrReader<'_>) -> Result<Call<'a>, Malformed> {
    Ok(Call::RidToSid { handle: r.array()?, rid: r.u32()? })
}

#[cfg(test)]
mod tests;
