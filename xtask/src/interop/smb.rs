//! Clients of SMB: Samba's, and what `conformance/smb-clients` has in Python and Rust.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::{BUILD_MAX, Stage, content, output, same, text};
use crate::process;
use crate::samba;

impl Stage {
    fn smbclient(
        &self,
        password: &str,
        dialect: &str,
        protection: &str,
        commands: &str,
    ) -> anyhow::Result<Vec<u8>> {
        let share = format!("//127.0.0.1/{}", self.share());
        let port = self.smb_port.to_string();
        let user = format!("{}%{password}", samba::USER.name);
        let protection = format!("--client-protection={protection}");
        output(
            "smbclient",
            &[
                &share,
                "-p",
                &port,
                "-U",
                &user,
                "-m",
                dialect,
                &protection,
                "-s",
                "/dev/null",
                "-c",
                commands,
            ],
        )
    }
}

/// Writes, lists, renames, reads back and removes over each dialect, signed and encrypted.
pub(super) fn smbclient(stage: &Stage) -> anyhow::Result<()> {
    let (source, back, data) = (stage.local.join("smb-in"), stage.local.join("smb-out"), content(4));
    fs::write(&source, &data)?;
    let commands = format!(
        "mkdir d; put {} d\\in; rename d\\in d\\Moved; ls d\\*; get D\\moved {}; del d\\Moved; rmdir d",
        text(&source)?,
        text(&back)?
    );
    for (dialect, protection) in [
        ("SMB2_10", "sign"),
        ("SMB3_00", "sign"),
        ("SMB3_11", "sign"),
        ("SMB3_02", "encrypt"),
        ("SMB3_11", "encrypt"),
    ] {
        let listed = stage.smbclient(samba::USER.password, dialect, protection, &commands);
        let listed = String::from_utf8(listed.with_context(|| format!("{dialect}, {protection}"))?)?;
        ensure!(listed.contains("Moved"), "{dialect}: no file `Moved` in\n{listed}");
        same(&fs::read(&back)?, &data)?;
        fs::remove_file(&back)?;
        ensure!(!stage.export.join("d").exists(), "{dialect}: the directory is still there");
    }
    Ok(())
}

pub(super) fn smbclient_refused(stage: &Stage) -> anyhow::Result<()> {
    let refused = stage.smbclient("another password", "SMB3_11", "sign", "ls");
    let why = refused.err().context("a wrong password is taken")?;
    ensure!(why.to_string().contains("NT_STATUS_LOGON_FAILURE"), "{why}");
    Ok(())
}

/// What Explorer asks over IPC$: the server, its shares, and users by name.
pub(super) fn rpcclient(stage: &Stage, protection: &str) -> anyhow::Result<()> {
    let share = stage.share();
    let (port, user) = (stage.smb_port.to_string(), format!("{}%{}", samba::USER.name, samba::USER.password));
    let protection = format!("--client-protection={protection}");
    let commands = format!(
        "srvinfo; netshareenumall; netsharegetinfo {share}; lsaquery; lookupnames {}",
        samba::USER.name
    );
    let arguments = [&protection, "-s", "/dev/null", "-p", &port, "-U", &user, "127.0.0.1", "-c", &commands];
    let said = String::from_utf8(output("rpcclient", &arguments)?)?;
    let user = format!("{} S-1-5-21-", samba::USER.name);
    for expected in
        [&format!("netname: {share}"), "netname: IPC$", "Domain Sid: S-1-5-21-", &user, "(User: 1)"]
    {
        ensure!(said.contains(expected), "no `{expected}` in\n{said}");
    }
    Ok(())
}

/// One of the clients in Python.
pub(super) fn python(stage: &Stage, program: &str) -> anyhow::Result<()> {
    let python = environment(&stage.log)?;
    stage.log_on(text(&python)?, &[text(&programs().join(program))?])
}

/// One of the clients in Rust, which are a workspace of their own.
pub(super) fn rust(stage: &Stage, program: &str) -> anyhow::Result<()> {
    let (manifest, target) = (programs().join("rust/Cargo.toml"), process::target_dir().join("smb-clients"));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let targets = ["--manifest-path", text(&manifest)?, "--target-dir", text(&target)?];
    let build = [&*cargo, "build", "--quiet", "--locked", "--bins"];
    stage.build(&[build.as_slice(), &targets].concat())?;
    stage.log_on(text(&target.join("debug").join(program))?, &[])
}

/// The Python that has what `requirements.txt` names, in an environment below `target`. It is made by who comes first.
pub(crate) fn environment(log: &Path) -> anyhow::Result<PathBuf> {
    let environment = process::target_dir().join("smb-clients-python");
    let lock = fs::File::create(environment.with_extension("lock"))?;
    lock.lock()?;
    let (python, requirements) = (environment.join("bin/python"), programs().join("requirements.txt"));
    // It is made anew where it asks for something else.
    let (made_of, made_by) = (environment.join("requirements.txt"), fs::read(&requirements)?);
    if fs::read(&made_of).ok().as_ref() != Some(&made_by) {
        process::empty_dir(&environment)?;
        process::run(&["python3", "-m", "venv", text(&environment)?], log, BUILD_MAX)?;
        let install = ["-m", "pip", "--quiet", "install", "--requirement"];
        process::run(
            &[&[text(&python)?], install.as_slice(), &[text(&requirements)?]].concat(),
            log,
            BUILD_MAX,
        )?;
        fs::write(&made_of, &made_by)?;
    }
    Ok(python)
}

/// Where the clients in Python and Rust are.
pub(crate) fn programs() -> PathBuf {
    process::workspace().join("conformance/smb-clients")
}

impl Stage {
    /// The share's name.
    fn share(&self) -> &str {
        self.server.exports[0].trim_start_matches('/')
    }

    /// Runs a client that takes port, share, user and password.
    fn log_on(&self, program: &str, first: &[&str]) -> anyhow::Result<()> {
        let (port, share) = (self.smb_port.to_string(), self.share());
        self.run(&[&[program], first, &[&port, share, samba::USER.name, samba::USER.password]].concat())
    }
}
