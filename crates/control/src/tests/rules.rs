//! Export rules: from the request to the clients that the data plane admits.

use super::rig::{Rig, context, furnished, new_pool, new_volume, volume};
use crate::{
    Access, Error, ExportRule, NewVolume, Protocols, Result, Service, Volume, VolumeChange, Warning,
};
use envelope::{Bytes, Level};
use std::net::IpAddr;
use vfs::Squash;

fn rule(clients: &str) -> ExportRule {
    ExportRule::for_clients(clients.parse().unwrap())
}

fn set(service: &Service, rules: &[ExportRule]) -> Result<()> {
    service.set_rules(&context(), &volume("v"), rules.to_vec()).map(drop)
}

/// The data plane's treatment of a client: squashing, and whether it can write.
fn lets_in(rig: &Rig, client: &str) -> Option<(Squash, bool)> {
    let namespace = rig.namespace.load();
    let (export, _) = namespace.resolve("/v")?;
    let rule = export.rule(vfs::Origin::of(client.parse::<IpAddr>().unwrap()))?;
    Some((rule.squash, !rule.read_only))
}

#[test]
fn each_provider_has_its_own_default() {
    let rig = Rig::new();
    let service = rig.open();
    for (level, tib, rules) in [
        (Level::AnfPremium, 2, 1),
        (Level::FilestoreZonal, 2, 1),
        (Level::GcnvPremium, 2, 0),
        (Level::Unlimited, 2, 0),
    ] {
        // A name that every provider allows.
        let name: String = level.name().chars().filter(char::is_ascii_lowercase).collect();
        service.create_pool(&context(), &new_pool(&name, level, tib)).unwrap();
        let volume = new_volume(&name, &name, 1024 * tib);
        let made = service.create_volume(&context(), &volume).unwrap().value;
        assert_eq!(made.rules.len(), rules, "{level}");
        assert!(
            made.rules.iter().all(|rule| rule.squash == Squash::None && rule.access == Access::ReadWrite)
        );
    }
}

#[test]
fn nobody_mounts_what_no_rule_allows() {
    let rig = Rig::new();
    let service = furnished(&rig);
    assert_eq!(service.volume(&volume("v")).unwrap().rules, []);
    assert_eq!(lets_in(&rig, "127.0.0.1"), None);
    let warning = Warning::NoRules { volume: volume("v") };
    assert_eq!(service.warnings().unwrap(), vec![warning]);
    assert_eq!(
        service.warnings().unwrap()[0].to_string(),
        "nobody may mount the volume v: it has no export rule, add one"
    );
}

#[test]
fn the_first_rule_that_matches_decides_at_once_and_after_a_restart() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let read_only = ExportRule { access: Access::ReadOnly, squash: Squash::All, ..rule("10.1.0.0/16") };
    let all_squashed_read_only = set(&service, std::slice::from_ref(&read_only)).unwrap_err().to_string();
    assert!(all_squashed_read_only.contains("one such rule, for reading and writing"));
    let read_only = ExportRule { squash: Squash::Root, ..read_only };
    let admin = ExportRule { squash: Squash::None, ..rule("10.1.2.3, 10.1.2.4") };
    let secured = ExportRule { protection: vfs::Protection::Encrypted, ..rule("10.4.0.0/16") };
    let known = ExportRule { protection: vfs::Protection::Verified, ..rule("10.5.0.0/16") };
    let nobody = ExportRule { access: Access::NoAccess, ..rule("10.3.0.0/16") };
    let rules = [admin, read_only, secured, known, nobody, rule("10.0.0.0/8,::1")];
    set(&service, &rules).unwrap();
    let check = || {
        assert_eq!(lets_in(&rig, "10.1.2.4"), Some((Squash::None, true)));
        assert_eq!(lets_in(&rig, "10.1.2.5"), Some((Squash::Root, false)));
        assert_eq!(lets_in(&rig, "10.2.0.1"), Some((Squash::None, true)));
        assert_eq!(lets_in(&rig, "::1"), Some((Squash::None, true)));
        for closed in ["10.3.0.1", "10.4.0.1", "10.5.0.1"] {
            assert_eq!(lets_in(&rig, closed), None, "{closed} without TLS");
        }
        assert_eq!(lets_in(&rig, "11.0.0.1"), None);
    };
    check();
    drop(service);
    let service = rig.open();
    check();
    let found = service.volume(&volume("v")).unwrap();
    assert_eq!((found.rules, found.version), (rules.to_vec(), 2));
    set(&service, &[]).unwrap();
    assert_eq!(lets_in(&rig, "10.1.2.4"), None);
}

