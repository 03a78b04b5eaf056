//! Users and groups over the interface.

use crate::rig::{Rig, refused};
use api_client::ChangeOptions;
use api_client::model::{NewGroup, NewToken, NewUser, Password, Role, UserPatch};
use control::password;
use identity::Resolver;

fn with_password(name: &str, uid: u32) -> NewUser {
    NewUser { password: Some(Password("correct horse".to_owned())), ..NewUser::new(name, uid) }
}

fn group(name: &str, gid: u32) -> NewGroup {
    NewGroup { name: name.to_owned(), gid, members: None }
}

#[test]
fn a_user_is_made_changed_and_removed() {
    let rig = Rig::start();
    let (client, accounts) = (rig.client(), rig.service.accounts());
    let new =
        NewUser { windows_names: Some(vec![r"CORP\a.smith".to_owned()]), ..with_password("Jürgen", 1000) };
    assert!(client.create_user(&new).unwrap().is_new);
    let made = client.create_user(&new).unwrap();
    assert!(!made.is_new);
    assert_eq!((made.value.gid, made.value.has_password), (1000, true));
    assert_eq!(Some(made.value.windows_names), new.windows_names);
    assert_eq!(accounts.nt_hash("a.smith", "corp"), Some(password("correct horse").unwrap()));
    let seen = client.user("Jürgen").unwrap();
    assert_eq!(client.users().unwrap(), [seen.value]);
    let patch = UserPatch { password: Some(Some(Password("another".to_owned()))), ..UserPatch::default() };
    let changed = client.change_user(&ChangeOptions::none().at(&seen.etag), "Jürgen", &patch).unwrap();
    assert_eq!(accounts.nt_hash("jürgen", ""), Some(password("another").unwrap()));
    assert_eq!(refused(client.change_user(&ChangeOptions::none().at(&seen.etag), "Jürgen", &patch)).0, 412);
    // `null` takes the password away, and what is left out stays.
    let patch = UserPatch { password: Some(None), ..UserPatch::default() };
    assert!(!client.change_user(&ChangeOptions::none(), "Jürgen", &patch).unwrap().value.has_password);
    assert!(accounts.nt_hash("jürgen", "").is_none());
    let patch = UserPatch { gid: Some(0), windows_names: Some(Vec::new()), password: None };
    let changed_again = client.change_user(&ChangeOptions::none(), "Jürgen", &patch).unwrap();
    assert_eq!((changed_again.value.gid, changed_again.value.windows_names.len()), (0, 0));
    assert_eq!(refused(client.delete_user(&ChangeOptions::none().at(&changed.etag), "Jürgen")).0, 412);
    client.delete_user(&ChangeOptions::none().at(changed_again.etag), "Jürgen").unwrap();
    assert_eq!(refused(client.user("Jürgen")), (404, "not-found".to_owned()));
    assert!(client.users().unwrap().is_empty());
}

#[test]
fn members_come_and_go() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_user(&NewUser::new("alice", 1000)).unwrap();
    client.create_user(&NewUser::new("b.b-b_b", 1001)).unwrap();
    let new = NewGroup { members: Some(vec!["alice".to_owned()]), ..group("artists", 2000) };
    assert!(client.create_group(&new).unwrap().is_new && !client.create_group(&new).unwrap().is_new);
    let seen = client.group("artists").unwrap();
    let added = client.add_member(&ChangeOptions::none().at(&seen.etag), "artists", "b.b-b_b").unwrap();
    assert_eq!(added.value.members, ["alice", "b.b-b_b"]);
    assert_eq!(
        refused(client.remove_member(&ChangeOptions::none().at(seen.etag), "artists", "alice")).0,
        412
    );
    assert_eq!(client.add_member(&ChangeOptions::none(), "artists", "b.b-b_b").unwrap(), added);
    let groups = rig.service.accounts().identity("b.b-b_b", "").unwrap().credential;
    assert_eq!(groups.groups(), [2000]);
    assert_eq!(client.user("alice").unwrap().value.groups, ["artists"]);
    let left = client.remove_member(&ChangeOptions::none(), "artists", "alice").unwrap();
    assert_eq!(left.value.members, ["b.b-b_b"]);
    for (group, user) in [("artists", "nobody"), ("nobody", "alice"), ("artists", "a/b"), ("a b", "alice")] {
        assert_eq!(refused(client.add_member(&ChangeOptions::none(), group, user)).0, 404, "{group} {user}");
    }
    client.delete_group(&ChangeOptions::none(), "artists").unwrap();
    assert!(client.groups().unwrap().is_empty());
}

