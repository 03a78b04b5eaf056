//! The kernel's SMB client in the guest, against a server on this machine.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;

use super::form::Form;
use super::image::Image;
use super::machine::{Guest, HOST_ADDRESS};
use super::shared::Machine;
use crate::debian::Suite;
use crate::plimsoll;
use crate::process;
use crate::samba::USER;
use crate::server::free_port;

const SCRIPT: &str = include_str!("../../guest/smb.sh");
const RELAY: &str = "xtask/guest/relay.pl";
const SHARE: &str = "share";
/// A second share, in which a symbolic link leads to a file.
const UNIX: &str = "unix";
const TIME_MAX: Duration = Duration::from_secs(1800);
const OUTAGE: Duration = Duration::from_secs(2);
/// A run that stops half-way but reports success would pass with fewer checks.
const CHECKS_MIN: usize = 37;
const BRIEF_CHECKS_MIN: usize = 33;
const BRIEF_FILES_MAX: u32 = 100;
/// Clients that ask for it keep their opens over a restart of the server.
const OPTIONS: [&str; 1] = ["--smb=continuously-available=on"];
const RESTORED: &str = "what clients had open of continuously available shares waits for them";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server's binary; built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Debian release of the guest; the kernel of `trixie` also creates links and other Unix files.
    #[arg(long, value_enum, default_value = "bookworm")]
    suite: Suite,
    /// Number of names in a directory.
    #[arg(long, default_value_t = 300)]
    files: u32,
}

pub(super) fn run(args: &Args, machine: &mut Machine<'_>, form: Form) -> anyhow::Result<()> {
    let image = Image::build(args.suite)?;
    let work = process::target_dir().join("guest-smb");
    process::empty_dir(&work)?;
    let directories = [SHARE, UNIX].map(|name| work.join(name));
    for directory in &directories {
        fs::create_dir_all(directory)?;
        std::os::unix::fs::chown(directory, Some(USER.id), Some(USER.id))?;
    }
    fs::write(work.join(UNIX).join("target"), "data\n")?;
    std::os::unix::fs::symlink("target", work.join(UNIX).join("link"))?;
    let port = free_port()?;
    let binary = process::binary(args.binary.as_deref());
    let serve = || {
        let directories = directories.each_ref().map(PathBuf::as_path);
        plimsoll::serve_smb_with(&binary, &directories, port, &OPTIONS, &work)
    };
    let mut server = serve()?;
    let guest = Guest::new(&image)
        .set("HOST", HOST_ADDRESS)
        .set("PORT", port)
        .set("SHARE", SHARE)
        .set("UNIX", UNIX)
        .set("NAME", USER.name)
        .set("ID", USER.id)
        .set("PASSWORD", USER.password)
        .set("FILES", form.choose(args.files, args.files.min(BRIEF_FILES_MAX)))
        .set("BRIEF", form.parameter())
        .file("relay.pl", &process::workspace().join(RELAY));
    let mut running = machine.start(&guest, SCRIPT, TIME_MAX)?;
    running.wait_mark("kill")?;
    server.kill();
    std::thread::sleep(OUTAGE);
    server = serve()?;
    running.finish()?.require_checks(form.choose(CHECKS_MIN, BRIEF_CHECKS_MIN))?;
    let status = server.terminate(Duration::from_secs(60))?;
    ensure!(status.success(), "the server ended with {status}");
    let log = plimsoll::smb_log(&work, &OPTIONS);
    ensure!(
        fs::read_to_string(&log)?.contains(RESTORED),
        "nothing outlived the server, see {}",
        log.display()
    );
    Ok(())
}