#[test]
fn rule_that_asks_for_more_protection_than_there_is_is_refused() {
    use vfs::Protection::{Encrypted, Plain, Verified};
    for (offered, least) in [(Plain, Encrypted), (Encrypted, Verified), (Plain, Verified)] {
        let rig = Rig::new().protecting(offered);
        let service = furnished(&rig);
        let asks = ExportRule { protection: least, ..rule("10.4.0.0/16") };
        let error = set(&service, std::slice::from_ref(&asks)).unwrap_err().to_string();
        assert!(error.contains("which no connection over nfsv") && error.contains("--tls-cert"), "{error}");
        let new = NewVolume { rules: Some(vec![asks.clone()]), ..new_volume("w", "p", 1024) };
        let refused = service.create_volume(&context(), &new).unwrap_err().to_string();
        assert!(refused.contains("which no connection over nfsv"), "{refused}");
        // Who is kept out needs no protection for that.
        set(&service, &[ExportRule { access: Access::NoAccess, ..asks }, rule("10.0.0.0/8")]).unwrap();
    }
}

#[test]
fn rule_of_a_service_that_had_a_certificate_before_is_warned_of() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let asks = ExportRule { protection: vfs::Protection::Encrypted, ..rule("10.4.0.0/16") };
    set(&service, &[asks, rule("10.5.0.0/16")]).unwrap();
    assert_eq!(service.warnings().unwrap(), []);
    drop(service);
    let rig = rig.protecting(vfs::Protection::Plain);
    let service = rig.open();
    let warned: Vec<String> = service.warnings().unwrap().iter().map(ToString::to_string).collect();
    let expected = "nobody can mount the volume v over nfsv3,nfsv4.2 by its rule for 10.4.0.0/16: it asks for tls, and the service was started \
                    without a certificate: --tls-cert and --tls-key";
    assert_eq!(warned, [expected]);
}

#[test]
fn the_providers_bounds_hold() {
    let rig = Rig::new();
    let service = furnished(&rig);
    assert!(set(&service, &vec![rule("10.0.0.1"); 20]).is_ok());
    let error = set(&service, &vec![rule("10.0.0.1"); 21]).unwrap_err().to_string();
    assert_eq!(error, "gcnv/premium: 21 export rules; allowed: at most 20");
    let only_smb = ExportRule { protocols: "smb".parse().unwrap(), ..rule("10.0.0.1") };
    let error = set(&service, &[only_smb]).unwrap_err().to_string();
    assert!(error.contains("some of the volume's, nfsv3"), "{error}");
    rig.check_agreement(&service);
    service.create_pool(&context(), &new_pool("anf", Level::AnfUltra, 1)).unwrap();
    let new = NewVolume { rules: Some(vec![rule("10.0.0.1"); 6]), ..new_volume("w", "anf", 100) };
    assert!(matches!(service.create_volume(&context(), &new), Err(Error::Invalid { .. })));
}

#[test]
fn nobody_becomes_an_id_that_means_unchanged() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let plain = rule("10.0.0.0/8");
    for (bad, what) in [
        (ExportRule { anonymous_uid: u32::MAX, ..plain.clone() }, "anonymous user 4294967295"),
        (ExportRule { anonymous_gid: u32::MAX, ..plain.clone() }, "anonymous group 4294967295"),
    ] {
        let error = set(&service, &[plain.clone(), bad]).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("0 to 4294967294"), "{error}");
    }
    let most = ExportRule { anonymous_uid: u32::MAX - 1, anonymous_gid: u32::MAX - 1, ..plain };
    set(&service, &[most]).unwrap();
}

