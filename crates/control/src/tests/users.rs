//! Users from creation to deletion: logins, the identity that a login gets, and secrets that stay hidden.

use super::rig::{FailureMode, Killed, Rig, context, properties};
use crate::seal::KEY_FILE;
use crate::{
    Error, NewGroup, NewUser, STORE_FILE, Service, StoreError, UserChange, Verb, Warning, account_name,
    password, windows_name,
};
use identity::{ACCOUNTS_MAX, AccountName, NtHash, Resolver};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(super) fn name(text: &str) -> AccountName {
    account_name(text).unwrap()
}

/// A user whose password is the reversed name.
fn new_user(text: &str, uid: u32) -> NewUser {
    NewUser { password: Some(hash(text)), ..NewUser::new(name(text), uid) }
}

fn hash(text: &str) -> NtHash {
    password(&text.chars().rev().collect::<String>()).unwrap()
}

/// Whether the user's first password logs in.
fn gets_in(service: &Service, text: &str) -> bool {
    service.accounts().nt_hash(text, "") == Some(hash(text))
}

fn store_holds(rig: &Rig, text: &[u8]) -> bool {
    let read = |end: &str| fs::read(rig.dir.path().join(STORE_FILE.to_owned() + end)).unwrap_or_default();
    ["", "-wal"].iter().any(|end| read(end).windows(text.len()).any(|window| window == text))
}

#[test]
fn a_user_gets_in_until_it_is_deleted() {
    let rig = Rig::new();
    let service = rig.open();
    let accounts = service.accounts();
    let new = NewUser {
        gid: Some(100),
        windows_names: Some(vec![windows_name(r"CORP\a.smith").unwrap()]),
        ..new_user("alice", 1000)
    };
    let made = service.create_user(&context(), &new).unwrap();
    assert_eq!((made.value.uid, made.value.gid, made.value.has_password), (1000, 100, true));
    assert_eq!((made.operation.verb, &*made.operation.detail), (Verb::Create, "uid 1000, gid 100"));
    // The handle from before the change sees it.
    assert_eq!(accounts.nt_hash("ALICE", "whatever"), Some(hash("alice")));
    assert_eq!(accounts.nt_hash("A.Smith", "corp"), Some(hash("alice")));
    let identity = accounts.identity("a.smith", "CORP").unwrap();
    assert_eq!((identity.credential.uid, identity.credential.gid), (1000, 100));
    assert_eq!(accounts.name_of(&identity.sid).unwrap().name, "a.smith");
    assert_eq!(accounts.name_of(&accounts.machine_sid()).unwrap().domain, "FILES-1");
    let sid = accounts.machine_sid();
    drop(service);
    let service = rig.open();
    assert!(gets_in(&service, "alice"), "after a restart");
    assert_eq!(service.accounts().machine_sid(), sid, "after a restart");
    assert_eq!(service.user(&name("alice")).unwrap(), made.value);
    service.delete_user(&context(), &name("alice")).unwrap();
    assert!(service.accounts().nt_hash("alice", "").is_none());
    assert!(service.accounts().identity("alice", "").is_err());
    assert!(matches!(service.delete_user(&context(), &name("alice")), Err(Error::NotFound { .. })));
    assert_ne!(Rig::new().open().accounts().machine_sid(), sid, "another machine");
}

#[test]
fn passwords_are_changed_and_taken_away() {
    let rig = Rig::new();
    let service = rig.open();
    let alice = service.create_user(&context(), &NewUser::new(name("alice"), 1000)).unwrap().value;
    assert!(!alice.has_password && !rig.dir.path().join(KEY_FILE).exists(), "nothing is sealed yet");
    let set = |password| {
        let change = UserChange { password: Some(password), ..UserChange::default() };
        service.update_user(&context(), &name("alice"), &change).unwrap()
    };
    let done = set(Some(hash("alice")));
    assert_eq!((done.value.version, &*done.operation.detail), (2, "password"));
    assert!(gets_in(&service, "alice"));
    set(Some(hash("another")));
    assert_eq!(service.accounts().nt_hash("alice", ""), Some(hash("another")));
    let done = set(None);
    assert_eq!((done.value.has_password, &*done.operation.detail), (false, "no password"));
    assert!(service.accounts().nt_hash("alice", "").is_none());
    assert!(!set(None).operation.has_changed());
}

