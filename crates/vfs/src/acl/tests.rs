//! Access control lists: rights, inheritance, equivalent modes.

use super::*;
use crate::model::attrs::{Device, Time};

fn attrs(file_type: FileType, mode: u32) -> Attrs {
    let time = Time::default();
    Attrs {
        file_type,
        mode,
        links: 1,
        uid: 1,
        gid: 2,
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

fn acl(entries: &[AclEntry]) -> Acl {
    Acl { entries: Some(entries.to_vec()), ..Acl::default() }
}

fn allow(who: Principal, rights: Rights) -> AclEntry {
    AclEntry::allow(who, rights, Inherit::NONE)
}

fn deny(who: Principal, rights: Rights) -> AclEntry {
    AclEntry::deny(who, rights, Inherit::NONE)
}

const FILES: Inherit = Inherit::FILES;
const DIRS: Inherit = Inherit::DIRS;

#[test]
fn the_order_of_entries_decides() {
    let (file, bob) = (attrs(FileType::Regular, 0), Caller::new(5, 6, [7]));
    let given = |entries: &[AclEntry]| acl(entries).granted(&file, &bob);
    let (read, write) = (Rights::READ, Rights::WRITE);
    let all = allow(Principal::Everyone, read | write);
    assert_eq!(given(&[deny(Principal::User(5), write), all.clone()]), read);
    assert_eq!(given(&[all.clone(), deny(Principal::User(5), write)]), read | write, "it came too late");
    assert_eq!(given(&[deny(Principal::Group(7), read), all.clone()]), write);
    assert_eq!(given(&[deny(Principal::User(9), read), all]), read | write);
    assert_eq!(given(&[]), Rights::NONE);
    assert_eq!(Acl::default().granted(&file, &bob), Rights::ALL, "a null list");
    let strangers = [Principal::System, Principal::CreatorOwner, Principal::Stranger([1; 8].into())];
    assert_eq!(given(&strangers.map(|who| allow(who, Rights::ALL))), Rights::NONE);
    let later = AclEntry::allow(Principal::Everyone, read, FILES.and(Inherit::ONLY));
    assert_eq!(given(&[later]), Rights::NONE);
}

#[test]
fn nobody_is_no_user_and_no_group() {
    let file = attrs(FileType::Regular, 0);
    let nobody = Caller::of(crate::Credential::none(), false);
    let list = acl(&[
        allow(Principal::User(INVALID_ID), Rights::ALL),
        allow(Principal::Group(INVALID_ID), Rights::ALL),
        allow(Principal::Authenticated, Rights::ALL),
        allow(Principal::Everyone, Rights::READ),
    ]);
    assert_eq!(list.granted(&file, &nobody), Rights::READ);
}

#[test]
fn owners_read_and_change_the_list_unless_it_speaks_of_them() {
    let (file, owner) = (attrs(FileType::Regular, 0), Caller::new(1, 9, []));
    let given = |entries: &[AclEntry]| acl(entries).granted(&file, &owner);
    assert_eq!(given(&[deny(Principal::Everyone, Rights::ALL)]), Rights::IMPLIED);
    assert_eq!(given(&[allow(Principal::OwnerRights, Rights::READ)]), Rights::READ);
    let denied = [deny(Principal::OwnerRights, Rights::WRITE_ACL), allow(Principal::User(1), Rights::ALL)];
    assert_eq!(given(&denied), Rights::ALL.without(Rights::WRITE_ACL));
    let other = Caller::new(3, 9, []);
    assert_eq!(acl(&[allow(Principal::OwnerRights, Rights::ALL)]).granted(&file, &other), Rights::NONE);
    assert_eq!(acl(&[]).granted(&file, &Caller::new(0, 0, [])), Rights::ALL, "root");
}

#[test]
fn a_list_of_a_mode_gives_what_the_mode_gives() {
    for file_type in [FileType::Regular, FileType::Directory] {
        for mode in 0..0o1000 {
            let file = attrs(file_type, mode);
            let list = Acl::from_mode(&file);
            let given = |caller: &Caller| list.granted(&file, caller);
            let owner = Rights::from_bits(mode >> 6) | Rights::OF_OWNERS;
            assert_eq!(given(&Caller::new(1, 2, [])), owner, "{mode:o}");
            assert_eq!(given(&Caller::new(3, 2, [])), Rights::from_bits(mode >> 3), "{mode:o}");
            assert_eq!(given(&Caller::new(3, 3, [])), Rights::from_bits(mode), "{mode:o}");
        }
    }
}

#[test]
fn a_mode_gives_nobody_more_than_the_list() {
    let whos = [
        Principal::User(1),
        Principal::User(5),
        Principal::Group(2),
        Principal::Group(7),
        Principal::Everyone,
        Principal::Authenticated,
        Principal::OwnerRights,
        Principal::CreatorOwner,
    ];
    let entries: Vec<_> = whos
        .iter()
        .flat_map(|who| [Effect::Allow, Effect::Deny].map(|effect| (who.clone(), effect)))
        .flat_map(|(who, effect)| {
            [Rights::READ, Rights::WRITE | Rights::APPEND].map(|rights| AclEntry {
                effect,
                inherit: Inherit::NONE,
                rights,
                who: who.clone(),
            })
        })
        .collect();
    let callers =
        [Caller::new(1, 9, []), Caller::new(1, 2, [7]), Caller::new(5, 2, []), Caller::new(5, 7, [])];
    for first in &entries {
        for second in &entries {
            for third in &entries {
                let list = acl(&[first.clone(), second.clone(), third.clone()]);
                let file = attrs(FileType::Regular, list.mode(1, 2));
                for caller in &callers {
                    let (by_list, by_mode) =
                        (list.granted(&file, caller), super::access::granted(&file, None, caller));
                    assert!(
                        !by_mode.has(crate::Access::READ) || by_list.has(Rights::READ),
                        "{list:?} {caller:?}"
                    );
                    assert!(
                        !by_mode.has(crate::Access::WRITE) || by_list.has(Rights::WRITE),
                        "{list:?} {caller:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn inheritance_follows_the_flags() {
    let handed_on = |inherit: Inherit, is_dir: bool| {
        let list = acl(&[AclEntry::allow(Principal::User(5), Rights::READ, inherit)]);
        let new = list.inherited(1, 2, is_dir);
        if new == Acl::of_owner(1) {
            return None;
        }
        let entries = new.entries.unwrap();
        assert_eq!(entries.len(), 1);
        Some(entries[0].inherit)
    };
    let (both, only, once) = (FILES.and(DIRS), Inherit::ONLY, Inherit::NO_PROPAGATE);
    for (inherit, file, dir) in [
        (Inherit::NONE, None, None),
        (FILES, Some(Inherit::NONE), Some(FILES.and(only))),
        (DIRS, None, Some(DIRS)),
        (both, Some(Inherit::NONE), Some(both)),
        (FILES.and(once), Some(Inherit::NONE), None),
        (DIRS.and(once), None, Some(Inherit::NONE)),
        (both.and(once), Some(Inherit::NONE), Some(Inherit::NONE)),
        (FILES.and(only), Some(Inherit::NONE), Some(FILES.and(only))),
        (DIRS.and(only), None, Some(DIRS)),
        (both.and(only).and(once), Some(Inherit::NONE), Some(Inherit::NONE)),
        (only, None, None),
    ] {
        assert_eq!(handed_on(inherit, false), file, "{inherit:?} to a file");
        assert_eq!(handed_on(inherit, true), dir, "{inherit:?} to a directory");
    }
}

#[test]
fn creators_get_what_is_meant_for_them() {
    let both = FILES.and(DIRS);
    let list = acl(&[AclEntry::allow(Principal::CreatorOwner, Rights::READ, both.and(Inherit::ONLY))]);
    let of_user = |inherit| AclEntry::allow(Principal::User(1), Rights::READ, inherit);
    assert_eq!(list.inherited(1, 2, false), acl(&[of_user(Inherit::NONE)]));
    let creator = AclEntry::allow(Principal::CreatorOwner, Rights::READ, both.and(Inherit::ONLY));
    assert_eq!(list.inherited(1, 2, true), acl(&[of_user(Inherit::NONE), creator.clone()]));
    let auto = Acl { is_auto_inherited: true, is_protected: true, ..list };
    let new = auto.inherited(1, 2, true);
    assert!(new.is_auto_inherited && !new.is_protected);
    assert!(new.entries.unwrap().iter().all(|entry| entry.inherit.has(Inherit::INHERITED)));
}

#[test]
fn a_list_does_not_grow_past_its_bound() {
    let creator = AclEntry::allow(Principal::CreatorOwner, Rights::READ, FILES.and(DIRS));
    let list = acl(&vec![creator; ACL_ENTRIES_MAX]);
    assert_eq!(list.inherited(1, 2, true).entries.unwrap().len(), ACL_ENTRIES_MAX);
}

#[test]
fn record_bytes_are_as_drawn() {
    let list = Acl {
        entries: Some(vec![
            AclEntry::deny(Principal::User(0x0102_0304), Rights(0x1f_01ff), Inherit(0x1b)),
            allow(Principal::Stranger([9; 8].into()), Rights::READ),
        ]),
        is_protected: true,
        is_auto_inherited: false,
    };
    let record = Record::new(list, 5, 6, 0o640);
    let bytes = [
        &[1, 1, 0, 2, 0, 0, 0, 5, 0, 0, 0, 6, 0x01, 0xa0, 0, 0][..],
        &[1, 0x1b, 0, 0, 0, 0x1f, 1, 0xff, 1, 2, 3, 4],
        &[0, 0, 8, 8, 0, 0, 0, 1, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9],
    ]
    .concat();
    assert_eq!(record.encode(), bytes);
    assert_eq!(Record::decode(&bytes), Some(record));
    let null = Record::new(Acl::default(), 1, 2, 0o777);
    assert_eq!(Record::decode(&null.encode()), Some(null));
}

#[test]
fn malformed_record_is_rejected() {
    let list = acl(&[allow(Principal::Stranger([9; 8].into()), Rights::READ)]);
    let good = Record::new(list, 5, 6, 0o640).encode();
    for length in 0..good.len() {
        assert_eq!(Record::decode(&good[..length]), None, "{length} bytes");
    }
    assert_eq!(Record::decode(&[&good[..], b"more"].concat()), None);
    // Version, flags, count, a null list with entries, padding, effect, inheritance, kind, length, rights.
    for (at, byte) in
        [(0, 2), (1, 8), (2, 0xff), (1, 4), (15, 1), (16, 2), (17, 0x20), (18, 9), (18, 0), (19, 9), (20, 1)]
    {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(Record::decode(&bad), None, "byte {at}");
    }
}

#[test]
fn a_list_belongs_to_owner_group_and_mode() {
    let record = Record::new(Acl::default(), 1, 2, 0o640);
    let file = attrs(FileType::Regular, 0o640);
    assert!(record.is_of(&file));
    for other in [
        Attrs { uid: 9, ..file },
        Attrs { gid: 9, ..file },
        Attrs { mode: 0o641, ..file },
        Attrs { mode: 0o4640, ..file },
    ] {
        assert!(!record.is_of(&other));
    }
}