#[test]
fn hosts_are_looked_up_when_rules_are_set_and_again_later() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let known = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        rig.names.0.lock().insert("build".to_owned(), addresses);
    };
    set(&service, &[rule("build")]).unwrap();
    assert_eq!(lets_in(&rig, "10.0.0.7"), None, "an unknown host is nobody, not everybody");
    let warnings = service.warnings().unwrap();
    let unknown = |has: bool| move |one: &Warning| matches!(one, Warning::UnknownHost { has_addresses, .. } if *has_addresses == has);
    assert!(warnings.iter().any(unknown(false)), "{warnings:?}");
    known(&["10.0.0.7"]);
    service.refresh().unwrap();
    assert!(lets_in(&rig, "10.0.0.7").is_some());
    assert_eq!(service.warnings().unwrap(), []);
    known(&["10.0.0.8", "fd00::8"]);
    service.refresh().unwrap();
    assert_eq!(lets_in(&rig, "10.0.0.7"), None);
    assert!(lets_in(&rig, "fd00::8").is_some());
    rig.names.0.lock().clear();
    service.refresh().unwrap();
    assert!(lets_in(&rig, "10.0.0.8").is_some(), "a name server that rests takes no mount away");
    assert!(service.warnings().unwrap().iter().any(unknown(true)));
    known(&[]);
    service.refresh().unwrap();
    assert_eq!(lets_in(&rig, "10.0.0.8"), None);
    known(&["10.0.0.9"]);
    drop(service);
    drop(rig.open());
    assert!(lets_in(&rig, "10.0.0.9").is_some(), "looked up at the start");
}

#[test]
fn volume_without_served_protocol_is_not_exported() {
    let rig = Rig::new();
    let service = furnished(&rig);
    set(&service, &[rule("0.0.0.0/0")]).unwrap();
    let over = |protocols: &str| {
        let protocols = Some(protocols.parse::<Protocols>().unwrap());
        let change = VolumeChange { protocols, ..VolumeChange::default() };
        service.update_volume(&context(), &volume("v"), &change)
    };
    let error = over("smb").unwrap_err().to_string();
    assert!(
        error.contains("is not served") && error.ends_with("allowed: nfsv3,nfsv4.0,nfsv4.1,nfsv4.2"),
        "{error}"
    );
    assert!(over("nfsv3,smb").is_err() && over("nfsv3,nfsv4.1").is_ok() && over("nfsv3").is_ok());
    // Another run had it.
    let earlier = Volume { protocols: "smb".parse().unwrap(), ..service.volume(&volume("v")).unwrap() };
    service.change(|store| Ok(crate::store::volume::update(store, &earlier)?)).unwrap();
    drop(service);
    let service = rig.open();
    assert!(rig.namespace.load().exports().is_empty());
    let protocols = "smb".parse().unwrap();
    assert_eq!(service.warnings().unwrap(), [Warning::NotServed { volume: volume("v"), protocols }]);
    let change = VolumeChange { size: Some(Bytes::gib(500)), ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).unwrap();
    let change = VolumeChange { protocols: Some(Protocols::NFS_V3), ..VolumeChange::default() };
    service.update_volume(&context(), &volume("v"), &change).unwrap();
    assert!(lets_in(&rig, "10.0.0.7").is_some());
}

/// A Plimsoll volume at this path, over these protocols.
fn over(name: &str, share: &str, protocols: &str) -> NewVolume {
    let (share, protocols) = (Some(share.parse().unwrap()), Some(protocols.parse().unwrap()));
    NewVolume { share, protocols, ..new_volume(name, "free", 100) }
}

