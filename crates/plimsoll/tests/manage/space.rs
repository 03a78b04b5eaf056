//! A volume with snapshots that is full, over NFSv3, NFSv4.2 and SMB: every client sees the same space, and no change is half
//! done.

use crate::rig::{Service, eventually};
use crate::skip::skip;
use crate::smb::{PASSWORD, SMB, port, set_password};
use identity::NtHash;
use nfs_wire::v3::StableHow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use wire_client::{Client, Error, Handle, Identity, Protection, Space, Target, Version};

const VERSIONS: [Version; 3] = [Version::V3, Version::V42, Version::Smb(Protection::Gmac)];
const OPTIONS: [&str; 4] = [SMB[0], SMB[1], "--snapshots", "copy"];
const BLOCK: u64 = 4096;
const UNIT: u64 = 256 << 10;
const SIZE: u64 = 16 * UNIT;

/// A service whose volume `v1` has 4 MiB and this reserve.
fn service(reserve: &str) -> Option<Service> {
    if !rustix::process::geteuid().is_root() {
        skip("files of a user need root");
        return None;
    }
    let service = Service::start_with(&OPTIONS);
    set_password(&service, &["user", "create", "alice", "--uid", "1000"], PASSWORD);
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "1GiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "4MiB", "--mode", "0777"];
    let access = ["--allow", "127.0.0.0/8", "--squash", "none", "--protocols", "nfsv3,nfsv4.2,smb"];
    service.says(&[&create[..], &access, &["--snap-reserve", reserve]].concat());
    Some(service)
}

fn mount(service: &Service, version: Version) -> Client {
    let nfs = service.nfs().port();
    let port = if version.is_smb() { port(service).parse().unwrap() } else { nfs };
    let target = Target {
        host: "127.0.0.1".to_owned(),
        port,
        mount_port: nfs,
        others: Vec::new(),
        export: "/v1".to_owned(),
        version,
        user: version.is_smb().then(|| "alice".to_owned()),
        channels: 1,
    };
    let identity = Identity { nt_hash: Some(NtHash::from_password(PASSWORD)), ..Identity::new(1000, 1000) };
    Client::mount(&target, &identity).unwrap()
}

fn is_full(version: Version, error: &Error) -> bool {
    let status = match version {
        Version::V3 => "NFS3ERR_NOSPC",
        Version::V41 | Version::V42 => "NFS4ERR_NOSPC",
        Version::Smb(_) => "DISK_FULL",
    };
    matches!(error, Error::Refused { status: found, .. } if found == status)
}

/// Writes a block; false if the volume is full.
#[track_caller]
fn write(client: &mut Client, version: Version, file: &Handle, block: u64, byte: u8) -> bool {
    let data = [byte; 4096];
    match client.write(file, block * BLOCK, &data, StableHow::FileSync) {
        Ok(written) => {
            assert_eq!(u64::from(written.count), BLOCK);
            true
        }
        Err(error) if is_full(version, &error) => false,
        Err(error) => panic!("{version}: {error}"),
    }
}

/// The byte of each block of a file.
fn blocks(client: &mut Client, file: &Handle) -> Vec<u8> {
    let size = client.attributes(file).unwrap().size;
    let blocks = (0..size / BLOCK).map(|block| {
        let chunk = client.read(file, block * BLOCK, 4096).unwrap();
        assert!(chunk.data.iter().all(|&byte| byte == chunk.data[0]), "half a block {block}");
        chunk.data[0]
    });
    blocks.collect()
}

fn overwrite(client: &mut Client, version: Version, file: &Handle, count: u64, byte: u8) -> u64 {
    (0..count).take_while(|&block| write(client, version, file, block, byte)).count() as u64
}

/// The numbers of the volume's space. Clients of every protocol see these.
#[track_caller]
fn space(service: &Service) -> [u64; 4] {
    let shown = service.json(&["volume", "show", "v1"]);
    let number = |name: &str| shown[name].as_u64().unwrap_or_else(|| panic!("{name}: {shown}"));
    let [used, live, snapshots, reserve] =
        ["used_bytes", "live_bytes", "snapshot_bytes", "reserve_bytes"].map(number);
    assert_eq!(used, live + snapshots);
    let available = SIZE.saturating_sub(live + snapshots.max(reserve));
    assert_eq!(number("available_bytes"), available);
    for version in VERSIONS {
        let seen = mount(service, version).space().unwrap();
        let seen_by = |all: Space| [all.total, all.total - all.free, all.available];
        // SMB counts in whole blocks.
        let floor = |bytes: u64| if version.is_smb() { bytes - bytes % BLOCK } else { bytes };
        let free = floor(SIZE - used.min(SIZE));
        assert_eq!(seen_by(seen), [SIZE, SIZE - free, floor(available)], "{version}");
    }
    [live, snapshots, reserve, available]
}

