//! Random changes of two files, as fsx makes them, with a snapshot every 1,000: the live files and the files of every
//! snapshot have what a model says, byte by byte.

use crate::ground::{Ground, Tree, is_long};
use crate::quota_writers::{Random, furnished, identity, target};
use crate::rig::Service;
use crate::smb::SMB;
use crate::ways::{Call, Nfs4, Smb, V3, Way, name};
use smb_wire::create::OplockLevel;
use std::collections::BTreeMap;
use wire_client::{Client, Handle, Protection, Version};

const UID: u32 = 2001;
/// The second one is the source of copies and clones.
const FILES: u64 = 2;
const BYTES_MAX: u64 = 256 << 10;
const BLOCK: u64 = 4096;
const READ_BYTES: u32 = 64 << 10;
/// Operations between two snapshots.
const BETWEEN: u32 = 1000;

type Files = [Vec<u8>; 2];

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

fn random_call(random: &mut Random, model: &Files) -> Call {
    let file = random.below(FILES);
    let from = 1 - file;
    let offset = random.below(BYTES_MAX);
    let len = (random.below(BYTES_MAX / 4) + 1).min(BYTES_MAX - offset);
    let block = random.below(BYTES_MAX / BLOCK / 2) * BLOCK;
    let source = model[size(from)].len() as u64;
    match random.below(10) {
        0..5 => Call::Write { file, offset, len, fill: u8::try_from(random.below(255) + 1).unwrap() },
        5 | 6 => Call::Resize { file, size: offset },
        7 => Call::Deallocate { file, offset, len },
        8 if source > 0 => Call::Copy { from, file, offset, len: (random.below(source) + 1).min(len) },
        9 if source >= BLOCK => {
            let blocks = random.below((source / BLOCK).min(16)) + 1;
            Call::Clone { from, file, offset: block, len: blocks * BLOCK }
        }
        _ => Call::Resize { file, size: model[size(file)].len() as u64 / 2 },
    }
}

/// The change that a call makes of the files.
fn apply(call: Call, model: &mut Files) {
    let grow = |file: &mut Vec<u8>, end: usize| file.resize(file.len().max(end), 0);
    match call {
        Call::Write { file, offset, len, fill } => {
            let (file, start, end) = (&mut model[size(file)], size(offset), size(offset + len));
            grow(file, end);
            file[start..end].fill(fill);
        }
        Call::Resize { file, size: bytes } => model[size(file)].resize(size(bytes), 0),
        Call::Deallocate { file, offset, len } => {
            let file = &mut model[size(file)];
            let end = size(offset + len).min(file.len());
            file[size(offset).min(end)..end].fill(0);
        }
        Call::Copy { from, file, offset, len } | Call::Clone { from, file, offset, len } => {
            let data = model[size(from)][..size(len)].to_vec();
            let (file, start, end) = (&mut model[size(file)], size(offset), size(offset + len));
            grow(file, end);
            file[start..end].copy_from_slice(&data);
        }
        other => unreachable!("{other:?} is not among the calls"),
    }
}

struct Fsx {
    service: Service,
    way: Box<dyn Way>,
    client: Client,
    model: Files,
    /// The files of each snapshot.
    snapshots: BTreeMap<u32, Files>,
    /// The name that leads into snapshots.
    top: &'static str,
}

impl Fsx {
    fn new(tree: &Tree, version: Version) -> Self {
        let service = furnished(Service::start_in(&tree.path, &SMB));
        let way: Box<dyn Way> = match version {
            Version::V3 => Box::new(V3::new(&service, UID)),
            Version::V41 => Box::new(Nfs4::new(&service, UID, 1)),
            Version::V42 => Box::new(Nfs4::new(&service, UID, 2)),
            Version::Smb(_) => Box::new(Smb::new(&service, UID, OplockLevel::BATCH)),
        };
        let client = Client::mount(&target(&service, version, UID), &identity(UID)).unwrap();
        let top = if version.is_smb() { "~snapshot" } else { ".snapshot" };
        let mut fsx = Self { service, way, client, model: Files::default(), snapshots: BTreeMap::new(), top };
        for file in 0..FILES {
            let root = fsx.client.root();
            fsx.client.create(&root, &name(file), 0o666).unwrap();
        }
        fsx
    }

