//! ACLs, as far as mode bits express them: entries for the owner, the group and everyone (RFC 8881 §6.3, §6.4). A POSIX
//! ACL also shows entries for its users and groups, which cannot be set.
//!
//! Each class of the mode is allowed its bits, and denied first the bits that a later entry would allow. A list that a
//! mode cannot express is refused, not approximated. Rights that tools add to reading and writing are ignored.

use super::super::compound_state::OpError;
use super::owner::{Naming, Owner};
use crate::id_map::IdKind;
use nfs_wire::v4::Status;
use nfs_wire::v4::attr::{Ace, AceFlag, AceMask, AceType, Acl, AclFlag};
use vfs::acl::posix_acl::AclTag;
use vfs::acl::{Effect, Rights, first_match};
use vfs::{Attrs, FileType, FsResult, PosixAcl};
use xdr::{Encode, Writer};

const OWNER: &[u8] = b"OWNER@";
const GROUP: &[u8] = b"GROUP@";
const EVERYONE: &[u8] = b"EVERYONE@";

/// Rights that are always allowed.
const ALWAYS: AceMask = AceMask(AceMask::READ_ATTRIBUTES.0 | AceMask::READ_ACL.0 | AceMask::SYNCHRONIZE.0);
/// Rights that the owner is never denied.
const OWNERS: AceMask = AceMask(AceMask::WRITE_ATTRIBUTES.0 | AceMask::WRITE_ACL.0);
const WRITE: AceMask = AceMask(AceMask::WRITE_DATA.0 | AceMask::APPEND_DATA.0);
/// Rights that follow from reading and writing: a mode has no bits for them. The generic "write" of tools includes
/// rights of the owner alone, which others do not get: a server should be stricter rather than laxer than a list it
/// cannot follow (RFC 8881 §6.2.1.3.1).
const WITH_READ: AceMask = AceMask::READ_NAMED_ATTRS;
const WITH_WRITE: AceMask = AceMask(AceMask::WRITE_NAMED_ATTRS.0 | AceMask::DELETE_CHILD.0 | OWNERS.0);

pub(super) struct AclValue {
    entries: Vec<(AceType, AceFlag, AceMask, AceWho)>,
    is_dacl: bool,
}

enum AceWho {
    Class(&'static [u8]),
    Named(Owner),
}

impl AclValue {
    /// Converts to the value of DACL, in which nothing is inherited.
    pub(super) fn into_dacl(self) -> Self {
        Self { is_dacl: true, ..self }
    }
}

impl Encode for AclValue {
    fn encode(&self, w: &mut Writer<'_>) {
        if self.is_dacl {
            AclFlag(0).encode(w);
        }
        w.u32(u32::try_from(self.entries.len()).unwrap_or(0));
        for (acetype, flag, mask, name) in &self.entries {
            acetype.encode(w);
            flag.encode(w);
            mask.encode(w);
            match name {
                AceWho::Class(who) => who.encode(w),
                AceWho::Named(owner) => owner.encode(w),
            }
        }
    }
}

/// The list of an object that has `attrs`: that of its mode, or of its list of POSIX if it has one. The first entry that names a right
/// decides it.
pub(super) fn acl_value(attrs: &Attrs, acl: Option<&PosixAcl>, naming: Naming<'_>) -> FsResult<AclValue> {
    let entries = match acl {
        None => {
            let class = |ace: Ace<'static>| (ace.acetype, ace.flag, ace.access_mask, AceWho::Class(ace.who));
            from_mode(attrs.mode, attrs.file_type).0.into_iter().map(class).collect()
        }
        Some(acl) => {
            let entry = |(effect, who, bits)| from_posix(effect, who, bits, attrs.file_type, naming);
            acl.shown_entries(attrs.mode).into_iter().map(entry).collect::<FsResult<_>>()?
        }
    };
    Ok(AclValue { entries, is_dacl: false })
}

fn from_posix(
    effect: Effect,
    who: AclTag,
    bits: u32,
    file_type: FileType,
    naming: Naming<'_>,
) -> FsResult<(AceType, AceFlag, AceMask, AceWho)> {
    let (more, flag, name) = match who {
        AclTag::Owner => (ALWAYS | OWNERS, AceFlag(0), AceWho::Class(OWNER)),
        AclTag::User(uid) => (ALWAYS, AceFlag(0), AceWho::Named(naming.owner(IdKind::User, uid)?)),
        AclTag::OwningGroup => (ALWAYS, AceFlag::IDENTIFIER_GROUP, AceWho::Class(GROUP)),
        AclTag::Group(gid) => {
            (ALWAYS, AceFlag::IDENTIFIER_GROUP, AceWho::Named(naming.owner(IdKind::Group, gid)?))
        }
        AclTag::Everyone => (ALWAYS, AceFlag(0), AceWho::Class(EVERYONE)),
    };
    let rights = mask(bits, file_type);
    Ok(match effect {
        Effect::Allow => (AceType::ACCESS_ALLOWED, flag, rights | more, name),
        Effect::Deny => (AceType::ACCESS_DENIED, flag, rights, name),
    })
}

/// The list that expresses a mode.
pub(super) fn from_mode(mode: u32, file_type: FileType) -> Acl<'static> {
    let [owner, group, everyone] = [mode >> 6 & 7, mode >> 3 & 7, mode & 7];
    let allow = |who, bits, more: AceMask| entry(AceType::ACCESS_ALLOWED, who, mask(bits, file_type) | more);
    let deny = |who, bits| (bits != 0).then(|| entry(AceType::ACCESS_DENIED, who, mask(bits, file_type)));
    let entries = [
        deny(OWNER, !owner & (group | everyone)),
        Some(allow(OWNER, owner, ALWAYS | OWNERS)),
        deny(GROUP, !group & everyone),
        Some(allow(GROUP, group, ALWAYS)),
        Some(allow(EVERYONE, everyone, ALWAYS)),
    ];
    Acl(entries.into_iter().flatten().collect())
}

