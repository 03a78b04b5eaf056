//! `cargo xtask interop`: independent clients against `plimsoll export`, and the built-in one with every byte verified.

pub(crate) mod smb;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::cargo;
use crate::checks::{Args, Check};
use crate::packages;
use crate::plimsoll::{self, Options, Plimsoll};
use crate::process::{self, Process, text};
use crate::random::Random;
use crate::samba;
use crate::server::free_port;

/// Not a multiple of any transfer or block size.
const FILE_BYTES: usize = (5 << 20) + 4099;
const CHECK_MAX: Duration = Duration::from_secs(300);
const BUILD_MAX: Duration = Duration::from_secs(900);

struct Stage {
    binary: PathBuf,
    export: PathBuf,
    local: PathBuf,
    log: PathBuf,
    server: Plimsoll,
    smb: Process,
    smb_port: u16,
}

const CHECKS: [Check<Stage>; 25] = [
    ("nfs-cp to the export", |stage| copy_in(stage, V3)),
    ("nfs-cp from the export", |stage| copy_out(stage, V3)),
    ("nfs-cat", |stage| cat(stage, V3)),
    ("nfs-cat of an empty file", |stage| cat_empty(stage, V3)),
    ("nfs-ls", |stage| list(stage, V3)),
    ("nfs-cp to the export over 4.0", |stage| copy_in(stage, V4)),
    ("nfs-cp from the export over 4.0", |stage| copy_out(stage, V4)),
    ("nfs-cat over 4.0", |stage| cat(stage, V4)),
    ("nfs-cat of an empty file over 4.0", |stage| cat_empty(stage, V4)),
    ("nfs-ls over 4.0", |stage| list(stage, V4)),
    ("nfs-rs", |stage| nfs_rs(stage, "3")),
    ("nfs-rs over 4.1", |stage| nfs_rs(stage, "4.1")),
    ("nfs-rs over 4.2", |stage| nfs_rs(stage, "4.2")),
    ("smbclient to the share and back", smb::smbclient),
    ("smbclient with a wrong password", smb::smbclient_refused),
    ("rpcclient", |stage| smb::rpcclient(stage, "sign")),
    ("rpcclient, encrypted", |stage| smb::rpcclient(stage, "encrypt")),
    ("impacket", |stage| smb::python(stage, "impacket_client.py")),
    ("smbprotocol", |stage| smb::python(stage, "smbprotocol_client.py")),
    ("libsmb2", smb::libsmb2),
    ("the crate smb", |stage| smb::rust(stage, "smb")),
    ("the crate smb2", |stage| smb::rust(stage, "smb2")),
    ("plimsoll bench: read, verified", |stage| stage.load("read", &[])),
    ("plimsoll bench: write, verified", |stage| stage.load("write", &["--stable", "file-sync"])),
    ("plimsoll bench: mix, verified", |stage| stage.load("mix", &["--connections", "16"])),
];

/// The version argument of libnfs; its version 4 is 4.0.
const V3: &str = "";
const V4: &str = "&version=4";
/// The transfer size of `nfs-cp` over version 4: libnfs 4.0.0 cannot encode a WRITE of 4 KiB.
const V4_COPY_BYTES: usize = 1000;

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    packages::require(packages::FOR_TESTS)?;
    let work = process::target_dir().join("interop");
    process::empty_dir(&work)?;
    let stage = Stage::set(args, &work)?;
    let results = args.run("interop", &stage, &CHECKS);
    stage.server.stop()?;
    let status = stage.smb.terminate(CHECK_MAX)?;
    ensure!(status.success(), "the server of SMB ended with {status}");
    results.check("interop")?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}

impl Stage {
    fn set(args: &Args, work: &Path) -> anyhow::Result<Self> {
        let (export, local) = (work.join("exported"), work.join("local"));
        fs::create_dir_all(&export)?;
        fs::create_dir_all(&local)?;
        let binary = process::binary(args.binary.as_deref());
        let server = Plimsoll::start(&Options {
            binary: binary.clone(),
            directories: vec![export.clone()],
            relaxed: false,
            prefix: Vec::new(),
            work: work.to_owned(),
        })?;
        std::os::unix::fs::chown(&export, Some(samba::USER.id), Some(samba::USER.id))?;
        let smb_port = free_port()?;
        let smb = plimsoll::serve_smb(&binary, &[&export], smb_port, work)?;
        Ok(Self { binary, export, local, log: work.join("clients.log"), server, smb, smb_port })
    }

    /// libnfs and nfs-rs accept a port in a URL.
    fn url(&self, path: &str, more: &str) -> String {
        let (port, export) = (self.server.port, &self.server.exports[0]);
        format!("nfs://127.0.0.1{export}{path}?nfsport={port}&mountport={port}{more}")
    }

    fn run(&self, argv: &[&str]) -> anyhow::Result<()> {
        process::run(argv, &self.log, CHECK_MAX)
    }

