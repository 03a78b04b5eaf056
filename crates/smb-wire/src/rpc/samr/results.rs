//! The results of calls.

use super::information::{Field, Information, UserAccountControl};
use super::{ChangeResults, DisplayInformation, GROUP_ATTRIBUTES, Handle};
use crate::rpc::lsarpc::SidNameUse;
use crate::rpc::ndr::NdrWriter;
use crate::security::{SecurityDescriptor, Sid};
use crate::{Encode, NtStatus};

const NULL: Handle = [0; 20];
/// The server's revision for `SamrConnect5`: the third, with all features required (MS-SAMR §2.2.7.15).
const REVISION: u32 = 3;

/// A user, group or alias in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub rid: u32,
    pub name: &'a str,
}

impl Entry<'_> {
    /// The approximate size in results.
    pub fn size(&self, is_display: bool) -> usize {
        let fixed = if is_display { 72 } else { 24 };
        fixed + 2 * self.name.encode_utf16().count()
    }
}

/// The results of every call that returns a handle: `SamrConnect`, `SamrOpenDomain` and others.
pub fn handle_results(handle: Result<Handle, NtStatus>) -> Vec<u8> {
    NdrWriter::stub(|w| {
        w.bytes(&handle.unwrap_or(NULL));
        status(w, handle.err());
    })
}

pub fn close_results() -> Vec<u8> {
    handle_results(Ok(NULL))
}

pub fn connect_5_results(handle: Result<Handle, NtStatus>) -> Vec<u8> {
    NdrWriter::stub(|w| {
        // OutVersion, and the union's tag.
        w.u32(1);
        w.u32(1);
        w.u32(REVISION);
        w.u32(0);
        w.bytes(&handle.unwrap_or(NULL));
        status(w, handle.err());
    })
}

pub fn access_denied_results(of: ChangeResults) -> Vec<u8> {
    NdrWriter::stub(|w| {
        match of {
            ChangeResults::Status => (),
            ChangeResults::Handle(handle) => w.bytes(&handle),
            ChangeResults::Created => w.bytes(&[0; 24]),
            ChangeResults::CreatedWithAccess => w.bytes(&[0; 28]),
        }
        w.u32(NtStatus::ACCESS_DENIED.0);
    })
}

pub fn query_security_object_results(descriptor: &SecurityDescriptor) -> Vec<u8> {
    let bytes = descriptor.to_bytes();
    NdrWriter::stub(|w| {
        w.pointer();
        w.count(bytes.len());
        w.pointer();
        w.count(bytes.len());
        w.bytes(&bytes);
        status(w, None);
    })
}

pub fn sid_results(sid: Result<Sid, NtStatus>) -> Vec<u8> {
    NdrWriter::stub(|w| {
        match &sid {
            Ok(sid) => {
                w.pointer();
                w.sid(sid);
            }
            Err(_) => w.null(),
        }
        status(w, sid.err());
    })
}

/// The results of `SamrEnumerateDomainsInSamServer`, `SamrEnumerateUsersInDomain` and similar calls: part of the list,
/// and the context to resume from.
pub fn enumerate_results(context: u32, entries: &[Entry<'_>], has_more: bool) -> Vec<u8> {
    NdrWriter::stub(|w| {
        w.u32(context);
        // SAMPR_ENUMERATION_BUFFER, MS-SAMR §2.2.7.10.
        w.pointer();
        w.count(entries.len());
        w.pointer();
        pointed_array(w, entries, |entry| Information(vec![Field::Long(entry.rid), Field::Text(entry.name)]));
        w.count(entries.len());
        enumeration_status(w, has_more);
    })
}

/// The results of `SamrQueryInformationDomain`, `SamrQueryInformationUser` and similar calls.
pub fn query_information_results(class: u16, information: Result<Information<'_>, NtStatus>) -> Vec<u8> {
    NdrWriter::stub(|w| {
        match &information {
            Ok(information) => {
                w.pointer();
                w.u16(class);
                // Every structure has a 32-bit member, which determines its alignment.
                w.align(4);
                information.write(w);
                information.write_referents(w);
            }
            Err(_) => w.null(),
        }
        status(w, information.err());
    })
}

/// Part of a list to display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Display<'a> {
    /// Bytes of the whole list.
    pub total_available: usize,
    /// The index of the first entry in the list.
    pub index: u32,
    pub entries: Vec<Entry<'a>>,
    pub has_more: bool,
}

/// The results of `SamrQueryDisplayInformation` and its later versions.
pub fn query_display_information_results(class: DisplayInformation, display: &Display<'_>) -> Vec<u8> {
    let entries: Vec<_> = (display.index.saturating_add(1)..).zip(&display.entries).collect();
    NdrWriter::stub(|w| {
        w.count(display.total_available);
        w.count(display.entries.iter().map(|entry| entry.size(true)).sum());
        w.u16(class.0);
        w.count(entries.len());
        w.pointer();
        pointed_array(w, &entries, |&(index, entry)| display_entry(class, index, entry));
        enumeration_status(w, display.has_more);
    })
}

