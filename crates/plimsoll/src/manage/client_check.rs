//! `plimsoll client check`: compares this host, and a mount on it, with the providers' recommendations for clients.
//! Nothing is changed, and no service is asked.

use crate::form::Form;
use crate::terminal::{Tone, fold};
use anyhow::{Context, bail};
use bench::machine;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use envelope::{Check, CheckOptions, CheckState, ClientFacts, ClientMount, Interface, Provider};
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit status if a recommendation is not followed.
const LACKING: u8 = 3;
/// The width of lines if the output is not a terminal.
const COLUMNS: usize = 80;

/// The arguments of `client check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A directory on an NFS mount, to check as well
    dir: Option<PathBuf>,
    /// The service whose volumes are mounted here [default: any; if providers differ, one provider's recommendation is enough]
    #[arg(long, value_parser = provider())]
    provider: Option<Provider>,
    /// Expect a mount that is mostly read, as in EDA, with attributes cached for long (nocto,actimeo=600)
    #[arg(long)]
    eda: bool,
    #[command(flatten)]
    form: Form,
}

fn provider() -> impl TypedValueParser<Value = Provider> {
    PossibleValuesParser::new(["anf", "gcnv", "filestore", "plimsoll"]).map(|name| match name.as_str() {
        "anf" => Provider::Anf,
        "gcnv" => Provider::Gcnv,
        "filestore" => Provider::Filestore,
        _ => Provider::Plimsoll,
    })
}

/// The results of a check.
#[derive(Serialize)]
struct Checked {
    #[serde(skip_serializing_if = "Option::is_none")]
    mount: Option<String>,
    checks: Vec<Check>,
    /// The number of recommendations that are not followed.
    lacking: usize,
}

pub(super) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let (mount, facts) = examine(args.dir.as_deref())?;
    let checks = facts.check(CheckOptions { provider: args.provider, eda: args.eda });
    let lacking = checks.iter().filter(|check| check.state == CheckState::NotMet).count();
    let checked = Checked { mount, checks, lacking };
    args.form.show(&checked, |checked| Ok(text(checked, &args.form)))?;
    Ok(if lacking == 0 { ExitCode::SUCCESS } else { ExitCode::from(LACKING) })
}

/// Reads the settings of this host, and of the mount at a directory. Returns the mount in words, and the facts.
fn examine(dir: Option<&Path>) -> anyhow::Result<(Option<String>, ClientFacts)> {
    let setting = |name: &'static str| Some((name, last_number(&kernel_setting(name)?)?));
    let settings = ClientFacts::setting_names().filter_map(setting).collect();
    let Some(dir) = dir else {
        return Ok((None, ClientFacts { settings, interface: interface(None), mount: None }));
    };
    let dir = fs::canonicalize(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let (mount, server) = bench::engine::mounted(&dir)?;
    if !matches!(mount.kind.as_str(), "nfs" | "nfs4") {
        bail!("{} is on {}, not on an NFS mount; allowed: a directory of one", dir.display(), mount.kind);
    }
    let device = fs::metadata(&dir).with_context(|| format!("cannot read {}", dir.display()))?.dev();
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let read_ahead = fs::read_to_string(format!("/sys/class/bdi/{device}/read_ahead_kb"));
    let read_ahead_kib = read_ahead.ok().and_then(|text| last_number(&text));
    let shown = format!("{} at {}", mount.source, mount.at);
    let mount = ClientMount { options: mount.options, read_ahead_kib, device };
    Ok((Some(shown), ClientFacts { settings, interface: interface(server), mount: Some(mount) }))
}

fn interface(server: Option<std::net::IpAddr>) -> Option<Interface> {
    let (name, megabits) = machine::interface(server)?;
    Some(Interface { name, megabits })
}

fn kernel_setting(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()
}

/// The last number of a text: the kernel lists minimum, default and maximum.
fn last_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().last()?.parse().ok()
}

fn text(checked: &Checked, form: &Form) -> String {
    let columns = form.columns().unwrap_or(COLUMNS);
    let mut text = match &checked.mount {
        Some(mount) => format!("This host, and the mount {mount}\n\n"),
        None => "This host; name a directory of an NFS mount to check that too\n\n".to_owned(),
    };
    checked.checks.iter().for_each(|check| text += &entry(check, columns));
    let is_all = checked.checks.iter().all(|check| check.state == CheckState::Ok);
    text += &match checked.lacking {
        0 if is_all => "\nAll is as recommended.\n".to_owned(),
        0 => "\nNothing is known to be lacking.\n".to_owned(),
        count => format!(
            "\n{count} of {} recommendations are not followed. Nothing was changed.\n",
            checked.checks.len()
        ),
    };
    text
}

/// A recommendation with the value found; if it is not followed, with the command that sets it and the reason.
fn entry(check: &Check, columns: usize) -> String {
    let (word, tone) = match check.state {
        CheckState::Ok => ("ok", Tone::Good),
        CheckState::NotMet => ("lacking", Tone::Warning),
        CheckState::Unknown => ("unknown", Tone::Plain),
        CheckState::Depends => ("depends", Tone::Plain),
    };
    const INDENT: &str = "         ";
    let width = columns.saturating_sub(INDENT.len());
    let source = check.source;
    let mut lines = vec![match check.state {
        CheckState::Ok => format!("{}: {} [{source}]", check.what, check.found),
        _ => format!("{}: {}; recommended: {} [{source}]", check.what, check.found, check.wanted),
    }];
    if check.state != CheckState::Ok {
        lines.extend(check.how.clone());
        lines.push(format!("({})", check.why));
    }
    let mut lines = lines.iter().flat_map(|part| fold(part, width));
    let first = lines.next().unwrap_or_default();
    let mut text = format!("{}{}{first}\n", tone.paint(word), " ".repeat(INDENT.len() - word.len()));
    lines.for_each(|line| text += &format!("{INDENT}{line}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::unpainted;

    #[test]
    fn settings_have_one_number_or_several() {
        assert_eq!(last_number("4096\t131072\t6291456\n"), Some(6_291_456));
        assert_eq!((last_number("128\n"), last_number(""), last_number("no\n")), (Some(128), None, None));
    }

    #[test]
    fn lacking_setting_is_shown_with_its_command_within_the_width() {
        let mount = ClientMount { options: "rw,soft".to_owned(), ..ClientMount::default() };
        let facts = ClientFacts { mount: Some(mount), ..ClientFacts::default() };
        for check in facts.check(CheckOptions::default()) {
            let text = unpainted(&entry(&check, 60));
            assert!(
                text.lines().all(|line| line.chars().count() <= 60 || !line.trim().contains(' ')),
                "{text}"
            );
            if check.what == "hard" {
                assert!(text.starts_with("lacking  hard: soft; recommended: hard"), "{text}");
                assert!(text.contains("\n         mount -o hard\n"), "{text}");
            }
        }
    }

    #[test]
    fn directory_outside_nfs_mounts_is_refused() {
        let refused = examine(Some(Path::new("/proc"))).unwrap_err().to_string();
        assert!(refused.contains("/proc is on proc, not on an NFS mount"), "{refused}");
        assert!(examine(Some(Path::new("/nowhere"))).is_err());
        let (mount, facts) = examine(None).unwrap();
        assert_eq!(mount, None);
        assert!(facts.settings["net.ipv4.tcp_rmem"] > 0, "{facts:?}");
    }
}