#[test]
fn case_tells_no_users_and_no_groups_apart() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_user(&context(), &new_user("Zoë", 1000)).unwrap();
    let (new, other) = (name("Zoë"), name("zOË"));
    assert_eq!(service.user(&other).unwrap().name, new);
    let change = UserChange { password: Some(Some(hash("another"))), ..UserChange::default() };
    let done = service.update_user(&context(), &other, &change).unwrap();
    assert_eq!((done.value.name, done.operation.name.as_str()), (new.clone(), "Zoë"));
    drop(service);
    let service = rig.open();
    assert_eq!(service.accounts().nt_hash("zoë", ""), Some(hash("another")), "it is sealed by the one name");
    let members = Some(vec![other.clone(), new.clone()]);
    let group = NewGroup { members, ..NewGroup::new(name("Staff"), 2000) };
    assert_eq!(service.create_group(&context(), &group).unwrap().value.members, std::slice::from_ref(&new));
    let staff = name("sTAFF");
    assert!(!service.add_member(&context(), &staff, &other).unwrap().operation.has_changed());
    let done = service.remove_member(&context(), &staff, &other).unwrap();
    assert_eq!((done.value.members, done.operation.name.as_str()), (vec![], "Staff"));
    assert_eq!(done.operation.detail, "Zoë removed");
    assert_eq!(service.group(&staff).unwrap().name, name("Staff"));
    assert_eq!(service.delete_group(&context(), &staff).unwrap().name, "Staff");
    assert_eq!(service.delete_user(&context(), &other).unwrap().name, "Zoë");
    assert!(service.user(&new).is_err());
}

#[test]
fn identical_creation_changes_nothing() {
    let rig = Rig::new();
    let service = rig.open();
    let new = new_user("alice", 1000);
    assert!(service.create_user(&context(), &new).unwrap().operation.has_changed());
    assert!(!service.create_user(&context(), &new).unwrap().operation.has_changed());
    let left_open = NewUser { password: None, ..new.clone() };
    assert!(!service.create_user(&context(), &left_open).unwrap().operation.has_changed());
    for (other, property) in [
        (NewUser { uid: 1001, ..new.clone() }, "uid"),
        (NewUser { gid: Some(7), ..new.clone() }, "gid"),
        (NewUser { password: Some(hash("other")), ..new.clone() }, "password"),
        (NewUser { windows_names: Some(vec![windows_name("a").unwrap()]), ..new.clone() }, "windows names"),
    ] {
        let error = service.create_user(&context(), &other).unwrap_err();
        assert!(
            matches!(&error, Error::Conflict { differs, .. } if properties(differs) == [property]),
            "{error}"
        );
    }
    let change = UserChange { gid: Some(1000), ..UserChange::default() };
    assert!(!service.update_user(&context(), &name("alice"), &change).unwrap().operation.has_changed());
    let change = UserChange { gid: Some(8), windows_names: Some(vec![windows_name("a").unwrap()]), ..change };
    let done = service.update_user(&context().at(1), &name("alice"), &change).unwrap();
    assert_eq!(done.operation.detail, "gid 1000 → 8, windows names");
    assert!(gets_in(&service, "alice"), "the password stays");
    let left_open = NewUser::new(name("alice"), 1000);
    assert!(!service.create_user(&context(), &left_open).unwrap().operation.has_changed());
    let late = service.update_user(&context().at(1), &name("alice"), &change).unwrap_err();
    assert!(matches!(late, Error::Version { wanted: 1, found: 2, .. }), "{late}");
    assert!(matches!(service.delete_user(&context().at(1), &name("alice")), Err(Error::Version { .. })));
}

