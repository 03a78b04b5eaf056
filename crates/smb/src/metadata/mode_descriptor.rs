//! Descriptors on volumes with Unix rules. A query returns the ACL equivalent to owner, group and mode bits, so that
//! the descriptor shows the effective rights. A change sets the mode bits equivalent to the client's ACL.

use crate::metadata::rights::rights_of_bits;
use identity::{Resolver, Sid as OurSid};
use smb_wire::security::{Ace, AceBody, AceFlags, AceType, Acl, Sid};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, NtStatus};
use vfs::acl::posix_acl::AclTag;
use vfs::acl::{Effect, Rights, first_match};
use vfs::model::attrs::MODE_BITS;
use vfs::{Attrs, FileType, PosixAcl};

/// The owner's implicit rights.
const OWNER_RIGHTS: AccessMask =
    AccessMask(AccessMask::WRITE_ATTRIBUTES.0 | AccessMask::WRITE_DAC.0 | AccessMask::WRITE_OWNER.0);
const PERMISSIONS: u32 = 0o777;

/// The SIDs of the three classes of mode bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes {
    pub(crate) owner: Sid,
    pub(crate) group: Sid,
    everyone: Sid,
    /// Every caller has authenticated, so this SID means the same as `everyone`.
    authenticated: Sid,
}

impl Classes {
    pub(crate) fn of(resolver: &dyn Resolver, uid: u32, gid: u32) -> Result<Self, NtStatus> {
        Ok(Self {
            owner: wire_sid(&resolver.user_sid(uid))?,
            group: wire_sid(&resolver.group_sid(gid))?,
            everyone: wire_sid(&OurSid::everyone())?,
            authenticated: wire_sid(&OurSid::authenticated_users())?,
        })
    }

    /// Lists the entries of owner, group and everyone. Each class denies the rights that later classes would add.
    pub(crate) fn entries(&self, attrs: &Attrs) -> Vec<Ace> {
        let is_dir = attrs.file_type == FileType::Directory;
        let of = |shift: u32| rights_of_bits(attrs.mode >> shift, is_dir);
        let (owners, groups, others) = (of(6), of(3), of(0));
        let denied = |own: AccessMask, later: AccessMask| later.without(own);
        let allow = |mask, sid| Ace::allow(AceFlags::empty(), mask, sid);
        let deny =
            |mask: AccessMask, sid| (!mask.is_empty()).then(|| Ace::deny(AceFlags::empty(), mask, sid));
        let entries = [
            Some(allow(owners | OWNER_RIGHTS, self.owner)),
            deny(denied(owners, groups | others), self.owner),
            Some(allow(groups, self.group)),
            deny(denied(groups, others), self.group),
            Some(allow(others, self.everyone)),
        ];
        entries.into_iter().flatten().collect()
    }

    /// Lists the entries of a file with a POSIX ACL, including its named users and groups. A long ACL shows only the
    /// owner's rights.
    pub(crate) fn entries_of_list(
        &self,
        resolver: &dyn Resolver,
        attrs: &Attrs,
        acl: &PosixAcl,
    ) -> Result<Vec<Ace>, NtStatus> {
        let is_dir = attrs.file_type == FileType::Directory;
        let entry = |(effect, who, bits): (Effect, AclTag, u32)| {
            let (sid, more) = match who {
                AclTag::Owner => (self.owner, OWNER_RIGHTS),
                AclTag::User(uid) => (wire_sid(&resolver.user_sid(uid))?, AccessMask::empty()),
                AclTag::OwningGroup => (self.group, AccessMask::empty()),
                AclTag::Group(gid) => (wire_sid(&resolver.group_sid(gid))?, AccessMask::empty()),
                AclTag::Everyone => (self.everyone, AccessMask::empty()),
            };
            let mask = rights_of_bits(bits, is_dir);
            Ok(match effect {
                Effect::Allow => Ace::allow(AceFlags::empty(), mask | more, sid),
                // Rights of everyone are never denied.
                Effect::Deny => Ace::deny(AceFlags::empty(), mask.without(rights_of_bits(0, is_dir)), sid),
            })
        };
        acl.shown_entries(attrs.mode).into_iter().map(entry).collect()
    }

