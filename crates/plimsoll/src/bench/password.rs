//! The password of a share's user: in a file or in the environment, and never an argument.

use std::path::PathBuf;

use anyhow::Context;
use bench::Target;
use clap::Args;
use identity::NtHash;

use crate::exit::usage;
use crate::manage::without_line_end;
use stable::files::read_secret;

/// The environment variable with the password.
const VARIABLE: &str = "PLIMSOLL_SMB_PASSWORD";

/// The source of the password.
#[derive(Clone, Debug, Args)]
pub(crate) struct PasswordArgs {
    /// File with the password of a share's user, with mode 600 [default: the variable PLIMSOLL_SMB_PASSWORD]
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl PasswordArgs {
    /// The password hash of the share's user; None for targets of NFS.
    pub(crate) fn nt_hash(&self, target: &Target) -> anyhow::Result<Option<NtHash>> {
        let Some(user) = &target.user else { return Ok(None) };
        let text = match &self.password_file {
            Some(path) => read_secret(path)
                .with_context(|| format!("cannot read the password in {}", path.display()))?,
            None => std::env::var(VARIABLE).map_err(|_| {
                usage(format!(
                    "the password of {user} is not known: give --password-file FILE or set {VARIABLE}"
                ))
            })?,
        };
        Ok(Some(NtHash::from_password(without_line_end(&text))))
    }
}
