//! Passwords as input: from a prompt, a file or the standard input, never from the command line.

use crate::terminal;
use anyhow::{Context, bail};
use clap::Args;
use stable::files::read_secret;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;

/// Bytes to read from the standard input: more than any password has.
const INPUT_BYTES_MAX: u64 = 4096;

/// The source of a password.
#[derive(Clone, Debug, Args)]
pub(crate) struct PasswordArgs {
    /// File with the password, in mode 600; one line end is not part of it [default: asks, or reads the standard input]
    #[arg(long, value_name = "FILE", conflicts_with = "no_password")]
    password_file: Option<PathBuf>,
    /// Set no password: the user cannot log in
    #[arg(long)]
    no_password: bool,
}

impl PasswordArgs {
    /// The password in a file; asks without one.
    pub(crate) fn from_file(password_file: Option<PathBuf>) -> Self {
        Self { password_file, no_password: false }
    }

    /// The password for the user `name`; `None` with `--no-password`.
    pub(crate) fn read(&self, name: &str) -> anyhow::Result<Option<String>> {
        if self.no_password {
            return Ok(None);
        }
        let text = match &self.password_file {
            Some(path) => read_secret(path)
                .with_context(|| format!("cannot read the password in {}", path.display()))?,
            None if std::io::stdin().is_terminal() => return ask(name).map(Some),
            None => {
                let mut text = String::new();
                let input = std::io::stdin().lock().take(INPUT_BYTES_MAX).read_to_string(&mut text);
                input.context("cannot read the password from the standard input")?;
                text
            }
        };
        let password = without_line_end(&text);
        if password.is_empty() {
            bail!(
                "the password is empty: give one with --password-file FILE or on the standard input, or use --no-password"
            );
        }
        Ok(Some(password.to_owned()))
    }
}

/// Asks for the password at the terminal, twice.
fn ask(name: &str) -> anyhow::Result<String> {
    let password = terminal::ask_secret(&format!("Password of {name}: "))?;
    if password.is_empty() {
        bail!("nothing was changed: the password is empty (--no-password for none)");
    }
    if terminal::ask_secret("The same again: ")? != password {
        bail!("nothing was changed: those were two different passwords");
    }
    Ok(password)
}

/// The text without one line end, which editors add to a file.
pub(crate) fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn password_is_a_line_of_a_private_file() {
        let dir = crate::testing::private_dir();
        let path = dir.path().join("secret");
        let args = PasswordArgs { password_file: Some(path.clone()), no_password: false };
        for (text, password) in
            [("hush", "hush"), (" hush \n", " hush "), ("hush\r\n", "hush"), ("two\nlines\n", "two\nlines")]
        {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            assert_eq!(args.read("a").unwrap().as_deref(), Some(password));
        }
        for empty in ["", "\n", "\r\n"] {
            fs::write(&path, empty).unwrap();
            assert!(args.read("a").unwrap_err().to_string().contains("the password is empty"));
        }
        fs::write(&path, "hush").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let error = format!("{:#}", args.read("a").unwrap_err());
        assert!(error.contains("chmod 600") && !error.contains("hush"), "{error}");
        assert_eq!(PasswordArgs { password_file: None, no_password: true }.read("a").unwrap(), None);
    }
}
