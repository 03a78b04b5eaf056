//! Tokens from their making to their end.

use super::rig::{Rig, context};
use crate::{Error, Role};
use std::sync::atomic::Ordering;

#[test]
fn a_token_lets_in_until_it_is_revoked() {
    let rig = Rig::new();
    let service = rig.open();
    let name = "ci".parse().unwrap();
    let (made, secret) = service.create_token(&context(), &name, Role::Operate).unwrap();
    assert_eq!((made.value.role, made.value.used_ms), (Role::Operate, None));
    let found = service.check_token(secret.expose()).unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.role), ("ci", Role::Operate));
    for wrong in ["", "plimsoll_", &secret.expose()[..72], &format!("{}0", secret.expose())] {
        assert_eq!(service.check_token(wrong).unwrap(), None, "{wrong}");
    }
    let (_, other) = service.create_token(&context(), &"other".parse().unwrap(), Role::Read).unwrap();
    assert_ne!(other.expose(), secret.expose());
    drop(service);
    let service = rig.open();
    assert!(service.check_token(secret.expose()).unwrap().is_some(), "after a restart");
    service.revoke_token(&context(), &name).unwrap();
    assert_eq!(service.check_token(secret.expose()).unwrap(), None);
    assert!(service.check_token(other.expose()).unwrap().is_some());
    assert!(matches!(service.revoke_token(&context(), &name), Err(Error::NotFound { .. })));
    let verbs: Vec<_> = service.operations(None, 9).unwrap().items.into_iter().map(|one| one.verb).collect();
    assert_eq!(verbs, [crate::Verb::Delete, crate::Verb::Create, crate::Verb::Create]);
}

#[test]
fn the_store_does_not_hold_the_secret() {
    let rig = Rig::new();
    let service = rig.open();
    let (_, secret) = service.create_token(&context(), &"ci".parse().unwrap(), Role::Admin).unwrap();
    drop(service);
    let bytes = std::fs::read(rig.dir.path().join(crate::STORE_FILE)).unwrap();
    let holds = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(holds(b"admin") && !holds(&secret.expose().as_bytes()["plimsoll_".len()..]));
}

#[test]
fn names_are_taken_once_and_use_is_noted_to_the_minute() {
    let rig = Rig::new();
    let service = rig.open();
    let name = "ci".parse().unwrap();
    let (_, secret) = service.create_token(&context(), &name, Role::Read).unwrap();
    let again = service.create_token(&context(), &name, Role::Read).err().unwrap();
    assert_eq!(again.to_string(), "token ci exists; revoke it first or choose another name");
    let used = || service.tokens().unwrap()[0].used_ms;
    service.check_token(secret.expose()).unwrap();
    let first = used().unwrap();
    service.check_token(secret.expose()).unwrap();
    assert_eq!(used(), Some(first));
    rig.now_ms.fetch_add(60_000, Ordering::SeqCst);
    service.check_token(secret.expose()).unwrap();
    assert!(used() >= Some(first + 60_000));
}
