//! Information about domains, groups, aliases and users, by class (MS-SAMR §2.2.3 to §2.2.6).

use super::{GROUP_ATTRIBUTES, GROUP_RID_USERS};
use crate::NtStatus;
use crate::rpc::ndr::NdrWriter;
use crate::sets::bit_set;

bit_set! {
    /// `USER_ACCOUNT` codes, MS-SAMR §2.2.1.12.
    pub struct UserAccountControl: u32 {
        NORMAL_ACCOUNT = 0x10,
        DONT_EXPIRE_PASSWORD = 0x200,
    }
}

impl UserAccountControl {
    /// The codes of all users.
    pub const ALL: Self = Self(Self::NORMAL_ACCOUNT.0 | Self::DONT_EXPIRE_PASSWORD.0);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Char(u8),
    Short(u16),
    Long(u32),
    /// `OLD_LARGE_INTEGER`, MS-SAMR §2.2.2.2: a 64-bit number aligned to 4.
    OldLarge(u64),
    /// `LARGE_INTEGER`, MS-DTYP §2.3.5, aligned to 8.
    Large(u64),
    /// `RPC_UNICODE_STRING`, MS-DTYP §2.3.10.
    Text(&'a str),
    /// `RPC_STRING`, MS-SAMR §2.2.2.1, with question marks for characters outside of ASCII.
    Oem(&'a str),
    /// An empty `RPC_SHORT_BLOB` (MS-SAMR §2.2.2.4) or `SAMPR_SR_SECURITY_DESCRIPTOR` (§2.2.7.11).
    Nothing,
    /// `SAMPR_LOGON_HOURS` (MS-SAMR §2.2.6.5): always.
    AllHours,
}

/// The hours of a week.
const UNITS_PER_WEEK: u16 = 168;
/// `size_is` of the bits of a week's units (MS-SAMR §2.2.6.5).
const LOGON_HOURS_MAX: usize = 1260;

impl Field<'_> {
    pub(super) fn write(&self, w: &mut NdrWriter<'_>) {
        match *self {
            Self::Char(value) => w.u8(value),
            Self::Short(value) => w.u16(value),
            Self::Long(value) => w.u32(value),
            Self::OldLarge(value) => w.bytes(&value.to_le_bytes()),
            Self::Large(value) => w.u64(value),
            Self::Text(text) => w.unicode_string(text),
            Self::Oem(text) => w.oem_string(text),
            Self::Nothing => {
                w.u32(0);
                w.null();
            }
            Self::AllHours => {
                w.u16(UNITS_PER_WEEK);
                w.pointer();
            }
        }
    }

    pub(super) fn write_referent(&self, w: &mut NdrWriter<'_>) {
        match *self {
            Self::Text(text) => w.text(text),
            Self::Oem(text) => w.oem_text(text),
            Self::AllHours => w.varying_bytes(LOGON_HOURS_MAX, &[0xff; UNITS_PER_WEEK as usize / 8]),
            Self::Char(_)
            | Self::Short(_)
            | Self::Long(_)
            | Self::OldLarge(_)
            | Self::Large(_)
            | Self::Nothing => (),
        }
    }
}

/// A structure as a list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Information<'a>(pub(super) Vec<Field<'a>>);

impl Information<'_> {
    pub(super) fn write(&self, w: &mut NdrWriter<'_>) {
        self.0.iter().for_each(|field| field.write(w));
    }

    pub(super) fn write_referents(&self, w: &mut NdrWriter<'_>) {
        self.0.iter().for_each(|field| field.write_referent(w));
    }
}

/// The status for an unknown class.
const INVALID: NtStatus = NtStatus::INVALID_INFO_CLASS;
/// A time that never comes.
const NEVER: u64 = 0x7fff_ffff_ffff_ffff;
/// An unlimited time span: the lowest number, since spans are negative.
const FOR_EVER: u64 = 1 << 63;
/// 30 minutes, as a span.
const HALF_AN_HOUR: u64 = (30 * 60 * 10_000_000_u64).wrapping_neg();
/// `DomainServerEnabled` and `DomainServerRolePrimary`, MS-SAMR §2.2.3.2 and §2.2.3.4.
const SERVER_ENABLED: u32 = 1;
const ROLE_PRIMARY: u32 = 3;

/// A domain, MS-SAMR §2.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain<'a> {
    pub name: &'a str,
    pub user_count: u32,
    pub group_count: u32,
    pub alias_count: u32,
}

impl<'a> Domain<'a> {
    /// `DOMAIN_INFORMATION_CLASS`, MS-SAMR §2.2.3.16. Passwords may have any length and age; there is no lockout.
    pub fn information(&self, class: u16) -> Result<Information<'a>, NtStatus> {
        use Field::{Large, Long, OldLarge, Short, Text};
        // There is no count of changes; 1 is the initial value.
        let modified = OldLarge(1);
        Ok(Information(match class {
            1 => vec![Short(0), Short(0), Long(0), OldLarge(FOR_EVER), OldLarge(0)],
            2 => self.general(),
            3 => vec![OldLarge(FOR_EVER)],
            4 | 6 => vec![Text("")],
            5 => vec![Text(self.name)],
            7 => vec![Long(ROLE_PRIMARY)],
            8 => vec![modified, OldLarge(0)],
            9 => vec![Long(SERVER_ENABLED)],
            11 => [self.general(), vec![Large(HALF_AN_HOUR), Large(HALF_AN_HOUR), Short(0)]].concat(),
            12 => vec![Large(HALF_AN_HOUR), Large(HALF_AN_HOUR), Short(0)],
            13 => vec![modified, OldLarge(0), OldLarge(0)],
            _ => return Err(INVALID),
        }))
    }

    /// `SAMPR_DOMAIN_GENERAL_INFORMATION`, MS-SAMR §2.2.3.10.
    fn general(&self) -> Vec<Field<'a>> {
        use Field::{Char, Long, OldLarge, Text};
        let counts = [self.user_count, self.group_count, self.alias_count].map(Long);
        let [force_logoff, modified_count] = [FOR_EVER, 1].map(OldLarge);
        let state = [Long(SERVER_ENABLED), Long(ROLE_PRIMARY), Char(1)];
        [&[force_logoff, Text(""), Text(self.name), Text(""), modified_count], &state[..], &counts].concat()
    }
}

