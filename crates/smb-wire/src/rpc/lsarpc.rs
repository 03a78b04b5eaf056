//! The Local Security Authority, MS-LSAD and MS-LSAT: translates SIDs to names and back.

use super::ndr::{NdrReader, NdrWriter};
use super::{Fault, Syntax};
use crate::security::Sid;
use crate::sets::open_set;
use crate::{Guid, Malformed, NtStatus, Utf16};

/// `lsarpc`, MS-LSAD §1.9.
pub const INTERFACE: Syntax =
    Syntax { uuid: Guid::new(0x1234_5778, 0x1234, 0xabcd, 0xef00_0123_4567_89ab), version: 0 };

/// `LSAPR_HANDLE`, MS-LSAD §2.2.2.1.
pub type Handle = [u8; 20];

/// The maximum number of SIDs in a call. MS-LSAT §2.2.18 allows five times as many, but no client sends them.
pub const SIDS_MAX: usize = 4096;
/// The maximum number of names in a call (MS-LSAT §3.1.4.8).
pub const NAMES_MAX: usize = 1000;

open_set! {
    /// `SID_NAME_USE`, MS-LSAT §2.2.13.
    pub struct SidNameUse: u16 {
        USER = 1,
        GROUP = 2,
        DOMAIN = 3,
        ALIAS = 4,
        WELL_KNOWN_GROUP = 5,
        DELETED_ACCOUNT = 6,
        INVALID = 7,
        UNKNOWN = 8,
        COMPUTER = 9,
        LABEL = 10,
    }

    /// `POLICY_INFORMATION_CLASS`, MS-LSAD §2.2.4.1.
    pub struct PolicyInformationClass: u16 {
        PRIMARY_DOMAIN = 3,
        ACCOUNT_DOMAIN = 5,
        DNS_DOMAIN = 12,
    }
}

/// The version of a lookup call; later ones return more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallVersion {
    First,
    /// Adds flags.
    Second,
    /// Adds whole SIDs.
    Third,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// `LsarClose`, MS-LSAD §3.1.4.9.4.
    Close { handle: Handle },
    /// `LsarOpenPolicy` (MS-LSAD §3.1.4.4.2) and `LsarOpenPolicy2` (§3.1.4.4.1), with any requested access.
    OpenPolicy,
    /// `LsarQueryInformationPolicy` (MS-LSAD §3.1.4.4.4) and `LsarQueryInformationPolicy2` (§3.1.4.4.3).
    QueryInformationPolicy { handle: Handle, class: PolicyInformationClass },
    /// `LsarLookupSids` (MS-LSAT §3.1.4.11) and `LsarLookupSids2` (§3.1.4.10).
    LookupSids { handle: Handle, form: CallVersion, sids: Vec<Sid> },
    /// `LsarLookupNames` (MS-LSAT §3.1.4.8), `LsarLookupNames2` (§3.1.4.7) and `LsarLookupNames3` (§3.1.4.6).
    LookupNames { handle: Handle, form: CallVersion, names: Vec<Utf16<'a>> },
}

impl<'a> Call<'a> {
    pub fn decode(opnum: u16, stub: &'a [u8]) -> Result<Self, Fault> {
        let r = NdrReader::new(stub);
        let decoded = match opnum {
            0 => close(r),
            6 | 44 => Ok(Self::OpenPolicy),
            7 | 46 => query_information_policy(r),
            14 => lookup_names(r, CallVersion::First),
            58 => lookup_names(r, CallVersion::Second),
            68 => lookup_names(r, CallVersion::Third),
            15 => lookup_sids(r, CallVersion::First),
            57 => lookup_sids(r, CallVersion::Second),
            _ => return Err(Fault::OP_RNG_ERROR),
        };
        decoded.map_err(|_| Fault::NDR)
    }
}

