//! Keys and owners of a vault.

use crate::rig::{MemStore, Rig, Volume, owner, random, seconds};
use replicate::{Error, Key, Owner, Vault, VaultOptions};
use std::sync::Arc;

fn open(store: &Arc<MemStore>, key: Option<&Key>, owner: Option<&Owner>) -> Result<Vault, Error> {
    Vault::open(store.clone(), key, owner, &mut random)
}

#[test]
fn vault_is_opened_with_its_key_only() {
    let (key, other) = (Key([1; 32]), Key([2; 32]));
    let sealed = Rig::new(Some(key.clone())).store;
    let plain = Rig::new(None).store;
    assert!(open(&sealed, Some(&key), None).is_ok() && open(&plain, None, None).is_ok());
    let missing = open(&sealed, None, None).err().unwrap();
    assert!(matches!(missing, Error::KeyMissing));
    assert!(missing.to_string().contains("lost"), "{missing}");
    let wrong = open(&sealed, Some(&other), None).err().unwrap();
    assert!(matches!(wrong, Error::KeyWrong));
    assert!(wrong.to_string().contains("lost"), "{wrong}");
    assert!(matches!(open(&plain, Some(&key), None), Err(Error::KeyUnneeded)));
    assert!(matches!(open(&Arc::new(MemStore::new()), None, None), Err(Error::NoVault)));
}

#[test]
fn encrypted_vault_shows_no_name_and_no_data() {
    let rig = Rig::new(Some(Key([1; 32])));
    let volume = Volume::new();
    let text = b"a text that would be found in a vault without encryption. ";
    volume.put("a-name-that-would-be-found", &text.repeat(3));
    rig.back_up(&volume, None);
    for (name, object) in rig.store.objects().iter() {
        for secret in [&text[..20], b"a-name-that", b"daily", b"service 1"] {
            assert!(!object.windows(secret.len()).any(|part| part == secret), "{name}");
        }
    }
}

#[test]
fn no_two_packs_have_the_same_key() {
    let rig = Rig::new(Some(Key([1; 32])));
    let volume = Volume::new();
    volume.put("file", &[7; 5_000]);
    rig.back_up(&volume, None);
    rig.back_up(&volume, None);
    let objects = rig.store.objects();
    let packs: Vec<_> = objects.iter().filter(|(name, _)| name.starts_with("packs/")).collect();
    assert_eq!(packs.len(), 4);
    // The same chunk, at the same offset.
    let first = packs[0].1;
    assert!(packs[1..].iter().all(|(_, pack)| pack[32..80] != first[32..80]));
}

#[test]
fn second_service_is_refused_until_it_takes_over() {
    let rig = Rig::new(None);
    let volume = Volume::new();
    volume.put("file", b"x");
    let first = rig.back_up(&volume, None);
    let refused = open(&rig.store, None, Some(&owner(2))).err().unwrap();
    assert!(matches!(&refused, Error::OtherOwner(name) if name == "service 1"), "{refused}");
    assert_eq!(
        open(&rig.store, None, None).unwrap().list().unwrap().backups,
        std::slice::from_ref(&first),
        "reading is allowed"
    );
    assert!(open(&rig.store, None, Some(&owner(1))).is_ok());
    let second = Vault::take_over(rig.store.clone(), None, &owner(2), &mut random).unwrap();
    assert_eq!(second.id(), rig.vault.id());
    // The first one notices at its next change.
    let refused = rig.try_back_up(&volume, crate::rig::new_id(), None);
    assert!(matches!(refused, Err(Error::OtherOwner(_))), "{refused:?}");
    assert!(matches!(rig.sweep_at(1), Err(Error::OtherOwner(_))));
    assert!(matches!(
        replicate::delete(&rig.vault, first.id, seconds(1), &mut random),
        Err(Error::OtherOwner(_))
    ));
    // Again changes nothing.
    let owners = || rig.store.objects().keys().filter(|name| name.starts_with("owners/")).count();
    assert_eq!(owners(), 2);
    Vault::take_over(rig.store.clone(), None, &owner(2), &mut random).unwrap();
    assert_eq!(owners(), 2);
}

#[test]
fn vault_opened_to_read_changes_nothing() {
    let rig = Rig::new(None);
    let volume = Volume::new();
    let first = rig.back_up(&volume, None);
    let reader = open(&rig.store, None, None).unwrap();
    assert!(replicate::delete(&reader, first.id, seconds(1), &mut random).is_err());
    assert_eq!(reader.list().unwrap().backups.len(), 1);
}

#[test]
fn vault_is_created_once() {
    let rig = Rig::new(None);
    let options = VaultOptions { key: None, owner: owner(2), created: seconds(1) };
    assert!(matches!(Vault::create(rig.store.clone(), &options, &mut random), Err(Error::VaultExists)));
    // A crash after the header leaves a vault that the first service to write it owns.
    let store = Arc::new(MemStore::new());
    store.fail_after(1);
    assert!(Vault::create(store.clone(), &options, &mut random).is_err());
    store.heal();
    assert!(open(&store, None, Some(&owner(2))).is_ok());
    assert!(matches!(open(&store, None, Some(&owner(1))), Err(Error::OtherOwner(_))));
}

#[test]
fn newer_format_is_named() {
    let rig = Rig::new(None);
    rig.store.objects().get_mut("vault").unwrap()[8] = 9;
    let refused = open(&rig.store, None, None).err().unwrap();
    assert!(matches!(refused, Error::Version(9)), "{refused}");
}
