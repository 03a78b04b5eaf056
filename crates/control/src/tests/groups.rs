//! Groups: members and their access to files.

use super::rig::{Rig, context, properties};
use super::users::name;
use crate::{Error, GROUPS_OF_USER_MAX, MEMBERSHIPS_MAX, NewGroup, NewUser, Service};
use identity::{ACCOUNTS_MAX, AccountName, Resolver};

fn groups_of(service: &Service, user: &str) -> Vec<u32> {
    service.accounts().identity(user, "").unwrap().credential.groups().to_vec()
}

fn with_users(rig: &Rig) -> Service {
    let service = rig.open();
    for (user, uid) in [("alice", 1000), ("bob", 1001)] {
        service.create_user(&context(), &NewUser::new(name(user), uid)).unwrap();
    }
    service
}

fn names(names: &[&str]) -> Vec<AccountName> {
    names.iter().map(|text| name(text)).collect()
}

#[test]
fn members_come_and_go() {
    let rig = Rig::new();
    let service = with_users(&rig);
    let (staff, alice, bob) = (name("staff"), name("alice"), name("bob"));
    let new = NewGroup { members: Some(names(&["bob", "bob"])), ..NewGroup::new(staff.clone(), 2000) };
    let made = service.create_group(&context(), &new).unwrap();
    assert_eq!((made.value.members, made.operation.detail.as_str()), (names(&["bob"]), "gid 2000"));
    assert_eq!((groups_of(&service, "bob"), groups_of(&service, "alice")), (vec![2000], vec![]));
    let added = service.add_member(&context().at(1), &staff, &alice).unwrap();
    assert_eq!((added.value.members, added.value.version), (names(&["alice", "bob"]), 2));
    assert_eq!(added.operation.detail, "alice added");
    assert!(!service.add_member(&context(), &staff, &alice).unwrap().operation.has_changed());
    assert_eq!(service.user(&alice).unwrap().groups, names(&["staff"]));
    let late = service.remove_member(&context().at(1), &staff, &bob).unwrap_err();
    assert!(matches!(late, Error::Version { .. }), "{late}");
    let removed = service.remove_member(&context(), &staff, &bob).unwrap();
    assert_eq!((removed.value.members, &*removed.operation.detail), (names(&["alice"]), "bob removed"));
    assert!(!service.remove_member(&context(), &staff, &bob).unwrap().operation.has_changed());
    assert_eq!((groups_of(&service, "bob"), groups_of(&service, "alice")), (vec![], vec![2000]));
    drop(service);
    let service = rig.open();
    assert_eq!(groups_of(&service, "alice"), [2000], "after a restart");
    service.delete_user(&context(), &alice).unwrap();
    assert!(service.group(&staff).unwrap().members.is_empty());
    service.delete_group(&context(), &staff).unwrap();
    assert!(matches!(service.delete_group(&context(), &staff), Err(Error::NotFound { .. })));
    let gone = service.add_member(&context(), &staff, &bob).unwrap_err().to_string();
    assert_eq!(gone, "there is no group staff");
}

#[test]
fn identical_creation_changes_nothing() {
    let rig = Rig::new();
    let service = with_users(&rig);
    let new = NewGroup { members: Some(names(&["alice", "bob"])), ..NewGroup::new(name("staff"), 2000) };
    assert!(service.create_group(&context(), &new).unwrap().operation.has_changed());
    let turned = NewGroup { members: Some(names(&["bob", "alice", "bob"])), ..new.clone() };
    assert!(!service.create_group(&context(), &turned).unwrap().operation.has_changed());
    let left_open = NewGroup { members: None, ..new.clone() };
    assert!(!service.create_group(&context(), &left_open).unwrap().operation.has_changed());
    for (other, property) in [
        (NewGroup { gid: 2001, ..new.clone() }, "gid"),
        (NewGroup { members: Some(names(&["bob"])), ..new.clone() }, "members"),
    ] {
        let error = service.create_group(&context(), &other).unwrap_err();
        assert!(
            matches!(&error, Error::Conflict { differs, .. } if properties(differs) == [property]),
            "{error}"
        );
    }
}

#[test]
fn conflicting_change_is_refused_whole() {
    let rig = Rig::new();
    let service = with_users(&rig);
    service.create_group(&context(), &NewGroup::new(name("staff"), 2000)).unwrap();
    let stranger = NewGroup { members: Some(names(&["bob", "carol"])), ..NewGroup::new(name("g"), 1) };
    for (new, said) in [
        (NewGroup::new(name("g"), 2000), "the gid 2000 is that of the group staff"),
        (NewGroup::new(name("g"), 0), "the gid 0; allowed: 1 to 2000000000"),
        (NewGroup::new(name("STAFF"), 2001), "differs by more than case"),
        (stranger, "there is no user carol"),
    ] {
        let error = service.create_group(&context(), &new).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    assert_eq!(service.groups(None, 9).unwrap().items.len(), 1);
    assert!(groups_of(&service, "bob").is_empty());
    // A user and a group may have the same name and number, and be different ones to Windows.
    service.create_group(&context(), &NewGroup::new(name("alice"), 1000)).unwrap();
    assert_ne!(service.accounts().user_sid(1000), service.accounts().group_sid(1000));
}

#[test]
fn memberships_are_bounded() {
    let rig = Rig::new();
    let service = with_users(&rig);
    let groups = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ACCOUNTS_MAX})
         INSERT INTO user_group SELECT i, 'g' || i, i, 1, 1, 1 FROM n;
         INSERT INTO member SELECT id, (SELECT id FROM user WHERE name = 'bob') FROM user_group
         WHERE id < {GROUPS_OF_USER_MAX};"
    );
    service.change(|store| Ok(store.execute_batch(&groups)?)).unwrap();
    let add = |group: &str, user: &str| service.add_member(&context(), &name(group), &name(user));
    add("g9000", "bob").unwrap();
    let error = add("g9001", "bob").unwrap_err().to_string();
    assert!(error.contains("further group of the user bob; allowed: at most 256"), "{error}");
    assert_eq!(groups_of(&service, "bob").len(), GROUPS_OF_USER_MAX);
    let error = service.create_group(&context(), &NewGroup::new(name("further"), 20_000)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there are more than 10000; allowed: at most 10000 users, groups, and Windows names, each"
    );
    // As many users as fill it up, each in as many groups as it may be.
    let more = MEMBERSHIPS_MAX / GROUPS_OF_USER_MAX - 1;
    let users = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {more})
         INSERT INTO user SELECT 10 + i, 'u' || i, 5000 + i, 1, NULL, 1, 1, 1 FROM n;
         INSERT INTO member SELECT g.id, u.id FROM user_group AS g, user AS u
         WHERE g.id <= {GROUPS_OF_USER_MAX} AND u.name GLOB 'u*';"
    );
    service.change(|store| Ok(store.execute_batch(&users)?)).unwrap();
    let error = add("g9002", "alice").unwrap_err().to_string();
    assert!(error.contains("at most 65536 memberships"), "{error}");
    let delete = service.delete_group(&context(), &name("g9999")).unwrap();
    assert!(delete.has_changed());
    let full = NewGroup { members: Some(names(&["alice"])), ..NewGroup::new(name("full"), 20_000) };
    let error = service.create_group(&context(), &full).unwrap_err().to_string();
    assert!(error.contains("at most 65536 memberships"), "{error}");
    service.remove_member(&context(), &name("g9000"), &name("bob")).unwrap();
    add("g9002", "alice").unwrap();
}