    /// The mode equivalent to `list`, for a file whose current mode is `mode`. Without a list everything is allowed.
    /// The mode drops rights of other principals, which never grants too much. Denials of other principals have no
    /// equivalent: `STATUS_NOT_SUPPORTED`. Read access implies execute (see [`rights_of_bits`]), so the list does not
    /// determine the execute bits.
    pub(crate) fn mode(&self, list: Option<&Acl>, file_type: FileType, mode: u32) -> Result<u32, NtStatus> {
        let is_dir = file_type == FileType::Directory;
        let everybody = [self.everyone, self.authenticated];
        // The owner may or may not be in the group, so a denial to the group counts for the owner.
        let owners = self.effective_rights(list, &[self.owner], &[self.owner, self.group], everybody)?;
        let groups = self.effective_rights(list, &[self.group], &[self.group], everybody)?;
        let others = self.effective_rights(list, &[], &[], everybody)?;
        let bits = |rights: AccessMask, old: u32| {
            let reads = rights.contains(AccessMask::READ_DATA);
            let executes = rights.contains(AccessMask::EXECUTE);
            let executes = if reads && !is_dir { executes && old & 1 != 0 } else { executes };
            let writes = rights.contains(AccessMask::WRITE_DATA);
            u32::from(reads) << 2 | u32::from(writes) << 1 | u32::from(executes)
        };
        let new = bits(owners, mode >> 6) << 6 | bits(groups, mode >> 3) << 3 | bits(others, mode);
        Ok(mode & MODE_BITS & !PERMISSIONS | new)
    }

    /// The rights that `list` grants to `allowed`, minus denials to `denied` (MS-DTYP §2.5.3.2).
    fn effective_rights(
        &self,
        list: Option<&Acl>,
        allowed: &[Sid],
        denied: &[Sid],
        everybody: [Sid; 2],
    ) -> Result<AccessMask, NtStatus> {
        let Some(list) = list else { return Ok(AccessMask::FILE_ALL) };
        let mut entries = Vec::new();
        for ace in list.aces().iter().filter(|ace| !ace.flags().contains(AceFlags::INHERIT_ONLY)) {
            let AceBody::Plain { mask, sid } = ace.body() else {
                return Err(NtStatus::NOT_SUPPORTED);
            };
            let rights = Rights(super::rights::without_generic(*mask).0);
            let is_said = [self.owner, self.group].contains(sid) || everybody.contains(sid);
            match ace.ace_type() {
                AceType::ACCESS_ALLOWED if allowed.contains(sid) || everybody.contains(sid) => {
                    entries.push((Effect::Allow, rights));
                }
                AceType::ACCESS_DENIED if !is_said => return Err(NtStatus::NOT_SUPPORTED),
                AceType::ACCESS_DENIED if denied.contains(sid) || everybody.contains(sid) => {
                    entries.push((Effect::Deny, rights));
                }
                _ => {}
            }
        }
        Ok(AccessMask(first_match(entries).0))
    }
}