    fn build(&self, argv: &[&str]) -> anyhow::Result<()> {
        process::run(argv, &self.log, BUILD_MAX)
    }

    fn load(&self, op: &str, more: &[&str]) -> anyhow::Result<()> {
        let binary = self.binary.to_str().context("path is not UTF-8")?;
        let target = format!("nfs://127.0.0.1:{}{}", self.server.port, self.server.exports[0]);
        let fixed = [
            "bench", "load", &target, "--op", op, "--verify", "--time", "2s", "--files", "4", "--size", "32m",
        ];
        self.run(&[&[binary], fixed.as_slice(), more].concat())
    }
}

fn copy_in(stage: &Stage, version: &str) -> anyhow::Result<()> {
    let (source, mut data) = (stage.local.join("in"), content(1));
    if version == V4 {
        data.truncate(V4_COPY_BYTES);
    }
    fs::write(&source, &data)?;
    stage.run(&["nfs-cp", text(&source)?, &stage.url("/copied-in", version)])?;
    let copied = stage.export.join("copied-in");
    same(&fs::read(&copied)?, &data)?;
    Ok(fs::remove_file(&copied)?)
}

fn copy_out(stage: &Stage, version: &str) -> anyhow::Result<()> {
    let (destination, data) = (stage.local.join("out"), content(2));
    fs::write(stage.export.join("to-copy"), &data)?;
    stage.run(&["nfs-cp", &stage.url("/to-copy", version), text(&destination)?])?;
    same(&fs::read(&destination)?, &data)?;
    Ok(fs::remove_file(&destination)?)
}

fn cat(stage: &Stage, version: &str) -> anyhow::Result<()> {
    let data = content(3);
    let directory = stage.export.join("a directory/below");
    fs::create_dir_all(&directory)?;
    fs::write(directory.join("file"), &data)?;
    same(&output("nfs-cat", &[&stage.url("/a directory/below/file", version)])?, &data)
}

fn cat_empty(stage: &Stage, version: &str) -> anyhow::Result<()> {
    fs::write(stage.export.join("empty"), "")?;
    same(&output("nfs-cat", &[&stage.url("/empty", version)])?, b"")
}

/// Every name appears once, with its size; the directory needs several replies.
fn list(stage: &Stage, version: &str) -> anyhow::Result<()> {
    const NAMES: usize = 2000;
    let directory = stage.export.join("listed");
    fs::create_dir_all(&directory)?;
    for number in 0..NAMES {
        fs::write(directory.join(format!("name-{number}")), vec![b'x'; number % 7])?;
    }
    let listing = String::from_utf8(output("nfs-ls", &[&stage.url("/listed", version)])?)?;
    // Mode, links, uid, gid, size, name.
    let parsed = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields.last()?.strip_prefix("name-")?.parse::<usize>().ok()?;
        Some((name, fields.get(4)?.parse::<usize>().ok()?))
    };
    let mut found: Vec<(usize, usize)> = listing.lines().filter_map(parsed).collect();
    found.sort_unstable();
    let expected: Vec<(usize, usize)> = (0..NAMES).map(|number| (number, number % 7)).collect();
    ensure!(found == expected, "{} names of {NAMES}, or wrong sizes:\n{:.600}", found.len(), listing);
    Ok(())
}

fn nfs_rs(stage: &Stage, version: &str) -> anyhow::Result<()> {
    let url = stage.url("", &format!("&version={version}&noresvport=true&readdir-buffer=32768"));
    let program = cargo::program_of("nfs_rs", &["build", "--example", "nfs_rs"])?;
    stage.run(&[text(&program)?, &url])
}

fn content(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let words = std::iter::repeat_with(|| random.next().to_le_bytes());
    words.take(FILE_BYTES.div_ceil(8)).flatten().take(FILE_BYTES).collect()
}

fn same(found: &[u8], expected: &[u8]) -> anyhow::Result<()> {
    if found == expected {
        return Ok(());
    }
    let differs = found.iter().zip(expected).position(|(one, other)| one != other);
    let at = differs.unwrap_or(found.len().min(expected.len()));
    bail!("{} bytes found, {} expected; they differ from byte {at}", found.len(), expected.len())
}

fn output(program: &str, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
    let text = [&*output.stderr, &*output.stdout].map(String::from_utf8_lossy).concat();
    ensure!(output.status.success(), "{program} {}: {}: {text}", arguments.join(" "), output.status);
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_located() {
        assert!(same(b"abc", b"abc").is_ok());
        assert!(same(b"abc", b"abd").unwrap_err().to_string().ends_with("from byte 2"));
        assert!(same(b"abc", b"ab").unwrap_err().to_string().ends_with("from byte 2"));
    }

    #[test]
    fn content_differs_by_seed() {
        let (one, other) = (content(1), content(2));
        assert_eq!((one.len(), other.len()), (FILE_BYTES, FILE_BYTES));
        assert!(one != other && one[..8] != one[8..16]);
    }
}
