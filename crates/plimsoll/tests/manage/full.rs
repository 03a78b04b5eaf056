//! A disk that is full to the last byte, or has no inode left: the service starts, so that clients can read and delete.

use crate::mount::mount;
use crate::rig::Service;
use nfs_wire::v3::{StableHow, Status};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A small file system of its own, at a directory.
struct Disk {
    dir: tempfile::TempDir,
}

fn run(program: &str, args: &[&str], more: &[&Path]) {
    assert!(Command::new(program).args(args).args(more).status().unwrap().success(), "{program} {args:?}");
}

impl Disk {
    fn tmpfs() -> Self {
        let dir = tempfile::tempdir().unwrap();
        run("mount", &["-t", "tmpfs", "-o", "size=24m,nr_inodes=200,mode=0700", "tmpfs"], &[dir.path()]);
        Self { dir }
    }

    fn ext4() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        image.as_file().set_len(48 << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", "-N", "200"], &[image.path()]);
        // Mounted, the image lives on without its name.
        run("mount", &["-o", "loop"], &[image.path(), dir.path()]);
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Takes every byte that is left, and every inode if `inodes`.
    fn fill(&self, inodes: bool) {
        let fillers = self.path().join("fillers");
        fs::create_dir_all(&fillers).unwrap();
        let mut file = fs::File::create(fillers.join("bytes")).unwrap();
        let mut chunk = vec![1; 1 << 20];
        loop {
            match file.write(&chunk) {
                Ok(_) => {}
                Err(_) if chunk.len() > 1 => chunk.truncate(chunk.len() / 2),
                Err(_) => break,
            }
        }
        if inodes {
            (0..).find(|n| fs::File::create(fillers.join(format!("inode-{n}"))).is_err());
        }
        // Blocks that the first file left because they were reserved for it.
        file.sync_all().ok();
        (0..).find(|n| fs::write(self.path().join(format!("fillers/rest-{n}")), [1; 4096]).is_err());
    }

    /// Frees the space that [`Disk::fill`] took.
    fn relieve(&self) {
        fs::remove_dir_all(self.path().join("fillers")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["-l"], &[self.path()]);
    }
}

/// Checks after a start that a client reads, deletes and creates files on a full disk.
fn clients_go_on(service: &Service, round: usize) {
    let mut client = mount(service, "/v1").unwrap();
    let root = client.root();
    let file = client.walk("kept").unwrap();
    assert_eq!(client.read(&file, 0, 4096).unwrap().data, [7; 4096], "round {round}");
    client.attributes(&file).unwrap();
    let large = client.walk("large").unwrap();
    let size = client.attributes(&large).unwrap().size;
    let refused = client.write(&large, size, &[1; 1 << 20], StableHow::FileSync).unwrap_err();
    assert!(refused.is(Status::NOSPC), "round {round}: {refused}");
    assert_eq!(client.attributes(&large).unwrap().size, size, "round {round}");
    client.remove(&root, "large").unwrap();
    let again = client.create(&root, "large", 0o644).unwrap();
    for at in 0..3 {
        client.write(&again, at << 20, &[2; 1 << 20], StableHow::FileSync).unwrap();
    }
}

fn survives_being_full(disk: &Disk) {
    let mut service = Service::start_on(disk.path());
    service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "1GiB"]);
    let open = ["--allow", "127.0.0.1", "--squash", "none"];
    service.says(&[&["volume", "create", "v1", "--pool", "p1", "--size", "512MiB"][..], &open].concat());
    service.says(&[&["volume", "create", "v2", "--pool", "p1", "--size", "64MiB"][..], &open].concat());
    let mut client = mount(&service, "/v1").unwrap();
    let root = client.root();
    let kept = client.create(&root, "kept", 0o644).unwrap();
    client.write(&kept, 0, &[7; 4096], StableHow::FileSync).unwrap();
    let large = client.create(&root, "large", 0o644).unwrap();
    for at in 0..3 {
        client.write(&large, at << 20, &[2; 1 << 20], StableHow::FileSync).unwrap();
    }
    for (round, (inodes, is_crash)) in
        [(false, true), (false, false), (true, true), (true, false)].into_iter().enumerate()
    {
        disk.fill(inodes);
        if is_crash {
            service.kill()
        } else {
            service.stop()
        }
        // Once more, now that the end has given something back.
        disk.fill(inodes);
        service.start_again();
        let warned = service.says(&["warning", "list"]);
        assert!(warned.contains("disk-full"), "round {round}: {warned}");
        clients_go_on(&service, round);
        // There is room for what management writes, even now.
        disk.fill(inodes);
        service.says(&["volume", "update", "v2", "--label", &format!("round={round}")]);
        disk.relieve();
        assert!(!service.says(&["warning", "list"]).contains("disk-full"), "round {round}");
        // What was given up is kept aside again.
        service.stop();
        service.start_again();
    }
    disk.fill(true);
    service.says(&["volume", "delete", "v2", "--yes"]);
    disk.relieve();
}

#[test]
fn a_service_starts_on_a_full_disk_in_memory() {
    survives_being_full(&Disk::tmpfs());
}

#[test]
fn a_service_starts_on_a_full_disk() {
    survives_being_full(&Disk::ext4());
}

/// Without the reserve, management refuses changes and says why; clients are still served.
#[test]
fn without_a_reserve_management_only_reads() {
    for inodes in [false, true] {
        let disk = Disk::tmpfs();
        let mut service = Service::start_on(disk.path());
        service.says(&["pool", "create", "p1", "--level", "plimsoll/unlimited", "--size", "1GiB"]);
        let create = ["volume", "create", "v1", "--pool", "p1", "--size", "64MiB", "--squash", "none"];
        service.says(&[&create[..], &["--allow", "127.0.0.1"]].concat());
        let mut client = mount(&service, "/v1").unwrap();
        let root = client.root();
        for (name, bytes) in [("kept", 4096), ("large", 1 << 20)] {
            let file = client.create(&root, name, 0o644).unwrap();
            client.write(&file, 0, &vec![7; bytes], StableHow::FileSync).unwrap();
        }
        service.stop();
        fs::remove_dir_all(disk.path().join("reserve")).unwrap();
        // So that the commands find the service: without room it cannot tell where it is.
        fs::write(disk.path().join("service.json"), [b' '; 200]).unwrap();
        disk.fill(inodes);
        service.start_again();
        let said =
            service.refuses(&["pool", "create", "p2", "--level", "plimsoll/unlimited", "--size", "1GiB"]);
        assert!(said.contains("is full") && said.contains("delete files"), "{said}");
        assert!(service.says(&["volume", "list"]).contains("v1"));
        let mut client = mount(&service, "/v1").unwrap();
        let file = client.walk("kept").unwrap();
        assert_eq!(client.read(&file, 0, 4096).unwrap().data, [7; 4096]);
        client.remove(&root, "large").unwrap();
        disk.relieve();
        service.says(&["pool", "create", "p2", "--level", "plimsoll/unlimited", "--size", "1GiB"]);
    }
}