pub(crate) fn wire_sid(ours: &OurSid) -> Result<Sid, NtStatus> {
    Sid::from_bytes(&ours.to_bytes()).map_err(|_| NtStatus::INTERNAL_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::Time;

    fn attrs(file_type: FileType, mode: u32) -> Attrs {
        let time = Time { seconds: 1, nanos: 0 };
        Attrs {
            file_type,
            mode,
            links: 1,
            uid: 1,
            gid: 2,
            size: 0,
            used: 0,
            device: vfs::Device::default(),
            file_id: 1,
            accessed: time,
            modified: time,
            changed: time,
            change: 1,
            born: None,
            view: vfs::ViewId::LIVE,
        }
    }

    /// The rights of a principal in these classes, by Windows' evaluation (MS-DTYP §2.5.3.2).
    fn allowed(list: &[Ace], classes: &[Sid]) -> AccessMask {
        let (mut allowed, mut refused) = (AccessMask::empty(), AccessMask::empty());
        for ace in list {
            let AceBody::Plain { mask, sid } = ace.body() else { continue };
            if classes.contains(sid) {
                match ace.ace_type() {
                    AceType::ACCESS_ALLOWED => allowed |= mask.without(refused),
                    _ => refused |= mask.without(allowed),
                }
            }
        }
        allowed
    }

    #[test]
    fn rights_follow_the_mode_bits_of_the_class() {
        let classes = classes();
        let Classes { owner, group, everyone, .. } = classes;
        for (file_type, is_dir) in [(FileType::Regular, false), (FileType::Directory, true)] {
            for mode in 0..0o1000 {
                let list = classes.entries(&attrs(file_type, mode));
                let of = |shift: u32| rights_of_bits(mode >> shift, is_dir);
                assert_eq!(allowed(&list, &[owner, group, everyone]), of(6) | OWNER_RIGHTS, "{mode:o}");
                assert_eq!(allowed(&list, &[group, everyone]), of(3), "{mode:o}");
                assert_eq!(allowed(&list, &[everyone]), of(0), "{mode:o}");
            }
        }
    }
    fn classes() -> Classes {
        let [owner, group, everyone, authenticated] =
            [1, 2, 3, 4].map(|number| Sid::new(5, &[number]).unwrap());
        Classes { owner, group, everyone, authenticated }
    }

    #[test]
    fn list_of_a_mode_maps_back_to_the_mode() {
        let classes = classes();
        for file_type in [FileType::Regular, FileType::Directory] {
            for mode in 0..0o10000 {
                let list = Acl::new(classes.entries(&attrs(file_type, mode)));
                assert_eq!(classes.mode(list.as_ref(), file_type, mode), Ok(mode), "{file_type:?} {mode:o}");
            }
        }
    }

    #[test]
    fn mode_of_a_list_grants_no_more_than_the_list() {
        let classes = classes();
        let Classes { owner, group, everyone, authenticated } = classes;
        let stranger = Sid::new(5, &[9]).unwrap();
        let allow = |mask, sid| Ace::allow(AceFlags::empty(), mask, sid);
        let deny = |mask, sid| Ace::deny(AceFlags::empty(), mask, sid);
        let mode =
            |aces: &[Ace]| classes.mode(Some(&Acl::new(aces.to_vec()).unwrap()), FileType::Regular, 0o4644);
        let (read, write) = (AccessMask::GENERIC_READ, AccessMask::WRITE_DATA);
        assert_eq!(mode(&[]), Ok(0o4000));
        assert_eq!(mode(&[allow(AccessMask::GENERIC_ALL, owner), allow(read, everyone)]), Ok(0o4644));
        assert_eq!(mode(&[allow(read, authenticated)]), Ok(0o4444));
        assert_eq!(mode(&[allow(AccessMask::GENERIC_ALL, stranger), allow(read, group)]), Ok(0o4040));
        assert_eq!(mode(&[deny(write, everyone), allow(AccessMask::GENERIC_ALL, owner)]), Ok(0o4400));
        let in_group = [deny(read, group), allow(read | write, owner), allow(read, everyone)];
        assert_eq!(mode(&in_group), Ok(0o4204), "the owner may be in the group");
        assert_eq!(mode(&[deny(read, stranger)]), Err(NtStatus::NOT_SUPPORTED));
        let later = deny(read, stranger).with_flags(AceFlags::INHERIT_ONLY);
        assert_eq!(mode(&[later]), Ok(0o4000), "an inherit-only entry does not apply to the file");
        assert_eq!(
            classes.mode(None, FileType::Regular, 0o100),
            Ok(0o766),
            "the bit of those who read stays"
        );
        assert_eq!(classes.mode(None, FileType::Directory, 0), Ok(0o777));
    }
}
