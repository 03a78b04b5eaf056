//! Quotas under writers over NFSv3, NFSv4.2 and SMB at once: no user passes its limit, and nothing is lost or charged
//! twice.

use crate::rig::{Service, eventually};
use crate::skip::skip;
use crate::smb::{PASSWORD, SMB, port, set_password};
use identity::NtHash;
use nfs_wire::v3::{self, GetattrArgs, Reply, Sattr, SetattrArgs, SetattrReply, StableHow};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use wire_client::{Client, Connection, Error, Handle, Identity, Protection, Target, Version};
use xdr::{Decode, Encode};

const FIRST_UID: u32 = 2001;
const USERS: u32 = 8;
const WRITERS_OF_USER: u32 = 8;
const VERSIONS: [Version; 3] = [Version::V3, Version::V42, Version::Smb(Protection::Gmac)];
const LIMIT_BYTES: u64 = 3 << 20;
const LIMIT_FILES: u64 = 40;
const BLOCK: u64 = 4096;
const CHUNK_MAX: u64 = 64 << 10;
/// Random steps of each writer after the volume is full.
const STEPS: u32 = 60;

/// A generator of SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }
}

fn service() -> Option<Service> {
    if !rustix::process::geteuid().is_root() {
        skip("files of several users need root");
        return None;
    }
    let service = furnished(Service::start_with(&SMB));
    let limits = ["--bytes", &format!("{LIMIT_BYTES}B"), "--files", &LIMIT_FILES.to_string()];
    service.says(&[&["quota", "set", "v1", "--user", "default"][..], &limits].concat());
    Some(service)
}

/// A service with the users and a volume that everyone may change, over all protocols.
pub fn furnished(service: Service) -> Service {
    for uid in FIRST_UID..FIRST_UID + USERS {
        set_password(&service, &["user", "create", &login(uid), "--uid", &uid.to_string()], PASSWORD);
    }
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "4GiB"]);
    let create = ["volume", "create", "v1", "--pool", "p1", "--size", "1GiB", "--mode", "0777"];
    let access = ["--allow", "127.0.0.0/8", "--squash", "none"];
    let protocols = ["--protocols", "nfsv3,nfsv4.0,nfsv4.1,nfsv4.2,smb"];
    service.says(&[&create[..], &access, &protocols].concat());
    service
}

fn login(uid: u32) -> String {
    format!("user{uid}")
}

pub fn target(service: &Service, version: Version, uid: u32) -> Target {
    let nfs = service.nfs().port();
    let port = if version.is_smb() { port(service).parse().unwrap() } else { nfs };
    Target {
        host: "127.0.0.1".to_owned(),
        port,
        mount_port: nfs,
        others: Vec::new(),
        export: "/v1".to_owned(),
        version,
        user: version.is_smb().then(|| login(uid)),
        channels: 1,
    }
}

pub fn identity(uid: u32) -> Identity {
    Identity { nt_hash: Some(NtHash::from_password(PASSWORD)), ..Identity::new(uid, uid) }
}

/// A client of one user that remembers how it was refused.
struct Writer {
    client: Client,
    version: Version,
    random: Random,
    prefix: String,
    made: Vec<(String, Handle, u64)>,
    refusals: BTreeSet<String>,
    count: u32,
}

impl Writer {
    fn new(service: &Service, uid: u32, number: u32) -> Self {
        let version = VERSIONS[number as usize % VERSIONS.len()];
        let client = Client::mount(&target(service, version, uid), &identity(uid)).unwrap();
        let random = Random(u64::from(uid) << 32 | u64::from(number));
        let prefix = format!("u{uid}-w{number}");
        let (made, refusals) = Default::default();
        Self { client, version, random, prefix, made, refusals, count: 0 }
    }