/// A group, MS-SAMR §2.2.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    pub name: &'a str,
    pub member_count: u32,
}

impl<'a> Group<'a> {
    /// `GROUP_INFORMATION_CLASS`, MS-SAMR §2.2.4.6.
    pub fn information(&self, class: u16) -> Result<Information<'a>, NtStatus> {
        use Field::{Long, Text};
        Ok(Information(match class {
            1 | 5 => vec![Text(self.name), Long(GROUP_ATTRIBUTES), Long(self.member_count), Text("")],
            2 => vec![Text(self.name)],
            3 => vec![Long(GROUP_ATTRIBUTES)],
            4 => vec![Text("")],
            _ => return Err(INVALID),
        }))
    }
}

/// An alias, MS-SAMR §2.2.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias<'a> {
    pub name: &'a str,
    pub member_count: u32,
}

impl<'a> Alias<'a> {
    /// `ALIAS_INFORMATION_CLASS`, MS-SAMR §2.2.5.5.
    pub fn information(&self, class: u16) -> Result<Information<'a>, NtStatus> {
        use Field::{Long, Text};
        Ok(Information(match class {
            1 => vec![Text(self.name), Long(self.member_count), Text("")],
            2 => vec![Text(self.name)],
            3 => vec![Text("")],
            _ => return Err(INVALID),
        }))
    }
}

/// A user, MS-SAMR §2.2.6. Times of logins and password changes are never disclosed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User<'a> {
    pub name: &'a str,
    pub rid: u32,
}

/// `WhichFields`, MS-SAMR §2.2.1.8: `USER_ALL_USERNAME` to `USER_ALL_CODEPAGE`, without LASTLOGON, LASTLOGOFF, BADPASSWORDCOUNT, LOGONCOUNT,
/// PASSWORDCANCHANGE and PASSWORDLASTSET.
const WHICH_FIELDS: u32 = 0x00fa_27ff;

impl<'a> User<'a> {
    /// `USER_INFORMATION_CLASS`, MS-SAMR §2.2.6.28.
    pub fn information(&self, class: u16) -> Result<Information<'a>, NtStatus> {
        use Field::{AllHours, Long, OldLarge, Short, Text};
        let (name, none) = (Text(self.name), Text(""));
        let (primary_group, control) = (Long(GROUP_RID_USERS), Long(UserAccountControl::ALL.0));
        let general = [name, none, Long(self.rid), primary_group];
        let counts = [Short(0), Short(0)];
        Ok(Information(match class {
            1 => vec![name, none, primary_group, none, none],
            2 => vec![none, none, Short(0), Short(0)],
            // SAMPR_USER_LOGON_INFORMATION, MS-SAMR §2.2.6.10.
            3 => {
                let times = [0, 0, 0, 0, NEVER].map(OldLarge);
                [&general[..], &[none; 5], &times, &[AllHours], &counts, &[control]].concat()
            }
            4 => vec![AllHours],
            // SAMPR_USER_ACCOUNT_INFORMATION, MS-SAMR §2.2.6.11.
            5 => {
                let times = [0, 0].map(OldLarge);
                let last = [OldLarge(0), OldLarge(NEVER), control];
                [&general[..], &[none; 6], &times, &[AllHours], &counts, &last].concat()
            }
            6 => vec![name, none],
            7 => vec![name],
            8 | 11..=14 | 20 => vec![none],
            9 => vec![primary_group],
            10 => vec![none, none],
            16 => vec![control],
            17 => vec![OldLarge(NEVER)],
            21 => self.all(),
            _ => return Err(INVALID),
        }))
    }

    /// `SAMPR_USER_ALL_INFORMATION`, MS-SAMR §2.2.6.6, without secrets.
    fn all(&self) -> Vec<Field<'a>> {
        use Field::{AllHours, Char, Long, Nothing, OldLarge, Short, Text};
        // LastLogon, LastLogoff, PasswordLastSet, AccountExpires, PasswordCanChange, PasswordMustChange.
        let times = [0, 0, 0, NEVER, 0, NEVER].map(OldLarge);
        // UserName, and FullName to Parameters.
        let texts = [[Text(self.name)].as_slice(), &[Text(""); 9]].concat();
        // LmOwfPassword, NtOwfPassword, PrivateData, SecurityDescriptor.
        let secrets = [Nothing, Nothing, Text(""), Nothing];
        let numbers = [self.rid, GROUP_RID_USERS, UserAccountControl::ALL.0, WHICH_FIELDS].map(Long);
        // BadPasswordCount, LogonCount, CountryCode, CodePage.
        let counts = [Short(0); 4];
        // LmPasswordPresent, NtPasswordPresent, PasswordExpired, PrivateDataSensitive.
        let flags = [Char(0); 4];
        [&times[..], &texts, &secrets, &numbers, &[AllHours], &counts, &flags].concat()
    }
}