/// An entry in the form of each class (MS-SAMR §2.2.8.2 to §2.2.8.6).
fn display_entry<'a>(class: DisplayInformation, index: u32, entry: &Entry<'a>) -> Information<'a> {
    use Field::{Long, Oem, Text};
    let [index, rid, control, attributes] =
        [index, entry.rid, UserAccountControl::ALL.0, GROUP_ATTRIBUTES].map(Long);
    let (name, none) = (Text(entry.name), Text(""));
    Information(match class {
        DisplayInformation::USER => vec![index, rid, control, name, none, none],
        DisplayInformation::GROUP => vec![index, rid, attributes, name, none],
        DisplayInformation::MACHINE => vec![index, rid, control, name, none],
        _ => vec![index, Oem(entry.name)],
    })
}

pub fn get_alias_membership_results(rids: &[u32]) -> Vec<u8> {
    NdrWriter::stub(|w| {
        ulong_array(w, rids);
        status(w, None);
    })
}

/// The results of `SamrLookupNamesInDomain`: the account of each name, if it exists.
pub fn lookup_names_results(found: &[Option<(u32, SidNameUse)>]) -> Vec<u8> {
    NdrWriter::stub(|w| {
        let of = |found: &Option<(u32, SidNameUse)>| found.unwrap_or((0, SidNameUse::UNKNOWN));
        ulong_array(w, &found.iter().map(|found| of(found).0).collect::<Vec<_>>());
        ulong_array(w, &found.iter().map(|found| of(found).1.0.into()).collect::<Vec<_>>());
        lookup_status(w, found);
    })
}

/// The results of `SamrLookupIdsInDomain`: the name of each relative identifier, if it exists.
pub fn lookup_ids_results(found: &[Option<(&str, SidNameUse)>]) -> Vec<u8> {
    NdrWriter::stub(|w| {
        // SAMPR_RETURNED_USTRING_ARRAY, MS-SAMR §2.2.7.8.
        w.count(found.len());
        w.pointer();
        pointed_array(w, found, |found| Information(vec![Field::Text(found.map_or("", |(name, _)| name))]));
        let uses = found.iter().map(|found| found.map_or(SidNameUse::UNKNOWN, |(_, name_use)| name_use));
        ulong_array(w, &uses.map(|name_use| name_use.0.into()).collect::<Vec<_>>());
        lookup_status(w, found);
    })
}

pub fn get_members_in_group_results(rids: &[u32]) -> Vec<u8> {
    NdrWriter::stub(|w| {
        // SAMPR_GET_MEMBERS_BUFFER, MS-SAMR §2.2.7.14.
        w.pointer();
        w.count(rids.len());
        w.pointer();
        w.pointer();
        pointed_array(w, rids, |rid| Information(vec![Field::Long(*rid)]));
        pointed_array(w, rids, |_| Information(vec![Field::Long(GROUP_ATTRIBUTES)]));
        status(w, None);
    })
}

pub fn get_members_in_alias_results(sids: &[Sid]) -> Vec<u8> {
    NdrWriter::stub(|w| {
        // SAMPR_PSID_ARRAY_OUT, MS-SAMR §2.2.7.7.
        w.count(sids.len());
        w.pointer();
        w.count(sids.len());
        sids.iter().for_each(|_| w.pointer());
        sids.iter().for_each(|sid| w.sid(sid));
        status(w, None);
    })
}

pub fn get_groups_for_user_results(rids: &[u32]) -> Vec<u8> {
    NdrWriter::stub(|w| {
        // SAMPR_GET_GROUPS_BUFFER, MS-SAMR §2.2.7.13.
        w.pointer();
        w.count(rids.len());
        w.pointer();
        pointed_array(w, rids, |rid| Information(vec![Field::Long(*rid), Field::Long(GROUP_ATTRIBUTES)]));
        status(w, None);
    })
}

/// The results of `SamrGetUserDomainPasswordInformation` and `SamrGetDomainPasswordInformation`: there are no password
/// rules.
pub fn password_information_results() -> Vec<u8> {
    NdrWriter::stub(|w| {
        // MinPasswordLength and PasswordProperties, MS-SAMR §2.2.7.17.
        w.u16(0);
        w.u32(0);
        status(w, None);
    })
}

/// Writes the referent of a pointer to an array: the count, the structures, and their referents.
fn pointed_array<'a, T>(
    w: &mut NdrWriter<'_>,
    items: &'a [T],
    information: impl Fn(&'a T) -> Information<'a>,
) {
    w.count(items.len());
    let structures: Vec<_> = items.iter().map(information).collect();
    structures.iter().for_each(|structure| structure.write(w));
    structures.iter().for_each(|structure| structure.write_referents(w));
}

/// `SAMPR_ULONG_ARRAY`, MS-SAMR §2.2.7.4.
fn ulong_array(w: &mut NdrWriter<'_>, longs: &[u32]) {
    w.count(longs.len());
    w.pointer();
    pointed_array(w, longs, |long| Information(vec![Field::Long(*long)]));
}

fn status(w: &mut NdrWriter<'_>, error: Option<NtStatus>) {
    w.u32(error.unwrap_or(NtStatus::SUCCESS).0);
}

fn enumeration_status(w: &mut NdrWriter<'_>, has_more: bool) {
    status(w, has_more.then_some(NtStatus::MORE_ENTRIES));
}

/// The status for the number of names that were found (MS-SAMR §3.1.5.11.2).
fn lookup_status<T>(w: &mut NdrWriter<'_>, found: &[Option<T>]) {
    let mapped = found.iter().flatten().count();
    let error = match mapped {
        _ if mapped == found.len() => None,
        0 => Some(NtStatus::NONE_MAPPED),
        _ => Some(NtStatus::SOME_NOT_MAPPED),
    };
    status(w, error);
}
