//! Locks of files in snapshots: nobody writes there, so nobody locks others out.

use super::*;
use vfs::{Snapshot, ViewId};

impl LockTest {
    /// From now on the file is that of a snapshot.
    fn go_back(&mut self) {
        self.fs.snapshots().unwrap().create(ViewId(1)).unwrap();
        self.volume.set_snapshots(vec![Snapshot { view: ViewId(1), name: "one".to_owned(), created: NOW }]);
        let (export, key) = self.env.service.signer.verify(&self.file).unwrap();
        self.file = self.env.service.signer.sign(export, &key.in_view(ViewId(1))).bytes().to_vec();
    }
}

#[test]
fn files_of_snapshots_are_locked_like_those_of_a_read_only_export() {
    let shared = LockSpec { exclusive: false, ..WHOLE };
    let mut read_only = LockTest::new();
    let rule = ExportRule { read_only: true, ..rule(&["10.1.0.0/16"]) };
    let export = Export::new("/v", Arc::clone(&read_only.volume), vec![rule]);
    read_only.env.service.namespace.store(Arc::new(vfs::Namespace::new([export])));
    let mut test = LockTest::new();
    let live = test.file.clone();
    test.go_back();
    for test in [&mut read_only, &mut test] {
        for exclusive in [true, false] {
            let (spec, expected) = match exclusive {
                true => (WHOLE, Status::ROFS),
                false => (shared, Status::GRANTED),
            };
            for client in [ANN, BEN] {
                assert_eq!(test.at(client).lock(spec), expected, "{client} {exclusive}");
            }
            let in_version_3 = status(test.lock_with::<u32>(VERSION_3, spec, &test.file));
            assert_eq!(in_version_3, if exclusive { Status::DENIED_NOLOCKS } else { Status::GRANTED });
        }
        for mode in [ShareMode::DENY_READ, ShareMode::DENY_WRITE, ShareMode::DENY_BOTH] {
            assert_ne!(test.share(Procedure::SHARE, mode, ShareAccess::READ), Status::GRANTED, "{mode:?}");
        }
        assert_eq!(test.share(Procedure::SHARE, ShareMode::DENY_NONE, ShareAccess::READ), Status::GRANTED);
    }
    let exclusive = status(test.lock_with::<u64>(VERSION_4, WHOLE, &live));
    assert_eq!(exclusive, Status::GRANTED, "the live file is another one");
    assert_eq!(test.at(ANN).unlock(shared), Status::GRANTED);
}

#[test]
fn locks_of_a_deleted_snapshot_are_stale() {
    let mut test = LockTest::new();
    test.go_back();
    test.at(ANN);
    assert_eq!(test.lock(LockSpec { exclusive: false, ..WHOLE }), Status::GRANTED);
    test.volume.set_snapshots(Vec::new());
    assert_eq!(test.unlock(WHOLE), Status::STALE_FH);
    assert_eq!(test.lock(LockSpec { exclusive: false, ..WHOLE }), Status::STALE_FH);
}
