//! Drives `xtask/guest/tls.sh`: managed volumes whose rules require TLS, the kernel's client of Debian 13 with `tlshd`,
//! and a server beside that client, whose kernel has TLS.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::form::Form;
use super::image::Image;
use super::machine::{Guest, HOST_ADDRESS, Running};
use super::shared::Machine;
use crate::debian::Suite;
use crate::managed::Managed;
use crate::process;

const SCRIPT: &str = include_str!("../../guest/tls.sh");
/// A run that stops half-way but reports success would pass with fewer checks.
const CHECKS_MIN: usize = 82;
const BRIEF_CHECKS_MIN: usize = 56;
const CONNECTIONS: u64 = 2;
const OUTAGE: Duration = Duration::from_secs(2);
const COMMAND_MAX: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The server; by default this tree's, built by `cargo build --release`.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seconds after which the machine is killed.
    #[arg(long, default_value_t = 1200)]
    timeout_s: u64,
}

pub(super) fn run(args: &Args, machine: &mut Machine<'_>, form: Form) -> anyhow::Result<()> {
    let image = Image::build(Suite::Trixie)?;
    let work = process::target_dir().join("guest").join("tls");
    process::empty_dir(&work)?;
    let certificates = Certificates::make(&work)?;
    let binary = process::binary(args.binary.as_deref());
    let mut allowing = certificates.server(&binary, &work, "allow", &["any", "tls", "mtls"])?;
    let requiring = certificates.server(&binary, &work, "require", &["any"])?;
    let mut guest = Guest::new(&image)
        .set("HOST", HOST_ADDRESS)
        .set("PORT", allowing.port)
        .set("STRICT_PORT", requiring.port)
        .set("CONNECTIONS", CONNECTIONS)
        .set("BRIEF", form.parameter());
    for name in ["ca.pem", "server.pem", "server.key", "client.pem", "client.key", "stranger.pem"] {
        guest = guest.file(name, &work.join(name));
    }
    guest = guest.file("plimsoll", &binary);
    let mut running = machine.start(&guest, SCRIPT, Duration::from_secs(args.timeout_s))?;
    serve_marks(&mut running, &mut allowing)?;
    running.finish()?.require_checks(form.choose(CHECKS_MIN, BRIEF_CHECKS_MIN))?;
    allowing.stop()?;
    requiring.stop()
}

/// Checks the protection of the connections, and crashes the server while the guest writes.
fn serve_marks(running: &mut Running<'_>, server: &mut Managed) -> anyhow::Result<()> {
    running.wait_mark("tls")?;
    check_connections(server, [CONNECTIONS, 0])?;
    running.wait_mark("kill")?;
    server.crash(OUTAGE)?;
    running.wait_mark("mtls")?;
    check_connections(server, [1, 1])
}

/// Asserts how many connections of the only client have TLS, and how many a client certificate.
fn check_connections(server: &Managed, wanted: [u64; 2]) -> anyhow::Result<()> {
    let client = server.client()?;
    let found = ["encrypted_connections", "verified_connections"].map(|name| client[name].as_u64());
    ensure!(found == wanted.map(Some), "{wanted:?} connections with TLS and a certificate: {client}");
    Ok(())
}

/// The certificates of a run, in its directory: `ca`, `server`, `client`, and `stranger`, whose issuer is another one.
struct Certificates<'a> {
    work: &'a Path,
}

impl<'a> Certificates<'a> {
    fn make(work: &'a Path) -> anyhow::Result<Self> {
        let made = Self { work };
        for (name, extension) in [("ca", "CA:TRUE"), ("stranger", "CA:TRUE")] {
            let extension = format!("basicConstraints=critical,{extension}");
            made.request(
                name,
                &["-x509", "-days", "2", "-addext", &extension, "-out", &format!("{name}.pem")],
            )?;
        }
        let address = format!("subjectAltName=IP:{HOST_ADDRESS},IP:127.0.0.1");
        for (name, extension) in [("server", address.as_str()), ("client", "extendedKeyUsage=clientAuth")] {
            let [request, extensions, signed] =
                ["csr", "ext", "pem"].map(|extension| format!("{name}.{extension}"));
            made.request(name, &["-out", &request])?;
            fs::write(work.join(&extensions), extension)?;
            let by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
            let what = ["x509", "-req", "-in", &request, "-extfile", &extensions, "-out", &signed];
            made.openssl(&[what.as_slice(), &by].concat())?;
        }
        Ok(made)
    }

    fn request(&self, name: &str, more: &[&str]) -> anyhow::Result<()> {
        let (subject, key) = (format!("/CN={name}"), format!("{name}.key"));
        let what = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        self.openssl(&[&what, ["-subj", &subject, "-keyout", &key].as_slice(), more].concat())?;
        Ok(fs::set_permissions(self.work.join(key), Permissions::from_mode(0o600))?)
    }

    fn openssl(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let directory = self.work.to_str().context("path is not UTF-8")?;
        let argv = [&["env", "--chdir", directory, "openssl"], arguments].concat();
        process::run(&argv, &self.work.join("openssl.log"), COMMAND_MAX)
    }

    /// Starts a service whose volumes are named after the security that their rules require.
    fn server(&self, binary: &Path, work: &Path, mode: &str, volumes: &[&str]) -> anyhow::Result<Managed> {
        let path = |name: &str| self.work.join(name).display().to_string();
        let [certificate, key, authority] = ["server.pem", "server.key", "ca.pem"].map(path);
        let mut options = vec!["--tls", mode, "--tls-cert", &certificate, "--tls-key", &key];
        options.extend(["--tls-client-ca", &authority]);
        let directory = work.join(mode);
        fs::create_dir(&directory)?;
        let service = Managed::start_with(binary, &directory, &[], &options)?;
        service.manage("pool create pool --level plimsoll/unlimited --size 32GiB")?;
        for volume in volumes {
            let protocols = "--protocols nfsv3,nfsv4.1,nfsv4.2";
            service.manage(&format!("volume create {volume} --pool pool --size 8GiB {protocols}"))?;
            let rule = format!("--allow 127.0.0.1 --squash none --xprtsec {volume}");
            service.manage(&format!("volume access set {volume} {rule}"))?;
        }
        Ok(service)
    }
}
