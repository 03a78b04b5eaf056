//! `plimsoll volume access …`: the export rules of a volume.

use super::connection::{Session, TermsArgs};
use super::table::Table;
use super::words::Ids;
use super::{names, words};
use crate::exit::usage;
use crate::number::whole;
use anyhow::{Context, anyhow, bail};
use api_client::model::{Access, Protection, Protocol, Rule, Rules, Squash};
use api_client::{ChangeOptions, Tagged, json};
use clap::{Args, Subcommand};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Manage the export rules of a volume. The first rule that matches a client decides.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the rules of a volume in the order of their evaluation.
    #[command(visible_alias = "ls", after_help = "Example:\n  plimsoll volume access list v1")]
    List {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
    },
    /// Replace all rules of a volume with one rule, with the rules in a file, or with none.
    #[command(after_help = "Examples:
  plimsoll volume access set v1 --allow 10.1.0.0/16 --squash none
  plimsoll volume access list v1 --json > rules.json; plimsoll volume access set v1 --file rules.json
  plimsoll volume access set v1 --nobody")]
    Set {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
        /// File with the rules in JSON, as "volume access list --json" prints them; - is the standard input
        #[arg(long, conflicts_with_all = ["allow", "nobody"])]
        file: Option<PathBuf>,
        /// Set no rules: nobody may mount the volume
        #[arg(long, conflicts_with = "allow")]
        nobody: bool,
        #[command(flatten)]
        rule: RuleFlags,
        #[command(flatten)]
        more: MoreFlags,
        #[command(flatten)]
        terms: TermsArgs,
    },
    /// Add a rule to a volume, at the end or at a position.
    #[command(after_help = "Examples:
  plimsoll volume access add v1 --allow 10.1.0.0/16 --allow build-7.example.org
  plimsoll volume access add v1 --allow 10.1.9.0/24 --read-only --at 1
  plimsoll volume access add v1 --allow 10.1.9.66 --deny --at 1
  plimsoll volume access add v1 --allow 10.2.0.0/16 --xprtsec tls")]
    Add {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
        /// Position of the rule, counted from 1: rules before it are evaluated first [default: the last]
        #[arg(long, value_name = "N", value_parser = whole::<usize>(1..))]
        at: Option<usize>,
        #[command(flatten)]
        rule: RuleFlags,
        #[command(flatten)]
        more: MoreFlags,
        #[command(flatten)]
        terms: TermsArgs,
    },
    /// Remove a rule from a volume.
    #[command(after_help = "Example:\n  plimsoll volume access remove v1 2")]
    Remove {
        /// The volume
        #[arg(add = names::volumes())]
        volume: String,
        /// Position of the rule, as "plimsoll volume access list" shows it
        #[arg(value_parser = whole::<usize>(1..))]
        at: usize,
        #[command(flatten)]
        terms: TermsArgs,
    },
}

/// An export rule as flags.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Export rule")]
pub(crate) struct RuleFlags {
    /// Clients the rule applies to, repeatable: an address, a range like 10.1.0.0/16, a host name; for all clients 0.0.0.0/0 and ::/0
    #[arg(long, value_name = "CLIENT", value_delimiter = ',')]
    allow: Vec<String>,
    /// Let the clients read, but change nothing
    #[arg(long, requires = "allow")]
    read_only: bool,
    /// Users to map to the anonymous user [default: none, as at the providers; root with --anonymous]
    #[arg(long, value_parser = words::squash(), requires = "allow")]
    squash: Option<Squash>,
    /// IDs of the anonymous user [default: 65534:65534]
    #[arg(long, value_name = "UID:GID", requires = "allow", hide_short_help = true)]
    anonymous: Option<Ids>,
}

/// Further properties of a rule.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Export rule")]
pub(crate) struct MoreFlags {
    /// Refuse the clients, whatever later rules say
    #[arg(long, requires = "allow", conflicts_with = "read_only")]
    deny: bool,
    /// Protocols the rule applies to [default: all]
    #[arg(long, value_delimiter = ',', value_parser = words::protocol(), requires = "allow")]
    protocols: Vec<Protocol>,
    /// Protection that connections must have; others are refused [default: any]
    #[arg(long, value_parser = words::xprtsec(), requires = "allow")]
    xprtsec: Option<Protection>,
}

impl RuleFlags {
    /// The rule; `None` without `--allow`.
    pub(crate) fn rule(&self) -> Option<Rule> {
        let plain = Rule::for_clients(self.allow.clone());
        // --anonymous has no effect without squashing, so it implies --squash root.
        let squash = if self.anonymous.is_some() { Squash::Root } else { plain.squash };
        let anonymous = self.anonymous.unwrap_or(Ids { uid: plain.anonymous_uid, gid: plain.anonymous_gid });
        (!self.allow.is_empty()).then(|| Rule {
            access: if self.read_only { Access::ReadOnly } else { Access::ReadWrite },
            squash: self.squash.unwrap_or(squash),
            anonymous_uid: anonymous.uid,
            anonymous_gid: anonymous.gid,
            ..plain
        })
    }

    /// The rule; an error without `--allow`.
    pub(crate) fn required(&self) -> anyhow::Result<Rule> {
        self.rule().ok_or_else(|| {
            usage(
                "--allow is missing: the clients that may mount the volumes; allowed: --allow CLIENT, like \
                 --allow 10.1.0.0/16, or --allow 0.0.0.0/0,::/0 for all clients",
            )
        })
    }