#[test]
fn shares_of_smb_are_told_apart_in_any_case() {
    let rig = Rig::new().serving(Protocols::ALL);
    let service = rig.open();
    service.create_pool(&context(), &new_pool("free", Level::Unlimited, 10)).unwrap();
    let make = |new: &NewVolume| service.create_volume(&context(), new).map(drop);
    make(&over("a", "Tools", "smb,nfsv3")).unwrap();
    make(&over("b", "tools", "nfsv3")).unwrap();
    let taken = |result: Result<()>, by: &str| {
        assert!(matches!(&result, Err(Error::ShareInUse { volume, .. }) if volume == by), "{result:?}");
    };
    taken(make(&over("c", "TOOLS", "smb")), "a");
    let change =
        |name, change: &VolumeChange| service.update_volume(&context(), &volume(name), change).map(drop);
    let protocols = Some("smb".parse().unwrap());
    taken(change("b", &VolumeChange { protocols, ..VolumeChange::default() }), "a");
    let share = Some("other".parse().unwrap());
    change("b", &VolumeChange { share: share.clone(), protocols, ..VolumeChange::default() }).unwrap();
    let share = Some("toolS".parse().unwrap());
    taken(change("b", &VolumeChange { share, ..VolumeChange::default() }), "a");
    assert!(matches!(make(&over("d", "ipc$", "smb")), Err(Error::Invalid { .. })));
    make(&over("d", "ipc$", "nfsv3")).unwrap();
}

#[test]
fn lists_rule_a_volume_for_good_and_only_with_smb() {
    let rig = Rig::new().serving(Protocols::ALL);
    let service = rig.open();
    service.create_pool(&context(), &new_pool("free", Level::Unlimited, 10)).unwrap();
    let security_style = Some(vfs::SecurityStyle::Ntfs);
    let ntfs = |protocols| NewVolume { security_style, ..over("v", "v", protocols) };
    let refused = service.create_volume(&context(), &ntfs("nfsv3")).map(drop);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    service.create_volume(&context(), &ntfs("smb,nfsv3")).unwrap();
    let protocols = Some(Protocols::NFS_V3);
    let change = VolumeChange { protocols, ..VolumeChange::default() };
    let refused = service.update_volume(&context(), &volume("v"), &change).map(drop);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    drop(service);
    let service = rig.open();
    set(&service, &[rule("0.0.0.0/0")]).unwrap();
    let namespace = rig.namespace.load();
    let (export, _) = namespace.resolve("/v").unwrap();
    assert_eq!(export.volume.security_style(), vfs::SecurityStyle::Ntfs, "after a restart");
}

#[test]
fn a_run_without_smb_says_so_and_serves_the_rest() {
    let rig = Rig::new().serving(Protocols::ALL);
    let service = rig.open();
    service.create_pool(&context(), &new_pool("free", Level::Unlimited, 10)).unwrap();
    service.create_volume(&context(), &over("v", "v", "smb,nfsv3")).unwrap();
    set(&service, &[rule("0.0.0.0/0")]).unwrap();
    let over = |rig: &Rig| {
        let namespace = rig.namespace.load();
        let found = namespace.resolve("/v").map(|(export, _)| Protocols::from_rules(&export.rules));
        found.unwrap_or_default().to_string()
    };
    assert_eq!((over(&rig), service.warnings().unwrap()), ("nfsv3,smb".to_owned(), vec![]));
    drop(service);
    let rig = rig.serving(Protocols::NFS);
    let service = rig.open();
    assert_eq!(over(&rig), "nfsv3");
    let protocols = "smb".parse().unwrap();
    assert_eq!(service.warnings().unwrap(), [Warning::NotServed { volume: volume("v"), protocols }]);
}

#[test]
fn a_volume_is_there_over_its_protocols_alone() {
    let rig = Rig::new();
    let service = furnished(&rig);
    set(&service, &[rule("0.0.0.0/0")]).unwrap();
    for (protocols, served) in [
        ("nfsv3", [true, false, false]),
        ("nfsv4.1", [false, true, false]),
        ("nfsv3,nfsv4.2", [true, false, true]),
    ] {
        let protocols = Some(protocols.parse::<Protocols>().unwrap());
        let change = VolumeChange { protocols, ..VolumeChange::default() };
        service.update_volume(&context(), &volume("v"), &change).unwrap();
        let namespace = rig.namespace.load();
        let (export, _) = namespace.resolve("/v").unwrap();
        let is_served = |number| {
            let client = "10.1.2.3".parse::<IpAddr>().unwrap();
            export
                .rule(vfs::Origin { protocol: vfs::ProtocolId(number), ..vfs::Origin::of(client) })
                .is_some()
        };
        assert_eq!([0, 1, 2].map(is_served), served, "{protocols:?}");
    }
}