    /// The result of a call that a quota may refuse. `None`: it has.
    fn allowed<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        let expected = match self.version {
            Version::V3 => "NFS3ERR_DQUOT",
            Version::V41 | Version::V42 => "NFS4ERR_DQUOT",
            Version::Smb(_) => "DISK_FULL",
        };
        match result {
            Ok(value) => Some(value),
            Err(Error::Refused { status, .. }) if status == expected => {
                self.refusals.insert(status);
                None
            }
            Err(error) => panic!("{}: {error}", self.prefix),
        }
    }

    fn make(&mut self) -> bool {
        self.count += 1;
        let (name, root) = (format!("{}-{}", self.prefix, self.count), self.client.root());
        let made = self.client.create(&root, &name, 0o666);
        let Some(handle) = self.allowed(made) else { return false };
        self.made.push((name, handle, 0));
        true
    }

    /// Appends to the last file.
    fn append(&mut self, bytes: u64) -> bool {
        let Some((_, handle, size)) = self.made.last().cloned() else { return false };
        let data = vec![7; usize::try_from(bytes).unwrap()];
        let written = self.client.write(&handle, size, &data, StableHow::Unstable);
        let Some(written) = self.allowed(written) else { return false };
        self.made.last_mut().unwrap().2 += u64::from(written.count);
        true
    }

    /// Grows until nothing more is allowed.
    fn fill(&mut self) {
        self.make();
        loop {
            let bytes = (self.random.below(CHUNK_MAX / BLOCK) + 1) * BLOCK;
            let is_large = self.made.last().is_some_and(|(.., size)| *size > LIMIT_BYTES / 16);
            let grows = if is_large { self.make() } else { self.append(bytes) };
            if !grows && !self.append(BLOCK) {
                return;
            }
        }
    }

    /// Random steps that grow, shrink and fail.
    fn churn(&mut self) {
        for _ in 0..STEPS {
            match self.random.below(8) {
                0 | 1 if !self.made.is_empty() => {
                    let place = usize::try_from(self.random.below(self.made.len() as u64)).unwrap();
                    let (name, ..) = self.made.remove(place);
                    let root = self.client.root();
                    let removed = self.client.remove(&root, &name);
                    removed.unwrap_or_else(|error| panic!("{}: {error}", self.prefix));
                }
                2 | 3 => _ = self.make(),
                // Past the end, with a hole that counts.
                4 if !self.made.is_empty() => {
                    self.made.last_mut().unwrap().2 += self.random.below(20) * BLOCK;
                    self.append(1);
                }
                _ => {
                    let bytes = self.random.below(CHUNK_MAX) + 1;
                    self.append(bytes);
                }
            }
        }
    }
}

/// Bytes in blocks and files by owner, as the directory on the host has them.
fn walked(dir: &Path) -> BTreeMap<u32, (u64, u64)> {
    let mut owners = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        // A file removed meanwhile has no attributes.
        let Ok(metadata) = entry.unwrap().metadata() else { continue };
        if metadata.is_file() {
            let of: &mut (u64, u64) = owners.entry(metadata.uid()).or_default();
            of.0 += metadata.size().next_multiple_of(BLOCK);
            of.1 += 1;
        }
    }
    owners
}

/// Use by owners as the service reports it.
fn reported(service: &Service) -> BTreeMap<u32, (u64, u64)> {
    let report = service.json(&["quota", "report", "v1"]);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let owners = report["owners"].as_array().unwrap().iter().filter(|owner| owner["kind"] == "user");
    let owners = owners.map(|owner| {
        let uid = u32::try_from(number(&owner["id"])).unwrap();
        (uid, (number(&owner["used_bytes"]), number(&owner["used_files"])))
    });
    owners.filter(|(uid, _)| (FIRST_UID..FIRST_UID + USERS).contains(uid)).collect()
}

#[track_caller]
fn assert_within(usage: &BTreeMap<u32, (u64, u64)>) {
    for (uid, (bytes, files)) in usage.range(FIRST_UID..FIRST_UID + USERS) {
        assert!(
            *bytes <= LIMIT_BYTES && *files <= LIMIT_FILES,
            "user {uid} has {bytes} bytes in {files} files"
        );
    }
}

/// Runs all writers side by side, and `watch` again and again beside them.
fn run(writers: &mut [Writer], act: impl Fn(&mut Writer) + Sync, watch: impl Fn() + Sync) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                watch();
            }
        });
        let act = &act;
        let running: Vec<_> = writers.iter_mut().map(|writer| scope.spawn(move || act(writer))).collect();
        let ended: Vec<_> = running.into_iter().map(|thread| thread.join().is_ok()).collect();
        is_done.store(true, Ordering::Relaxed);
        watching.join().unwrap();
        assert!(ended.into_iter().all(|is_ok| is_ok), "a writer failed");
    });
}

/// Root over NFSv3, who gives files to other users.
struct Giver {
    connection: Connection,
    root: Handle,
}

impl Giver {
    fn new(service: &Service) -> Self {
        let target = target(service, Version::V3, 0);
        let root = Client::mount(&target, &Identity::new(0, 0)).unwrap().root();
        Self { connection: Connection::open(target.address().unwrap(), Identity::new(0, 0)).unwrap(), root }
    }

    /// Gives away a file. Whether the quota of the new owner allowed it; `None` for a file that is gone.
    fn give(&mut self, name: &str, uid: u32) -> Option<bool> {
        let root = self.root.clone();
        let what = v3::DirOpArgs { dir: root.wire(), name: name.as_bytes() };
        let found = self.call(v3::Procedure::LOOKUP, &v3::LookupArgs { what });
        let v3::LookupReply::Ok(ok) = v3::LookupReply::decode(&mut xdr::Reader::new(&found)).unwrap() else {
            return None;
        };
        let new_attributes = Sattr { uid: Some(uid), ..Sattr::default() };
        let set = SetattrArgs { object: ok.object, new_attributes, guard: None };
        let reply = self.call(v3::Procedure::SETATTR, &set);
        match SetattrReply::decode(&mut xdr::Reader::new(&reply)).unwrap() {
            Reply::Ok(_) => Some(true),
            Reply::Err(v3::Status::DQUOT, _) => {
                let object = GetattrArgs { object: ok.object };
                let reply = self.call(v3::Procedure::GETATTR, &object);
                if let Reply::Ok(ok) = v3::GetattrReply::decode(&mut xdr::Reader::new(&reply)).unwrap() {
                    assert_ne!(ok.obj_attributes.uid, uid, "{name} was given away all the same");
                }
                Some(false)
            }
            Reply::Err(v3::Status::STALE | v3::Status::NOENT | v3::Status::JUKEBOX, _) => None,
            Reply::Err(status, _) => panic!("{name}: {status:?}"),
        }
    }

