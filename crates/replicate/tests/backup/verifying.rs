//! Damage of a vault, and of a restored tree.

use crate::rig::{Rig, Volume, name, noise, owner, random, seconds};
use crate::trees;
use replicate::{Depth, Error, Key, Manifest, Selection, Vault, Verify, compare, verify};
use std::ops::ControlFlow;
use vfs::backend::KEEP_SET_ID;
use vfs::{Blocking, SetAttrs, SetTime, SetXattr, XattrName};
use vfs_testing::UncheckedNode;

fn faults(rig: &Rig, manifest: &Manifest, depth: Depth) -> Vec<String> {
    let mut job = Verify {
        depth,
        pace: &mut |_| ControlFlow::Continue(()),
        progress: &mut |_, _| ControlFlow::Continue(()),
    };
    verify(&rig.vault, manifest, &mut job).unwrap().into_iter().map(|fault| fault.object).collect()
}

#[test]
fn flipped_bit_is_found_in_every_object() {
    for key in [None, Some(Key([9; 32]))] {
        let (rig, volume) = (Rig::new(key.clone()), Volume::new());
        trees::fill(&volume);
        let first = rig.back_up(&volume, None);
        volume.put("more", &noise(99, 10_000));
        let manifest = rig.back_up(&volume, Some(first.id));
        assert_eq!(faults(&rig, &manifest, Depth::Data), [""; 0]);
        let names: Vec<String> = rig.store.objects().keys().cloned().collect();
        assert!(names.len() >= 10, "{names:?}");
        for object in names {
            let len = rig.store.objects()[&object].len();
            for at in [0, 9, 40, len / 3, len / 2, len - 40, len - 1].into_iter().filter(|at| *at < len) {
                rig.store.objects().get_mut(&object).unwrap()[at] ^= 0x10;
                assert!(
                    is_found(&rig, &manifest, &first, key.as_ref(), &object),
                    "{object} at {at} of {len}"
                );
                rig.store.objects().get_mut(&object).unwrap()[at] ^= 0x10;
            }
        }
        assert_eq!(faults(&rig, &manifest, Depth::Data), [""; 0]);
    }
}

fn is_found(rig: &Rig, manifest: &Manifest, first: &Manifest, key: Option<&Key>, object: &str) -> bool {
    let opened = Vault::open(rig.store.clone(), key, Some(&owner(1)), &mut random);
    match object.split('/').next().unwrap() {
        "vault" | "owners" => opened.is_err(),
        _ if object.ends_with("manifest") => !opened.unwrap().list().unwrap().damaged.is_empty(),
        // The first backup has parts of its own, and packs that the second needs no more.
        _ => [manifest, first]
            .iter()
            .any(|manifest| faults(rig, manifest, Depth::Data).contains(&object.to_owned())),
    }
}

#[test]
fn missing_and_cut_packs_are_found_without_reading() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    trees::fill(&volume);
    let manifest = rig.back_up(&volume, None);
    assert_eq!(faults(&rig, &manifest, Depth::Objects), [""; 0]);
    let pack = rig.store.objects().keys().find(|name| name.starts_with("packs/")).unwrap().clone();
    let content = rig.store.objects()[&pack].clone();
    rig.store.objects().get_mut(&pack).unwrap().pop();
    assert_eq!(faults(&rig, &manifest, Depth::Objects), std::slice::from_ref(&pack));
    rig.store.objects().remove(&pack);
    assert_eq!(faults(&rig, &manifest, Depth::Objects), std::slice::from_ref(&pack));
    rig.store.objects().insert(pack, content);
    assert_eq!(faults(&rig, &manifest, Depth::Objects), [""; 0]);
}

#[test]
fn check_is_paced_and_stops_when_asked() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    trees::fill(&volume);
    let manifest = rig.back_up(&volume, None);
    let (mut paced, mut seen) = (0, Vec::new());
    let mut job = Verify {
        depth: Depth::Data,
        pace: &mut |bytes| {
            paced += bytes;
            ControlFlow::Continue(())
        },
        progress: &mut |done, total| {
            seen.push((done, total));
            ControlFlow::Break(())
        },
    };
    assert!(matches!(verify(&rig.vault, &manifest, &mut job), Err(Error::Stopped)));
    assert!(seen.len() == 1 && seen[0].0 == paced && seen[0].0 < seen[0].1, "{seen:?}");
}

/// Each change of a restored tree is a difference.
#[test]
fn comparison_finds_every_kind_of_difference() {
    let (rig, volume) = (Rig::new(None), Volume::new());
    trees::fill(&volume);
    let manifest = rig.back_up(&volume, None);
    let look_up =
        |volume: &Volume, file: &[u8]| volume.root().lookup(name(file), Blocking::Allowed).unwrap().node;
    type Act = fn(&Volume, &vfs::NodeRef);
    let acts: [(&[u8], &str, Act); 10] = [
        (b"linked", "its data differs", |_, node| {
            node.write(70_000, b"?", KEEP_SET_ID).unwrap();
        }),
        (b"sparse", "it has data where the backup has a hole", |_, node| {
            node.write(800_000_000_000, b"?", KEEP_SET_ID).unwrap();
        }),
        (b"empty", "its size differs", |_, node| {
            node.write(0, b"?", KEEP_SET_ID).unwrap();
        }),
        (b"set-id", "its mode differs", |_, node| {
            node.set_attrs(&SetAttrs { mode: Some(0o755), ..SetAttrs::default() }).unwrap();
        }),
        (b"third", "its owner differs", |_, node| {
            node.set_attrs(&SetAttrs { gid: Some(1), ..SetAttrs::default() }).unwrap();
        }),
        (b"dir", "its modification time differs", |_, node| {
            let modified = Some(SetTime::To(seconds(1)));
            node.set_attrs(&SetAttrs { modified, ..SetAttrs::default() }).unwrap();
        }),
        (b"set-id", "its extended attributes differ", |_, node| {
            let xattrs = node.xattrs().unwrap();
            xattrs.set(XattrName::new(b"empty").unwrap(), b"?", SetXattr::Either, &|_| Ok(())).unwrap();
        }),
        (b"set-id", "its creation time or Windows attributes differ", |_, node| {
            node.xattrs().unwrap().remove(XattrName::EXTRA_ATTRS, &|_| Ok(())).unwrap();
        }),
        (b"dir", "its default ACL differs", |_, node| {
            node.acls().unwrap().set_default_acl(None).unwrap();
        }),
        (b"third", "it is missing", |volume, _| {
            volume.root().remove_unchecked(name(b"third")).unwrap();
        }),
    ];
    for (file, what, act) in acts {
        let restored = rig.restore(&manifest, Selection::Whole).unwrap();
        act(&restored, &look_up(&restored, file));
        let found =
            compare(&rig.vault, &manifest, &restored.fs, 20, &mut || ControlFlow::Continue(())).unwrap();
        assert!(found.iter().any(|found| found.what == what), "{what}: {found:?}");
    }
}