    fn rule_with(&self, more: &MoreFlags) -> Option<Rule> {
        let mut rule = self.rule()?;
        if more.deny {
            rule.access = Access::NoAccess;
        }
        if !more.protocols.is_empty() {
            rule.protocols.clone_from(&more.protocols);
        }
        rule.xprtsec = more.xprtsec.unwrap_or(rule.xprtsec);
        Some(rule)
    }
}

/// Opens the session after the checks of the command line.
pub(super) fn run(open: impl FnOnce() -> anyhow::Result<Session>, command: Command) -> anyhow::Result<()> {
    match command {
        Command::List { volume } => {
            let session = open()?;
            let rules = session.ask(|client| client.rules(&volume))?.value;
            session.show(&rules, |rules| Ok(shown(rules, &volume, session.columns())))
        }
        Command::Set { volume, file, nobody, rule, more, terms } => {
            let rules = match (file, rule.rule_with(&more), nobody) {
                (Some(file), ..) => read(&file)?,
                (None, Some(rule), _) => Rules { rules: vec![rule] },
                (None, None, true) => Rules { rules: Vec::new() },
                (None, None, false) => {
                    return Err(usage(
                        "no rules are given; allowed: --allow CLIENT, --file FILE or --nobody",
                    ));
                }
            };
            replace(&open()?, &terms.terms(), &volume, &rules)
        }
        Command::Add { volume, at, rule, more, terms } => {
            let missing = || usage("no clients are given; allowed: --allow CLIENT, like --allow 10.1.0.0/16");
            let rule = rule.rule_with(&more).ok_or_else(missing)?;
            edit(&open()?, &terms, &volume, |rules| {
                let last = rules.len() + 1;
                let at = at.unwrap_or(last);
                if !(1..=last).contains(&at) {
                    bail!("--at {at}: the volume {volume} has {} rules; allowed: 1 to {last}", rules.len());
                }
                rules.insert(at - 1, rule.clone());
                Ok(())
            })
        }
        Command::Remove { volume, at, terms } => edit(&open()?, &terms, &volume, |rules| {
            if !(1..=rules.len()).contains(&at) {
                bail!(
                    "the volume {volume} has no rule {at}, it has {}: see \"plimsoll volume access list {volume}\"",
                    rules.len()
                );
            }
            rules.remove(at - 1);
            Ok(())
        }),
    }
}

fn read(path: &Path) -> anyhow::Result<Rules> {
    let mut text = String::new();
    let done = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text),
        false => std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)),
    };
    done.with_context(|| format!("cannot read {}", path.display()))?;
    let rules = json::read::<serde_json::Value>(text.as_bytes()).and_then(|mut rules| {
        // "volume access list --json" adds the format of its output, which is not part of the rules.
        rules.as_object_mut().map(|rules| rules.remove("format"));
        json::from_value(rules)
    });
    rules.map_err(|fault| {
        let place = match fault.pointer() {
            "" => "the text".to_owned(),
            pointer => key(pointer),
        };
        anyhow!(
            "{}: {}; see \"plimsoll volume access list --json\" for the form",
            path.display(),
            fault.at(&place)
        )
    })
}

/// The place of a JSON pointer as jq has it: `.rules[0].access`.
fn key(pointer: &str) -> String {
    let part = |part: &str| match part.parse::<usize>() {
        Ok(place) => format!("[{place}]"),
        Err(_) => format!(".{part}"),
    };
    pointer.split('/').skip(1).map(part).collect()
}

/// Changes the present rules; fails if they were changed in the meantime.
fn edit(
    session: &Session,
    terms: &TermsArgs,
    volume: &str,
    change: impl Fn(&mut Vec<Rule>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Tagged { value: mut rules, etag } = session.ask(|client| client.rules(volume))?;
    change(&mut rules.rules)?;
    replace(session, &terms.terms_or(etag), volume, &rules)
}

fn replace(session: &Session, terms: &ChangeOptions, volume: &str, rules: &Rules) -> anyhow::Result<()> {
    let rules = session.ask(|client| client.replace_rules(terms, volume, rules))?.value;
    session.show(&rules, |rules| Ok(shown(rules, volume, session.columns())))?;
    session.warn(|warning| warning.volume.as_deref() == Some(volume));
    Ok(())
}

pub(crate) fn shown(rules: &Rules, volume: &str, columns: Option<usize>) -> String {
    let heads = [">#", "CLIENTS", "ACCESS", "SQUASH", "ANONYMOUS", "PROTOCOLS", "XPRTSEC"];
    let mut table =
        Table::new(&heads).folding(&["CLIENTS", "PROTOCOLS"]).leaving_out(&["PROTOCOLS", "ANONYMOUS"]);
    for (place, rule) in (1..).zip(&rules.rules) {
        let protocols: Vec<&str> = rule.protocols.iter().map(|protocol| protocol.as_str()).collect();
        table.row([
            format!("{place}"),
            rule.clients.join(", "),
            rule.access.to_string(),
            rule.squash.to_string(),
            format!("{}:{}", rule.anonymous_uid, rule.anonymous_gid),
            protocols.join(", "),
            rule.xprtsec.to_string(),
        ]);
    }
    table.or(&format!("No rules: nobody may mount volume {volume}."), columns)
}
