//! Compares the declarations of this crate with the header of the library, by a C compiler.

use super::library::{DECLARATIONS, NAMES};
use super::types::{Statx, VersionedInode};
use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::process::{Command, Stdio};

/// The C type for a type of [`DECLARATIONS`].
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(pointee) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(pointee));
    }
    if let Some(pointee) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(pointee));
    }
    match rust {
        "Mount" => "struct ceph_mount_info *",
        "Perms" => "const UserPerm *",
        "MountInfo" => "struct ceph_mount_info",
        "Inode" => "Inode",
        "Fh" => "Fh",
        "Directory" => "struct ceph_dir_result",
        "UserPerm" => "UserPerm",
        "VersionedInode" => "vinodeno_t",
        "Statx" => "struct ceph_statx",
        "dirent" => "struct dirent",
        "flock" => "struct flock",
        "libc::statvfs" => "struct statvfs",
        "c_char" => "char",
        "c_void" => "void",
        "c_int" => "int",
        "c_uint" => "unsigned",
        "uid_t" | "gid_t" | "mode_t" => rust,
        "i64" => "int64_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        "()" => "void",
        other => panic!("no C type for {other}"),
    }
    .to_owned()
}

/// A program that compiles only if functions and structures are those of the header.
fn program() -> String {
    let mut c = String::from(
        "#define _FILE_OFFSET_BITS 64\n#include <stddef.h>\n#include <dirent.h>\n#include <cephfs/libcephfs.h>\n",
    );
    for (name, (arguments, result)) in NAMES.iter().zip(DECLARATIONS) {
        let arguments: Vec<String> = arguments.iter().map(|argument| c_type(argument)).collect();
        let list = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
        let _written = writeln!(c, "{} (*check_{name})({list}) = ceph_{name};", c_type(result));
    }
    let mut equal = |expression: &str, value: usize| {
        let _written = writeln!(c, "_Static_assert({expression} == {value}, \"{expression}\");");
    };
    equal("sizeof(struct ceph_statx)", size_of::<Statx>());
    equal("sizeof(vinodeno_t)", size_of::<VersionedInode>());
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
        equal(&format!("offsetof(struct ceph_statx, {field})"), offset);
    }
    c
}

#[test]
#[ignore = "needs the header of libcephfs: cargo xtask ceph"]
fn declarations_are_those_of_the_header() {
    let arguments = ["-x", "c", "-fsyntax-only", "-Werror", "-"];
    let mut compiler =
        Command::new("cc").args(arguments).stdin(Stdio::piped()).spawn().expect("a C compiler");
    compiler.stdin.take().expect("a pipe").write_all(program().as_bytes()).expect("the compiler reads");
    assert!(compiler.wait().expect("the compiler ends").success(), "a declaration differs from the header");
}