fn entry(acetype: AceType, who: &'static [u8], access_mask: AceMask) -> Ace<'static> {
    let flag = if who == GROUP { AceFlag::IDENTIFIER_GROUP } else { AceFlag(0) };
    Ace { acetype, flag, access_mask, who }
}

/// The rights of mode bits.
fn mask(bits: u32, file_type: FileType) -> AceMask {
    let write = if file_type == FileType::Directory { WRITE | AceMask::DELETE_CHILD } else { WRITE };
    let rights = [(4, AceMask::READ_DATA), (2, write), (1, AceMask::EXECUTE)];
    let allowed_rights = rights.into_iter().filter(|(bit, _)| bits & bit != 0);
    allowed_rights.fold(AceMask(0), |all, (_, right)| all | right)
}

/// The nine mode bits that express a list; `ATTRNOTSUPP` if there are none.
pub(super) fn to_mode(acl: &Acl<'_>) -> Result<u32, OpError> {
    if !acl.0.iter().all(|ace| says_nothing(ace) || is_of_classes(ace)) {
        return Err(OpError::Status(Status::ATTRNOTSUPP));
    }
    let of = |classes: &[&[u8]]| allowed(acl, classes);
    let owner = bits(of(&[OWNER, EVERYONE]), OWNERS)?;
    let group = bits(of(&[GROUP, EVERYONE]), AceMask(0))?;
    let everyone = bits(of(&[EVERYONE]), AceMask(0))?;
    // The list denies an owner who is in the group a right that a mode, which checks the owner only, would allow.
    let owner_in_group = bits(of(&[OWNER, GROUP, EVERYONE]), OWNERS)?;
    if owner & !owner_in_group != 0 {
        return Err(OpError::Status(Status::ATTRNOTSUPP));
    }
    Ok(owner << 6 | group << 3 | everyone)
}

/// Whether an entry is as if it were not there, whomever it is about: it allows or denies no right.
fn says_nothing(ace: &Ace<'_>) -> bool {
    matches!(ace.acetype, AceType::ACCESS_ALLOWED | AceType::ACCESS_DENIED) && ace.access_mask == AceMask(0)
}

/// Whether an entry allows or denies one of the three classes something, without inheritance.
fn is_of_classes(ace: &Ace<'_>) -> bool {
    let flag = if ace.who == GROUP { AceFlag::IDENTIFIER_GROUP } else { AceFlag(0) };
    matches!(ace.acetype, AceType::ACCESS_ALLOWED | AceType::ACCESS_DENIED)
        && (ace.flag == AceFlag(0) || ace.flag == flag)
        && [OWNER, GROUP, EVERYONE].contains(&ace.who)
}

/// The rights that the list allows members of these classes. The first entry that names a right decides it (RFC 8881
/// §6.2.1).
fn allowed(acl: &Acl<'_>, classes: &[&[u8]]) -> AceMask {
    let entries = acl.0.iter().filter(|ace| classes.contains(&ace.who)).map(|ace| {
        let effect = if ace.acetype == AceType::ACCESS_ALLOWED { Effect::Allow } else { Effect::Deny };
        (effect, Rights(ace.access_mask.0))
    });
    AceMask(first_match(entries).0)
}

/// The three bits that allow exactly this, apart from rights that are always allowed.
fn bits(allowed: AceMask, anyway: AceMask) -> Result<u32, OpError> {
    let has = |right: AceMask| allowed.0 & right.0 == right.0;
    let (read, write, execute) = (has(AceMask::READ_DATA), has(WRITE), has(AceMask::EXECUTE));
    let mut expected = ALWAYS | anyway;
    for (is_given, rights) in
        [(read, AceMask::READ_DATA | WITH_READ), (write, WRITE | WITH_WRITE), (execute, AceMask::EXECUTE)]
    {
        if is_given {
            expected = expected | rights;
        }
    }
    if allowed.0 & !expected.0 != 0 {
        return Err(OpError::Status(Status::ATTRNOTSUPP));
    }
    Ok(u32::from(read) << 2 | u32::from(write) << 1 | u32::from(execute))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ace(acetype: AceType, who: &'static [u8], rights: u32) -> Ace<'static> {
        Ace { access_mask: AceMask(rights), ..entry(acetype, who, AceMask(0)) }
    }

    const ALLOW: AceType = AceType::ACCESS_ALLOWED;
    const DENY: AceType = AceType::ACCESS_DENIED;

    #[test]
    fn every_mode_is_said_and_read_back() {
        for file_type in [FileType::Regular, FileType::Directory] {
            for mode in 0..0o1000 {
                let acl = from_mode(mode, file_type);
                assert_eq!(to_mode(&acl).ok(), Some(mode), "{mode:o}: {acl:?}");
                // Each class is allowed its bits, whatever other classes the caller is in.
                let of = |classes: &[&[u8]]| allowed(&acl, classes).0 & 0x27;
                let bits = |bits: u32| mask(bits, FileType::Regular).0;
                assert_eq!(of(&[OWNER, EVERYONE]), bits(mode >> 6 & 7), "{mode:o}");
                assert_eq!(of(&[OWNER, GROUP, EVERYONE]), bits(mode >> 6 & 7), "{mode:o}");
                assert_eq!(of(&[GROUP, EVERYONE]), bits(mode >> 3 & 7), "{mode:o}");
                assert_eq!(of(&[EVERYONE]), bits(mode & 7), "{mode:o}");
            }
        }
    }

    #[test]
    fn a_list_byte_by_byte() {
        let expected =
            [ace(ALLOW, OWNER, 0x16_0187), ace(ALLOW, GROUP, 0x12_0081), ace(ALLOW, EVERYONE, 0x12_0080)];
        assert_eq!(from_mode(0o640, FileType::Regular).0, expected);
        let expected = [
            ace(DENY, OWNER, 0x66),
            ace(ALLOW, OWNER, 0x16_0181),
            ace(ALLOW, GROUP, 0x12_00e7),
            ace(ALLOW, EVERYONE, 0x12_00a0),
        ];
        assert_eq!(from_mode(0o471, FileType::Directory).0, expected);
    }

    #[test]
    fn lists_of_other_tools_are_understood() {
        let generic = |who, bits| ace(ALLOW, who, bits);
        // R, RX and W as nfs4_setfacl writes them, with implied rights.
        let list = vec![generic(OWNER, 0x16_011f), generic(GROUP, 0x12_00a9), generic(EVERYONE, 0x12_0081)];
        assert_eq!(to_mode(&Acl(list)).ok(), Some(0o654));
        // The entry of everyone applies to the owner and the group, too.
        assert_eq!(to_mode(&Acl(vec![generic(EVERYONE, 1)])).ok(), Some(0o444));
        assert_eq!(to_mode(&Acl(vec![])).ok(), Some(0));
        let denied_first = vec![ace(DENY, GROUP, 2), generic(EVERYONE, 1)];
        assert_eq!(to_mode(&Acl(denied_first)).ok(), Some(0o444));
        // A named user without rights changes nothing.
        let nobody = Ace { who: b"42", ..ace(ALLOW, OWNER, 0) };
        let inherited = Ace { acetype: DENY, flag: AceFlag::FILE_INHERIT_ACE, ..nobody };
        assert_eq!(to_mode(&Acl(vec![nobody, generic(EVERYONE, 1), inherited])).ok(), Some(0o444));
    }

    /// The masks of `R`, `W` and `X` in nfs4-acl-tools 0.3.7, which omits DELETE_CHILD except for directories.
    fn aliases(bits: u32, file_type: FileType) -> u32 {
        let write = if file_type == FileType::Directory { 0x16_01d6 } else { 0x16_0196 };
        let masks = [(4, 0x12_0089), (2, write), (1, 0x12_00a0)];
        masks.into_iter().filter(|(bit, _)| bits & bit != 0).fold(0, |all, (_, mask)| all | mask)
    }

    #[test]
    fn generic_permissions_of_tools_are_bits_of_a_mode() {
        for file_type in [FileType::Regular, FileType::Directory] {
            for mode in 0..0o1000 {
                let [owner, group, everyone] = [mode >> 6 & 7, mode >> 3 & 7, mode & 7];
                let entry = |acetype, who, bits| ace(acetype, who, aliases(bits, file_type));
                let allowed = [(OWNER, owner), (GROUP, group), (EVERYONE, everyone)]
                    .map(|(who, bits)| entry(ALLOW, who, bits));
                // Rights of everyone are rights of the owner and the group.
                let expected = (owner | everyone) << 6 | (group | everyone) << 3 | everyone;
                assert_eq!(to_mode(&Acl(allowed.to_vec())).ok(), Some(expected), "{mode:o}: {allowed:?}");
                // Unless an earlier entry denies them.
                let [for_owner, for_group, for_all] = allowed;
                let denied = [
                    for_owner,
                    entry(DENY, OWNER, !owner & 7),
                    for_group,
                    entry(DENY, GROUP, !group & 7),
                    for_all,
                ];
                assert_eq!(to_mode(&Acl(denied.to_vec())).ok(), Some(mode), "{mode:o}: {denied:?}");
            }
        }
        // The typical use of the tool: a directory that its group may change.
        let shared =
            [ace(ALLOW, OWNER, 0x16_01ff), ace(ALLOW, GROUP, 0x16_01ff), ace(ALLOW, EVERYONE, 0x12_00a9)];
        assert_eq!(to_mode(&Acl(shared.to_vec())).ok(), Some(0o775));
        assert_eq!(
            from_mode(0o775, FileType::Directory).0[1].access_mask.0 & 0x4_0100,
            0,
            "a group changes modes"
        );
    }

    #[test]
    fn lists_beyond_a_mode_are_refused() {
        let named = Ace { who: b"alice@example.org", ..ace(ALLOW, OWNER, 1) };
        let group = Ace { who: b"42", flag: AceFlag::IDENTIFIER_GROUP, ..named };
        let inherited = Ace { flag: AceFlag::FILE_INHERIT_ACE, ..ace(ALLOW, OWNER, 1) };
        let audit = Ace { acetype: AceType::SYSTEM_AUDIT, ..ace(ALLOW, OWNER, 1) };
        let unknown = Ace { acetype: AceType(9), ..ace(ALLOW, OWNER, 1) };
        for (what, list) in [
            ("a user", vec![named]),
            ("a group", vec![group]),
            ("inheritance", vec![inherited]),
            ("an audit", vec![audit]),
            ("an audit of nothing", vec![Ace { access_mask: AceMask(0), ..audit }]),
            ("a type that there is not", vec![unknown]),
            ("appending alone", vec![ace(ALLOW, OWNER, 4)]),
            (
                "writing without appending",
                vec![ace(ALLOW, OWNER, 7), ace(DENY, GROUP, 4), ace(ALLOW, GROUP, 3)],
            ),
            ("removing children alone", vec![ace(ALLOW, OWNER, 0x40)]),
            ("changing modes, for others", vec![ace(ALLOW, EVERYONE, 0x4_0000)]),
            ("changing modes, for others who read", vec![ace(ALLOW, GROUP, 0x16_0089)]),
            ("changing times, for others who run it", vec![ace(ALLOW, GROUP, 0x12_01a0)]),
            ("writing, and giving away", vec![ace(ALLOW, GROUP, 0x1e_01d6)]),
            ("writing, and being removed", vec![ace(ALLOW, GROUP, 0x17_01d6)]),
            ("giving away", vec![ace(ALLOW, OWNER, 0x8_0000)]),
            ("a bit that there is not", vec![ace(ALLOW, OWNER, 1 << 30)]),
            ("a group that takes from its owner", vec![ace(DENY, GROUP, 6), ace(ALLOW, OWNER, 7)]),
        ] {
            assert!(to_mode(&Acl(list)).is_err(), "{what}");
        }
    }
}
