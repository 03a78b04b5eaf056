//! Parsers of command-line values: names from closed lists, which shells complete, and small forms like `UID:GID`.

use api_client::model::{
    Durability, Labels, LevelName, ProfileName, Protection, Protocol, Qos, ReplicationSchedule, Role, Root,
    SecurityStyle, ShapeName, SnapshotDirectory, Squash, Timestamp,
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::collections::BTreeMap;
use std::str::FromStr;
use vfs::model::caller::INVALID_ID;

/// A parser of one of these names.
fn one_of<T>(names: impl IntoIterator<Item = PossibleValue>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: ToString> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse::<T>().map_err(|error| error.to_string()))
}

/// A parser of one of these words, each with its meaning.
fn word_of<T>(words: &[(&'static str, &'static str)]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: ToString> + Clone + Send + Sync + 'static,
{
    one_of(words.iter().map(|(word, meaning)| PossibleValue::new(*word).help(*meaning)))
}

/// A level, like `anf/premium`.
pub(crate) fn level() -> impl TypedValueParser<Value = LevelName> {
    let named = |level: &envelope::Level| {
        let info = level.info();
        PossibleValue::new(info.name).aliases(info.aliases).help(info.title)
    };
    one_of(envelope::Level::all().iter().map(named))
}

/// A profile, like `gcnv-volume-5gib`.
pub(crate) fn profile() -> impl TypedValueParser<Value = ProfileName> {
    let named = |profile: &envelope::Profile| PossibleValue::new(profile.name()).help(profile.info().title);
    one_of(envelope::Profile::all().iter().map(named))
}

/// A shape, like `gcnv-extreme-nfs3-8k-rand`.
pub(crate) fn shape() -> impl TypedValueParser<Value = ShapeName> {
    one_of(envelope::Shape::all().map(|shape| PossibleValue::new(shape.name()).help(shape.title())))
}

pub(crate) fn qos() -> impl TypedValueParser<Value = Qos> {
    word_of(&[
        ("auto", "a volume's throughput comes from its size, or from its pool"),
        ("manual", "a volume's throughput is set for it, within the pool's"),
    ])
}

pub(crate) fn durability() -> impl TypedValueParser<Value = Durability> {
    word_of(&[
        ("sync", "acknowledged stable writes survive a power cut"),
        ("relaxed", "a power cut may lose the last seconds"),
    ])
}

pub(crate) fn security_style() -> impl TypedValueParser<Value = SecurityStyle> {
    word_of(&[
        ("unix", "mode bits decide about access"),
        ("ntfs", "Windows access control lists decide about access, over NFS too"),
    ])
}

pub(crate) fn snapshot_directory() -> impl TypedValueParser<Value = SnapshotDirectory> {
    word_of(&[
        ("hidden", "clients do not reach snapshots"),
        ("reachable", "clients that name .snapshot or ~snapshot reach it; no listing contains it"),
        ("listed", "the listing of the root directory contains it too"),
    ])
}

pub(crate) fn replication_schedule() -> impl TypedValueParser<Value = ReplicationSchedule> {
    word_of(&[
        ("10minutely", "at minutes 0, 10, 20 and so on"),
        ("hourly", "at minute 0"),
        ("daily", "at midnight UTC"),
    ])
}

/// A time in UTC: a date, or a date and a time.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    let forms = [text.to_owned(), format!("{text}T00:00:00Z"), format!("{text}:00Z"), format!("{text}Z")];
    let time = forms.into_iter().map(Timestamp).find(|time| time.to_ms().is_some());
    time.ok_or_else(|| "allowed: a date or a time in UTC, like 2027-01-31 or 2027-01-31T09:00:00Z".to_owned())
}

pub(crate) fn protocol() -> impl TypedValueParser<Value = Protocol> {
    word_of(&[
        ("nfsv3", "NFSv3"),
        ("nfsv4.0", "NFSv4.0, for clients without a later version"),
        ("nfsv4.1", "NFSv4.1"),
        ("nfsv4.2", "NFSv4.2"),
        ("smb", "SMB"),
    ])
}

pub(crate) fn squash() -> impl TypedValueParser<Value = Squash> {
    word_of(&[
        ("root", "map root to the anonymous user, and trust other user IDs"),
        ("all", "map all users to the anonymous user"),
        ("none", "trust all user IDs, root too"),
    ])
}

pub(crate) fn xprtsec() -> impl TypedValueParser<Value = Protection> {
    word_of(&[
        ("any", "with or without TLS"),
        ("tls", "TLS"),
        ("mtls", "TLS, with a client certificate that the service trusts"),
    ])
}