    fn run(&mut self, seed: u64, steps: u32) {
        let mut random = Random(seed);
        for step in 0..steps {
            let call = random_call(&mut random, &self.model);
            match self.way.run(call) {
                Some(Ok(())) => apply(call, &mut self.model),
                // FSCTL_DUPLICATE_EXTENTS_TO_FILE lets no file grow.
                Some(Err(status)) if status == "NOT_SUPPORTED" && self.grows_by_clone(call) => {}
                Some(Err(status)) => panic!("step {step}: {call:?}: {status}"),
                None => {}
            }
            if random.below(20) == 0 {
                self.compare_live(&format!("step {step}, after {call:?}"));
            }
            if step % BETWEEN == BETWEEN - 1 {
                let number = step / BETWEEN;
                self.service.says(&["snapshot", "create", "v1", &format!("s{number}")]);
                self.snapshots.insert(number, self.model.clone());
            }
        }
    }

    fn grows_by_clone(&self, call: Call) -> bool {
        let Call::Clone { file, offset, len, .. } = call else { return false };
        self.top == "~snapshot" && size(offset + len) > self.model[size(file)].len()
    }

    fn content(&mut self, path: &str) -> Vec<u8> {
        let file: Handle = self.client.walk(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut data = Vec::new();
        loop {
            let chunk = self.client.read(&file, data.len() as u64, READ_BYTES).unwrap();
            data.extend_from_slice(chunk.data);
            if chunk.eof || chunk.data.is_empty() {
                return data;
            }
        }
    }

    fn compare(&mut self, what: &str, path: &str, want: &[u8]) {
        let got = self.content(path);
        let differs = got.iter().zip(want).position(|(got, want)| got != want);
        assert!(got == want, "{what}: {path}: {} of {} bytes, other at {differs:?}", got.len(), want.len());
    }

    fn compare_live(&mut self, what: &str) {
        for file in 0..FILES {
            let want = std::mem::take(&mut self.model[size(file)]);
            self.compare(what, &name(file), &want);
            self.model[size(file)] = want;
        }
    }

    fn compare_snapshots(&mut self, what: &str) {
        for (number, files) in self.snapshots.clone() {
            for (file, want) in (0..FILES).zip(files) {
                self.compare(what, &format!("{}/s{number}/{}", self.top, name(file)), &want);
            }
        }
    }

    /// Deletes every other snapshot. What the others need stays.
    fn delete_some(&mut self) {
        let odd: Vec<u32> = self.snapshots.keys().copied().filter(|number| number % 2 == 1).collect();
        for number in odd {
            self.service.says(&["snapshot", "delete", "v1", &format!("s{number}"), "--yes"]);
            self.snapshots.remove(&number);
        }
    }
}

fn fsx(version: Version) {
    let grounds = if is_long() { &[Ground::Btrfs, Ground::Xfs][..] } else { &[Ground::Xfs] };
    for ground in grounds {
        let Some(tree) = Tree::new(*ground) else { continue };
        eprintln!("on {ground:?}");
        let mut fsx = Fsx::new(&tree, version);
        fsx.run(1, if is_long() { 100_000 } else { 10_000 });
        assert_eq!(fsx.snapshots.len(), if is_long() { 100 } else { 10 });
        fsx.compare_live("at the end");
        fsx.compare_snapshots("at the end");
        fsx.delete_some();
        fsx.compare_live("without every other snapshot");
        fsx.compare_snapshots("without every other snapshot");
    }
}

#[test]
fn fsx_over_nfsv3_leaves_every_snapshot_as_it_was() {
    fsx(Version::V3);
}

#[test]
fn fsx_over_nfsv4_2_leaves_every_snapshot_as_it_was() {
    fsx(Version::V42);
}

#[test]
fn fsx_over_smb_leaves_every_snapshot_as_it_was() {
    fsx(Version::Smb(Protection::Gmac));
}