/// Fills the volume with a file `full`, to the last block.
fn fill(client: &mut Client, version: Version) {
    let root = client.root();
    let full = client.create(&root, "full", 0o666).unwrap();
    let data = vec![b'f'; 64 << 10];
    let mut block = 0;
    loop {
        match client.write(&full, block * BLOCK, &data, StableHow::Unstable) {
            Ok(written) => block += u64::from(written.count) / BLOCK,
            Err(error) if is_full(version, &error) => break,
            Err(error) => panic!("{version}: {error}"),
        }
    }
    while write(client, version, &full, block, b'f') {
        block += 1;
    }
}

#[test]
fn a_full_volume_fails_overwrites_whole_and_gets_room_from_deleted_snapshots() {
    for version in VERSIONS {
        let Some(service) = service("0") else { return };
        let mut client = mount(&service, version);
        let root = client.root();
        let file = client.create(&root, "file", 0o666).unwrap();
        let count = 2 * UNIT / BLOCK;
        assert_eq!(overwrite(&mut client, version, &file, count, b'1'), count);
        service.says(&["snapshot", "create", "v1", "s1"]);
        fill(&mut client, version);
        let [live, snapshots, reserve, available] = space(&service);
        assert!(
            live > SIZE - 64 * BLOCK && available < BLOCK && reserve == 0,
            "{live} {snapshots} {available}"
        );
        // Each refused overwrite leaves its block, and the snapshot, as they were.
        let done = overwrite(&mut client, version, &file, count, b'2');
        assert!(done < 4, "{version}: {done} blocks in a full volume");
        assert!(!write(&mut client, version, &file, count - 1, b'3'));
        let now = blocks(&mut client, &file);
        let wanted: Vec<u8> = (0..count).map(|block| if block < done { b'2' } else { b'1' }).collect();
        assert_eq!(now, wanted, "{version}");
        let old = client.walk(".snapshot/s1/file");
        let old = if version.is_smb() { client.walk("~snapshot/s1/file") } else { old }.unwrap();
        assert_eq!(blocks(&mut client, &old), vec![b'1'; usize::try_from(count).unwrap()], "{version}");
        let before = space(&service);
        service.says(&["snapshot", "delete", "v1", "s1", "--yes"]);
        let after = space(&service);
        assert_eq!((after[0], after[1]), (before[0], 0), "{version}: files stay, and snapshots hold nothing");
        assert!(after[3] >= before[1], "{version}: what they held is free");
        assert_eq!(overwrite(&mut client, version, &file, count, b'4'), count, "{version}");
    }
}

#[test]
fn a_reserve_is_for_snapshots_alone_and_they_go_on_beyond_it() {
    for version in VERSIONS {
        let Some(service) = service("25") else { return };
        let mut client = mount(&service, version);
        let root = client.root();
        let file = client.create(&root, "file", 0o666).unwrap();
        let count = 6 * UNIT / BLOCK;
        assert_eq!(overwrite(&mut client, version, &file, count, b'1'), count);
        service.says(&["snapshot", "create", "v1", "s1"]);
        let [.., reserve, available] = space(&service);
        assert_eq!(reserve, 4 * UNIT);
        assert!(available <= 6 * UNIT && available > 6 * UNIT - 16 * BLOCK, "{version}: {available}");
        fill(&mut client, version);
        let [live, snapshots, _, available] = space(&service);
        assert!(live <= 12 * UNIT && available < BLOCK && snapshots < 16 * BLOCK, "{version}");
        // The reserve takes what snapshots need, and the volume stays full for files.
        let done = overwrite(&mut client, version, &file, count, b'2');
        let most = 4 * UNIT / BLOCK;
        assert!(done <= most && done > most - 16, "{version}: {done} of {most}");
        assert!(
            client.create(&root, "more", 0o666).is_err_and(|error| is_full(version, &error)),
            "{version}"
        );
        let [.., available] = space(&service);
        assert!(available < BLOCK);
        let shown = service.says(&["volume", "show", "v1"]);
        assert!(shown.contains("held by snapshots") && shown.contains("it is full"), "{shown}");
        let warned = service.says(&["status"]);
        assert!(warned.contains("the volume v1 is full"), "{warned}");
        // Room that files give back goes to snapshots, too.
        client.remove(&root, "full").unwrap();
        let rest = overwrite(&mut client, version, &file, count, b'3');
        assert!(rest >= done, "{version}: {rest}");
        service.says(&["snapshot", "delete", "v1", "s1", "--yes"]);
        let [live, snapshots, _, available] = space(&service);
        assert_eq!((snapshots, available), (0, 12 * UNIT - live), "{version}");
        // A smaller reserve gives the rest to files.
        service.says(&["volume", "update", "v1", "--snap-reserve", "5"]);
        let [live, _, reserve, available] = space(&service);
        assert_eq!((reserve, available), ((SIZE / 20) & !(BLOCK - 1), SIZE - reserve - live), "{version}");
    }
}

/// Whether changes are answered: they wait while a volume is counted after a kill.
fn answers_changes(service: &Service) -> bool {
    let mut client = mount(service, Version::V3);
    let root = client.root();
    match client.create(&root, "probe", 0o666) {
        Ok(_) => client.remove(&root, "probe").is_ok(),
        Err(error) => is_full(Version::V3, &error),
    }
}