#[test]
fn invalid_users_are_refused() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_user(&with_password("alice", 1000)).unwrap();
    let long = NewUser { password: Some(Password("x".repeat(257))), ..NewUser::new("b", 1001) };
    let mapped = NewUser { windows_names: Some(vec!["a@b".to_owned()]), ..NewUser::new("b", 1001) };
    for (new, status, kind) in [
        (with_password("alice", 1001), 409, "conflict"),
        (
            NewUser { password: Some(Password("wrong".to_owned())), ..NewUser::new("alice", 1000) },
            409,
            "conflict",
        ),
        (NewUser::new("bob", 1000), 409, "number-taken"),
        (NewUser::new("ALICE", 1001), 422, "invalid"),
        (NewUser::new("a b", 1001), 422, "invalid"),
        (NewUser::new("bob", 0), 400, "malformed"),
        (NewUser::new("bob", 2_000_000_001), 400, "malformed"),
        (NewUser { gid: Some(u32::MAX), ..NewUser::new("bob", 1001) }, 400, "malformed"),
        (NewUser { password: Some(Password(String::new())), ..NewUser::new("bob", 1001) }, 422, "invalid"),
        (long, 422, "invalid"),
        (mapped, 422, "invalid"),
    ] {
        assert_eq!(refused(client.create_user(&new)), (status, kind.to_owned()), "{new:?}");
    }
    assert_eq!(refused(client.create_group(&group("g", 0))), (400, "malformed".to_owned()));
    client.create_group(&group("g", 1)).unwrap();
    assert_eq!(refused(client.create_group(&group("h", 1))), (409, "number-taken".to_owned()));
    let stranger = NewGroup { members: Some(vec!["nobody".to_owned()]), ..group("h", 2) };
    assert_eq!(refused(client.create_group(&stranger)).0, 404);
    assert_eq!(client.users().unwrap().len(), 1);
}

/// A client that sets passwords can act as any user, so it needs the role admin.
#[test]
fn reader_token_changes_nothing() {
    let rig = Rig::start();
    let admin = rig.client();
    admin.create_user(&with_password("alice", 1000)).unwrap();
    admin.create_group(&group("g", 1)).unwrap();
    for role in [Role::Read, Role::Operate] {
        let token = admin.create_token(&NewToken { name: role.to_string(), role }).unwrap().secret;
        let client = rig.client_with(&token);
        assert_eq!((client.users().unwrap().len(), client.groups().unwrap().len()), (1, 1));
        let patch = UserPatch { password: Some(None), ..UserPatch::default() };
        let none = ChangeOptions::none();
        for refused in [
            refused(client.create_user(&NewUser::new("bob", 1001))),
            refused(client.change_user(&none, "alice", &patch)),
            refused(client.delete_user(&none, "alice")),
            refused(client.create_group(&group("h", 2))),
            refused(client.add_member(&none, "g", "alice")),
            refused(client.remove_member(&none, "g", "alice")),
            refused(client.delete_group(&none, "g")),
        ] {
            assert_eq!(refused, (403, "forbidden".to_owned()), "{role}");
        }
    }
    assert!(rig.service.accounts().nt_hash("alice", "").is_some());
}

/// No reply contains a password or its hash.
#[test]
fn no_reply_has_a_password() {
    let rig = Rig::start();
    rig.client().create_user(&with_password("alice", 1000)).unwrap();
    let hash: String =
        password("correct horse").unwrap().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    for path in ["/v1/users", "/v1/users/alice", "/v1/operations", "/v1/warnings", "/metrics"] {
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        let reply = crate::raw::ask(&rig, format!("{head}authorization: Bearer {}\r\n\r\n", rig.token));
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        assert!(!reply.contains("horse") && !reply.contains(&hash), "{path}: {reply}");
    }
    assert_eq!(format!("{:?}", with_password("a", 1).password), "Some(Password(…))");
}
