use super::*;
use crate::acl::Acl;
use crate::acl::access;
use crate::acl::access::Access;
use crate::error::FsError;
use crate::model::caller::{Caller, INVALID_ID};
use crate::{Attrs, Device, FileType, Time};
use proptest::prelude::*;

fn file(mode: u32) -> Attrs {
    let time = Time::default();
    Attrs {
        file_type: FileType::Regular,
        mode,
        links: 1,
        uid: 1,
        gid: 10,
        size: 0,
        used: 0,
        device: Device::default(),
        file_id: 1,
        accessed: time,
        modified: time,
        changed: time,
        change: 1,
        born: None,
        view: crate::ViewId::LIVE,
    }
}

fn extended(group: u32, users: &[(u32, u32)], groups: &[(u32, u32)]) -> PosixAcl {
    PosixAcl { owner: 6, group, mask: Some(7), other: 0, users: users.into(), groups: groups.into() }
}

fn has(acl: &PosixAcl, mode: u32, caller: &Caller, wish: Access) -> bool {
    access::check(&file(mode), Some(acl), caller, wish).is_ok()
}

#[test]
fn owning_group_has_its_entry_and_not_the_mask() {
    let acl = extended(0, &[(7, 6)], &[]);
    let member = Caller::new(2, 10, []);
    assert!(!has(&acl, 0o660, &member, Access::READ) && !has(&acl, 0o660, &member, Access::WRITE));
    assert!(has(&acl, 0o660, &Caller::new(7, 3, []), Access::READ.and(Access::WRITE)));
    assert!(!has(&acl, 0o640, &Caller::new(7, 3, []), Access::WRITE), "the mask bounds named users");
    assert!(!has(&acl, 0o666, &member, Access::READ), "a member has nothing of others");
}

#[test]
fn one_group_alone_gives_all_of_a_wish() {
    let acl = extended(0, &[], &[(20, 4), (21, 2)]);
    let member = Caller::new(2, 20, [21]);
    assert!(has(&acl, 0o670, &member, Access::READ) && has(&acl, 0o670, &member, Access::WRITE));
    assert!(!has(&acl, 0o670, &member, Access::READ.and(Access::WRITE)));
    let granted = access::granted(&file(0o670), Some(&acl), &member);
    assert_eq!(granted, Access::READ.and(Access::WRITE), "each right is asked for by itself");
}

#[test]
fn named_user_has_nothing_of_groups_or_others() {
    let acl = extended(7, &[(7, 0)], &[(20, 7)]);
    for wish in [Access::READ, Access::WRITE, Access::EXECUTE] {
        assert!(!has(&acl, 0o777, &Caller::new(7, 10, [20]), wish));
        assert!(has(&acl, 0o777, &Caller::new(8, 20, []), wish));
        assert!(has(&acl, 0o070, &Caller::new(0, 99, []), wish), "root passes");
    }
}

#[test]
fn list_without_a_mask_is_passed_over_as_by_linux() {
    let acl = extended(7, &[(7, 7)], &[]);
    assert!(has(&acl, 0o704, &Caller::new(7, 3, []), Access::READ), "the mode alone decides");
    assert!(!has(&acl, 0o704, &Caller::new(2, 10, []), Access::READ));
}

