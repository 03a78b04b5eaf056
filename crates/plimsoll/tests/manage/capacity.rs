//! How much a volume may hold, as its clients and its operator see it.

use crate::mount::{fsstat, mount};
use crate::rig::Service;
use nfs::v3::wire::{StableHow, Status};

const MIB: u64 = 1 << 20;

/// A volume of 8 MiB at a level where that may be.
fn small() -> Service {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "64MiB"]);
    let open = ["--allow", "127.0.0.1", "--squash", "none"];
    service.says(&[&["volume", "create", "v1", "--pool", "p1", "--size", "8MiB"][..], &open].concat());
    service
}

#[test]
fn a_full_volume_has_no_space_and_df_says_so() {
    let service = small();
    let mut client = mount(&service, "/v1").unwrap();
    let root = client.root();
    let before = fsstat(&service, &client);
    assert_eq!((before.tbytes, before.fbytes), (8 * MIB, 8 * MIB));
    let file = client.create(&root, "a", 0o644).unwrap();
    let block = vec![7; 1 << 20];
    let mut write = |at: u64| client.write(&file, at * MIB, &block, StableHow::FileSync);
    (0..8).for_each(|at| assert_eq!(write(at).unwrap().count, 1 << 20));
    assert!(write(8).unwrap_err().is(Status::NOSPC));
    let full = fsstat(&service, &client);
    assert_eq!((full.tbytes, full.fbytes, full.abytes), (8 * MIB, 0, 0));
    assert!(service.says(&["volume", "show", "v1"]).contains("8.0 MiB in 2 files"));

    service.says(&["volume", "resize", "v1", "16MiB"]);
    assert_eq!(fsstat(&service, &client).tbytes, 16 * MIB);
    client.write(&file, 8 * MIB, &block, StableHow::FileSync).unwrap();
}

#[test]
fn a_size_below_what_is_stored_is_refused_and_may_be_insisted_on() {
    let service = small();
    let mut client = mount(&service, "/v1").unwrap();
    let file = client.create(&client.root(), "a", 0o644).unwrap();
    for at in 0..4 {
        client.write(&file, at * MIB, &vec![7; 1 << 20], StableHow::FileSync).unwrap();
    }
    let said = service.refuses(&["volume", "resize", "v1", "2MiB"]);
    assert!(said.contains("holds 4 MiB, more than 2 MiB") && said.contains("--force"), "{said}");
    assert_eq!(service.json(&["volume", "show", "v1"])["size_bytes"], 8 * MIB);
    service.says(&["volume", "resize", "v1", "2MiB", "--force"]);
    assert!(client.write(&file, 4 * MIB, &[7; 4096], StableHow::FileSync).unwrap_err().is(Status::NOSPC));
    assert_eq!(client.read(&file, 0, 4096).unwrap().data, [7; 4096], "nothing is lost");
}

#[test]
fn a_pool_is_not_overbooked_but_by_force() {
    let service = small();
    let more = ["volume", "create", "v2", "--pool", "p1", "--size", "60MiB", "--allow", "127.0.0.1"];
    let said = service.refuses(&more);
    assert!(
        said.contains("would have 68 MiB together, but it has 64 MiB") && said.contains("--force"),
        "{said}"
    );
    let (_, warned) = service.runs(&[&more[..], &["--force"]].concat());
    assert!(warned.contains("the volumes of the pool p1 have 68 MiB together"), "{warned}");
    let listed = service.says(&["warning", "list"]);
    assert!(listed.contains("over-pool"), "{listed}");
    let said = service.refuses(&["pool", "delete", "p1", "--yes"]);
    assert!(said.contains("has 2 volumes"), "{said}");
}
