//! Access control lists as far as mode bits say them: entries for the owner, the group and everybody (RFC 8881 §6.3, §6.4). Where a
//! file has a list of POSIX beside its mode, entries for its users and groups are shown, too, and none can be set.
//!
//! Each of the three classes of a mode is shown what the mode allows it, and denied before that what a later entry would
//! allow it. A list that says more than a mode can keep is refused, not kept in part. What tools write along with reading and
//! writing is taken as said by these.

use super::super::ops::Stop;
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

/// What nobody is refused.
const ALWAYS: AceMask = AceMask(AceMask::READ_ATTRIBUTES.0 | AceMask::READ_ACL.0 | AceMask::SYNCHRONIZE.0);
/// What the owner is not refused besides.
const OWNERS: AceMask = AceMask(AceMask::WRITE_ATTRIBUTES.0 | AceMask::WRITE_ACL.0);
const WRITE: AceMask = AceMask(AceMask::WRITE_DATA.0 | AceMask::APPEND_DATA.0);
/// What goes with reading and with writing, and is nothing of its own here: a mode has no other bits for it. The generic "write"
/// of tools has what only the owner may do among it: others are not given that, as a server is to be stricter rather than laxer
/// than a list that it cannot follow (RFC 8881 §6.2.1.3.1).
const WITH_READ: AceMask = AceMask::READ_NAMED_ATTRS;
const WITH_WRITE: AceMask = AceMask(AceMask::WRITE_NAMED_ATTRS.0 | AceMask::DELETE_CHILD.0 | OWNERS.0);

/// What is shown of an object.
pub(super) struct Shown {
    entries: Vec<(AceType, AceFlag, AceMask, Name)>,
    is_dacl: bool,
}

/// Somebody whom an entry is about.
enum Name {
    Class(&'static [u8]),
    Named(Owner),
}

impl Shown {
    /// The same as the attribute DACL: nothing of it is inherited.
    pub(super) fn into_dacl(self) -> Self {
        Self { is_dacl: true, ..self }
    }
}

impl Encode for Shown {
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
                Name::Class(who) => who.encode(w),
                Name::Named(owner) => owner.encode(w),
            }
        }
    }
}

/// The list of an object that has `attrs`: that of its mode, or of its list of POSIX if it has one. The first entry that names a right
/// decides it.
pub(super) fn shown(attrs: &Attrs, acl: Option<&PosixAcl>, naming: Naming<'_>) -> FsResult<Shown> {
    let entries = match acl {
        None => {
            let class = |ace: Ace<'static>| (ace.acetype, ace.flag, ace.access_mask, Name::Class(ace.who));
            of_mode(attrs.mode, attrs.file_type).0.into_iter().map(class).collect()
        }
        Some(acl) => {
            let entry = |entry| of_posix(entry, attrs.file_type, naming);
            acl.shown_entries(attrs.mode).into_iter().map(entry).collect::<FsResult<_>>()?
        }
    };
    Ok(Shown { entries, is_dacl: false })
}

/// An entry of a list of POSIX.
fn of_posix(
    (effect, who, bits): (Effect, AclTag, u32),
    file_type: FileType,
    naming: Naming<'_>,
) -> FsResult<(AceType, AceFlag, AceMask, Name)> {
    let (more, flag, name) = match who {
        AclTag::Owner => (ALWAYS | OWNERS, AceFlag(0), Name::Class(OWNER)),
        AclTag::User(uid) => (ALWAYS, AceFlag(0), Name::Named(naming.owner(IdKind::User, uid)?)),
        AclTag::OwningGroup => (ALWAYS, AceFlag::IDENTIFIER_GROUP, Name::Class(GROUP)),
        AclTag::Group(gid) => {
            (ALWAYS, AceFlag::IDENTIFIER_GROUP, Name::Named(naming.owner(IdKind::Group, gid)?))
        }
        AclTag::Everyone => (ALWAYS, AceFlag(0), Name::Class(EVERYONE)),
    };
    let rights = mask(bits, file_type);
    Ok(match effect {
        Effect::Allow => (AceType::ACCESS_ALLOWED, flag, rights | more, name),
        Effect::Deny => (AceType::ACCESS_DENIED, flag, rights, name),
    })
}

/// The list that says what a mode says.
pub(super) fn of_mode(mode: u32, file_type: FileType) -> Acl<'static> {
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

/// The rights that bits of a mode are.
fn mask(bits: u32, file_type: FileType) -> AceMask {
    let write = if file_type == FileType::Directory { WRITE | AceMask::DELETE_CHILD } else { WRITE };
    let rights = [(4, AceMask::READ_DATA), (2, write), (1, AceMask::EXECUTE)];
    let given = rights.into_iter().filter(|(bit, _)| bits & bit != 0);
    given.fold(AceMask(0), |all, (_, right)| all | right)
}

/// The nine bits of the mode that says what a list says; `ATTRNOTSUPP` if none does.
pub(super) fn to_mode(acl: &Acl<'_>) -> Result<u32, Stop> {
    if !acl.0.iter().all(|ace| says_nothing(ace) || is_of_classes(ace)) {
        return Err(Stop::Status(Status::ATTRNOTSUPP));
    }
    let of = |classes: &[&[u8]]| allowed(acl, classes);
    let owner = bits(of(&[OWNER, EVERYONE]), OWNERS)?;
    let group = bits(of(&[GROUP, EVERYONE]), AceMask(0))?;
    let everyone = bits(of(&[EVERYONE]), AceMask(0))?;
    // An owner who is in the group is refused by the list what a mode, which looks at the owner alone, would allow.
    let owner_in_group = bits(of(&[OWNER, GROUP, EVERYONE]), OWNERS)?;
    if owner & !owner_in_group != 0 {
        return Err(Stop::Status(Status::ATTRNOTSUPP));
    }
    Ok(owner << 6 | group << 3 | everyone)
}

