//! The kernel's SMB client in the guest, against a server on this machine.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;

use super::image::{Image, Suite};
use super::machine::{Guest, HOST_ADDRESS};
use crate::plimsoll;
use crate::process;
use crate::samba::USER;
use crate::server::free_port;

const SCRIPT: &str = include_str!("../../guest/smb.sh");
const SHARE: &str = "share";
const TIME_MAX: Duration = Duration::from_secs(900);
/// How long the server stays away in the middle of the client's work.
const OUTAGE: Duration = Duration::from_secs(2);
/// A run that stops half-way but reports success would pass with fewer checks.
const CHECKS_MIN: usize = 26;

/// `guest smb`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server's binary; built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How many names a directory gets.
    #[arg(long, default_value_t = 1000)]
    files: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let image = Image::build(Suite::Bookworm)?;
    let work = process::target_dir().join("guest-smb");
    process::empty_dir(&work)?;
    let directory = work.join(SHARE);
    fs::create_dir_all(&directory)?;
    std::os::unix::fs::chown(&directory, Some(USER.id), Some(USER.id))?;
    let port = free_port()?;
    let binary = process::binary(args.binary.as_deref());
    let serve = || plimsoll::serve_smb(&binary, &[&directory], port, &work);
    let mut server = serve()?;
    let guest = Guest::new(&image)
        .set("HOST", HOST_ADDRESS)
        .set("PORT", port)
        .set("SHARE", SHARE)
        .set("NAME", USER.name)
        .set("PASSWORD", USER.password)
        .set("FILES", args.files);
    let mut running = guest.start(SCRIPT, TIME_MAX)?;
    running.wait_mark("kill")?;
    server.kill();
    std::thread::sleep(OUTAGE);
    server = serve()?;
    running.finish()?.require_checks(CHECKS_MIN)?;
    let status = server.terminate(Duration::from_secs(60))?;
    ensure!(status.success(), "the server ended with {status}");
    Ok(())
}
