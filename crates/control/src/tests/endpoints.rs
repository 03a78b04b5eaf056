//! Endpoints: stored, shown to the data plane, and reported if they have no listener.

use super::rig::{Rig, context, furnished, new_volume, properties, volume};
use crate::{Error, NewVolume, VolumeChange, Warning};
use std::net::IpAddr;

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn endpoints(texts: &[&str]) -> VolumeChange {
    VolumeChange { endpoints: Some(addresses(texts)), ..VolumeChange::default() }
}

#[test]
fn a_volume_is_served_at_its_endpoints_until_the_last_one_that_has_them_goes() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let new =
        NewVolume { endpoints: Some(addresses(&["10.0.0.2", "10.0.0.3"])), ..new_volume("w", "p", 200) };
    let made = service.create_volume(&context(), &new).unwrap().value;
    assert_eq!(service.create_volume(&context(), &new).unwrap().value, made, "asked for again");
    assert_eq!(
        service.create_volume(&context(), &new_volume("w", "p", 200)).unwrap().value,
        made,
        "left open"
    );
    rig.check_agreement(&service);
    let changed = service.update_volume(&context(), &volume("v"), &endpoints(&["10.0.0.3", "::1"])).unwrap();
    assert!(changed.operation.detail.contains("endpoints none → 10.0.0.3, ::1"), "{:?}", changed.operation);
    rig.check_agreement(&service);
    drop(service);
    let service = rig.open();
    assert_eq!(service.volume(&volume("w")).unwrap(), made, "in their order, after a restart");
    rig.check_agreement(&service);
    service.delete_volume(&context(), &volume("w")).unwrap();
    rig.check_agreement(&service);
    assert_eq!(rig.heard.wanted.lock().len(), 2, "the shared one is still v's");
    service.update_volume(&context(), &volume("v"), &endpoints(&[])).unwrap();
    rig.check_agreement(&service);
    assert!(rig.heard.wanted.lock().is_empty());
}

#[test]
fn another_list_of_endpoints_is_another_volume() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let new = NewVolume { endpoints: Some(addresses(&["10.0.0.2"])), ..new_volume("v", "p", 1024) };
    match service.create_volume(&context(), &new).unwrap_err() {
        Error::Conflict { differs, .. } => assert_eq!(properties(&differs), ["endpoints"]),
        other => panic!("{other}"),
    }
}

#[test]
fn an_address_that_is_not_there_is_a_warning_and_one_that_cannot_be_is_refused() {
    let rig = Rig::new();
    let service = furnished(&rig);
    rig.heard.missing.lock().extend(addresses(&["10.0.0.3", "10.0.0.4"]));
    service.update_volume(&context(), &volume("v"), &endpoints(&["10.0.0.2", "10.0.0.3"])).unwrap();
    let warnings = service.warnings().unwrap();
    let down: Vec<_> =
        warnings.iter().filter(|warning| matches!(warning, Warning::EndpointDown { .. })).collect();
    assert_eq!(down.len(), 1, "{down:?}");
    let said = down[0].to_string();
    assert!(said.contains("volume v is not served at its endpoint 10.0.0.3: it is not there"), "{said}");
    let refused = service.update_volume(&context(), &volume("v"), &endpoints(&["0.0.0.0"])).unwrap_err();
    assert!(refused.to_string().contains("the endpoint 0.0.0.0; allowed"), "{refused}");
    let new = NewVolume { endpoints: Some(addresses(&["224.0.0.1"])), ..new_volume("x", "p", 200) };
    service.create_volume(&context(), &new).unwrap_err();
    assert_eq!(service.volume(&volume("v")).unwrap().endpoints, addresses(&["10.0.0.2", "10.0.0.3"]));
}

#[test]
fn all_volumes_together_have_a_bound() {
    let rig = Rig::new();
    let service = furnished(&rig);
    let block = |number: u8| (0..16).map(|last| IpAddr::from([10, 1, number, last])).collect::<Vec<_>>();
    for number in 0..16 {
        let new = NewVolume { endpoints: Some(block(number)), ..new_volume(&format!("w{number}"), "p", 100) };
        service.create_volume(&context(), &new).unwrap();
    }
    let one_more = service.update_volume(&context(), &volume("v"), &endpoints(&["10.9.9.9"])).unwrap_err();
    assert!(one_more.to_string().contains("at most 256"), "{one_more}");
    let new = NewVolume { endpoints: Some(addresses(&["10.9.9.9"])), ..new_volume("x", "p", 100) };
    service.create_volume(&context(), &new).unwrap_err();
    service.update_volume(&context(), &volume("v"), &endpoints(&["10.1.0.0", "10.1.15.15"])).unwrap();
    rig.check_agreement(&service);
}
