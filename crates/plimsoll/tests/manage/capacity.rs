//! Capacity of a volume, as seen by its clients and its operator.

use crate::mount::{fsinfo, fsstat, getattr, mount};
use crate::rig::{Service, eventually};
use nfs_wire::v3::{
    CreateArgs, CreateFail, CreateHow, CreateOk, DirOpArgs, PROGRAM, Procedure, Reply, Sattr, StableHow,
    Status, VERSION,
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use wire_client::{Connection, Handle, Identity};
use xdr::{Decode, Encode, Writer};

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
    (0..7).for_each(|at| assert_eq!(write(at).unwrap().count, 1 << 20));
    // The file itself takes a little, too.
    assert!(write(7).unwrap_err().is(Status::NOSPC));
    let left = MIB - 1024;
    let full = fsstat(&service, &client);
    assert_eq!((full.tbytes, full.fbytes, full.abytes), (8 * MIB, left, left));
    let shown = service.says(&["volume", "show", "v1"]);
    assert!(shown.contains("7.1 MiB in 2 files"), "{shown}");
    let warnings = || service.json(&["warning", "list"])["items"].as_array().unwrap().len();
    assert_eq!(warnings(), 0);
    client.write(&file, 7 * MIB, &block[..1 << 19], StableHow::FileSync).unwrap();
    client.write(&file, 15 << 19, &block[..1 << 18], StableHow::FileSync).unwrap();
    let listed = service.says(&["warning", "list"]);
    assert!(listed.contains("the volume v1 is full to 95 % or more"), "{listed}");

    service.says(&["volume", "resize", "v1", "16MiB"]);
    assert_eq!(fsstat(&service, &client).tbytes, 16 * MIB);
    client.write(&file, 7 * MIB, &block, StableHow::FileSync).unwrap();
    assert_eq!(warnings(), 0);
}

/// A WRITE of 1 MiB is written in parts as it comes: the parts that would still fit are not written if the whole does not.
#[test]
fn a_long_write_over_the_end_of_a_volume_changes_nothing() {
    let service = small();
    let mut client = mount(&service, "/v1").unwrap();
    let root = client.root();
    let (file, other) =
        (client.create(&root, "a", 0o644).unwrap(), client.create(&root, "b", 0o644).unwrap());
    let block = vec![7; 1 << 20];
    for at in 0..7 {
        client.write(&file, at * MIB, &block, StableHow::Unstable).unwrap();
    }
    client.write(&file, 7 * MIB, &block[..4096], StableHow::Unstable).unwrap();
    let before = getattr(&service, &file);
    for (file, at) in [(&file, 7 * MIB + 4096), (&file, 7 * MIB + 1), (&other, 0), (&other, 100 * MIB)] {
        for _ in 0..20 {
            assert!(client.write(file, at, &block, StableHow::FileSync).unwrap_err().is(Status::NOSPC));
        }
    }
    let after = getattr(&service, &file);
    assert_eq!((after.size, after.mtime), (before.size, before.mtime));
    assert_eq!(client.attributes(&other).unwrap().size, 0);
    assert_eq!(fsstat(&service, &client).fbytes, MIB - 4096 - 2048, "what was taken for them is given back");
    // Where nothing more is needed it is written, and what is removed makes room at once.
    client.write(&file, 6 * MIB + 4096, &block, StableHow::FileSync).unwrap();
    client.write(&file, 7 * MIB + 4096, &block[..(1 << 20) - 8192], StableHow::FileSync).unwrap();
    assert_eq!(fsstat(&service, &client).fbytes, 2048);
    client.remove(&root, "a").unwrap();
    for at in 0..7 {
        client.write(&other, at * MIB, &block, StableHow::FileSync).unwrap();
    }
}

/// Begins a WRITE of 1 MiB, sends a part of its data, and disconnects.
fn write_part_and_go(service: &Service, file: &Handle, offset: u64, sent: usize) {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    // A call of NFSv3's WRITE, with AUTH_SYS of root.
    [1, 0, 2, 100_003, 3, 7, 1, 20, 0, 0, 0, 0, 0, 0, 0].into_iter().for_each(|word| w.u32(word));
    file.wire().encode(&mut w);
    w.u64(offset);
    [1 << 20, 0, 1 << 20].into_iter().for_each(|word| w.u32(word));
    let length = u32::try_from(bytes.len()).unwrap() + (1 << 20);
    let mut stream = TcpStream::connect(service.nfs()).unwrap();
    stream.write_all(&[&(length | 1 << 31).to_be_bytes()[..], &bytes, &vec![9; sent]].concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    // Until the service has seen the end.
    assert_eq!(stream.read(&mut [0; 100]).unwrap_or(0), 0, "half a WRITE has no answer");
}

/// A client that disconnects in the middle of a long WRITE leaves no space reserved.
#[test]
fn long_write_that_never_arrives_whole_releases_its_space() {
    let service = small();
    let mut client = mount(&service, "/v1").unwrap();
    let file = client.create(&client.root(), "a", 0o644).unwrap();
    for _ in 0..20 {
        write_part_and_go(&service, &file, 0, 600 << 10);
    }
    let other = client.create(&client.root(), "b", 0o644).unwrap();
    let block = vec![7; 1 << 20];
    for at in 0..7 {
        client.write(&other, at * MIB, &block, StableHow::FileSync).unwrap();
    }
    eventually("the volume has room for all but the parts that came", || {
        client.write(&other, 7 * MIB, &block[..300 << 10], StableHow::FileSync).is_ok()
    });
}

/// CREATE with a size beyond the volume's, or beyond that of any file, is refused and leaves no empty file.
#[test]
fn a_file_that_cannot_be_so_large_is_not_made() {
    let service = small();
    let mut client = mount(&service, "/v1").unwrap();
    let root = client.root();
    let largest = fsinfo(&service, &client).maxfilesize;
    for (size, why) in
        [(8 * MIB, Status::NOSPC), (u64::MAX, Status::FBIG), (largest.saturating_add(1), Status::FBIG)]
    {
        for how in [CreateHow::Unchecked, CreateHow::Guarded] {
            let place = DirOpArgs { dir: root.wire(), name: b"big" };
            let how = how(Sattr { size: Some(size), ..Sattr::default() });
            let mut connection = Connection::open(service.nfs(), Identity::new(0, 0)).unwrap();
            let create = CreateArgs { place, how };
            let mut results = connection.call(PROGRAM, VERSION, Procedure::CREATE.0, &create).unwrap();
            let reply = Reply::<CreateOk<'_>, CreateFail>::decode(&mut results).unwrap();
            assert!(matches!(reply, Reply::Err(status, _) if status == why), "{size}: {reply:?}");
            assert!(client.lookup(&root, "big").unwrap_err().is(Status::NOENT));
        }
    }
    assert_eq!(fsstat(&service, &client).fbytes, 8 * MIB);
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
    assert!(said.contains("contains 4097 KiB, more than 2 MiB") && said.contains("--force"), "{said}");
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
    assert!(said.contains("still has volumes (2)"), "{said}");
}