pub(crate) fn role() -> impl TypedValueParser<Value = Role> {
    word_of(&[
        ("read", "read only"),
        ("operate", "also change pools, volumes and their rules"),
        ("admin", "also create and revoke tokens, users and groups"),
    ])
}

/// `UID:GID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ids = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
        let (uid, gid) = ids.ok_or("allowed: UID:GID in numbers, like 1000:1000")?;
        if [uid, gid].contains(&INVALID_ID) {
            return Err(format!("{INVALID_ID} is not a user or group; allowed: 0 to {}", INVALID_ID - 1));
        }
        Ok(Self { uid, gid })
    }
}

/// `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label(pub(crate) String, pub(crate) String);

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("allowed: KEY=VALUE, like team=vlsi")?;
        Ok(Self(key.to_owned(), value.to_owned()))
    }
}

/// A factor like `0.25`, in thousandths.
pub(crate) fn scale(text: &str) -> Result<u32, String> {
    let wrong = || "allowed: a factor with at most three decimals, like 0.25, 1 or 1.5".to_owned();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 3 {
        return Err(wrong());
    }
    let thousandths: u64 = format!("{whole}{fraction:0<3}").parse().map_err(|_| wrong())?;
    u32::try_from(thousandths).ok().filter(|&thousandths| thousandths > 0).ok_or_else(wrong)
}

/// Mode bits in octal, as the API expects them.
pub(crate) fn mode(text: &str) -> Result<String, String> {
    let is_mode = (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    is_mode
        .then(|| text.to_owned())
        .ok_or_else(|| "allowed: three or four octal digits, like 0770".to_owned())
}

/// Mode and owner of a root directory, if either is given: the other stays as in `before`.
pub(crate) fn root(mode: Option<&String>, owner: Option<Ids>, before: Root) -> Option<Root> {
    let Ids { uid, gid } = owner.unwrap_or(Ids { uid: before.uid, gid: before.gid });
    let is_given = mode.is_some() || owner.is_some();
    is_given.then(|| Root { mode: mode.cloned().unwrap_or(before.mode), uid, gid })
}

/// Labels to set and to remove; `None` if there is no change.
pub(crate) fn labels_patch(set: &[Label], remove: &[String]) -> Option<BTreeMap<String, Option<String>>> {
    let set = set.iter().map(|Label(key, value)| (key.clone(), Some(value.clone())));
    let patch: BTreeMap<_, _> = remove.iter().map(|key| (key.clone(), None)).chain(set).collect();
    (!patch.is_empty()).then_some(patch)
}

/// Labels in a line; `None` without labels.
pub(crate) fn shown_labels(labels: &Labels) -> Option<String> {
    let all: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_exact() {
        for (text, thousandths) in
            [("1", 1000), ("0.25", 250), ("1.5", 1500), ("0.001", 1), ("12.34", 12_340)]
        {
            assert_eq!(scale(text), Ok(thousandths), "{text}");
        }
        for text in ["", "0", "0.000", ".5", "1.", "1.2345", "-1", "1e3", "4294968", "x"] {
            assert!(scale(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_dates_or_moments() {
        for (text, moment) in [
            ("2027-01-31", "2027-01-31T00:00:00Z"),
            ("2027-01-31T09:30", "2027-01-31T09:30:00Z"),
            ("2027-01-31T09:30:15", "2027-01-31T09:30:15Z"),
            ("2027-01-31T09:30:15Z", "2027-01-31T09:30:15Z"),
        ] {
            assert_eq!(time(text), Ok(Timestamp(moment.to_owned())), "{text}");
        }
        for text in ["", "tomorrow", "2027-02-30", "2027-01-31 09:30", "31.1.2027", "2027-01-31T25:00"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn owners_labels_and_modes_have_their_forms() {
        assert_eq!("10:20".parse(), Ok(Ids { uid: 10, gid: 20 }));
        assert_eq!("a=b=c".parse(), Ok(Label("a".into(), "b=c".into())));
        assert_eq!(mode("0770").as_deref(), Ok("0770"));
        for bad in ["10", "a:b", "1:-1", "", "4294967295:0", "0:4294967295", "4294967296:0"] {
            assert!(bad.parse::<Ids>().is_err(), "{bad}");
        }
        assert!("4294967294:4294967294".parse::<Ids>().is_ok());
        assert!("a".parse::<Label>().is_err() && mode("888").is_err() && mode("77").is_err());
    }
}