/// The space before a kill is that after it.
#[track_caller]
fn check_kill(service: &mut Service) {
    assert!(answers_changes(service));
    let before = space(service);
    service.kill();
    service.start_again_with(&OPTIONS);
    eventually("the end of the count", || answers_changes(service));
    assert_eq!(space(service), before);
}

#[test]
fn a_reserve_holds_after_kills_and_while_it_changes_under_writers() {
    let Some(mut service) = service("25") else { return };
    let version = Version::V3;
    let mut client = mount(&service, version);
    let root = client.root();
    let file = client.create(&root, "file", 0o666).unwrap();
    let count = 6 * UNIT / BLOCK;
    assert_eq!(overwrite(&mut client, version, &file, count, b'1'), count);
    service.says(&["snapshot", "create", "v1", "s1"]);
    fill(&mut client, version);
    let before = space(&service);
    drop(client);
    check_kill(&mut service);
    let mut client = mount(&service, version);
    let file = client.walk("file").unwrap();
    assert!(overwrite(&mut client, version, &file, 2 * UNIT / BLOCK, b'2') == 2 * UNIT / BLOCK);
    let [live, snapshots, ..] = space(&service);
    assert!(live == before[0] && snapshots >= 2 * UNIT, "{live} {snapshots}");
    // Writers grow and overwrite while the reserve moves: never more than the volume.
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..4 {
            let (service, is_done) = (&service, &is_done);
            scope.spawn(move || {
                let mut client = mount(service, version);
                let (root, mut byte) = (client.root(), 0);
                let file = client.walk("file").unwrap();
                while !is_done.load(Ordering::Relaxed) {
                    byte = u8::wrapping_add(byte, 1);
                    let name = format!("grown-{number}");
                    if let Ok(grown) = client.create(&root, &name, 0o666) {
                        overwrite(&mut client, version, &grown, 20, b'g');
                        _ = client.remove(&root, &name);
                    }
                    write(&mut client, version, &file, u64::from(byte % 90), byte);
                }
            });
        }
        for percent in [5, 25, 0, 10, 90, 1, 25] {
            service.says(&["volume", "update", "v1", "--force", "--snap-reserve", &percent.to_string()]);
            let shown = service.json(&["volume", "show", "v1"]);
            assert!(shown["used_bytes"].as_u64().unwrap() <= SIZE, "{shown}");
        }
        is_done.store(true, Ordering::Relaxed);
    });
    check_kill(&mut service);
}

#[test]
fn a_full_volume_with_a_reserve_is_resized_reverted_and_cloned() {
    let Some(service) = service("25") else { return };
    let version = Version::V42;
    let mut client = mount(&service, version);
    let root = client.root();
    let file = client.create(&root, "file", 0o666).unwrap();
    let count = 6 * UNIT / BLOCK;
    assert_eq!(overwrite(&mut client, version, &file, count, b'1'), count);
    service.says(&["snapshot", "create", "v1", "s1"]);
    fill(&mut client, version);
    overwrite(&mut client, version, &file, count, b'2');
    let full = space(&service);
    let said = service.refuses(&["volume", "update", "v1", "--snap-reserve", "50"]);
    assert!(said.contains("more than 2 MiB") && said.contains("or force it"), "{said}");
    let said = service.refuses(&["volume", "resize", "v1", "2MiB"]);
    assert!(said.contains("contains"), "{said}");
    service.says(&["volume", "update", "v1", "--snap-reserve", "50", "--force"]);
    let [live, snapshots, reserve, available] = space(&service);
    assert_eq!(([live, snapshots], reserve, available), ([full[0], full[1]], 8 * UNIT, 0));
    // Deletions work, and what has no snapshot can be overwritten.
    assert!(write(&mut client, version, &file, 0, b'3'));
    client.remove(&root, "full").unwrap();
    service.says(&["volume", "update", "v1", "--snap-reserve", "25"]);
    drop(client);
    // A clone has all that the snapshot has, and the reserve.
    service.says(&["clone", "create", "v1", "s1", "c1"]);
    let clone = service.json(&["volume", "show", "c1"]);
    let number = |name: &str| clone[name].as_u64().unwrap_or_else(|| panic!("{name}: {clone}"));
    assert_eq!((number("snap_reserve"), number("snapshot_bytes")), (25, 0));
    assert!(number("live_bytes") >= 6 * UNIT);
    assert_eq!(number("available_bytes"), 12 * UNIT - number("live_bytes"));
    service.says(&["snapshot", "revert", "v1", "s1", "--yes"]);
    let mut client = mount(&service, version);
    let file = client.walk("file").unwrap();
    assert_eq!(blocks(&mut client, &file), vec![b'1'; usize::try_from(count).unwrap()]);
    let [live, snapshots, reserve, available] = space(&service);
    assert_eq!(available, SIZE - live - snapshots.max(reserve));
    let operations = service.json(&["operation", "list"]);
    let items = operations["items"].as_array().unwrap();
    for verb in ["revert", "create"] {
        let has_steps = |one: &serde_json::Value| {
            one["verb"] == verb && one["progress"]["unit"] == "steps" && one["outcome"] == "succeeded"
        };
        assert!(items.iter().any(has_steps), "{verb}: {operations}");
    }
}
