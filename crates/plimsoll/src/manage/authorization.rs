//! `plimsoll replication authorize …`: what peers may replicate.

use super::connection::{Session, YesArgs};
use super::names;
use super::operation::second;
use super::table::{Cell, Table};
use api_client::model::NewAuthorization;
use clap::Args;

/// A volume and a peer.
#[derive(Debug, Args)]
pub(super) struct Pair {
    /// The volume here
    #[arg(add = names::volumes())]
    volume: String,
    /// The peer that replicates it
    #[arg(long, value_name = "NAME", add = names::peers())]
    peer: String,
}

#[derive(Debug, Args)]
pub(super) struct Revoke {
    #[command(flatten)]
    of: Pair,
    #[command(flatten)]
    yes: YesArgs,
}

pub(super) fn authorize(session: &Session, Pair { volume, peer }: Pair) -> anyhow::Result<()> {
    let made = session
        .ask(|client| client.authorize(&NewAuthorization { volume: volume.clone(), peer: peer.clone() }))?;
    session.show(&made.value, |_| {
        Ok(match made.is_new {
            true => format!("The peer {peer} may replicate the volume {volume}.\n"),
            false => format!("The peer {peer} may replicate the volume {volume} already.\n"),
        })
    })
}

pub(super) fn revoke(open: impl FnOnce() -> anyhow::Result<Session>, of: Revoke) -> anyhow::Result<()> {
    let Revoke { of: Pair { volume, peer }, yes } = of;
    yes.confirm(&format!("replication of volume {volume} to peer {peer}"))?;
    let session = open()?;
    let done = session.ask(|client| client.revoke_authorization(&volume, &peer))?;
    session.show(&done, |_| Ok(format!("The peer {peer} may no longer replicate the volume {volume}.\n")))
}

pub(super) fn list(session: &Session) -> anyhow::Result<()> {
    let all = session.ask(|client| client.authorizations())?;
    session.show_all(all, |all| {
        let mut table = Table::new(&["VOLUME", "PEER", "LAST POINT", "CONFIRMED"]);
        for one in all {
            let confirmed =
                one.last_transfer_ended.as_ref().map_or_else(|| "never".to_owned(), |at| second(&at.0));
            table.row([
                Cell::from(&one.volume),
                Cell::from(&one.peer),
                one.last_point.as_deref().unwrap_or("none").to_owned().into(),
                confirmed.into(),
            ]);
        }
        let nothing =
            "No peer may replicate a volume. Allow it: plimsoll replication authorize v1 --peer site-b";
        Ok(table.or(nothing, session.columns()))
    })
}
