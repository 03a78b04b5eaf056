//! Quotas above the backend: streams count for the owners of their file, and a refused change of owners changes nothing.

use std::sync::Arc;
use vfs::acl::Rights;
use vfs::file::SetSecurity;
use vfs::{
    Access, Blocking, Caller, Disposition, Durability, Export, ExportRule, File, FsError, FsResult,
    PendingSync, QuotaKind, QuotaLimits, QuotaOwner, QuotaRule, QuotaTarget, SecurityStyle, SetAttrs,
    Stability, Time, Usage, Volume, VolumeId,
};
use vfs_testing::MemFs;

const BLOCK: u64 = 4096;

struct Rig {
    root: File,
    volume: Arc<Volume>,
}

fn root_caller() -> Caller {
    Caller::new(0, 0, [])
}

fn rig(style: SecurityStyle) -> Rig {
    let fs = MemFs::new(Arc::new(Time::default));
    let volume = Volume::new(VolumeId(1), "one", Arc::new(fs), Durability::Sync, 1);
    let volume = Arc::new(volume.with_security_style(style).unwrap());
    let root = Arc::new(Export::new("/one", Arc::clone(&volume), vec![ExportRule::everybody()])).root();
    Rig { root, volume }
}

impl Rig {
    fn limit(&self, rules: &[(QuotaOwner, u64)]) {
        let rule = |&(owner, bytes): &(QuotaOwner, u64)| QuotaRule {
            target: QuotaTarget { kind: owner.kind, id: Some(owner.id) },
            limits: QuotaLimits { bytes: Some(bytes), ..QuotaLimits::default() },
        };
        let rules: Vec<_> = rules.iter().map(rule).collect();
        self.volume.quotas().unwrap().set_rules(&rules).unwrap();
    }

    fn used(&self, owner: QuotaOwner) -> Usage {
        self.volume.quotas().unwrap().usage(owner).unwrap().used
    }

    /// A file of user 1 and group 1.
    fn file(&self, name: &[u8]) -> File {
        let (caller, mut pending) = (root_caller(), PendingSync::default());
        let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
        let made = self.root.create(&caller, name, Disposition::CreateNew, &set, &mut pending).unwrap();
        self.chown(&made.file, 1, 1).unwrap();
        made.file
    }

    fn chown(&self, file: &File, uid: u32, gid: u32) -> FsResult<()> {
        let set = SetAttrs { uid: Some(uid), gid: Some(gid), ..SetAttrs::default() };
        if self.volume.security_style() == SecurityStyle::Ntfs {
            let set = SetSecurity { uid: Some(uid), gid: Some(gid), ..SetSecurity::default() };
            return file
                .set_security(&root_caller(), Rights::ALL, &set, &mut PendingSync::default())
                .map(drop);
        }
        file.set_attrs(&root_caller(), &set, None, &mut PendingSync::default()).map(drop)
    }
}

fn write(file: &File, blocks: u64) -> FsResult<()> {
    let caller = root_caller();
    let (opened, _) = file.open(&caller, Access::WRITE, Blocking::Allowed)?;
    let data = vec![1; usize::try_from(blocks * BLOCK).unwrap()];
    opened.write(0, &data, Stability::File, &mut PendingSync::default()).map(drop)
}

fn stream(file: &File, name: &[u8], blocks: u64) -> FsResult<()> {
    write(&file.make_stream(&root_caller(), name, &mut PendingSync::default())?, blocks)
}

fn of(blocks: u64, files: u64) -> Usage {
    Usage { bytes: blocks * BLOCK, files }
}

#[test]
fn streams_count_for_the_owners_of_their_file() {
    for style in [SecurityStyle::Unix, SecurityStyle::Ntfs] {
        let rig = rig(style);
        rig.limit(&[(QuotaOwner::user(1), 8 * BLOCK)]);
        let file = rig.file(b"file");
        write(&file, 1).unwrap();
        stream(&file, b"one", 2).unwrap();
        stream(&file, b"two", 3).unwrap();
        assert_eq!(rig.used(QuotaOwner::user(1)), of(6, 3));
        assert_eq!(stream(&file, b"three", 3), Err(FsError::Quota));
        // The third stream stays, empty.
        rig.chown(&file, 2, 3).unwrap();
        assert_eq!([1, 2].map(|id| rig.used(QuotaOwner::user(id))), [of(0, 0), of(6, 4)], "{style:?}");
        assert_eq!([1, 3].map(|id| rig.used(QuotaOwner::group(id))), [of(0, 0), of(6, 4)], "{style:?}");
    }
}

#[test]
fn change_of_owners_is_refused_whole() {
    for style in [SecurityStyle::Unix, SecurityStyle::Ntfs] {
        // The second stream, then the file itself, finds no room.
        for room in [3, 5] {
            let rig = rig(style);
            let file = rig.file(b"file");
            write(&file, 1).unwrap();
            stream(&file, b"one", 2).unwrap();
            stream(&file, b"two", 3).unwrap();
            rig.limit(&[(QuotaOwner::user(2), room * BLOCK)]);
            let before = file.attrs(Blocking::Allowed).unwrap();
            let list = || file.acl(&before, Blocking::Allowed).unwrap();
            let acl = list();
            assert_eq!(rig.chown(&file, 2, 2), Err(FsError::Quota));
            let after = file.attrs(Blocking::Allowed).unwrap();
            assert_eq!((after.uid, after.gid, after.mode), (1, 1, before.mode), "{style:?} {room}");
            assert_eq!(list(), acl, "{style:?} {room}");
            assert_eq!([1, 2].map(|id| rig.used(QuotaOwner::user(id))), [of(6, 3), of(0, 0)]);
            assert_eq!([1, 2].map(|id| rig.used(QuotaOwner::group(id))), [of(6, 3), of(0, 0)]);
        }
    }
}

#[test]
fn room_is_that_of_the_strictest_rule() {
    let rig = rig(SecurityStyle::Unix);
    let file = rig.file(b"file");
    write(&file, 2).unwrap();
    assert_eq!(rig.volume.quota_room(1, 1), None, "no rules");
    rig.limit(&[(QuotaOwner::user(1), 10 * BLOCK), (QuotaOwner::group(1), 5 * BLOCK)]);
    let room = rig.volume.quota_room(1, 1).unwrap();
    assert_eq!((room.bytes_max, room.bytes, room.bytes_used), (Some(5 * BLOCK), Some(3 * BLOCK), 2 * BLOCK));
    let other = rig.volume.quota_room(1, 7).unwrap();
    assert_eq!((other.bytes, other.files), (Some(8 * BLOCK), None));
    let kind = QuotaKind::Group;
    assert_eq!(rig.volume.quotas().unwrap().rules()[1].target, QuotaTarget { kind, id: Some(1) });
}