    fn call(&mut self, procedure: v3::Procedure, args: &impl Encode) -> Vec<u8> {
        self.connection.call(v3::PROGRAM, v3::VERSION, procedure.0, args).unwrap().rest().to_vec()
    }
}

#[test]
fn no_user_passes_its_limit_over_three_protocols_at_once() {
    let Some(service) = service() else { return };
    let [dir] = &service.volume_dirs()[..] else { panic!("one volume") };
    let each =
        (FIRST_UID..FIRST_UID + USERS).flat_map(|uid| (0..WRITERS_OF_USER).map(move |number| (uid, number)));
    let mut writers: Vec<_> = each.map(|(uid, number)| Writer::new(&service, uid, number)).collect();
    assert_eq!(writers.len(), 64);

    // Files only grow, so that any moment of the directory is a bound for the present one.
    run(&mut writers, Writer::fill, || assert_within(&walked(dir)));
    // Two refused at once may have left room for one.
    writers.iter_mut().for_each(|writer| while writer.append(BLOCK) {});
    let full = walked(dir);
    assert_eq!(full, reported(&service), "refusals give back what they took");
    assert_eq!(full.len(), USERS as usize);
    for (uid, (bytes, files)) in full {
        assert_eq!(bytes, LIMIT_BYTES, "user {uid} with {files} files has not got all that it may have");
    }

    // Growth, deletion, refusals, and files that change their owners.
    run(&mut writers, Writer::churn, || assert_within(&reported(&service)));
    for version in VERSIONS {
        let of_version = writers.iter().filter(|writer| writer.version == version);
        assert!(
            of_version.into_iter().any(|writer| !writer.refusals.is_empty()),
            "{version} refused nothing"
        );
    }
    // Removed files count until the last client has closed them.
    drop(writers);
    eventually("the end of removed files", || walked(dir) == reported(&service));
    assert_within(&walked(dir));
    assert_eq!(service.says(&["quota", "check", "v1"]), "No differences.\n");
}

#[test]
fn files_given_away_among_writers_are_charged_once() {
    let Some(service) = service() else { return };
    let [dir] = &service.volume_dirs()[..] else { panic!("one volume") };
    let each = (FIRST_UID..FIRST_UID + USERS).flat_map(|uid| (0..3).map(move |number| (uid, number)));
    let mut writers: Vec<_> = each.map(|(uid, number)| Writer::new(&service, uid, number)).collect();
    let names =
        |writer: &Writer| (1..=20).map(|count| format!("{}-{count}", writer.prefix)).collect::<Vec<_>>();
    let all: Vec<String> = writers.iter().flat_map(names).collect();
    let given = [AtomicBool::new(false), AtomicBool::new(false)];
    let give = || {
        let (mut giver, mut random) = (Giver::new(&service), Random(7));
        for _ in 0..200 {
            let name = &all[usize::try_from(random.below(all.len() as u64)).unwrap()];
            let uid = FIRST_UID + u32::try_from(random.below(USERS.into())).unwrap();
            if let Some(allowed) = giver.give(name, uid) {
                given[usize::from(allowed)].store(true, Ordering::Relaxed);
            }
        }
        assert_within(&reported(&service));
    };
    // Each of these writers makes files and writes them. A file may be given away at any moment, between the steps of an SMB CREATE, too: its
    // maker is refused then.
    let act = |writer: &mut Writer| {
        for count in 1..=20 {
            let (name, root) = (format!("{}-{count}", writer.prefix), writer.client.root());
            let written = writer.client.create(&root, &name, 0o666).and_then(|handle| {
                let bytes = (writer.random.below(24) + 1) * BLOCK;
                let data = vec![7; usize::try_from(bytes).unwrap()];
                writer.client.write(&handle, 0, &data, StableHow::Unstable)
            });
            let is_expected = matches!(written, Ok(_) | Err(Error::Refused { .. }));
            assert!(is_expected, "{name}: {:?}", written.err());
        }
    };
    run(&mut writers, act, give);
    give();
    assert!(given.iter().all(|seen| seen.load(Ordering::Relaxed)), "both ends of a change of owners");
    drop(writers);
    assert_eq!(walked(dir), reported(&service));
    assert_within(&walked(dir));
    assert_eq!(service.says(&["quota", "check", "v1"]), "No differences.\n");
}