/// Whether an entry is as if it were not there, whomever it is about: it allows or denies no right.
fn says_nothing(ace: &Ace<'_>) -> bool {
    matches!(ace.acetype, AceType::ACCESS_ALLOWED | AceType::ACCESS_DENIED) && ace.access_mask == AceMask(0)
}

/// Whether an entry allows or denies one of the three classes something, now and not to what is made later.
fn is_of_classes(ace: &Ace<'_>) -> bool {
    let flag = if ace.who == GROUP { AceFlag::IDENTIFIER_GROUP } else { AceFlag(0) };
    matches!(ace.acetype, AceType::ACCESS_ALLOWED | AceType::ACCESS_DENIED)
        && (ace.flag == AceFlag(0) || ace.flag == flag)
        && [OWNER, GROUP, EVERYONE].contains(&ace.who)
}

/// What the list allows who is in these classes: the first entry that names a right decides it (RFC 8881 §6.2.1).
fn allowed(acl: &Acl<'_>, classes: &[&[u8]]) -> AceMask {
    let entries = acl.0.iter().filter(|ace| classes.contains(&ace.who)).map(|ace| {
        let effect = if ace.acetype == AceType::ACCESS_ALLOWED { Effect::Allow } else { Effect::Deny };
        (effect, Rights(ace.access_mask.0))
    });
    AceMask(first_match(entries).0)
}

/// The three bits that allow this, and nothing but what all or the owner have anyway.
fn bits(allowed: AceMask, anyway: AceMask) -> Result<u32, Stop> {
    let has = |right: AceMask| allowed.0 & right.0 == right.0;
    let (read, write, execute) = (has(AceMask::READ_DATA), has(WRITE), has(AceMask::EXECUTE));
    let mut kept = ALWAYS | anyway;
    for (is_given, rights) in
        [(read, AceMask::READ_DATA | WITH_READ), (write, WRITE | WITH_WRITE), (execute, AceMask::EXECUTE)]
    {
        if is_given {
            kept = kept | rights;
        }
    }
    if allowed.0 & !kept.0 != 0 {
        return Err(Stop::Status(Status::ATTRNOTSUPP));
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
                let acl = of_mode(mode, file_type);
                assert_eq!(to_mode(&acl).ok(), Some(mode), "{mode:o}: {acl:?}");
                // Each class by itself is allowed what the mode says, whoever else it is.
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
        assert_eq!(of_mode(0o640, FileType::Regular).0, expected);
        let expected = [
            ace(DENY, OWNER, 0x66),
            ace(ALLOW, OWNER, 0x16_0181),
            ace(ALLOW, GROUP, 0x12_00e7),
            ace(ALLOW, EVERYONE, 0x12_00a0),
        ];
        assert_eq!(of_mode(0o471, FileType::Directory).0, expected);
    }

    #[test]
    fn what_others_write_is_understood() {
        let generic = |who, bits| ace(ALLOW, who, bits);
        // As nfs4_setfacl writes R, RX and W: some with rights that go along.
        let list = vec![generic(OWNER, 0x16_011f), generic(GROUP, 0x12_00a9), generic(EVERYONE, 0x12_0081)];
        assert_eq!(to_mode(&Acl(list)).ok(), Some(0o654));
        // Everybody's entry alone is for the owner and the group too.
        assert_eq!(to_mode(&Acl(vec![generic(EVERYONE, 1)])).ok(), Some(0o444));
        assert_eq!(to_mode(&Acl(vec![])).ok(), Some(0));
        let denied_first = vec![ace(DENY, GROUP, 2), generic(EVERYONE, 1)];
        assert_eq!(to_mode(&Acl(denied_first)).ok(), Some(0o444));
        // Who is named and given nothing has nothing.
        let nobody = Ace { who: b"42", ..ace(ALLOW, OWNER, 0) };
        let inherited = Ace { acetype: DENY, flag: AceFlag::FILE_INHERIT_ACE, ..nobody };
        assert_eq!(to_mode(&Acl(vec![nobody, generic(EVERYONE, 1), inherited])).ok(), Some(0o444));
    }

    /// The masks of `R`, `W` and `X` in nfs4-acl-tools 0.3.7, which leaves out DELETE_CHILD for what is no directory.
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
                // What everybody is allowed, the owner and the group are.
                let expected = (owner | everyone) << 6 | (group | everyone) << 3 | everyone;
                assert_eq!(to_mode(&Acl(allowed.to_vec())).ok(), Some(expected), "{mode:o}: {allowed:?}");
                // Unless they are denied it before.
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
        // The one that the tool is mostly asked for: a directory that its group may change.
        let shared =
            [ace(ALLOW, OWNER, 0x16_01ff), ace(ALLOW, GROUP, 0x16_01ff), ace(ALLOW, EVERYONE, 0x12_00a9)];
        assert_eq!(to_mode(&Acl(shared.to_vec())).ok(), Some(0o775));
        assert_eq!(
            of_mode(0o775, FileType::Directory).0[1].access_mask.0 & 0x4_0100,
            0,
            "a group changes modes"
        );
    }

    #[test]
    fn what_a_mode_cannot_keep_is_refused() {
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
