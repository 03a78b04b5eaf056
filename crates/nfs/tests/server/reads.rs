//! READs are counted by the source of their data, on every thread.

use crate::support::client::{Client, Running, system_clock, wait_until};
use crate::support::gate::Gate;
use crate::support::object::{name, new_inode};
use crate::support::{ALICE, Auth, BOB, VOLUME, decode};
use nfs_wire::v3::{FileHandle, Procedure, ReadArgs, ReadReply, Reply, StableHow, WriteArgs, WriteReply};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::Backend;
use vfs::backend::KEEP_SET_ID;
use vfs::qos::Kind;
use vfs::volume::traffic::ReadCounts;
use vfs_testing::{MemFs, UncheckedNode};

const FILE_BYTES: u32 = 4096;

/// A server with one file, and a backend that refuses nonblocking calls on demand.
struct Host {
    running: Running,
    file: Vec<u8>,
}

impl Host {
    fn new(cold_handles: bool, cold_reads: bool) -> Self {
        let fs = MemFs::new(system_clock());
        let made = fs.root().create_unchecked(name("data"), &new_inode(0o600)).unwrap();
        made.found.node.write(0, &[7; FILE_BYTES as usize], KEEP_SET_ID).unwrap();
        let (gate, control) = Gate::new(fs);
        control.cold_handles.store(cold_handles, Ordering::SeqCst);
        control.cold_reads.store(cold_reads, Ordering::SeqCst);
        let running = Running::new(gate);
        let file = running.handle(VOLUME, &made.found.node.key());
        Self { running, file }
    }

    fn read(&self, client: &mut Client, auth: Auth, offset: u32) -> bool {
        let args = ReadArgs { file: FileHandle(&self.file), offset: offset.into(), count: 512 };
        let answer = client.ask(1, auth, Procedure::READ, &args);
        matches!(decode::<ReadReply<'_>>(&answer), Reply::Ok(_))
    }

    fn write(&self, client: &mut Client) {
        let (file, stable) = (FileHandle(&self.file), StableHow::Unstable);
        let args = WriteArgs { file, offset: 0, count: 512, stable, data: &[7; 512] };
        let answer = client.ask(2, ALICE, Procedure::WRITE, &args);
        assert!(matches!(decode::<WriteReply>(&answer), Reply::Ok(_)));
    }

    /// The counts, once `count` READs are counted.
    fn reads(&self, count: u64) -> ReadCounts {
        let namespace = self.running.service.namespace.load();
        let volume = Arc::clone(&namespace.volume(VOLUME).unwrap().volume);
        // Calls are counted when the reply has left.
        wait_until("the READs", || volume.traffic().operation_counts(Kind::Read).ops == count);
        volume.reads().unwrap()
    }
}

#[test]
fn reads_from_memory_and_from_storage_are_counted_separately() {
    // Data may be in memory although finding the file needs storage.
    for (cold_handles, cold_reads) in [(false, false), (true, false), (false, true), (true, true)] {
        // On a connection that has just written, a storage thread answers.
        for writes in [false, true] {
            let host = Host::new(cold_handles, cold_reads);
            let mut client = host.running.connect();
            if writes {
                host.write(&mut client);
            }
            for offset in [0, 512, FILE_BYTES - 256] {
                assert!(host.read(&mut client, ALICE, offset));
            }
            let wanted = if cold_reads {
                ReadCounts { from_memory: 0, from_storage: 3 }
            } else {
                ReadCounts { from_memory: 3, from_storage: 0 }
            };
            assert_eq!(host.reads(3), wanted, "{cold_handles} {cold_reads} {writes}");
        }
    }
}

#[test]
fn a_refused_read_has_no_source() {
    for cold in [false, true] {
        let host = Host::new(cold, cold);
        let mut client = host.running.connect();
        assert!(!host.read(&mut client, BOB, 0));
        assert_eq!(host.reads(1), ReadCounts::default());
    }
}
