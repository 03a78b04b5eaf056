//! Owners by name in a domain.

use super::owner::Owner;
use super::*;
use crate::id_map::{HostIds, IdKind, IdNames};
use crate::state::nfs4::ServiceState;
use crate::testing::v4::{Client, at};
use crate::testing::{TestEnv, export, rule};
use nfs_wire::v4::{Argument, Bitmap, Fattr, SetattrArgs, Stateid, Status, attr};
use std::io;
use vfs::{Blocking, Caller, Disposition, PendingSync, SetAttrs};
use xdr::Encode;

/// User 7 is alice, group 100 staff.
struct Host;

impl HostIds for Host {
    fn name(&self, kind: IdKind, id: u32) -> io::Result<Option<String>> {
        let known = matches!((kind, id), (IdKind::User, 7) | (IdKind::Group, 100));
        Ok(known.then(|| if kind == IdKind::User { "alice" } else { "staff" }.to_owned()))
    }

    fn id(&self, kind: IdKind, name: &str) -> io::Result<Option<u32>> {
        Ok(match (kind, name) {
            (IdKind::User, "alice") => Some(7),
            (IdKind::Group, "staff") => Some(100),
            _ => None,
        })
    }
}

const F: &[&[u8]] = &[b"e", b"f"];
const BOTH: &[u32] = &[attr::OWNER, attr::OWNER_GROUP];

/// `/e` with a file `f` of user 7 and group 8.
fn client(domain: Option<&str>) -> Client {
    let mut env = TestEnv::new([export("/e", 1, vec![rule(&[])])], vec![]);
    let names = domain.map(|domain| IdNames::new(domain, Box::new(Host)).unwrap());
    env.service.v4 = ServiceState::new(1, b"tests", 30).with_names(names);
    let root = std::sync::Arc::clone(&env.service.namespace.load().exports()[0]).root();
    let (caller, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
    let set = SetAttrs { uid: Some(7), gid: Some(8), ..SetAttrs::default() };
    root.create(&caller, b"f", Disposition::CreateNew, &set, &mut pending).unwrap();
    Client::new(env, 1)
}

fn texts(owner: &str, group: &str) -> Vec<u8> {
    [owner.as_bytes().to_bytes(), group.as_bytes().to_bytes()].concat()
}

fn set(client: &Client, number: u32, text: &str) -> Status {
    let attr_vals = &text.as_bytes().to_bytes();
    let obj_attributes = Fattr { attrmask: Bitmap::of(&[number]), attr_vals };
    client.status(&at(F, [Argument::Setattr(SetattrArgs { stateid: Stateid::ANONYMOUS, obj_attributes })]))
}

#[test]
fn owners_are_numbers_without_a_domain_and_names_with_one() {
    assert_eq!(client(None).attrs(F, BOTH).1, texts("7", "8"));
    assert_eq!(client(Some("example.org")).attrs(F, BOTH).1, texts("alice@example.org", "8"));
}

#[test]
fn owners_are_set_by_name_or_by_number() {
    let client = client(Some("example.org"));
    let both = || client.attrs(F, BOTH).1;
    assert_eq!(set(&client, attr::OWNER_GROUP, "staff@example.org"), Status::OK);
    assert_eq!(set(&client, attr::OWNER, "9"), Status::OK);
    assert_eq!(both(), texts("9", "staff@example.org"));
    assert_eq!(set(&client, attr::OWNER, "alice@Example.ORG"), Status::OK);
    assert_eq!(set(&client, attr::OWNER_GROUP, "10@elsewhere.org"), Status::OK);
    assert_eq!(both(), texts("alice@example.org", "10"));
    for text in ["bob@example.org", "alice@elsewhere.org", "alice", "staff@example.org", "4294967296"] {
        assert_eq!(set(&client, attr::OWNER, text), Status::BADOWNER, "{text}");
    }
    assert_eq!(both(), texts("alice@example.org", "10"));
    let numbers = self::client(None);
    assert_eq!(set(&numbers, attr::OWNER, "alice@example.org"), Status::BADOWNER);
}

#[test]
fn a_name_is_looked_up_where_that_may_take_long_and_then_told_at_once() {
    let mut client = client(Some("example.org"));
    client.blocking = Blocking::Never;
    let ask = |client: &Client| {
        let request = GetattrArgs { attr_request: Bitmap::of(BOTH) };
        client.ask(&at(F, [Argument::Getattr(request)])).waited
    };
    // Warms up the name of the file itself.
    client.handle(F);
    assert_eq!([ask(&client), ask(&client)], [true, false]);
}

#[test]
fn a_number_is_its_digits_whatever_their_count() {
    for id in [0, 9, 10, 9_999, 10_000, 99_999_999, 100_000_000, u32::MAX] {
        let text = id.to_string();
        assert_eq!(Owner::Number(id).to_bytes(), text.as_bytes().to_bytes(), "{id}");
    }
}
