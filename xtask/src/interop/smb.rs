//! SMB clients: Samba's, and those of `conformance/smb-clients` in Python, C (libsmb2) and Rust.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::{BUILD_MAX, Stage, content, output, same};
use crate::debs::Debs;
use crate::process::{self, text};
use crate::samba;

const LIBSMB2: Debs =
    Debs { name: "libsmb2", suites: &["trixie"], with_all_dependencies: true, packages: &["libsmb2-6"] };

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
        ensure!(!stage.export.join("d").exists(), "{dialect}: the directory still exists");
    }
    Ok(())
}

pub(super) fn smbclient_refused(stage: &Stage) -> anyhow::Result<()> {
    let refused = stage.smbclient("another password", "SMB3_11", "sign", "ls");
    let why = refused.err().context("a wrong password was accepted")?;
    ensure!(why.to_string().contains("NT_STATUS_LOGON_FAILURE"), "{why}");
    Ok(())
}

/// The calls of Explorer over IPC$: the server, its shares, and users by name.
pub(super) fn rpcclient(stage: &Stage, protection: &str) -> anyhow::Result<()> {
    let share = stage.share();
    let commands = format!(
        "srvinfo; netshareenumall; netsharegetinfo {share}; lsaquery; lookupnames {}",
        samba::USER.name
    );
    let user = format!("{} S-1-5-21-", samba::USER.name);
    stage.rpc(
        protection,
        &commands,
        &[&format!("netname: {share}"), "netname: IPC$", "Domain Sid: S-1-5-21-", &user, "(User: 1)"],
    )?;
    sam(stage, protection)
}

/// The calls of lists of users and groups, with the names and numbers that they return.
fn sam(stage: &Stage, protection: &str) -> anyhow::Result<()> {
    let (user, (group, gid)) = (samba::USER, samba::GROUP);
    let [rid, other, alias] = [1000 + 2 * user.id, 1000 + 2 * samba::OTHER.id, 1001 + 2 * gid];
    let of_user = format!("[{}] rid:[{rid:#x}]", user.name);
    let of_group = format!("group:[{group}] rid:[{alias:#x}]");
    let commands = "enumdomains; lookupdomain builtin; enumdomusers; enumdomgroups; enumalsgroups domain; \
                    enumalsgroups builtin; getdompwinfo; querydominfo 2; querygroup 0x201";
    stage.rpc(
        protection,
        commands,
        &[
            "name:[Builtin] idx:",
            "Domain SID: S-1-5-32",
            &of_user,
            "group:[None] rid:[0x201]",
            &of_group,
            "group:[Administrators] rid:[0x220]",
            "min_password_length: 0",
            "Total Users:\t2",
            "Num Members:2",
        ],
    )?;
    let commands = format!(
        "querydispinfo 1; querydispinfo2 1; querydispinfo3 1; querydispinfo 4; queryuser {rid}; \
         queryusergroups {rid}; querygroupmem 0x201; queryaliasmem domain {alias}; \
         samlookupnames domain {name} {group}; samlookuprids domain {rid} {alias}; getusrdompwinfo {rid}; \
         samquerysecobj {rid}",
        name = user.name
    );
    stage.rpc(
        protection,
        &commands,
        &[
            &format!("RID: {rid:#x} acb: 0x00000210 Account: {}", user.name),
            &format!("user_rid :\t{rid:#x}"),
            "group rid:[0x201] attr:[0x7]",
            &format!("rid:[{other:#x}] attr:[0x7]"),
            &format!("-{other}]"),
            &format!("name {group}: {alias:#x} (4)"),
            &format!("rid {rid:#x}: {} (1)", user.name),
            &format!("rid {alias:#x}: {group} (4)"),
            "Owner SID:\tS-1-5-32-544",
        ],
    )?;
    let refused = stage.rpc(protection, "createdomuser eve", &[]).err().context("a user was created")?;
    ensure!(refused.to_string().contains("NT_STATUS_ACCESS_DENIED"), "{refused}");
    Ok(())
}

pub(super) fn python(stage: &Stage, program: &str) -> anyhow::Result<()> {
    let python = environment(&stage.log)?;
    stage.log_on(text(&python)?, &[text(&programs().join(program))?])
}

/// libsmb2 is from Debian 13, and runs with that release's C library and loader.
pub(super) fn libsmb2(stage: &Stage) -> anyhow::Result<()> {
    let libraries = LIBSMB2.unpack()?.join("usr/lib/x86_64-linux-gnu");
    let (loader, program) = (libraries.join("ld-linux-x86-64.so.2"), programs().join("libsmb2_client.py"));
    let path = format!("{}:/usr/lib/x86_64-linux-gnu", text(&libraries)?);
    stage.log_on(text(&loader)?, &["--library-path", &path, "/usr/bin/python3", text(&program)?])
}

pub(super) fn rust(stage: &Stage, program: &str) -> anyhow::Result<()> {
    let (manifest, target) = (programs().join("rust/Cargo.toml"), process::target_dir().join("smb-clients"));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let targets = ["--manifest-path", text(&manifest)?, "--target-dir", text(&target)?];
    let build = [&*cargo, "build", "--quiet", "--locked", "--bins"];
    stage.build(&[build.as_slice(), &targets].concat())?;
    stage.log_on(text(&target.join("debug").join(program))?, &[])
}

/// The Python with the packages of `requirements.txt`, in an environment below `target`. The first caller creates it.
pub(crate) fn environment(log: &Path) -> anyhow::Result<PathBuf> {
    let environment = process::target_dir().join("smb-clients-python");
    let lock = fs::File::create(environment.with_extension("lock"))?;
    lock.lock()?;
    let (python, requirements) = (environment.join("bin/python"), programs().join("requirements.txt"));
    // It is created again when the requirements change.
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

pub(crate) fn programs() -> PathBuf {
    process::workspace().join("conformance/smb-clients")
}

impl Stage {
    /// The output must contain each of `expected`.
    fn rpc(&self, protection: &str, commands: &str, expected: &[&str]) -> anyhow::Result<()> {
        let samba::User { name, password, .. } = samba::USER;
        let (port, user) = (self.smb_port.to_string(), format!("{name}%{password}"));
        let protection = format!("--client-protection={protection}");
        let arguments =
            [&protection, "-s", "/dev/null", "-p", &port, "-U", &user, "127.0.0.1", "-c", commands];
        let text = String::from_utf8(output("rpcclient", &arguments)?)?;
        for expected in expected {
            ensure!(text.contains(expected), "no `{expected}` in\n{text}");
        }
        Ok(())
    }

    fn share(&self) -> &str {
        self.server.exports[0].trim_start_matches('/')
    }

    fn log_on(&self, program: &str, first: &[&str]) -> anyhow::Result<()> {
        let (port, share) = (self.smb_port.to_string(), self.share());
        self.run(&[&[program], first, &[&port, share, samba::USER.name, samba::USER.password]].concat())
    }
}
