//! Compares the declarations of this crate with the header of libcephfs.

use super::header::{compile, program, require_equal};
use super::library::TABLE;
use super::types::{Statx, VersionedInode};
use std::mem::offset_of;

fn own_type(rust: &str) -> Option<&'static str> {
    Some(match rust {
        "Mount" => "struct ceph_mount_info *",
        "Perms" => "const UserPerm *",
        "MountInfo" => "struct ceph_mount_info",
        "Inode" => "Inode",
        "Fh" => "Fh",
        "Directory" => "struct ceph_dir_result",
        "UserPerm" => "UserPerm",
        "VersionedInode" => "vinodeno_t",
        "Statx" => "struct ceph_statx",
        _ => return None,
    })
}

#[test]
#[ignore = "needs the header of libcephfs: cargo xtask ceph"]
fn declarations_are_those_of_the_header() {
    let mut c = program(&["stddef.h", "dirent.h", "cephfs/libcephfs.h"], &TABLE, own_type);
    require_equal(&mut c, "sizeof(struct ceph_statx)", size_of::<Statx>());
    require_equal(&mut c, "sizeof(vinodeno_t)", size_of::<VersionedInode>());
    for (field, offset) in [
        ("stx_mask", offset_of!(Statx, mask)),
        ("stx_nlink", offset_of!(Statx, links)),
        ("stx_uid", offset_of!(Statx, uid)),
        ("stx_mode", offset_of!(Statx, mode)),
        ("stx_ino", offset_of!(Statx, inode)),
        ("stx_size", offset_of!(Statx, size)),
        ("stx_blocks", offset_of!(Statx, blocks)),
        ("stx_rdev", offset_of!(Statx, special_device)),
        ("stx_atime", offset_of!(Statx, accessed)),
        ("stx_ctime", offset_of!(Statx, changed)),
        ("stx_mtime", offset_of!(Statx, modified)),
        ("stx_btime", offset_of!(Statx, born)),
        ("stx_version", offset_of!(Statx, version)),
    ] {
        require_equal(&mut c, &format!("offsetof(struct ceph_statx, {field})"), offset);
    }
    compile(&c);
}