#[test]
fn conflicting_change_is_refused_whole() {
    let rig = Rig::new();
    let service = rig.open();
    let alice =
        NewUser { windows_names: Some(vec![windows_name(r"D\a").unwrap()]), ..new_user("alice", 1000) };
    service.create_user(&context(), &alice).unwrap();
    let mapped = |windows: &str| NewUser {
        windows_names: Some(vec![windows_name(windows).unwrap()]),
        ..new_user("bob", 1001)
    };
    for (new, said) in [
        (new_user("bob", 1000), "the uid 1000 is that of the user alice"),
        (new_user("bob", 0), "the uid 0; allowed: 1 to 2000000000"),
        (new_user("bob", 2_000_000_001), "allowed: 1 to 2000000000"),
        (new_user("bob", u32::MAX), "allowed: 1 to 2000000000"),
        (NewUser { gid: Some(u32::MAX), ..new_user("bob", 1001) }, "0 for a primary group too"),
        (new_user("Alice", 1001), "differs by more than case"),
        (mapped(r"d\A"), "each Windows name once"),
        (
            mapped("ALICE"),
            r#""ALICE" is a Windows name of one user and the name of another; allowed: DOMAIN\NAME"#,
        ),
        (
            NewUser {
                windows_names: Some((0..17).map(|n| windows_name(&format!("w{n}")).unwrap()).collect()),
                ..new_user("bob", 1001)
            },
            "at most 16",
        ),
    ] {
        let error = service.create_user(&context(), &new).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let users = service.users(None, 9).unwrap().items;
    assert_eq!(users.len(), 1, "{users:?}");
    assert!(gets_in(&service, "alice") && !gets_in(&service, "bob"));
    assert_eq!(service.operations(None, 9).unwrap().items.len(), 1, "what was refused is not recorded");
}

#[test]
fn passwords_and_names_are_checked() {
    for bad in ["", "a\nb", "tab\t", "\0", &"x".repeat(257), &"𝄞".repeat(129)] {
        let error = password(bad).unwrap_err().to_string();
        assert_eq!(
            error,
            "the password cannot be used; allowed: 1 to 256 characters without control characters"
        );
    }
    assert!(password(&"x".repeat(256)).is_ok() && password("pä ß 𝄞").is_ok());
    let error = account_name("a b").unwrap_err().to_string();
    assert!(error.starts_with(r#""a b" cannot name a user or group; allowed: 1 to 64 letters"#), "{error}");
    assert!(windows_name("a@b").unwrap_err().to_string().contains(r"allowed: a name or DOMAIN\name"));
}

/// Neither the store nor its log holds a password or what it is compared with; no record and no `Debug` says it.
#[test]
fn nobody_finds_out_a_password() {
    let rig = Rig::new();
    let service = rig.open();
    let user = service.create_user(&context(), &new_user("alice", 1000)).unwrap();
    let change = UserChange { password: Some(Some(hash("second"))), ..UserChange::default() };
    let changed = service.update_user(&context(), &name("alice"), &change).unwrap();
    for secret in [hash("alice"), hash("second")] {
        assert!(!store_holds(&rig, secret.as_bytes()));
        let hex: String = secret.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!store_holds(&rig, hex.as_bytes()));
    }
    assert!(store_holds(&rig, b"alice") && !store_holds(&rig, b"ecila") && !store_holds(&rig, b"dnoces"));
    let shown = format!("{user:?} {changed:?} {change:?} {:?}", service.operations(None, 9).unwrap());
    assert!(shown.contains("NtHash(…)") && !shown.contains("ecila"), "{shown}");
    let mode = fs::metadata(rig.dir.path().join(KEY_FILE)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn without_its_key_a_store_lets_nobody_in() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_user(&context(), &new_user("alice", 1000)).unwrap();
    service.create_user(&context(), &new_user("bob", 1001)).unwrap();
    drop(service);
    let path = rig.dir.path().join(KEY_FILE);
    let key = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let service = rig.open();
    assert!(service.accounts().nt_hash("alice", "").is_none());
    assert!(service.accounts().identity("alice", "").is_ok(), "files go on having an owner");
    let warned = |service: &Service| service.warnings().unwrap();
    assert_eq!(warned(&service), [Warning::UnreadablePasswords { users: 2, key: path.clone() }]);
    assert!(warned(&service)[0].to_string().starts_with("2 users cannot log in"));
    assert!(!path.exists(), "a start makes no key");
    let change = UserChange { password: Some(Some(hash("alice"))), ..UserChange::default() };
    service.update_user(&context(), &name("alice"), &change).unwrap();
    assert!(gets_in(&service, "alice") && !gets_in(&service, "bob"));
    assert!(warned(&service)[0].to_string().starts_with("1 user cannot log in"));
    drop(service);
    // The old key opens what was sealed with it, and nothing else.
    fs::write(&path, key).unwrap();
    let service = rig.open();
    assert!(!gets_in(&service, "alice") && gets_in(&service, "bob"));
    service.delete_user(&context(), &name("alice")).unwrap();
    assert_eq!(warned(&service), []);
    drop(service);
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let error = rig.try_open().err().unwrap();
    assert!(
        matches!(&error, Error::Store(StoreError::KeyExposed { why, .. }) if why.contains("mode 640")),
        "{error}"
    );
}

/// Write access to the store without the key does not move one user's password to another.
#[test]
fn a_sealed_password_is_one_user_s_alone() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_user(&context(), &new_user("alice", 1000)).unwrap();
    service.create_user(&context(), &new_user("bob", 1001)).unwrap();
    let swap = "UPDATE user SET nt_hash = (SELECT nt_hash FROM user WHERE name = 'alice') WHERE name = 'bob'";
    service.change(|store| Ok(store.execute_batch(swap)?)).unwrap();
    drop(service);
    let service = rig.open();
    assert!(gets_in(&service, "alice"));
    assert!(service.accounts().nt_hash("bob", "").is_none());
}

#[test]
fn a_change_that_is_cut_off_is_nothing_or_whole() {
    for step in [1, 2] {
        let rig = Rig::new();
        let service = rig.open();
        rig.fuse.arm(step, FailureMode::Dead);
        let died =
            catch_unwind(AssertUnwindSafe(|| service.create_user(&context(), &new_user("alice", 1000))));
        assert!(died.err().is_some_and(|payload| payload.is::<Killed>()), "step {step}");
        rig.fuse.disarm();
        drop(service);
        let service = rig.open();
        assert_eq!(gets_in(&service, "alice"), step == 2, "before the commit and after it");
        let again = service.create_user(&context(), &new_user("alice", 1000)).unwrap();
        assert_eq!(again.operation.has_changed(), step == 1);
        assert!(gets_in(&service, "alice") && service.warnings().unwrap().is_empty());
    }
}

#[test]
fn failed_transaction_is_not_published() {
    let rig = Rig::new();
    let service = rig.open();
    service.create_user(&context(), &new_user("alice", 1000)).unwrap();
    let fail =
        "CREATE TEMP TRIGGER full BEFORE UPDATE ON operation BEGIN SELECT RAISE(ABORT, 'disk full'); END;";
    service.change(|store| Ok(store.execute_batch(fail)?)).unwrap();
    let change = UserChange { password: Some(Some(hash("other"))), ..UserChange::default() };
    let error = service.update_user(&context(), &name("alice"), &change).unwrap_err();
    assert!(matches!(error, Error::Store(_)), "{error}");
    assert!(service.delete_user(&context(), &name("alice")).is_err());
    assert!(gets_in(&service, "alice"));
}

#[test]
fn users_are_bounded_and_listed_in_parts() {
    let rig = Rig::new();
    let service = rig.open();
    service
        .change(|store| {
            for id in 2..=ACCOUNTS_MAX {
                let row = "INSERT INTO user VALUES (?1, 'u' || ?1, ?1, ?1, NULL, 1, 1, 1)";
                store.execute(row, [id])?;
            }
            Ok(())
        })
        .unwrap();
    service.create_user(&context(), &new_user("last", 1)).unwrap();
    let error = service.create_user(&context(), &new_user("further", 20_000)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there are more than 10000; allowed: at most 10000 users, groups, and Windows names, each"
    );
    let first = service.users(None, 2).unwrap();
    let names = |page: &crate::Page<crate::User>| {
        page.items.iter().map(|user| user.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&first), ["last", "u10"]);
    assert_eq!(names(&service.users(first.next.as_deref(), 1).unwrap()), ["u100"]);
}