fn close(mut r: NdrReader<'_>) -> Result<Call<'_>, Malformed> {
    Ok(Call::Close { handle: r.array()? })
}

fn query_information_policy(mut r: NdrReader<'_>) -> Result<Call<'_>, Malformed> {
    Ok(Call::QueryInformationPolicy { handle: r.array()?, class: PolicyInformationClass(r.u16()?) })
}

fn lookup_sids(mut r: NdrReader<'_>, form: CallVersion) -> Result<Call<'_>, Malformed> {
    Ok(Call::LookupSids { handle: r.array()?, form, sids: r.sids(SIDS_MAX)? })
}

fn lookup_names(mut r: NdrReader<'_>, form: CallVersion) -> Result<Call<'_>, Malformed> {
    let (handle, entries) = (r.array()?, r.u32()?);
    let count = r.list_length(entries, NAMES_MAX)?;
    Ok(Call::LookupNames { handle, form, names: r.unicode_strings(count)? })
}

pub fn open_policy_results(handle: Handle) -> Vec<u8> {
    NdrWriter::stub(|w| {
        w.bytes(&handle);
        w.u32(NtStatus::SUCCESS.0);
    })
}

pub fn close_results() -> Vec<u8> {
    open_policy_results([0; 20])
}

/// The domain of a name, MS-LSAD §2.2.4.14 and MS-LSAT §2.2.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain<'a> {
    pub name: &'a str,
    pub sid: Sid,
}

/// The results of `LsarQueryInformationPolicy` of a standalone host: its own domain, for every class.
pub fn query_information_policy_results(class: PolicyInformationClass, domain: &Domain<'_>) -> Vec<u8> {
    NdrWriter::stub(|w| {
        let names: &[&str] = match class {
            PolicyInformationClass::PRIMARY_DOMAIN | PolicyInformationClass::ACCOUNT_DOMAIN => &[domain.name],
            PolicyInformationClass::DNS_DOMAIN => &[domain.name, "", ""],
            _ => {
                w.null();
                return w.u32(NtStatus::INVALID_PARAMETER.0);
            }
        };
        w.pointer();
        w.u16(class.0);
        names.iter().for_each(|name| w.unicode_string(name));
        if class == PolicyInformationClass::DNS_DOMAIN {
            w.bytes(&[0; 16]);
        }
        w.pointer();
        names.iter().for_each(|name| w.text(name));
        w.sid(&domain.sid);
        w.u32(NtStatus::SUCCESS.0);
    })
}

/// `LSAPR_TRANSLATED_NAME_EX`, MS-LSAT §2.2.21.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslatedName {
    /// `UNKNOWN` if no account has the SID.
    pub name_use: SidNameUse,
    /// The SID as text if no account has it.
    pub name: String,
    /// An index into the domains of the results.
    pub domain: Option<usize>,
}

/// `LSAPR_TRANSLATED_SID_EX2`, MS-LSAT §2.2.25.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslatedSid {
    /// `UNKNOWN` if no account has the name.
    pub name_use: SidNameUse,
    pub sid: Option<Sid>,
    /// An index into the domains of the results.
    pub domain: Option<usize>,
}

/// The results of every version of `LsarLookupSids`, a name for every SID.
///
/// # Panics
/// If a name is longer than 32,767 units.
pub fn lookup_sids_results(form: CallVersion, domains: &[Domain<'_>], names: &[TranslatedName]) -> Vec<u8> {
    NdrWriter::stub(|w| {
        referenced_domains(w, domains);
        w.count(names.len());
        w.pointer();
        w.count(names.len());
        for name in names {
            w.u16(name.name_use.0);
            w.unicode_string(&name.name);
            domain_index(w, name.domain);
            if form != CallVersion::First {
                w.u32(0);
            }
        }
        names.iter().for_each(|name| w.text(&name.name));
        lookup_status(w, names.iter().map(|name| name.name_use));
    })
}

/// The results of every version of `LsarLookupNames`, a SID for every name.
pub fn lookup_names_results(form: CallVersion, domains: &[Domain<'_>], sids: &[TranslatedSid]) -> Vec<u8> {
    NdrWriter::stub(|w| {
        referenced_domains(w, domains);
        w.count(sids.len());
        w.pointer();
        w.count(sids.len());
        for translated in sids {
            w.u16(translated.name_use.0);
            match (form, &translated.sid) {
                (CallVersion::First | CallVersion::Second, sid) => {
                    w.u32(sid.and_then(|sid| sid.sub_authorities().last()).unwrap_or(u32::MAX));
                }
                (CallVersion::Third, Some(_)) => w.pointer(),
                (CallVersion::Third, None) => w.null(),
            }
            domain_index(w, translated.domain);
            if form != CallVersion::First {
                w.u32(0);
            }
        }
        if form == CallVersion::Third {
            sids.iter().filter_map(|translated| translated.sid.as_ref()).for_each(|sid| w.sid(sid));
        }
        lookup_status(w, sids.iter().map(|translated| translated.name_use));
    })
}

/// A pointer to `LSAPR_REFERENCED_DOMAIN_LIST`, MS-LSAT §2.2.12.
fn referenced_domains(w: &mut NdrWriter<'_>, domains: &[Domain<'_>]) {
    w.pointer();
    w.count(domains.len());
    w.pointer();
    w.count(domains.len());
    w.count(domains.len());
    for domain in domains {
        w.unicode_string(domain.name);
        w.pointer();
    }
    for domain in domains {
        w.text(domain.name);
        w.sid(&domain.sid);
    }
}

/// `DomainIndex`: -1 for none.
fn domain_index(w: &mut NdrWriter<'_>, domain: Option<usize>) {
    w.u32(domain.and_then(|index| u32::try_from(index).ok()).unwrap_or(u32::MAX));
}

/// `MappedCount`, and the corresponding status (MS-LSAT §3.1.4.9).
fn lookup_status(w: &mut NdrWriter<'_>, uses: impl ExactSizeIterator<Item = SidNameUse>) {
    let all = uses.len();
    let mapped = uses.filter(|name_use| *name_use != SidNameUse::UNKNOWN).count();
    w.count(mapped);
    w.u32(match mapped {
        _ if mapped == all => NtStatus::SUCCESS.0,
        0 => NtStatus::NONE_MAPPED.0,
        _ => NtStatus::SOME_NOT_MAPPED.0,
    });
}
