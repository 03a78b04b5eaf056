//! Drives `xtask/guest/kernel-client.sh`: starts the server on the host, boots the guest, and kills and restarts the
//! server on the guest's request.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::form::Form;
use super::image::Image;
use super::machine::{Guest, HOST_ADDRESS, Running};
use super::shared::Machine;
use crate::debian::Suite;
use crate::process;
use crate::server::{Choice, Server};

const SCRIPT: &str = include_str!("../../guest/kernel-client.sh");
const OUTAGE: Duration = Duration::from_secs(2);
const MANY: usize = 10_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Choice,
    /// The release of Debian whose kernel is the client; version 3 is tested with Debian 12.
    #[arg(long, value_enum, default_value = "bookworm")]
    suite: Suite,
    /// Directory to export; by default a new one under target/guest.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Further mount options, for other servers.
    #[arg(long, default_value = "")]
    mount_options: String,
    /// Seconds after which the machine is killed.
    #[arg(long, default_value_t = 1800)]
    timeout_s: u64,
}

pub(super) fn run(args: &Args, machine: &mut Machine<'_>, form: Form) -> anyhow::Result<()> {
    // A run that stops half-way but reports success would pass with fewer checks.
    let (versions, checks_min) = match args.suite {
        Suite::Bookworm => ("3 4.0:1 4.1:1 4.2:4", form.choose(220, 125)),
        Suite::Trixie => ("4.0:4 4.1:4 4.2:1", form.choose(110, 60)),
    };
    // Minor version 1 differs least from the others.
    let operations_of = match args.suite {
        Suite::Bookworm => form.choose("4.0 4.1 4.2", "4.2"),
        Suite::Trixie => form.choose("4.0 4.1 4.2", "4.0"),
    };
    let image = Image::build(args.suite)?;
    let work =
        process::target_dir().join("guest").join(format!("kernel-client-{:?}", args.suite).to_lowercase());
    let directory = args.directory.clone().unwrap_or_else(|| work.join("export"));
    prepare(&work, &directory, args.suite)?;
    let mut server = Server::new(&args.server, &directory, &work)?;
    server.start()?;
    let guest = Guest::new(&image)
        .set("HOST", HOST_ADDRESS)
        .set("PORT", server.endpoint.address.port())
        .set("MOUNT_PORT", server.endpoint.mount_port)
        .set("EXPORT", &server.endpoint.export)
        .set("OPTIONS", &args.mount_options)
        .set("VERSIONS", versions)
        .set("OPERATIONS_OF", operations_of)
        .set("BRIEF", form.parameter());
    let mut running = machine.start(&guest, SCRIPT, Duration::from_secs(args.timeout_s))?;
    if args.suite == Suite::Bookworm {
        serve_marks(&mut running, &mut server)?;
    }
    running.finish()?.require_checks(checks_min)?;
    server.stop()
}

fn prepare(work: &Path, directory: &Path, suite: Suite) -> anyhow::Result<()> {
    process::empty_dir(work)?;
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    if suite == Suite::Bookworm {
        // An emulated client would need a minute to create them.
        let many = directory.join("many");
        process::empty_dir(&many)?;
        (1..=MANY).try_for_each(|number| fs::write(many.join(format!("entry-{number:05}")), ""))?;
    }
    Ok(())
}

/// Kills or stops the server when the script asks for it, and restarts it after the outage.
fn serve_marks(running: &mut Running<'_>, server: &mut Server) -> anyhow::Result<()> {
    for mark in ["kill", "stop"] {
        running.wait_mark(mark)?;
        if mark == "kill" {
            server.kill()?
        } else {
            server.stop()?
        }
        std::thread::sleep(OUTAGE);
        server.start()?;
    }
    Ok(())
}
