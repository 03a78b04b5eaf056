//! A load on an export by the crate nfs-rs, an independent NFS client: `cargo xtask interop` runs it over each version.
//!
//! An example and not a part of xtask, so that only interop builds the client.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use bytes::Bytes;
use nfs_rs::{DirectoryCookie, Mount, OPEN_READ};

/// Longer than one transfer of the largest size, and not a multiple of any block size.
const LENGTH: usize = (3 << 20) + 4097;
/// Names that need several replies of READDIRPLUS; each is created and removed durably.
const NAMES: usize = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args()
        .nth(1)
        .context("usage: nfs_rs nfs://HOST/EXPORT?nfsport=PORT&mountport=PORT&version=3|4.1|4.2")?;
    let mount = nfs_rs::parse_url_and_mount(&url).await.context("mount")?;
    data(&*mount).await.context("data")?;
    names(&*mount).await.context("names")?;
    attributes(&*mount).await.context("attributes")?;
    listing(&*mount).await.context("listing")?;
    mount.umount().await.context("umount")
}

/// Writes, reads back, overwrites the middle, reads back.
async fn data(mount: &dyn Mount) -> anyhow::Result<()> {
    let mut data: Vec<u8> = (0..LENGTH).map(|at| u8::try_from(at * 31 % 251).unwrap_or(0)).collect();
    let file = mount.create_path("data", Some(0o600)).await?;
    let written = nfs_rs::write_all(mount, file.fh.clone(), 0, Bytes::from(data.clone())).await?;
    ensure!(written == LENGTH as u64, "{written} of {LENGTH} bytes written");
    ensure!(read_all(mount, &file.fh).await? == data, "the data read differs from the data written");
    data[70_001..70_101].fill(255);
    nfs_rs::write_all(mount, file.fh.clone(), 70_001, Bytes::from(vec![255; 100])).await?;
    ensure!(read_all(mount, &file.fh).await? == data, "the data read differs from the overwritten data");
    // Files are open only over NFSv4.
    mount.close(file.fh).await?;
    let opened = mount.open_path("data", OPEN_READ).await?;
    ensure!(read_all(mount, &opened.fh).await? == data, "the reopened file differs from the data written");
    mount.close(opened.fh).await?;
    ensure!(mount.getattr_path("data").await?.filesize == LENGTH as u64, "the size is wrong");
    mount.remove_path("data").await?;
    Ok(())
}

async fn read_all(mount: &dyn Mount, file: &Bytes) -> anyhow::Result<Vec<u8>> {
    let mut data = Vec::new();
    loop {
        let chunk = mount.read(file.clone(), data.len() as u64, mount.get_max_read_size()).await?;
        if chunk.is_empty() {
            return Ok(data);
        }
        data.extend_from_slice(&chunk);
    }
}

/// Directories, renames over an existing file, links, and the state afterwards.
async fn names(mount: &dyn Mount) -> anyhow::Result<()> {
    mount.mkdir_path("dir", 0o755).await?;
    let first = mount.create_path("dir/first", Some(0o644)).await?;
    let second = mount.create_path("second", Some(0o644)).await?;
    mount.close(second.fh).await?;
    nfs_rs::write_all(mount, first.fh.clone(), 0, Bytes::from_static(b"first")).await?;
    mount.close(first.fh).await?;
    mount.rename_path("dir/first", "second").await?;
    ensure!(&mount.read_path("second", 0, 10).await?[..] == b"first", "the renamed file has other content");
    ensure!(mount.lookup_path("dir/first").await.is_err(), "a renamed file still has its old name");
    mount.link_path("second", "dir/hard").await?;
    let (one, other) = (mount.getattr_path("second").await?, mount.getattr_path("dir/hard").await?);
    ensure!(one.fileid == other.fileid && one.nlink == 2, "a hard link is another file");
    mount.symlink_path("second", "dir/soft").await?;
    ensure!(mount.readlink_path("dir/soft").await? == "second", "a symbolic link leads elsewhere");
    ensure!(mount.rmdir_path("dir").await.is_err(), "a directory that is not empty was removed");
    for name in ["dir/soft", "dir/hard", "second"] {
        mount.remove_path(name).await.context(name)?;
    }
    mount.rmdir_path("dir").await?;
    ensure!(mount.lookup_path("dir").await.is_err(), "a removed directory still exists");
    Ok(())
}

async fn attributes(mount: &dyn Mount) -> anyhow::Result<()> {
    let file = mount.create_path("file", Some(0o640)).await?;
    mount.close(file.fh).await?;
    ensure!(
        mount.getattr_path("file").await?.file_mode & 0o7777 == 0o640,
        "the mode is not the one of CREATE"
    );
    mount.setattr_path("file", true, Some(0o604), Some(7), Some(8), Some(12_345), None, None).await?;
    let found = mount.getattr_path("file").await?;
    let found = (found.file_mode & 0o7777, found.uid, found.gid, found.filesize);
    ensure!(found == (0o604, 7, 8, 12_345), "SETATTR left {found:?}");
    Ok(mount.remove_path("file").await?)
}

/// Every name appears once, with its attributes and handle.
async fn listing(mount: &dyn Mount) -> anyhow::Result<()> {
    let dir = mount.mkdir_path("many", 0o755).await?;
    let mut expected = BTreeMap::new();
    for number in 0..NAMES {
        let name = format!("a-name-of-some-length-{number}");
        let made = mount.create(dir.fh.clone(), &name, Some(0o644)).await?;
        mount.close(made.fh.clone()).await?;
        expected.insert(name, made.fh);
    }
    let (mut found, mut position, mut pages) = (BTreeMap::new(), DirectoryCookie::default(), 0);
    loop {
        let page = mount.readdirplus_page(dir.fh.clone(), position).await?;
        pages += 1;
        for entry in page.entries.into_iter().filter(|entry| ![".", ".."].contains(&entry.file_name.as_str()))
        {
            ensure!(entry.attr.is_some(), "{} has no attributes", entry.file_name);
            let twice = found.insert(entry.file_name, entry.handle);
            ensure!(twice.is_none(), "a name was listed twice");
        }
        if page.eof {
            break;
        }
        position = page.next;
    }
    ensure!(pages > 2, "{NAMES} names in {pages} replies");
    ensure!(found == expected, "{} names listed of {NAMES}, or other handles than CREATE gave", found.len());
    for name in expected.keys() {
        mount.remove_path(&format!("many/{name}")).await?;
    }
    Ok(mount.rmdir_path("many").await?)
}
