//! After a crash: volumes serve at once, even if their files must be counted, and the status shows the progress.

use crate::mount::{fsstat, mount};
use crate::rig::{Service, eventually};
use nfs_wire::v3::{StableHow, Status};
use std::path::PathBuf;
use std::process::Command;

/// Something mounted, until it is dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        assert!(Command::new("umount").arg(&self.0).status().unwrap().success());
    }
}

#[test]
fn volumes_serve_before_they_are_counted() {
    let mut service = Service::with_volume("1TiB", &[]);
    let more = [
        "volume",
        "create",
        "v2",
        "--pool",
        "p1",
        "--size",
        "1TiB",
        "--allow",
        "127.0.0.1",
        "--squash",
        "none",
    ];
    service.says(&more);
    for volume in ["/v1", "/v2"] {
        let mut client = mount(&service, volume).unwrap();
        let root = client.root();
        let dir = client.make_dir(&root, "dir", 0o755).unwrap();
        let file = client.create(&dir, "file", 0o644).unwrap();
        client.write(&file, 0, &[7; 10_000], StableHow::FileSync).unwrap();
    }
    assert!(!service.says(&["status"]).contains("Counting"));
    service.kill();
    // What another file system hides cannot be counted: the count of v2 does not end.
    let id = service.volume_dirs().into_iter().find(|dir| dir.join("dir/file").exists()).unwrap();
    let mounted = Mounted(id.join("dir"));
    assert!(
        Command::new("mount")
            .args(["-t", "tmpfs", "-o", "mode=0700", "tmpfs"])
            .arg(&mounted.0)
            .status()
            .unwrap()
            .success()
    );
    service.start_again();

    let status = || service.json(&["status"])["counting"].as_str().unwrap_or_default().to_owned();
    eventually("one is counted", || {
        status().starts_with("1 of 2 volumes, ") && status().ends_with(", 1 failed")
    });
    assert!(
        service
            .says(&["status"])
            .contains("files so far, 1 failed; a volume can be read before it is counted")
    );
    let listed = service.json(&["warning", "list"]);
    let warned = listed["items"].as_array().unwrap().iter().find(|one| one["kind"] == "not-counted").unwrap();
    let broken = warned["volume"].as_str().unwrap();
    let whole = if broken == "v1" { "/v2" } else { "/v1" };

    let mut client = mount(&service, whole).unwrap();
    let file = client.walk("dir/file").unwrap();
    assert_eq!(client.read(&file, 0, 20_000).unwrap().data, [7; 10_000]);
    client.write(&file, 10_000, &[7; 10_000], StableHow::FileSync).unwrap();
    let state = fsstat(&service, &client);
    // The contents, the file, and its directory.
    assert_eq!(state.tbytes - state.fbytes, 20_480 + 1024 + 5120);

    let mut client = mount(&service, &format!("/{broken}")).unwrap();
    let root = client.root();
    assert_eq!(client.list(&root).unwrap().len(), 1, "it can be read");
    assert!(client.create(&root, "new", 0o644).unwrap_err().is(Status::IO));
    drop(mounted);
}
