//! CLONE and COPY of NFSv4.2 between two volumes (decision 0034), on file systems that share blocks and on others.

#[path = "../../posix/tests/fixture/ground.rs"]
mod ground;
#[path = "support/server.rs"]
mod server;
#[path = "support/session.rs"]
mod session;

use ground::{Ground, Tree};
use nfs_wire::v4::{Argument, CloneArgs, CopyArgs, CopyReply, OpReply, ReclaimCompleteArgs, Stateid, Status};
use server::{Running, export, volume};
use session::{Session, put, results};
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of the source.
const SIZE: usize = 8 << 20;
/// Maximum space that sharing blocks takes: the file system's own tables grow.
const TABLES: u64 = 1 << 20;

/// A volume `/from` with `f` in one directory, and `/to` with `g`, which is empty, in another.
struct World {
    client: Session,
    handles: [Vec<u8>; 2],
    paths: [PathBuf; 2],
    _server: Running,
}

fn data() -> Vec<u8> {
    (0..SIZE / 4)
        .flat_map(|word| u32::try_from(word).unwrap().wrapping_mul(0x9e37_79b9).to_be_bytes())
        .collect()
}

fn world(directories: [&Path; 2]) -> World {
    let named = [("from", "f"), ("to", "g")];
    let dirs = [0, 1].map(|side| directories[side].join(named[side].0));
    let paths = [0, 1].map(|side| dirs[side].join(named[side].1));
    dirs.iter().for_each(|dir| fs::create_dir(dir).unwrap());
    for (path, bytes) in paths.iter().zip([data(), vec![]]) {
        fs::write(path, bytes).unwrap();
        File::open(path).unwrap().sync_all().unwrap();
    }
    let exports = [(1, "/from", &dirs[0]), (2, "/to", &dirs[1])];
    let server = Running::new(exports.map(|(id, path, dir)| export(path, volume(id, dir))).into(), 30);
    let mut client = Session::over(TcpStream::connect(server.address).unwrap()).unwrap();
    client.minor = 2;
    client.begin(b"copier").unwrap();
    let complete = Argument::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    client.ask(&[complete]).unwrap();
    let handles = named.map(|(dir, file)| client.handle(&[dir, file]).unwrap());
    World { client, handles, paths, _server: server }
}

impl World {
    /// Does an operation from `f` to `g`: how the last one of the compound ended, and what a COPY has copied.
    fn between(&mut self, operation: Argument<'_>) -> (Status, u64) {
        let [from, to] = self.handles.clone();
        let reply = self.client.ask(&[put(&from), Argument::Savefh, put(&to), operation]).unwrap();
        let copied = match results(&reply).last() {
            Some(OpReply::Copy(CopyReply::Ok(ok))) => ok.response.count,
            _ => 0,
        };
        (Status(u32::from_be_bytes(reply[..4].try_into().unwrap())), copied)
    }

    fn clone(&mut self) -> Status {
        let (src_stateid, dst_stateid) = (Stateid::ANONYMOUS, Stateid::ANONYMOUS);
        let args = CloneArgs { src_stateid, dst_stateid, src_offset: 0, dst_offset: 0, count: 0 };
        self.between(Argument::Clone(args)).0
    }

    fn copy(&mut self) -> (Status, u64) {
        self.between(Argument::Copy(CopyArgs {
            src_stateid: Stateid::ANONYMOUS,
            dst_stateid: Stateid::ANONYMOUS,
            src_offset: 0,
            dst_offset: 0,
            count: 0,
            consecutive: true,
            synchronous: true,
            source_server: vec![],
        }))
    }

    fn target(&self) -> Vec<u8> {
        fs::read(&self.paths[1]).unwrap()
    }
}

/// Bytes in use of the file system of a directory, once all is written.
fn used(dir: &Path) -> u64 {
    rustix::fs::syncfs(File::open(dir).unwrap()).unwrap();
    let stat = rustix::fs::statvfs(dir).unwrap();
    (stat.f_blocks - stat.f_bfree) * stat.f_frsize
}

#[test]
fn a_clone_between_volumes_shares_blocks_until_one_is_written() {
    for ground in [Ground::Xfs, Ground::Btrfs] {
        let Some(tree) = Tree::new(ground) else { continue };
        let mut world = world([&tree.path; 2]);
        let before = used(&tree.path);
        assert_eq!(world.clone(), Status::OK, "{ground:?}");
        let took = used(&tree.path).saturating_sub(before);
        assert!(took < TABLES, "{ground:?}: {took} bytes for {SIZE} that are shared");
        assert!(world.target() == data(), "{ground:?}: the bytes are the source's");
        // Shared, not the same: what is written to the source stays there.
        let source = File::options().write(true).open(&world.paths[0]).unwrap();
        source.write_all_at(&[7; 1 << 20], 0).unwrap();
        assert!(world.target() == data(), "{ground:?}: the target is as it was");
        let took = used(&tree.path).saturating_sub(before);
        assert!(took >= 1 << 20, "{ground:?}: {took} bytes for 1 MiB that is no longer shared");
    }
}

#[test]
fn a_copy_between_volumes_has_the_bytes_with_and_without_shared_blocks() {
    for ground in [Ground::Xfs, Ground::Btrfs, Ground::Ext4, Ground::Tmpfs] {
        let Some(tree) = Tree::new(ground) else { continue };
        let mut world = world([&tree.path; 2]);
        assert_eq!(world.copy(), (Status::OK, SIZE as u64), "{ground:?}");
        assert!(world.target() == data(), "{ground:?}");
    }
}

#[test]
fn clone_without_shared_blocks_is_refused_and_leaves_nothing() {
    for ground in [Ground::Ext4, Ground::Tmpfs] {
        let Some(tree) = Tree::new(ground) else { continue };
        let mut world = world([&tree.path; 2]);
        assert_eq!(world.clone(), Status::NOTSUPP, "{ground:?}");
        assert!(world.target().is_empty(), "{ground:?}");
    }
}

#[test]
fn from_one_file_system_to_another_nothing_is_cloned_or_copied() {
    for [from, to] in [[Ground::Xfs, Ground::Tmpfs], [Ground::Xfs, Ground::Xfs]] {
        let (Some(from), Some(to)) = (Tree::new(from), Tree::new(to)) else { continue };
        let mut world = world([&from.path, &to.path]);
        assert_eq!(world.clone(), Status::XDEV);
        assert_eq!(world.copy(), (Status::XDEV, 0));
        assert!(world.target().is_empty());
    }
}