#[test]
fn xattr_bytes_are_as_the_kernel_has_them() {
    let acl = extended(4, &[(0x0102_0304, 6)], &[(0x0a0b_0c0d, 1)]);
    let value = [
        &[2, 0, 0, 0][..],
        &[1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff],
        &[2, 0, 6, 0, 4, 3, 2, 1],
        &[4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff],
        &[8, 0, 1, 0, 0x0d, 0x0c, 0x0b, 0x0a],
        &[16, 0, 7, 0, 0xff, 0xff, 0xff, 0xff],
        &[32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
    ]
    .concat();
    assert_eq!(acl.to_xattr(), value);
    assert_eq!(PosixAcl::from_xattr(&value), Ok(Some(acl)));
    assert_eq!(PosixAcl::from_xattr(&[2, 0, 0, 0]), Ok(None));
}

#[test]
fn invalid_xattr_is_an_error() {
    let good = extended(4, &[(5, 6)], &[(6, 1)]).to_xattr();
    let with = |at: usize, byte: u8| {
        let mut value = good.clone();
        value[at] = byte;
        value
    };
    let without = |entry: usize| {
        let mut value = good.clone();
        value.drain(4 + 8 * entry..12 + 8 * entry);
        value
    };
    let long = [&good[..20], &[2, 0, 6, 0, 4, 3, 2, 1].repeat(POSIX_ACL_ENTRIES_MAX), &good[20..]].concat();
    let bad = [
        vec![],
        vec![2, 0, 0],
        good[..good.len() - 1].to_vec(),
        with(0, 1),
        with(6, 8),
        with(7, 1),
        with(12, 3),
        with(12, 8),
        without(0),
        without(2),
        without(4),
        without(5),
        [&good[..], &good[4..12]].concat(),
        long,
    ];
    for (number, value) in bad.iter().enumerate() {
        assert_eq!(PosixAcl::from_xattr(value), Err(FsError::Io), "{number}");
    }
}

#[test]
fn entry_of_nobody_gives_nobody_anything() {
    let acl = extended(0, &[(INVALID_ID, 7)], &[(INVALID_ID, 7)]);
    assert_eq!(PosixAcl::from_xattr(&acl.to_xattr()), Ok(Some(acl.clone())));
    for caller in [Caller::new(7, 8, []), Caller::new(INVALID_ID, INVALID_ID, [])] {
        assert!(!has(&acl, 0o770, &caller, Access::READ), "{caller:?}");
    }
}

#[test]
fn new_object_has_at_most_the_requested_and_inherited_rights() {
    let handed_on = PosixAcl { mask: Some(6), ..extended(7, &[(7, 7)], &[]) };
    let mode = handed_on.mode_of_new(0o2775);
    assert_eq!(mode, 0o2660);
    let acl = handed_on.inherited(mode).unwrap();
    assert_eq!((acl.owner, acl.group, acl.mask, acl.other, acl.mode()), (6, 7, Some(6), 0, 0o660));
    let minimal = PosixAcl { mask: None, users: [].into(), ..handed_on };
    assert_eq!((minimal.mode_of_new(0o666), minimal.inherited(0o660)), (0o660, None));
}

#[test]
fn first_of_two_entries_for_one_user_rules() {
    let acl = extended(0, &[(5, 0), (5, 4)], &[]);
    let caller = Caller::new(5, 1, []);
    let read = |effect| {
        move |&(found, who, bits): &(Effect, AclTag, u32)| {
            found == effect && who == AclTag::User(5) && bits & 4 != 0
        }
    };
    assert!(!acl.entries(0o240).iter().any(read(Effect::Allow)));
    assert!(!has(&acl, 0o240, &caller, Access::READ));
}

fn ids() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((1..6u32, 0..8u32), 0..5)
}

proptest! {
    /// Checks each permission by itself: the ordered entries agree with the algorithm, and so does the equivalent
    /// Windows list.
    #[test]
    fn entries_say_what_is_granted(
        mode in 0..0o1000u32, group in 0..8u32, users in ids(), groups in ids(), uid in 1..6u32,
        gid in 1..6u32, more in prop::collection::vec(1..6u32, 0..3), gid_of_file in 1..6u32,
    ) {
        let acl = extended(group, &users, &groups);
        let attrs = Attrs { gid: gid_of_file, ..file(mode) };
        let caller = Caller::new(uid, gid, more);
        let (mut allowed, mut denied) = (0, 0);
        for (effect, who, bits) in acl.entries(mode) {
            let is_theirs = match who {
                AclTag::Owner => caller.uid == attrs.uid,
                AclTag::User(uid) => caller.uid == uid,
                AclTag::OwningGroup => caller.is_in(attrs.gid),
                AclTag::Group(gid) => caller.is_in(gid),
                AclTag::Everyone => true,
            };
            match effect {
                _ if !is_theirs => {}
                Effect::Allow => allowed |= bits & !denied,
                Effect::Deny => denied |= bits & !allowed,
            }
        }
        let granted = access::granted(&attrs, Some(&acl), &caller);
        prop_assert_eq!(Access::from_bits(allowed), granted);
        let listed = Acl::from_posix(&attrs, &acl).granted(&attrs, &caller);
        let rights = crate::acl::Rights::READ.0 | crate::acl::Rights::WRITE.0 | crate::acl::Rights::EXECUTE.0;
        let wanted = [(4, crate::acl::Rights::READ), (2, crate::acl::Rights::WRITE), (1, crate::acl::Rights::EXECUTE)];
        let wanted = wanted.iter().filter(|(bit, _)| granted.has(Access::from_bits(*bit)));
        prop_assert_eq!(listed.0 & rights, wanted.fold(0, |all, (_, right)| all | right.0));
    }

    #[test]
    fn values_are_read_back(group in 0..8u32, users in ids(), groups in ids()) {
        let acl = extended(group, &users, &groups);
        prop_assert_eq!(PosixAcl::from_xattr(&acl.to_xattr()), Ok(Some(acl)));
    }

    #[test]
    fn no_value_panics(value in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = PosixAcl::from_xattr(&[&[2, 0, 0, 0], &value[..]].concat());
    }
}
